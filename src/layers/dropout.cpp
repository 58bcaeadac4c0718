// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "launch.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/dropout_kernels.hpp"
#include "shard/layers/parameters.hpp"

namespace shard::impl {

template <class T>
struct DropoutKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  DropoutMask mask;
  T scale;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r        = split.row(item);
    const index_t at[4] = {r.n, r.c, r.z, r.y};
    index_t row         = 0;
    for (int d = 0; d < 4; ++d) row = row * mask.extent[d] + mask.begin[d] + at[d];
    const index_t first = row * mask.extent[4] + mask.begin[4];
    for (index_t i = r.x; i < r.x + r.count; ++i) {
      const bool keep =
          counter_uniform(mask.seed, mask.step, static_cast<std::uint64_t>(first + i)) >= mask.p;
      to.at(r.n, r.c, r.z, r.y, i) = keep ? from.at(r.n, r.c, r.z, r.y, i) * scale : T(0);
    }
  }
};

template <class Space, class T>
void DropoutKernels<Space, T>::apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                                     const DropoutMask& mask) {
  const RowSplit split = RowSplit::of(space, y);
  const T scale        = mask.p < 1.0 ? static_cast<T>(1.0 / (1.0 - mask.p)) : T(0);
  launch("shard::dropout", space, split.items(), DropoutKernel<T>{split, y, x, mask, scale});
}

void require_probability(double p) {
  if (!(p >= 0.0 && p <= 1.0))
    throw_argument("Dropout",
                   {"the probability of a zero is ", std::to_string(p), "; it lies in [0, 1]"});
}

template struct DropoutKernels<Kokkos::DefaultExecutionSpace, float>;
template struct DropoutKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct DropoutKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct DropoutKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
