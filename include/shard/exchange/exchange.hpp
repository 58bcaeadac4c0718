// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_EXCHANGE_HPP
#define SHARD_EXCHANGE_EXCHANGE_HPP

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/comm/shared_field.hpp"
#include "shard/exchange/custom.hpp"
#include "shard/exchange/field_set.hpp"
#include "shard/exchange/pending.hpp"
#include "shard/exchange/impl/exchange_fields.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// A plan for the halo exchange of a list of fields on one mesh, of any value types and ranks, and
/// for its transpose: one message per neighbour rank for all fields together. An argument may be a
/// set of fields (FieldSet), which the plan copies; an exchange of no fields, or
/// of fields without a halo, does nothing.
///
/// The constructor is collective over the mesh. The fields' number, geometries, types and order
/// must be the same on every rank, else every rank throws AgreementError with both sides' values.
/// Everything after that is local, without allocation. Ranks must start the same exchanges in the
/// same order.
///
/// From `start` until `finish` returns, don't read the halo, and don't write owned points that
/// neighbours read, on any transport.
template <FieldOrSet... Fields>
class Exchange {
  template <class Halos, class... F>
  friend class ExchangeWith;
  static_assert(sizeof...(Fields) >= 1, "an Exchange has at least one field");
  using Memory = impl::CommonPlanMemory<Fields...>;
  static_assert((std::is_same_v<Memory, impl::PlanMemory<impl::FieldOf<Fields>>> && ...),
                "the fields of one exchange are all in host memory or all in device memory");

 public:
  /// An empty exchange, to be assigned later. Any use throws ArgumentError.
  Exchange() = default;
  /// Collective over the fields' mesh. Throws AgreementError on every rank if the ranks' fields
  /// differ.
  explicit Exchange(const Fields&... fields) : Exchange(Tuning{}, fields...) {}
  /// The same with a tuning, which must be the same on every rank. Collective.
  explicit Exchange(const Tuning& tuning, const Fields&... fields)
      : fields_(impl::stored(fields)...),
        made_(true),
        plan_(impl::make_exchange_plan(tuning, fields...)) {}

