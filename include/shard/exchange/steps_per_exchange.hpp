// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_STEPS_PER_EXCHANGE_HPP
#define SHARD_EXCHANGE_STEPS_PER_EXCHANGE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/exchange/overlapped.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/view/index_space.hpp"
#include "shard/view/region.hpp"

namespace shard {

namespace impl {

/// Widths per dimension, low and high side, whatever the rank.
using FlatWidths = std::array<std::array<int, 2>, max_rank>;

/// The plans of a time loop that exchanges every `steps` steps. Type-erased.
template <class Memory>
class StepPlans {
 public:
  /// Collective over the fields' mesh. `reach` of one step, for each field; `periodic`: a bit for
  /// each dimension with a halo in which all fields are.
  StepPlans(const FieldArgs* fields, int count, const FlatWidths* reach, int steps,
            unsigned periodic, const Tuning& tuning);

  /// Throws ArgumentError unless these fields have the number and geometry of those that the plans
  /// were made for.
  void require_same(const FieldArgs* fields, int count) const;
  /// Whether points past the seam are stepped, in the k-th dimension with a halo.
  bool wraps(int k) const { return (wraps_ >> static_cast<unsigned>(k) & 1U) != 0; }
  /// Fills the halos.
  const std::shared_ptr<FieldPlan<Memory>>& halos() const { return halos_; }
  /// Updates the points outside the domain after sub-step k; null if this rank has none.
  FieldPlan<Memory>* renewal(int k) const { return renewals_[static_cast<std::size_t>(k)].get(); }

 private:
  std::shared_ptr<MeshState> mesh_;  // outlives the plans
  unsigned wraps_ = 0;
  std::shared_ptr<FieldPlan<Memory>> halos_;
  std::vector<std::shared_ptr<FieldPlan<Memory>>> renewals_;
};

template <class Field, class StepReach>
constexpr FlatWidths flat_widths() {
  FlatWidths flat{};
  const auto w = widths_of<Field>(StepReach{});
  for (int d = 0; d < Field::rank; ++d) flat[Geometry::at(d)] = {w[d][0], w[d][1]};
  return flat;
}

template <class StepReach>
struct FlatWidthsOf {
  template <class Field>
  FlatWidths operator()(const Field&) const {
    return flat_widths<Field, StepReach>();
  }
};
struct FieldArgsOf {
  template <class Field>
  FieldArgs operator()(const Field& field) const {
    return field_args(field);
  }
};

/// Throws ArgumentError if the first argument is a set of no fields.
void require_first(std::size_t fields);

/// For each dimension with a halo, in their order, a bit: whether it is periodic.
template <class Field>
constexpr unsigned periodic_dims() {
  unsigned dims = 0, k = 0;
  for (const DimType& type : FieldTypeOf<Field>::types)
    if (type.lo > 0 || type.hi > 0)
      dims |= (type.low.kind == BoundaryKind::periodic ? 1U : 0U) << k++;
  return dims;
}

/// The sub-step's points along one dimension: the owned ones and `lo` and `hi` more, inside the
/// domain unless it wraps.
void extend_inside(const DimGeometry& dim, bool wraps, index_t lo, index_t hi, index_t& begin,
                   index_t& end);

}  // namespace impl

/// Whether a field's halo is at least N times this reach.
template <class Field, int N, class StepReach>
inline constexpr bool halo_is_deep_enough_v = [] {
  const auto w = impl::widths_of<Field>(StepReach{});
  bool deep    = true;
  for (int d = 0; d < Field::rank; ++d)
    deep = deep && Field::halo_lo(d) >= N * w[d][0] && Field::halo_hi(d) >= N * w[d][1];
  return deep;
}();

/// The state of a time loop that exchanges every N steps: see `steps_per_exchange`, which makes it.
///
/// Between two exchanges each step also computes the neighbours' points that the following steps
/// need: sub-step k = 0, ..., N - 1 runs over the owned points and (N - 1 - k) times the reach
/// around them. Points outside the domain are set from the boundary after each step: constants are
/// filled, others are copied from their source in this rank's halo. If the source is on another
/// rank (a fold over a sharded longitude), they are exchanged at each step, and the log says so
/// once. If all fields are Periodic in a sharded dimension, points past the seam are computed too,
/// at global indices below 0 or from the extent on. There a coefficient must be read from a
/// Periodic field, not computed from the index.
///
/// \tparam N steps per exchange \tparam StepReach how far one step reads: a Reach, one Halo per
/// dimension with a halo
/// \tparam Fields    the fields that are stepped; their halos are at least N times the reach
template <int N, class StepReach, FieldOrSet... Fields>
class StepsPerExchange {
  static_assert(N >= 1 && sizeof...(Fields) >= 1,
                "there is at least one step per exchange, and one field that is stepped");
  static_assert((halo_is_deep_enough_v<impl::FieldOf<Fields>, N, StepReach> && ...),
                "the halo of each field that is stepped is at least N times the reach of a step");
  static_assert(((impl::index_dim<impl::FieldOf<Fields>>() < 0) && ...),
                "the halo of an index space has layers and no width: exchange it in each step");
  static_assert((impl::renews_itself_v<impl::FieldOf<Fields>> && ...),
                "fields with NorthFold, Given or ByIndex are exchanged at each step");
  using Memory = impl::CommonPlanMemory<Fields...>;
  static_assert((std::is_same_v<Memory, impl::PlanMemory<impl::FieldOf<Fields>>> && ...),
                "the fields of one exchange are all in host memory or all in device memory");
  static constexpr unsigned periodic = (impl::periodic_dims<impl::FieldOf<Fields>>() & ...);
  using First = impl::FieldOf<std::tuple_element_t<0, std::tuple<Fields...>>>;

