// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "own_exchange.hpp"

#include <Kokkos_Core.hpp>

#include <array>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>

#include "shard/comm/allocate_shared.hpp"
#include "shard/exchange/exchange.hpp"

namespace scaling {

namespace {

/// Of fields whose dimension `cut` is cut.
template <class Field, std::size_t Count>
peers::Problem problem_of(const std::array<Field, Count>& fields, int cut) {
  constexpr int lead = peers::dims - Field::rank;
  const Field& first = fields[0];
  peers::Problem problem;
  problem.comm        = first.communicator();
  problem.value_bytes = sizeof(typename Field::value_type);
  for (const Field& f : fields) problem.origins.push_back(reinterpret_cast<std::byte*>(f.origin()));
  for (std::size_t i = 0; i < peers::dims; ++i) {
    const int d       = static_cast<int>(i) - lead;
    problem.extent[i] = d < 0 ? 1 : first.extent(d);
    problem.stride[i] = d < 0 ? 0 : first.stride(d);
    problem.width[i]  = d == cut ? Field::halo_lo(d) : 0;
  }
  return problem;
}

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
        window_(shard::Tuning{.direct_run = std::numeric_limits<std::size_t>::max()}, field_),
        problem_(problem_of(std::array{field_}, 1)) {}

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

/// Of fields whose dimension 0 is cut.
template <int Fields>
class TypedBoxes : public OwnBoxes {
  using Field = halo::Types<double, Kokkos::LayoutRight, 2, halo::Cut<0>, 1>::Field;

 public:
  TypedBoxes(const TwoRanks& mesh, index_t bytes) {
    constexpr index_t rows = 4, value_bytes = sizeof(double);
    for (Field& f : fields_)
      f = shard::allocate_shared<Field>("made up", mesh,
                                        shard::Extents<2>{{2 * rows, bytes / value_bytes}});
    over_mpi_ = call(
        {.transport = shard::TransportKind::mpi, .messages = shard::MessageLayout::one_per_box});
    direct_  = call({.direct_run = 1});
    problem_ = problem_of(fields_, 0);
  }

  Timed over_mpi() const override { return timed(over_mpi_); }
  Timed direct() const override { return timed(direct_); }

 private:
  using Call = std::function<void()>;

  Call call(const shard::Tuning& tuning) const {
    return std::apply(
        [&](const auto&... f) -> Call {
          return [plan = shard::Exchange(tuning, f...), space = space_] { plan(space); };
        },
        fields_);
  }
  Timed timed(const Call& call) const {
    return {call, [this] { write_edges(problem_); }};
  }

  std::array<Field, Fields> fields_;
  Call over_mpi_, direct_;
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

std::unique_ptr<OwnBoxes> make_own_boxes(const TwoRanks& mesh, int boxes, index_t bytes) {
  switch (boxes) {
    case 2: return std::make_unique<TypedBoxes<1>>(mesh, bytes);
    case 4: return std::make_unique<TypedBoxes<2>>(mesh, bytes);
    case 8: return std::make_unique<TypedBoxes<4>>(mesh, bytes);
    case 16: return std::make_unique<TypedBoxes<8>>(mesh, bytes);
    default: throw std::invalid_argument("no fields have " + std::to_string(boxes) + " boxes");
  }
}

}  // namespace scaling
