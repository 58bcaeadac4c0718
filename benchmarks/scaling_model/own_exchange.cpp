// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "own_exchange.hpp"

#include <Kokkos_Core.hpp>

#include <array>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>

#include "shard/comm/shared_field.hpp"
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

/// An exchange of all fields of an array, by a plan of its own.
template <class Fields>
std::function<void()> exchange_of(const Fields& fields, const shard::Tuning& tuning) {
  return std::apply(
      [&](const auto&... f) -> std::function<void()> {
        const Kokkos::DefaultHostExecutionSpace space;
        return [plan = shard::Exchange(tuning, f...), space] { plan(space); };
      },
      fields);
}

/// Of fields whose dimension 1 is cut, with rows of `Width` values or planes of whole rows.
template <class T, int Rank, int Width, int Fields>
class Typed : public OwnExchange {
  using Field = typename halo::Types<T, Kokkos::LayoutRight, Rank, halo::Cut<1>, Width>::Field;

 public:
  /// `owned`: the extents that a rank has.
  Typed(const TwoRanks& mesh, const TwoRanks& alone, const shard::Extents<Rank>& owned) {
    auto both = owned;
    both[1] *= 2;
    for (Field& f : fields_) f = shard::shared_field<Field>("made up", mesh, both);
    for (Field& f : alone_) f = shard::shared_field<Field>("made up", alone, owned);
    mpi_           = exchange_of(fields_, {.transport = shard::TransportKind::mpi});
    direct_        = exchange_of(fields_, {.direct_run = 1});
    window_        = exchange_of(fields_, {.direct_run = std::numeric_limits<std::size_t>::max()});
    copies_        = exchange_of(alone_, {});
    problem_       = problem_of(fields_, 1);
    alone_problem_ = problem_of(alone_, 1);
  }

  bool has_windows() const override { return shard::is_shared(fields_[0]); }
  Timed over_mpi() const override { return timed(mpi_, problem_); }
  Timed direct() const override { return timed(direct_, problem_); }
  Timed window() const override { return timed(window_, problem_); }
  Timed copies() const override { return timed(copies_, alone_problem_); }

 private:
  static Timed timed(const std::function<void()>& call, const peers::Problem& problem) {
    return {call, [&problem] { write_edges(problem); }};
  }

  std::array<Field, Fields> fields_, alone_;
  std::function<void()> mpi_, direct_, window_, copies_;
  peers::Problem problem_, alone_problem_;
};

/// Of fields whose dimension 0 is cut.
template <int Fields>
class TypedBoxes : public OwnBoxes {
  using Field = halo::Types<double, Kokkos::LayoutRight, 2, halo::Cut<0>, 1>::Field;

 public:
  TypedBoxes(const TwoRanks& mesh, index_t bytes) {
    constexpr index_t rows = 4, value_bytes = sizeof(double);
    for (Field& f : fields_)
      f = shard::shared_field<Field>("made up", mesh,
                                     shard::Extents<2>{{2 * rows, bytes / value_bytes}});
    over_mpi_ = exchange_of(fields_, {.transport = shard::TransportKind::mpi,
                                      .messages  = shard::MessageLayout::one_per_box});
    direct_   = exchange_of(fields_, {.direct_run = 1});
    problem_  = problem_of(fields_, 0);
  }

  Timed over_mpi() const override { return timed(over_mpi_); }
  Timed direct() const override { return timed(direct_); }

 private:
  Timed timed(const std::function<void()>& call) const {
    return {call, [this] { write_edges(problem_); }};
  }

  std::array<Field, Fields> fields_;
  std::function<void()> over_mpi_, direct_;
  peers::Problem problem_;
};

template <class T, int Width>
std::unique_ptr<OwnExchange> make_short(const TwoRanks& mesh, const TwoRanks& alone,
                                        const Shape& shape) {
  const shard::Extents<2> owned{
      {shape.runs / 2 / shape.fields, shape.pitch / shape.value_bytes - 2 * Width}};
  if (shape.fields == 1) return std::make_unique<Typed<T, 2, Width, 1>>(mesh, alone, owned);
  if (shape.fields == 8) return std::make_unique<Typed<T, 2, Width, 8>>(mesh, alone, owned);
  throw std::invalid_argument("no exchange has " + std::to_string(shape.fields) + " fields");
}

}  // namespace

std::unique_ptr<OwnExchange> make_own_exchange(const TwoRanks& mesh, const TwoRanks& alone,
                                               const Shape& shape) {
  if (shape.run > Shape::longest_short)
    return std::make_unique<Typed<double, 3, 1, 1>>(
        mesh, alone,
        shard::Extents<3>{
            {shape.runs / 2, shape.pitch / shape.run - 2, shape.run / shape.value_bytes}});
  if (shape.value_bytes == 4) return make_short<float, 1>(mesh, alone, shape);
  switch (shape.run / shape.value_bytes) {
    case 1: return make_short<double, 1>(mesh, alone, shape);
    case 2: return make_short<double, 2>(mesh, alone, shape);
    case 3: return make_short<double, 3>(mesh, alone, shape);
    case 5: return make_short<double, 5>(mesh, alone, shape);
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
