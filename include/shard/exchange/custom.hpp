// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_CUSTOM_HPP
#define SHARD_EXCHANGE_CUSTOM_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/exchange/field_set.hpp"
#include "shard/view/region.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

template <FieldOrSet... Fields>
class Exchange;
template <class Space>
class Pending;
template <class Halos, class... F>
class ExchangeWith;

/// A halo point outside the domain: for which a Custom boundary's functor computes the value.
template <int Rank>
struct OutsidePoint {
  int index[Rank];       ///< local indices, as in field(i, j, ...)
  index_t global[Rank];  ///< global indices
  int dim;               ///< the dimension whose boundary is Custom
  bool high;             ///< beyond its high end, else below its low end
};

namespace impl {

/// The functors of a Custom boundary at one end; void if there are none.
template <class Boundary, bool High>
struct CustomAt {
  using functor = void;
  using adjoint = void;
};
template <class F, class A, bool High>
struct CustomAt<Custom<F, A>, High> {
  using functor = F;
  using adjoint = A;
};
template <class Low, class High>
struct CustomAt<Sides<Low, High>, false> : CustomAt<Low, false> {};
template <class Low, class High>
struct CustomAt<Sides<Low, High>, true> : CustomAt<High, true> {};

template <class Field, int D, bool High>
using custom_at = CustomAt<typename Field::template boundary<D>, High>;

/// Whether dimension D has a Custom boundary at an end where it has a halo.
template <class Field, int D, bool High>
inline constexpr bool is_custom_v = !std::is_void_v<typename custom_at<Field, D, High>::functor> &&
                                    (High ? Field::halo_hi(D) : Field::halo_lo(D)) > 0;
template <class Field>
inline constexpr bool has_custom_v = []<int... D>(std::integer_sequence<int, D...>) {
  return ((is_custom_v<Field, D, false> || is_custom_v<Field, D, true>) || ...);
}
(std::make_integer_sequence<int, Field::rank>{});

/// Functors of different types, as a kernel can copy them.
template <class F>
struct OneFunctor {
  F functor;
};
template <class... F>
struct FunctorSet : OneFunctor<F>... {
  template <class G>
  KOKKOS_FUNCTION const G& of() const {
    return static_cast<const OneFunctor<G>&>(*this).functor;
  }
};

/// Calls the functors of dimension D for the points outside of it.
template <class Field, int D, bool Adjoint, class... F>
struct CustomKernel {
  Field field;
  FunctorSet<F...> functors;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    OutsidePoint<Field::rank> at{{static_cast<int>(i)...}, {}, D, false};
    for (int d = 0; d < Field::rank; ++d) at.global[d] = field.begin(d) + at.index[d];
    at.high = at.global[D] >= field.global_extent(D);
    if constexpr (is_custom_v<Field, D, false>)
      if (!at.high) call<false>(at, field(i...));
    if constexpr (is_custom_v<Field, D, true>)
      if (at.high) call<true>(at, field(i...));
  }

 private:
  template <bool High, class Value>
  KOKKOS_FUNCTION void call(const OutsidePoint<Field::rank>& at, Value& value) const {
    using Side = custom_at<Field, D, High>;
    if constexpr (Adjoint) {
      const Value cotangent = value;
      value                 = Value(0);
      functors.template of<typename Side::adjoint>()(field, at, cotangent);
    } else {
      value = functors.template of<typename Side::functor>()(field, at);
    }
  }
};

/// The points outside of dimension D at its Custom ends, corners included, except those that are
/// outside of a lower Custom dimension.
template <int D, class Field>
RegionOf<Field> custom_region(const Field& field) {
  Box<Field::rank> rest;
  const auto first_inside = [&](int d) { return -field.begin(d); };
  const auto last_inside  = [&](int d) { return field.global_extent(d) - field.begin(d); };
  const auto limits       = [&](int d, bool low, bool high) {
    const index_t first = -Field::halo_lo(d), last = field.extent(d) + Field::halo_hi(d);
    rest.begin[d] = low && first < first_inside(d) ? first_inside(d) : first;
    rest.end[d]   = high && last > last_inside(d) ? last_inside(d) : last;
  };
  [&]<int... E>(std::integer_sequence<int, E...>) {
    (limits(E, E < D && is_custom_v<Field, E, false>, E < D && is_custom_v<Field, E, true>), ...);
  }
  (std::make_integer_sequence<int, Field::rank>{});
  RegionOf<Field> region;
  const auto add = [&](const Box<Field::rank>& box) {
    if (box.cells() > 0) region.boxes[region.count++] = box;
  };
  auto low = rest, high = rest;
  if (low.end[D] > first_inside(D)) low.end[D] = first_inside(D);
  if (high.begin[D] < last_inside(D)) high.begin[D] = last_inside(D);
  if (is_custom_v<Field, D, false>) add(low);
  if (is_custom_v<Field, D, true>) add(high);
  return region;
}

