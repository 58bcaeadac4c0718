// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_EXCHANGE_HPP
#define SHARD_EXCHANGE_EXCHANGE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/comm/shared_field.hpp"
#include "shard/exchange/field_set.hpp"
#include "shard/exchange/custom.hpp"
#include "shard/exchange/pending.hpp"
#include "shard/exchange/impl/field_plan.hpp"
#include "shard/view/region.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// Whether some side of a field's boundaries is such; of ByIndex, some of its boundaries.
template <class Field, class Predicate>
constexpr bool any_boundary(const Predicate& is) {
  for (const DimType& type : FieldTypeOf<Field>::types)
    if (type.low.any(is) || type.high.any(is)) return true;
  return false;
}
template <class Field>
inline constexpr bool changes_sign_v = any_boundary<Field>([](const BoundarySide& side) {
  return side.odd;
});
template <class Field>
inline constexpr bool has_constants_v = any_boundary<Field>([](const BoundarySide& side) {
  return !side.value.is_zero();
});
/// Whether the boundaries are maps or constants, so that the halo outside the domain may be filled
/// by itself.
template <class Field>
inline constexpr bool renews_itself_v =
    !any_boundary<Field>([](const BoundarySide& side) { return !pads(side); });

template <class Field>
inline constexpr bool is_over_blocks_v = any_boundary<Field>([](const BoundarySide& side) {
  return is_linked(side.kind);
});

/// Whether some field has a halo along a dimension that `Axis` shards. A failed check shows its
/// name.
template <class Axis, class... Fields>
struct has_halo_along {
  template <class Field, int... D>
  static constexpr bool in(std::integer_sequence<int, D...>) {
    return ((std::is_same_v<typename Field::template axis<D>, Axis> &&
             (Field::halo_lo(D) > 0 || Field::halo_hi(D) > 0)) ||
            ...);
  }
  static constexpr bool value =
      (in<FieldOf<Fields>>(std::make_integer_sequence<int, FieldOf<Fields>::rank>{}) || ...);
};

/// Whether some field's halo is this wide on each side on which `Width` is.
template <class Width, class... Fields>
struct has_halo_of_width {
  static constexpr bool value = [] {
    bool lo = Width::lo == 0, hi = Width::hi == 0;
    const auto look = [&]<class Field>(std::type_identity<Field>) {
      for (int d = 0; d < Field::rank; ++d) {
        lo = lo || Field::halo_lo(d) >= Width::lo;
        hi = hi || Field::halo_hi(d) >= Width::hi;
      }
    };
    (look(std::type_identity<FieldOf<Fields>>()), ...);
    return lo && hi;
  }();
};

/// The arguments of the functions that find or make a plan, for a field, which may be Partial.
template <class Field>
FieldArgs any_field_args(const Field& field) {
  using Value          = typename Field::non_const_value_type;
  constexpr int layout = std::is_same_v<typename Field::layout, Kokkos::LayoutRight>  ? 0
                         : std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? 1
                                                                                      : 2;
  FieldArgs args{&field.any_geometry(),
                 FieldTypeOf<Field>::types.data(),
                 value_kind<Value>(),
                 static_cast<int>(sizeof(Value)),
                 layout,
                 {}};
  for (int d = 0; d < Field::rank; ++d) args.stride[Geometry::at(d)] = field.stride(d);
  return args;
}
/// The same for a field of values: Partial doesn't compile.
template <class Field>
FieldArgs field_args(const Field& field) {
  static_cast<void>(field.geometry());
  return any_field_args(field);
}

/// The FieldSpec of one field, from its type and geometry.
template <class Field>
struct ExchangeField {
  using Value                     = typename Field::non_const_value_type;
  static constexpr ValueKind kind = value_kind<Value>();

  static_assert(!std::is_const_v<typename Field::value_type>,
                "an exchange writes halos: it needs fields of a value type that isn't const");
  static_assert(std::is_trivially_copyable_v<Value>,
                "an exchange moves bytes: it needs a value type that is trivially copyable");
  static_assert(!changes_sign_v<Field> || (kind != ValueKind::opaque && kind != ValueKind::boolean),
                "an odd boundary changes the sign: it needs an arithmetic value type");
  static_assert(!has_constants_v<Field> || kind != ValueKind::opaque,
                "a Constant boundary needs an arithmetic value type; use Zero");

