// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_FIELD_SET_HPP
#define SHARD_EXCHANGE_FIELD_SET_HPP

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/view/sharded_view.hpp"

namespace shard {

/// A contiguous range of fields of one type, whose number is known when the program runs:
/// `std::vector`, `std::array` or `std::span`. May be empty. The fields may differ in their extents
/// and partitions. Exchanges, `steps_per_exchange`, `mark_written`, `writes`, `Coupling` and
/// `Checkpoint::add` take sets: `exchange(space, t, tracers)`.
template <class Set>
concept FieldSet = !AnyShardedView<Set> && requires(const Set& set) {
  set.size();
  requires AnyShardedView<std::remove_cvref_t<decltype(*set.data())>>;
};

/// A field or a set of fields.
template <class T>
concept FieldOrSet = AnyShardedView<T> || FieldSet<T>;

/// The two components of a vector field over connected tiles: a set of two fields, whose components
/// an exchange turns from the axes of one tile to those of another. See vector_of and lengths_of.
template <AnyShardedView Field, bool Signed>
class Components {
 public:
  static constexpr bool is_signed = Signed;  ///< whether turning may change signs
  /// Of the components along x and along y.
  Components(const Field& x, const Field& y) : fields_{x, y} {}
  /// The component along x, then that along y.
  const Field* data() const { return fields_.data(); }
  /// 2
  static constexpr std::size_t size() { return 2; }

 private:
  std::array<Field, 2> fields_;
};

/// A vector over connected tiles (BlockGrid), by its components along the tiles' x and y axes:
/// `exchange(space, h, vector_of(u, v))`. Both are at the centres of cells, or at corners, or `u`
/// is on the faces across x and `v` on those across y, or the other way round.
template <AnyShardedView Field>
Components<Field, true> vector_of(const Field& u, const Field& v) {
  return {u, v};
}
/// Two lengths along the tiles' x and y axes, such as the extents of cells: turning exchanges them
/// and keeps their signs.
template <AnyShardedView Field>
Components<Field, false> lengths_of(const Field& dx, const Field& dy) {
  return {dx, dy};
}

namespace impl {

template <class T>
struct FieldOfImpl {
  using type = T;
};
template <FieldSet Set>
struct FieldOfImpl<Set> {
  using type = std::remove_cvref_t<decltype(*std::declval<const Set&>().data())>;
};
/// The type of a field, or of the fields of a set.
template <FieldOrSet T>
using FieldOf = typename FieldOfImpl<T>::type;

/// How an object keeps a field or a set: a set as a vector of its own.
template <FieldOrSet T>
using StoredFields = std::conditional_t<FieldSet<T>, std::vector<FieldOf<T>>, T>;

template <FieldOrSet T>
StoredFields<T> stored(const T& fields) {
  if constexpr (FieldSet<T>)
    return StoredFields<T>(fields.data(), fields.data() + fields.size());
  else
    return fields;
}

/// Calls use(field) for each field, those of a set one after the other.
template <class Use, FieldOrSet... Fields>
void each_field(const Use& use, const Fields&... fields) {
  const auto each = [&](const auto& one) {
    if constexpr (FieldSet<std::remove_cvref_t<decltype(one)>>) {
      const std::size_t n = one.size();
      for (std::size_t f = 0; f < n; ++f) use(one.data()[f]);
    } else {
      use(one);
    }
  };
  (each(fields), ...);
}

template <class Value>
inline constexpr bool is_tuple_v = false;
template <class... Parts>
inline constexpr bool is_tuple_v<std::tuple<Parts...>> = true;

/// Calls use(part of a, part of b...) for each part.
template <class Use, class First, class... Rest>
void for_parts(const Use& use, const First& first, const Rest&... rest) {
  if constexpr (is_tuple_v<First>) {
    const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      for_parts(use, std::get<I>(first), std::get<I>(rest)...);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (one(std::integral_constant<std::size_t, I>{}), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<First>>{});
  } else if constexpr (FieldSet<First>) {
    for (std::size_t f = 0; f < first.size(); ++f) use(first.data()[f], rest.data()[f]...);
  } else {
    use(first, rest...);
  }
}

template <FieldOrSet... Fields>
std::size_t field_count(const Fields&... fields) {
  std::size_t n = 0;
  each_field([&](const auto&) { ++n; }, fields...);
  return n;
}

/// One value for each field, in an array: on the stack if there is no set. Otherwise the thread's
/// previous array is used again, so that repeated calls don't allocate.
template <class Value, FieldOrSet... Fields>
class PerField {
  static constexpr bool fixed = (AnyShardedView<Fields> && ...);

 public:
  template <class Of>
  explicit PerField(const Of& of, const Fields&... fields) {
    if constexpr (fixed) {
      std::size_t n = 0;
      ((values_[n++] = of(fields)), ...);
    } else {
      values_.swap(spare());
      values_.clear();
      each_field([&](const auto& field) { values_.push_back(of(field)); }, fields...);
    }
  }
  PerField(const PerField&)            = delete;
  PerField& operator=(const PerField&) = delete;
  ~PerField() {
    if constexpr (!fixed) values_.swap(spare());
  }

  const Value* data() const { return values_.data(); }
  Value* data() { return values_.data(); }
  int size() const { return static_cast<int>(values_.size()); }

 private:
  static std::vector<Value>& spare() {
    static thread_local std::vector<Value> values;
    return values;
  }

  std::conditional_t<fixed, std::array<Value, sizeof...(Fields)>, std::vector<Value>> values_;
};

}  // namespace impl

}  // namespace shard

#endif