template <bool Adjoint, class Field, int D, bool High, class... F>
constexpr void check_side() {
  if constexpr (is_custom_v<Field, D, High>) {
    using Side = custom_at<Field, D, High>;
    static_assert(
        !Adjoint || !std::is_void_v<typename Side::adjoint>,
        "a Custom boundary without an adjoint functor has no pullback: Custom<F, Adjoint>");
    static_assert(
        is_among_v<std::conditional_t<Adjoint, typename Side::adjoint, typename Side::functor>,
                   F...>,
        "with takes a functor of each type that the fields' Custom boundaries name");
  }
}

template <bool Adjoint, int D, class Space, class Field, class... F>
void run_custom_dim(const Space& space, const FunctorSet<F...>& functors, const Field& field) {
  check_side<Adjoint, Field, D, false, F...>();
  check_side<Adjoint, Field, D, true, F...>();
  if constexpr (is_custom_v<Field, D, false> || is_custom_v<Field, D, true>)
    parallel_for("shard::custom_boundary", space, custom_region<D>(field),
                 CustomKernel<Field, D, Adjoint, F...>{field, functors});
}

/// Runs a field's Custom boundaries, those of the highest dimension first; in the adjoint last.
template <bool Adjoint, class Space, class Field, class... F>
void run_custom(const Space& space, const FunctorSet<F...>& functors, const Field& field) {
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (run_custom_dim < Adjoint, Adjoint ? D : Field::rank - 1 - D > (space, functors, field), ...);
  }
  (std::make_integer_sequence<int, Field::rank>{});
}

/// What a Pending runs when its halos are filled.
struct AfterExchange {
  AfterExchange()                                = default;
  AfterExchange(const AfterExchange&)            = delete;
  AfterExchange& operator=(const AfterExchange&) = delete;
  virtual ~AfterExchange()                       = default;
  virtual void run()                             = 0;
};

template <class Space, class Functors, class... Fields>
struct CustomAfterExchange final : AfterExchange {
  CustomAfterExchange(const Space& s, const Functors& f, const StoredFields<Fields>&... list)
      : space(s), functors(f), fields(list...) {}
  void run() override {
    const auto each = [&](const auto& field) { run_custom<false>(space, functors, field); };
    std::apply([&](const auto&... f) { each_field(each, f...); }, fields);
  }
  Space space;
  Functors functors;
  std::tuple<StoredFields<Fields>...> fields;
};

}  // namespace impl

/// An Exchange and the functors of its fields' Custom boundaries: see Exchange::with.
template <FieldOrSet... Fields, class... F>
class ExchangeWith<Exchange<Fields...>, F...> {
 public:
  /// For Exchange::with.
  ExchangeWith(const Exchange<Fields...>& halos, const F&... functors)
      : halos_(halos), functors_{{functors}...} {}

  /// Fills the halos, then the points outside of Custom dimensions.
  template <class Space>
  void operator()(const Space& space) const {
    start(space).finish();
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  void operator()(const Space& space, const Fields&... others) const {
    start(space, others...).finish();
  }
  /// Starts; `finish` of the returned Pending runs the functors too.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space) const {
    return std::apply([&](const auto&... f) { return start_with(space, f...); }, halos_.fields_);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start(const Space& space, const Fields&... others) const {
    return start_with(space, others...);
  }
  /// The same exchange for other fields of the same geometry: see Exchange::of.
  [[nodiscard]] ExchangeWith of(const Fields&... others) const {
    ExchangeWith made = *this;
    made.halos_       = halos_.of(others...);
    return made;
  }
  /// For the library's own use: as Exchange::require_one_of.
  void require_one_of(const char* function, const auto& field) const {
    halos_.require_one_of(function, field);
  }
  /// The transpose: runs the adjoint functors, then the exchange's adjoint.
  template <class Space>
  void adjoint(const Space& space) const {
    start_adjoint(space).finish();
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  void adjoint(const Space& space, const Fields&... others) const {
    start_adjoint(space, others...).finish();
  }
  /// Runs the adjoint functors and starts the exchange's adjoint.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space) const {
    return std::apply([&](const auto&... f) { return start_adjoint_of(space, f...); },
                      halos_.fields_);
  }
  /// The same for other fields of the same geometry.
  template <class Space>
  [[nodiscard]] Pending<Space> start_adjoint(const Space& space, const Fields&... others) const {
    static_cast<void>(halos_.plan_for(others...));  // throws before the functors run
    return start_adjoint_of(space, others...);
  }

 private:
  template <class Space>
  Pending<Space> start_with(const Space& space, const auto&... fields) const {
    using After  = impl::CustomAfterExchange<Space, impl::FunctorSet<F...>, Fields...>;
    auto pending = halos_.start_forward(space, fields...);
    pending.then(std::make_unique<After>(space, functors_, impl::stored(fields)...));
    return pending;
  }
  template <class Space>
  Pending<Space> start_adjoint_of(const Space& space, const auto&... fields) const {
    impl::each_field([&](const auto& field) { impl::run_custom<true>(space, functors_, field); },
                     fields...);
    return halos_.start_adjoint_of(space, fields...);
  }

  Exchange<Fields...> halos_;
  impl::FunctorSet<F...> functors_;
};

}  // namespace shard

#endif
