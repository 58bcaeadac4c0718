// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_EXCHANGE_FIELDS_HPP
#define SHARD_EXCHANGE_IMPL_EXCHANGE_FIELDS_HPP

// What a list of fields says to the plan of its exchange, from the fields' types and objects.

#include <Kokkos_Core.hpp>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/exchange/custom.hpp"
#include "shard/exchange/field_set.hpp"
#include "shard/exchange/pending.hpp"
#include "shard/exchange/impl/field_plan.hpp"
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
StartedExchange start_plan(FieldPlan<Memory>& plan, const Space& space, Direction direction,
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
  if (plan != nullptr) plan->finish(space, start_plan(*plan, space, direction, fields...));
}

template <class Memory, class Space, class... Fields>
Pending<Space> start_plan(const std::shared_ptr<FieldPlan<Memory>>& plan, const Space& space,
                          Direction direction, const Fields&... fields) {
  return Pending<Space>(plan, space,
                        plan ? start_plan(*plan, space, direction, fields...) : StartedExchange());
}

}  // namespace impl

}  // namespace shard

#endif
