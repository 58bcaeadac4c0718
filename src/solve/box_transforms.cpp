// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/box_transforms.hpp"

#include <Kokkos_Core.hpp>
#include <fftw3.h>

#include <cstddef>

#include "shard/base/error.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/solve/fft_poisson.hpp"

namespace shard {

bool fftw_available() { return true; }

namespace impl {

namespace {

fftw_r2r_kind kind_of(BoxWalls walls, bool back) {
  switch (walls) {
    case BoxWalls::periodic: return back ? FFTW_HC2R : FFTW_R2HC;
    case BoxWalls::no_flux: return back ? FFTW_REDFT01 : FFTW_REDFT10;
    case BoxWalls::zero: return back ? FFTW_RODFT01 : FFTW_RODFT10;
    case BoxWalls::no_flux_to_zero: return FFTW_REDFT11;
    case BoxWalls::zero_to_no_flux: break;
  }
  return FFTW_RODFT11;
}

struct TransformLine {
  const BoxTransforms& transforms;
  double* first;
  index_t size;
  bool back;

  void operator()(index_t box) const { transforms.run_one(first + box * size, back); }
};

}  // namespace

struct BoxTransforms::Plans {
  fftw_plan forward = nullptr, back = nullptr;
  Plans()                        = default;
  Plans(const Plans&)            = delete;
  Plans& operator=(const Plans&) = delete;
  ~Plans() {
    if (forward != nullptr) fftw_destroy_plan(forward);
    if (back != nullptr) fftw_destroy_plan(back);
  }
};

BoxTransforms::BoxTransforms(const BoxDimension* dims, int rank)
    : plans_(std::make_unique<Plans>()) {
  std::vector<int> extents;
  std::vector<fftw_r2r_kind> forward, back;
  for (int d = 0; d < rank; ++d) {
    extents.push_back(static_cast<int>(dims[d].extent));
    forward.push_back(kind_of(dims[d].walls, false));
    back.push_back(kind_of(dims[d].walls, true));
    size_ *= dims[d].extent;
  }
  if (size_ == 0 || rank == 0) return;
  std::vector<double> box(static_cast<std::size_t>(size_));
  // A plan that was measured, or that depends on alignment, may add in another order next time.
  constexpr unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED;
  plans_->forward =
      fftw_plan_r2r(rank, extents.data(), box.data(), box.data(), forward.data(), flags);
  plans_->back = fftw_plan_r2r(rank, extents.data(), box.data(), box.data(), back.data(), flags);
  if (plans_->forward == nullptr || plans_->back == nullptr)
    throw Error("shard::FFTPoisson: FFTW makes no plan for " + text(size_) + " points");
}
BoxTransforms::~BoxTransforms() = default;

void BoxTransforms::run(double* first, index_t count, bool back) const {
  launch("shard::fft", Kokkos::DefaultHostExecutionSpace(), size_ == 0 ? 0 : count,
         TransformLine{*this, first, size_, back});
}
void BoxTransforms::run_one(double* box, bool back) const {
  if (plans_->forward != nullptr) fftw_execute_r2r(back ? plans_->back : plans_->forward, box, box);
}

}  // namespace impl
}  // namespace shard