  /// Fills the halos of the fields that it was made for, in the memory that they had at that time.
  /// After `swap(now, then)` that memory belongs to the other field, so name the field:
  /// `halos(space, now)`. Not collective: only the neighbours take part.
  template <class Space>
  void operator()(const Space& space) const {
    run_own(space, impl::Direction::forward);
  }
  /// Fills the halos of other fields of the same geometry, in the same order (for instance swapped
  /// time levels). Throws ArgumentError if their extents or partitions differ from those of the
  /// plan. Their strides may differ (padded memory, a narrowed field): for such fields the plan
  /// makes tables at the first call, unless its messages go by dimension, which is an error.
  template <class Space>
  void operator()(const Space& space, const Fields&... others) const {
    run(space, impl::Direction::forward, others...);
  }
  /// Sends the neighbours' halos; `finish` of the returned Pending fills this rank's halos. Two
  /// exchanges of a plan can always be in progress. In shared memory up to eight can, if there is
  /// space: `start` throws Error on a rank without space, before it sends anything, and may be
  /// called again after a finish. A ninth is an ArgumentError on every rank.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space) const {
    impl::require_no_custom<Fields...>();
    return start_own(space, impl::Direction::forward);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space, const Fields&... others) const {
    impl::require_no_custom<Fields...>();
    return start_forward(space, others...);
  }

  /// The same exchange for other fields of the same geometry, in the same order: for swapped time
  /// levels, where a call takes an exchange, as `overlapped` does: `halos.of(t)`. It shares this
  /// plan. Local. Throws ArgumentError as the call for other fields.
  [[nodiscard]] Exchange of(const Fields&... others) const {
    Exchange made = *this;
    made.plan_    = plan_for(others...);
    made.fields_  = std::tuple<impl::StoredFields<Fields>...>(impl::stored(others)...);
    return made;
  }

  /// The transpose: adds each halo value to the owned point that it is a copy of, then zeroes the
  /// halo. The order of additions is fixed, so the result is bitwise reproducible. Halo points with
  /// odd parity are subtracted; constant ones are ignored.
  template <class Space>
  void adjoint(const Space& space) const {
    require_adds();
    run_own(space, impl::Direction::adjoint);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  void adjoint(const Space& space, const Fields&... others) const {
    require_adds();
    run(space, impl::Direction::adjoint, others...);
  }
  /// Starts the transpose: sends the halos to their owners; `finish` of the returned Pending adds
  /// them. Until then don't write the halo or the owned points that it adds to.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space) const {
    impl::require_no_custom<Fields...>();
    require_adds();
    return start_own(space, impl::Direction::adjoint);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space, const Fields&... others) const {
    impl::require_no_custom<Fields...>();
    return start_adjoint_of(space, others...);
  }

  /// This exchange with the functors of the fields' Custom boundaries, one object of each type (of
  /// the adjoint functors for the adjoint). It has operator(), start, adjoint and start_adjoint as
  /// this class, and `overlapped` takes it: `halos.with(Inflow{profile, time})(space)`.
  template <class... F>
  [[nodiscard]] ExchangeWith<Exchange, F...> with(const F&... functors) const {
    return ExchangeWith<Exchange, F...>(*this, functors...);
  }

  /// A plan for the same fields that fills only the halos of the dimensions that these axes shard
  /// (`Unsharded`: those that aren't sharded). The points that it fills get the same values as in a
  /// full exchange, as with `width` and `faces`. Collective.
  template <class... Axis>
  [[nodiscard]] Exchange only() const {
    static_assert(sizeof...(Axis) >= 1, "only names the axes along which halos are filled");
    static_assert(
        (impl::has_halo_along<Axis, Fields...>::value && ...),
        "only names an axis along which no field of the exchange has a halo: nothing would "
        "be filled");
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      [&]<int... D>(std::integer_sequence<int, D...>) {
        (keep_halo<impl::is_among_v<typename Field::template axis<D>, Axis...>>(spec.dims[D]), ...);
      }
      (std::make_integer_sequence<int, Field::rank>{});
    });
  }
  /// A plan that fills the halos up to this width on each side. Collective.
  template <class Width>
  [[nodiscard]] Exchange width() const {
    static_assert(impl::is_halo_v<Width>, "width takes a Halo");
    static_assert(Width::lo > 0 || Width::hi > 0, "a width of 0 on both sides fills nothing");
    static_assert(impl::has_halo_of_width<Width, Fields...>::value,
                  "width asks for more than the halo of any field of the exchange");
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      for (impl::DimSpec& dim : spec.dims) {
        dim.lo = dim.lo < Width::lo ? dim.lo : Width::lo;
        dim.hi = dim.hi < Width::hi ? dim.hi : Width::hi;
      }
    });
  }
  /// A plan that fills the halos of index spaces up to this layer; other halos as before.
  /// Collective.
  template <int Layers>
  [[nodiscard]] Exchange layers() const {
    static_assert(Layers >= 1, "the layers of an index space's halo are counted from 1");
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      for (impl::DimSpec& dim : spec.dims)
        if (dim.layers > Layers) dim.layers = Layers;
    });
  }
  /// A plan without corners, for star-shaped stencils. It has fewer neighbours. Collective.
  [[nodiscard]] Exchange faces() const {
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      spec.part = impl::HaloPart::faces;
    });
  }

  /// A plan for fields over blocks that writes no halo, only the copies of points that several
  /// blocks have: faces and corners of cells on the edges of blocks. They get the value of the
  /// point's owner, its lowest tile, y, x. Its adjoint adds the copies to the owner and sets them
  /// to zero, so `shared.adjoint(space); shared(space)` gives all places of a point the sum of
  /// their values, as spectral elements need it. Collective.
  [[nodiscard]] Exchange shared() const {
    static_assert((impl::is_over_blocks_v<impl::FieldOf<Fields>> || ...),
                  "no field of the exchange is over blocks, which share points");
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      for (impl::DimSpec& dim : spec.dims) dim.lo = dim.hi = dim.layers = 0;
    });
  }
  /// A plan for fields over blocks that fills the points of halos that have no source, where three
  /// tiles meet (the corners of a cubed sphere), for sweeps along x (`Linked` = LinkedX) or along y
  /// (LinkedY): by a quarter turn about the corner of the block's own halo beyond its x or y side,
  /// so run the exchange first. Its adjoint adds to that halo, so run it before the exchange's.
  /// Collective. Throws ArgumentError unless halos are equally wide on all sides.
  template <class Linked>
  [[nodiscard]] Exchange corners() const {
    static_assert(std::is_same_v<Linked, LinkedX> || std::is_same_v<Linked, LinkedY>,
                  "corners are filled along LinkedX or LinkedY");
    static_assert((impl::is_over_blocks_v<impl::FieldOf<Fields>> && ...),
                  "only fields over blocks have such corners");
    return narrowed([]<class Field>(impl::FieldSpec& spec, std::type_identity<Field>) {
      spec.part =
          std::is_same_v<Linked, LinkedX> ? impl::HaloPart::corners_x : impl::HaloPart::corners_y;
    });
  }

  /// A new field like the plan's argument N, set to zero, in the best memory for this plan. That is
  /// shared memory on ranks whose neighbours would read it directly, if there is space, else
  /// ordinary memory. A plan reads fields directly only if *all* fields of a call are in shared
  /// memory. Collective over the mesh, as shared_field.
  template <int N>
  [[nodiscard]] auto allocate(std::string_view label) const {
    static_assert(N >= 0 && N < static_cast<int>(sizeof...(Fields)),
                  "allocate names a field by its number among those of the exchange, from 0");
    using Field = std::tuple_element_t<static_cast<std::size_t>(N), std::tuple<Fields...>>;
    static_assert(AnyShardedView<Field>, "allocate is for a field, not for a set of fields");
    const Field& as = std::get<static_cast<std::size_t>(N)>(fields_);
    return impl::allocate_like(as, label, plan()->wants_shared());
  }

  /// For the library's own use: throws ArgumentError if the exchange has fields of `field`'s type,
  /// and all of them are in other memory than `field`.
  template <AnyShardedView Field>
  void require_one_of(const char* function, const Field& field) const {
    bool alike = false, same = false;
    const auto each = [&]<class Own>(const Own& own) {
      if constexpr (std::is_same_v<Own, Field>) {
        alike = true;
        same  = same || own.origin() == field.origin();
      }
    };
    std::apply([&](const auto&... own) { impl::each_field(each, own...); }, fields_);
    if (alike && !same) impl::throw_other_memory(function, field.label());
  }

  /// Messages that this rank sends in one exchange: by default the number of ranks that need its
  /// points.
  int sends() const { return plan() ? plan()->sends() : 0; }
  /// Messages that this rank receives in one exchange.
  int receives() const { return plan() ? plan()->receives() : 0; }
  /// Bytes that this rank sends in one exchange.
  std::size_t bytes_sent() const { return plan() ? plan()->bytes_sent() : 0; }
  /// The tuning in use: the requested one, or with Tuning::measure the fastest.
  Tuning tuning() const { return plan() ? plan()->tuning() : Tuning(); }
  /// The tuning as text and, if it was measured, the time of each candidate.
  std::string tuning_report() const { return plan() ? plan()->report() : "no fields"; }

 private:
  /// Null for no fields.
  const std::shared_ptr<impl::FieldPlan<Memory>>& plan() const {
    if (!made_) impl::throw_no_exchange();
    return plan_;
  }

  template <bool Keep>
  static void keep_halo(impl::DimSpec& dim) {
    if constexpr (!Keep) dim.lo = dim.hi = 0;
  }

  template <class Change>
  Exchange narrowed(const Change& change) const {
    if (!plan()) return *this;
    std::vector<impl::FieldSpec> specs = plan()->fields();
    std::size_t f                      = 0;
    impl::MeshState* mesh              = nullptr;
    const auto each                    = [&]<class Field>(const Field& field) {
      mesh = field.geometry().mesh.get();
      change(specs[f++], std::type_identity<Field>());
    };
    std::apply([&](const auto&... fields) { impl::each_field(each, fields...); }, fields_);
    Exchange made = *this;
    made.plan_    = impl::FieldPlan<Memory>::make(*mesh, std::move(specs), plan()->tuning());
    return made;
  }

  static constexpr void require_adds() {
    static_assert((impl::can_add_v<impl::FieldOf<Fields>> && ...),
                  "the adjoint of an exchange adds: it needs arithmetic value types");
  }
  /// Of the fields that the exchange was made for, whose strides are the plan's.
  template <class Space>
  void run_own(const Space& space, impl::Direction direction) const {
    std::apply([&](const auto&... f) { impl::run_plan(plan().get(), space, direction, f...); },
               fields_);
  }
  template <class Space>
  Pending<Space> start_own(const Space& space, impl::Direction direction) const {
    return std::apply(
        [&](const auto&... f) { return impl::start_plan(plan(), space, direction, f...); },
        fields_);
  }
  template <class Space>
  void run(const Space& space, impl::Direction direction, const auto&... fields) const {
    impl::run_plan(plan_for(fields...).get(), space, direction, fields...);
  }
  template <class Space>
  Pending<Space> start_forward(const Space& space, const auto&... fields) const {
    return impl::start_plan(plan_for(fields...), space, impl::Direction::forward, fields...);
  }
  template <class Space>
  Pending<Space> start_adjoint_of(const Space& space, const auto&... fields) const {
    require_adds();
    return impl::start_plan(plan_for(fields...), space, impl::Direction::adjoint, fields...);
  }

  /// The plan, or one for the strides of these fields.
  template <class... F>
  const std::shared_ptr<impl::FieldPlan<Memory>>& plan_for(const F&... fields) const {
    impl::require_count("Exchange", plan() ? plan()->fields().size() : 0,
                        impl::field_count(fields...));
    if (!plan()) return plan();
    const impl::PerField<impl::FieldArgs, F...> args(impl::ArgsOf(), fields...);
    return impl::FieldPlan<Memory>::for_fields("Exchange", plan(), args.data());
  }

  std::tuple<impl::StoredFields<Fields>...> fields_;
  bool made_ = false;
  std::shared_ptr<impl::FieldPlan<Memory>> plan_;
};