  static FieldArgs args(const Field& field) { return field_args(field); }
};

template <class Field>
inline constexpr bool can_add_v = !(ExchangeField<Field>::kind == ValueKind::opaque ||
                                    ExchangeField<Field>::kind == ValueKind::boolean);

template <class... Fields>
using CommonPlanMemory = PlanMemory<FieldOf<std::tuple_element_t<0, std::tuple<Fields...>>>>;

/// Functions of one field, for PerField.
struct ArgsOf {
  template <class Field>
  FieldArgs operator()(const Field& field) const {
    return ExchangeField<Field>::args(field);
  }
};
struct AddressOf {
  template <class Field>
  void* operator()(const Field& field) const {
    return const_cast<void*>(static_cast<const void*>(field.origin()));
  }
};
struct GeometryOf {
  template <class Field>
  const Geometry* operator()(const Field& field) const {
    return &field.geometry();
  }
};

/// Marks the components of vectors in the arguments of `fields`.
template <class... Fields>
void mark_components([[maybe_unused]] FieldArgs* args, const Fields&... fields) {
  const auto mark = [&](const auto& one) {
    using One = std::remove_cvref_t<decltype(one)>;
    if constexpr (requires { One::is_signed; }) {
      static_assert(!One::is_signed || can_add_v<FieldOf<One>>,
                    "a vector's components change signs: they need an arithmetic value type");
      for (int c = 0; c < 2; ++c) {
        args[c].component = c + 1;
        args[c].is_signed = One::is_signed;
      }
    }
    args += field_count(one);
  };
  if constexpr ((FieldSet<Fields> || ...)) (mark(fields), ...);
}

/// Null for no fields.
template <class... Fields>
auto make_exchange_plan(const Tuning& tuning, const Fields&... fields) {
  PerField<FieldArgs, Fields...> args(ArgsOf(), fields...);
  mark_components(args.data(), fields...);
  const PerField<void*, Fields...> addresses(AddressOf(), fields...);
  return FieldPlan<CommonPlanMemory<Fields...>>::make_exchange(
      args.data(), args.size(), tuning, {addresses.data(), addresses.data()});
}

/// The mesh's cached plan for these fields; made, collectively, if there is none. Null for no
/// fields.
template <class... Fields>
auto find_exchange_plan(const Fields&... fields) {
  PerField<FieldArgs, Fields...> args(ArgsOf(), fields...);
  mark_components(args.data(), fields...);
  return FieldPlan<CommonPlanMemory<Fields...>>::find_exchange(args.data(), args.size());
}

/// The fields of an exchange without functors.
template <class... Fields>
constexpr void require_no_custom() {
  static_assert(!(has_custom_v<FieldOf<Fields>> || ...),
                "fields with a Custom boundary are exchanged with its functors: "
                "Exchange(fields...).with(functors...)");
}

/// Starts one run of a plan.
template <class Memory, class Space, class... Fields>
Flight start_flight(FieldPlan<Memory>& plan, const Space& space, Direction direction,
                    const Fields&... fields) {
  static_assert(Kokkos::SpaceAccessibility<Space, Memory>::accessible,
                "the execution space can't reach the fields' memory");
  const PerField<void*, Fields...> addresses(AddressOf(), fields...);
  const PerField<const Geometry*, Fields...> geometries(GeometryOf(), fields...);
  return plan.start(space, {addresses.data(), addresses.data(), geometries.data()}, direction);
}

/// Starts and finishes one run of a plan; nothing if it is null.
template <class Memory, class Space, class... Fields>
void run_plan(FieldPlan<Memory>* plan, const Space& space, Direction direction,
              const Fields&... fields) {
  require_no_custom<Fields...>();
  if (plan != nullptr) plan->finish(space, start_flight(*plan, space, direction, fields...));
}