 public:
  /// The fields that a step reads or writes, by reference: `std::tie(t, q)`, or `t` for a single
  /// one.
  using Level = std::tuple<const Fields&...>;

  /// Collective over the fields' mesh. Throws AgreementError on every rank if the ranks' fields
  /// differ, ArgumentError if the first argument is a set without fields.
  explicit StepsPerExchange(const Tuning& tuning, const Fields&... fields) {
    impl::require_first(impl::field_count(std::get<0>(Level(fields...))));
    const impl::PerField<impl::FieldArgs, Fields...> args(impl::ArgsOf(), fields...);
    const impl::PerField<impl::FlatWidths, Fields...> reach(impl::FlatWidthsOf<StepReach>(),
                                                            fields...);
    plans_ = std::make_shared<impl::StepPlans<Memory>>(args.data(), args.size(), reach.data(), N,
                                                       periodic, tuning);
  }

  /// One step: functor(i, j, ...) over the sub-step's points of the first field. It reads `from`
  /// and writes `to`, which are other fields of the same geometry. An exchange of `from`, if due,
  /// overlaps with the interior. Local, except for the messages.
  template <class Space, class Functor>
  void step(const std::string& label, const Space& space, const Functor& functor, const Level& from,
            const Level& to) {
    const auto cells = region(first_of(to));
    if (substep_ > 0) {
      parallel_for(label, space, cells, functor);
    } else {
      auto pending = std::apply([&](const Fields&... f) { return start(space, f...); }, from);
      if (!of_one_shape(to))
        pending.finish();  // the interior of the first isn't that of the others
      impl::run_overlapped<Fields...>(label, space, pending, first_of(to), cells,
                                      impl::widths_of<First>(StepReach{}), functor);
    }
    std::apply([&](const Fields&... f) { complete(space, f...); }, to);
  }

  /// The beginning of a step of several kernels: fills the halos of the fields that the step reads,
  /// if due, and returns the points of the first field to compute.
  template <class Space>
  auto prepare(const Space& space, const Fields&... from) {
    if (substep_ == 0) start(space, from...).finish();
    return region(first_of(Level(from...)));
  }
  /// The end of a step of several kernels: updates the points outside the domain in the fields that
  /// it wrote, and advances to the next sub-step.
  template <class Space>
  void complete(const Space& space, const Fields&... to) {
    require_same(to...);
    if (impl::environment_flag("SHARD_CHECK"))
      impl::each_field([&](const auto& field) { mark(space, field); }, to...);
    if (substep_ + 1 < N) {
      impl::run_plan(plans_->renewal(substep_), space, impl::Direction::forward, to...);
    }
    substep_ = (substep_ + 1) % N;
  }