/// Fills the halos of `fields`, which may be sets, with one message per neighbour rank, by the
/// transport that Tuning describes. The mesh caches the plan by the fields' geometry. The first
/// call makes it and is collective (errors as Exchange's); in later calls only the neighbours take
/// part.
template <class Space, FieldOrSet... Fields>
requires(sizeof...(Fields) >= 1) void exchange(const Space& space, const Fields&... fields) {
  impl::run_plan(impl::find_exchange_plan(fields...).get(), space, impl::Direction::forward,
                 fields...);
}

/// The same in two halves: see Exchange::start.
template <class Space, FieldOrSet... Fields>
requires(sizeof...(Fields) >= 1)
    [[nodiscard]] Pending<Space> start_exchange(const Space& space, const Fields&... fields) {
  impl::require_no_custom<Fields...>();
  return impl::start_plan(impl::find_exchange_plan(fields...), space, impl::Direction::forward,
                          fields...);
}

/// The adjoint of `exchange`: see Exchange::adjoint.
template <class Space, FieldOrSet... Fields>
requires(sizeof...(Fields) >= 1) void exchange_adjoint(const Space& space,
                                                       const Fields&... fields) {
  static_assert((impl::can_add_v<impl::FieldOf<Fields>> && ...),
                "the adjoint of an exchange adds: it needs arithmetic value types");
  impl::run_plan(impl::find_exchange_plan(fields...).get(), space, impl::Direction::adjoint,
                 fields...);
}

}  // namespace shard

#endif