template <class Memory, class Space, class... Fields>
Pending<Space> start_plan(const std::shared_ptr<FieldPlan<Memory>>& plan, const Space& space,
                          Direction direction, const Fields&... fields) {
  return Pending<Space>(plan, space,
                        plan ? start_flight(*plan, space, direction, fields...) : Flight());
}

}  // namespace impl

/// A plan for the halo exchange of a list of fields on one mesh, of any value types and ranks, and
/// for its transpose: one message per neighbour rank for all fields together. An argument may be a
/// set of fields (FieldSet), which the plan copies; an exchange of no fields does nothing.
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
    std::apply([&](const auto&... f) { run(space, impl::Direction::forward, f...); }, fields_);
  }
  /// Fills the halos of other fields of the same geometry, in the same order (for instance swapped
  /// time levels). Throws ArgumentError if their extents, partitions or strides differ from those
  /// of the plan.
  template <class Space>
  void operator()(const Space& space, const Fields&... others) const {
    require_same(others...);
    run(space, impl::Direction::forward, others...);
  }
  /// Sends the neighbours' halos; `finish` of the returned Pending fills this rank's halos. Two
  /// exchanges of a plan can always be in progress. In shared memory up to eight can, if there is
  /// space: `start` throws Error on a rank without space, before it sends anything, and may be
  /// called again after a finish. A ninth is an ArgumentError on every rank.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space) const {
    impl::require_no_custom<Fields...>();
    return std::apply([&](const auto&... f) { return start_forward(space, f...); }, fields_);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space, const Fields&... others) const {
    impl::require_no_custom<Fields...>();
    require_same(others...);
    return start_forward(space, others...);
  }

  /// The transpose: adds each halo value to the owned point that it is a copy of, then zeroes the
  /// halo. The order of additions is fixed, so the result is bitwise reproducible. Halo points with
  /// odd parity are subtracted; constant ones are ignored.
  template <class Space>
  void adjoint(const Space& space) const {
    require_adds();
    std::apply([&](const auto&... f) { run(space, impl::Direction::adjoint, f...); }, fields_);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  void adjoint(const Space& space, const Fields&... others) const {
    require_adds();
    require_same(others...);
    run(space, impl::Direction::adjoint, others...);
  }
  /// Starts the transpose: sends the halos to their owners; `finish` of the returned Pending adds
  /// them. Until then don't write the halo or the owned points that it adds to.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space) const {
    impl::require_no_custom<Fields...>();
    return std::apply([&](const auto&... f) { return start_adjoint_of(space, f...); }, fields_);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space, const Fields&... others) const {
    impl::require_no_custom<Fields...>();
    require_same(others...);
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
  /// memory. Collective over the mesh, as shared_field. Throws ArgumentError on a rank where the
  /// plan's field has other strides than a new field (a padded View that was wrapped).
  template <int N>
  [[nodiscard]] auto allocate(std::string_view label) const {
    static_assert(N >= 0 && N < static_cast<int>(sizeof...(Fields)),
                  "allocate names a field by its number among those of the exchange, from 0");
    using Field = std::tuple_element_t<static_cast<std::size_t>(N), std::tuple<Fields...>>;
    static_assert(AnyShardedView<Field>, "allocate is for a field, not for a set of fields");
    const Field& as = std::get<static_cast<std::size_t>(N)>(fields_);
    Field field     = impl::allocate_like(as, label, plan()->wants_shared());
    for (int d = 0; d < Field::rank; ++d)
      if (field.stride(d) != as.stride(d))
        impl::throw_argument("Exchange::allocate",
                             {"field \"", as.label(), "\" has a stride of ",
                              impl::text(as.stride(d)), " in dimension ", impl::text(d),
                              ", and one that is made like it ", impl::text(field.stride(d)),
                              ": the plan could not exchange it; make a plan for one of its kind"});
    return field;
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
  template <class Space>
  void run(const Space& space, impl::Direction direction, const auto&... fields) const {
    impl::run_plan(plan().get(), space, direction, fields...);
  }
  template <class Space>
  Pending<Space> start_forward(const Space& space, const auto&... fields) const {
    return impl::start_plan(plan(), space, impl::Direction::forward, fields...);
  }
  template <class Space>
  Pending<Space> start_adjoint_of(const Space& space, const auto&... fields) const {
    require_adds();
    return impl::start_plan(plan(), space, impl::Direction::adjoint, fields...);
  }

  void require_same(const Fields&... others) const {
    const std::size_t count = plan() ? plan()->fields().size() : 0;
    impl::require_count("Exchange", count, impl::field_count(others...));
    std::size_t f = 0;
    impl::each_field(
        [&](const auto& field) {
          impl::require_served("Exchange", plan()->fields()[f++], impl::field_args(field));
        },
        others...);
  }

  std::tuple<impl::StoredFields<Fields>...> fields_;
  bool made_ = false;
  std::shared_ptr<impl::FieldPlan<Memory>> plan_;
};

namespace impl {

/// Whether the same axes shard the same dimensions of two fields.
template <class A, class B>
inline constexpr bool cut_alike_v = [] {
  if constexpr (A::rank != B::rank)
    return false;
  else
    return []<int... D>(std::integer_sequence<int, D...>) {
      return (std::is_same_v<typename A::template axis<D>, typename B::template axis<D>> && ...);
    }
  (std::make_integer_sequence<int, A::rank>{});
}();

/// Runs a functor over `cells`, a region of `field` of one box, while halos of Fields are
/// exchanged: first over the points that read no halo from a message, then over the others.
template <class... Fields, class Space, AnyShardedView Field, class Functor>
void run_overlapped(const std::string& label, const Space& space, Pending<Space>& pending,
                    const Field& field, const RegionOf<Field>& cells, Widths<Field::rank> reach,
                    const Functor& functor) {
  reach          = reach_of_copies<FieldOf<Fields>...>(field, reach);
  unsigned sides = pending.fill_local();
  // else the sides of one field can't be mapped to those of the other
  if (pending.fills_later() || (sides != 0 && !(cut_alike_v<Field, FieldOf<Fields>> && ...)))
    sides = all_sides;
  auto core = inside(cells, field, reach, sides), rest = core;
  if constexpr (is_host_space_v<Space>) {
    // Unpack messages as soon as they arrive, while they are in a shared cache: a large interior
    // would evict them. After that there is no rim.
    bool again = sides != 0 && pending.advance();
    for (int parts = first_parts; parts > 1 && again && !pending.is_filled(); parts /= 4) {
      parallel_for(label, space, split_first(rest, parts), functor);
      again = pending.advance();
    }
    if (sides != 0 && pending.is_filled()) {
      keep_first(core, rest);
      rest.count = 0;
    }
  }
  parallel_for(label, space, rest, functor);
  pending.finish();
  parallel_for(label, space, without(cells, core), functor);
}

}  // namespace impl

/// Overlaps an exchange with functor(i, j, ...) over a field's owned points: starts the exchange,
/// runs the points that read no halo from a message, finishes, runs the others. The functor may
/// read the halos of the exchange's fields as far as `reach` (default: the field's halo), and must
/// not write points that neighbours read. Local.
template <class Space, FieldOrSet... Fields, AnyShardedView Field, class Functor, class... Halos>
void overlapped(const std::string& label, const Space& space, const Exchange<Fields...>& halos,
                const Field& field, const Functor& functor, Reach<Halos...> reach = {}) {
  auto pending = halos.start(space);
  impl::run_overlapped<Fields...>(label, space, pending, field, owned_region(field),
                                  impl::widths_of<Field>(reach), functor);
}

/// The same with the functors of Custom boundaries.
template <class Space, FieldOrSet... Fields, class... F, AnyShardedView Field, class Functor,
          class... Halos>
void overlapped(const std::string& label, const Space& space,
                const ExchangeWith<Exchange<Fields...>, F...>& halos, const Field& field,
                const Functor& functor, Reach<Halos...> reach = {}) {
  auto pending = halos.start(space);
  impl::run_overlapped<Fields...>(label, space, pending, field, owned_region(field),
                                  impl::widths_of<Field>(reach), functor);
}

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