  /// The points of a field that this sub-step computes: one box, empty if the rank owns none.
  template <AnyShardedView Field>
  impl::RegionOf<Field> region(const Field& field) const {
    constexpr auto w = impl::widths_of<Field>(StepReach{});
    auto cells       = owned_region(field);
    if (cells.cells() == 0) {
      cells.count = 0;
      return cells;
    }
    const impl::Geometry& geometry = field.geometry();
    const index_t more             = N - 1 - substep_;
    for (int d = 0, k = 0; d < Field::rank; ++d) {
      const bool halo = Field::halo_lo(d) > 0 || Field::halo_hi(d) > 0;
      impl::extend_inside(geometry.dims[impl::Geometry::at(d)], halo && plans_->wraps(k),
                          more * w[d][0], more * w[d][1], cells.boxes[0].begin[d],
                          cells.boxes[0].end[d]);
      k += halo ? 1 : 0;
    }
    return cells;
  }

  /// Fills the halos of fields that the steps only read: call it once, and after each change.
  /// Collective the first time, as `exchange`.
  template <class Space, FieldOrSet... Coefficients>
  void fill(const Space& space, const Coefficients&... coefficients) const {
    static_assert((halo_is_deep_enough_v<impl::FieldOf<Coefficients>, N, StepReach> && ...),
                  "the halo of each coefficient is at least N times the reach of a step");
    static_assert((((periodic & ~impl::periodic_dims<impl::FieldOf<Coefficients>>()) == 0) && ...),
                  "a coefficient is Periodic in each dimension in which the fields that are "
                  "stepped are");
    exchange(space, coefficients...);
  }

  /// The next step begins with an exchange. Call it on all ranks if something other than a step
  /// changed the fields.
  void restart() { substep_ = 0; }
  /// Number of the next sub-step, 0 to N - 1; the exchange is before number 0.
  int substep() const { return substep_; }

 private:
  /// See mark_written.
  template <class Space, class Field>
  void mark(const Space& space, const Field& field) const {
    const auto cells = region(field);
    impl::FlatBox kept;
    for (int d = 0; d < Field::rank; ++d) {
      kept.begin[impl::Geometry::at(d)] = cells.boxes[0].begin[d];
      kept.end[impl::Geometry::at(d)]   = cells.boxes[0].end[d];
    }
    impl::mark_stale(space, impl::field_args(field), field.origin(), kept);
  }

  template <class Space>
  Pending<Space> start(const Space& space, const Fields&... from) {
    require_same(from...);
    return impl::start_plan(plans_->halos(), space, impl::Direction::forward, from...);
  }

  void require_same(const Fields&... fields) const {
    const impl::PerField<impl::FieldArgs, Fields...> args(impl::FieldArgsOf(), fields...);
    plans_->require_same(args.data(), args.size());
  }

  static const First& first_of(const Level& fields) {
    const auto& first = std::get<0>(fields);
    if constexpr (FieldSet<std::remove_cvref_t<decltype(first)>>)
      return *first.data();
    else
      return first;
  }

  /// Whether all fields have the same points as the first.
  static bool of_one_shape(const Level& fields) {
    const First& first = first_of(fields);
    bool same          = true;
    const auto compare = [&]<class Field>(const Field& field) {
      if constexpr (Field::rank != First::rank)
        same = false;
      else
        for (int d = 0; d < First::rank; ++d) same = same && field.extent(d) == first.extent(d);
    };
    std::apply([&](const auto&... f) { impl::each_field(compare, f...); }, fields);
    return same;
  }

  std::shared_ptr<impl::StepPlans<Memory>> plans_;
  int substep_ = 0;
};

/// For time loops: one exchange for every N steps. Some points are computed on several ranks. The
/// result is bitwise that of an exchange before each step, for every boundary. Collective over the
/// fields' mesh; errors as Exchange's. `reach` is how far one step reads; `fields`, which may be
/// sets, are those that are stepped, in the order of the later calls.
///
/// \code
/// auto loop = shard::steps_per_exchange<3>(shard::Reach<shard::Halo<1>, shard::Halo<1>>{}, now);
/// loop.fill(space, k);  // a coefficient
/// for (int i = 0; i < steps; ++i) {
///   loop.step("diffuse", space, Step{now, k, next}, now, next);
///   swap(now, next);
/// }
/// \endcode
template <int N, class... Halos, FieldOrSet... Fields>
auto steps_per_exchange(Reach<Halos...>, const Fields&... fields) {
  return StepsPerExchange<N, Reach<Halos...>, Fields...>(Tuning{}, fields...);
}
/// The same with a tuning of the exchanges.
template <int N, class... Halos, FieldOrSet... Fields>
auto steps_per_exchange(const Tuning& tuning, Reach<Halos...>, const Fields&... fields) {
  return StepsPerExchange<N, Reach<Halos...>, Fields...>(tuning, fields...);
}

}  // namespace shard

#endif
