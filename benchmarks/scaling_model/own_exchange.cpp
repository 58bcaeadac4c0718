// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "own_exchange.hpp"

#include <Kokkos_Core.hpp>

#include <limits>
#include <stdexcept>
#include <string>

#include "shard/comm/allocate_shared.hpp"
#include "shard/exchange/exchange.hpp"

namespace scaling {

namespace {

/// Of a field whose dimension 1 is cut, with rows of `Width` values or planes of whole rows.
template <class T, int Rank, int Width>
class Typed : public OwnExchange {
  using Field = typename halo::Types<T, Kokkos::LayoutRight, Rank, halo::Cut<1>, Width>::Field;
  using Plan  = decltype(shard::Exchange(shard::Tuning{}, std::declval<const Field&>()));

 public:
  Typed(const TwoRanks& mesh, const shard::Extents<Rank>& extents)
      : field_(shard::allocate_shared<Field>("made up", mesh, extents)),
        mpi_(shard::Tuning{.transport = shard::TransportKind::mpi}, field_),
        direct_(shard::Tuning{.direct_run = 1}, field_),
        window_(shard::Tuning{.direct_run = std::numeric_limits<std::size_t>::max()}, field_) {
    constexpr int lead   = peers::dims - Rank;
    problem_.comm        = field_.communicator();
    problem_.value_bytes = sizeof(T);
    problem_.origins     = {reinterpret_cast<std::byte*>(field_.origin())};
    for (std::size_t i = 0; i < peers::dims; ++i) {
      const int d        = static_cast<int>(i) - lead;
      problem_.extent[i] = d < 0 ? 1 : field_.extent(d);
      problem_.stride[i] = d < 0 ? 0 : field_.stride(d);
      problem_.width[i]  = d == 1 ? Width : 0;
    }
  }

  bool has_windows() const override { return shard::is_shared(field_); }
  Timed over_mpi() const override { return timed(mpi_); }
  Timed direct() const override { return timed(direct_); }
  Timed window() const override { return timed(window_); }

 private:
  Timed timed(const Plan& plan) const {
    return {[this, &plan] { plan(space_); }, [this] { write_edges(problem_); }};
  }

  Field field_;
  Plan mpi_, direct_, window_;
  peers::Problem problem_;
  Kokkos::DefaultHostExecutionSpace space_;
};

template <class T, int Width>
std::unique_ptr<OwnExchange> make_short(const TwoRanks& mesh, const Shape& shape) {
  const index_t owned = shape.pitch / shape.value_bytes - 2 * Width;
  return std::make_unique<Typed<T, 2, Width>>(mesh, shard::Extents<2>{{shape.runs / 2, 2 * owned}});
}

}  // namespace

std::unique_ptr<OwnExchange> make_own_exchange(const TwoRanks& mesh, const Shape& shape) {
  if (shape.run > Faces::longest_short)
    return std::make_unique<Typed<double, 3, 1>>(
        mesh, shard::Extents<3>{{shape.runs / 2, 2 * (shape.pitch / shape.run - 2),
                                 shape.run / shape.value_bytes}});
  if (shape.value_bytes == 4) return make_short<float, 1>(mesh, shape);
  switch (shape.run / shape.value_bytes) {
    case 1: return make_short<double, 1>(mesh, shape);
    case 2: return make_short<double, 2>(mesh, shape);
    case 3: return make_short<double, 3>(mesh, shape);
    case 5: return make_short<double, 5>(mesh, shape);
    default: throw std::invalid_argument("no field has runs of " + std::to_string(shape.run));
  }
}

}  // namespace scaling
