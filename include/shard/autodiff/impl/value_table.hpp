// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_VALUE_TABLE_HPP
#define SHARD_AUTODIFF_IMPL_VALUE_TABLE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/impl/value.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

/// Identifies a type at run time, without RTTI.
template <class T>
inline constexpr char type_tag = 0;

/// What identifies a part of a value: its type, and its memory with halos. Strides are in values.
struct PartMemory {
  const void* type         = nullptr;  ///< its type_tag
  const void* data         = nullptr;
  const void* state        = nullptr;  ///< of a field without any memory
  const std::string* label = nullptr;  ///< of a field; for messages
  std::uint64_t place      = 0;        ///< hash of a field's place in its global domain
  std::size_t bytes        = 0;        ///< of one value
  std::size_t rank         = 0;
  std::array<index_t, 8> extents{}, strides{};

  bool operator==(const PartMemory& other) const;
  /// Whether the memory is the same, whatever the type.
  bool is_memory_of(const PartMemory& other) const;
  bool is_empty() const;
  /// The addresses before which and from which on it has no values.
  std::pair<std::uintptr_t, std::uintptr_t> bounds() const;
};

/// Whether two parts have an address in common. (Those of two columns of one array don't.)
bool share_memory(const PartMemory& a, const PartMemory& b);

/// A part of a value on a tape or in a graph. Its tangent and adjoints are made when they are first
/// needed.
struct ValueSlot {
  const PartMemory* memory = nullptr;
  std::shared_ptr<const void> value;  ///< the part, which is kept alive
  bool wanted = false;                ///< it depends on a differentiated input or on parameters
  bool filled = false;                ///< the adjoint has a value
  std::shared_ptr<void> adjoint;
  std::shared_ptr<void> extra;  ///< another adjoint, for contributions to be added to the first
  std::shared_ptr<void> tangent;
};

/// The parts of all values of a tape or a graph, by their memory.
class ValueTable {
 public:
  /// Messages name `function`.
  explicit ValueTable(const char* function);
  ValueTable(ValueTable&&) noexcept;
  ValueTable& operator=(ValueTable&&) noexcept;
  ~ValueTable();

  /// Null if there is none.
  ValueSlot* find(const PartMemory& memory) const;
  /// A slot for a part that has none. Throws ArgumentError if its memory overlaps that of another:
  /// an operation's output may be a part of its `inputs`' memory, since its pullback knows that.
  ValueSlot& add(const PartMemory& memory, std::shared_ptr<const void> value,
                 const std::vector<ValueSlot*>& inputs);
  /// Throws ArgumentError: the output of an operation has a slot.
  [[noreturn]] void throw_not_new(const PartMemory& memory) const;
  /// Marks all as not filled.
  void forget();
  void clear();

 private:
  struct Tables;
  const char* function_;
  std::unique_ptr<Tables> tables_;
};

template <class Part>
PartMemory part_memory(const Part& p) {
  const auto& view = memory_of(p);
  using View       = std::remove_cvref_t<decltype(view)>;
  PartMemory m;
  m.type  = &type_tag<Part>;
  m.data  = view.data();
  m.bytes = sizeof(typename View::value_type);
  m.rank  = View::rank();
  for (std::size_t d = 0; d < m.rank; ++d) {
    m.extents[d] = static_cast<index_t>(view.extent(d));
    m.strides[d] = static_cast<index_t>(view.stride(d));
  }
  if constexpr (is_sharded_view_v<Part>) {
    m.label = &p.label();
    // parts of one array may have one address where this rank has no points
    if (m.is_empty()) m.place = p.any_geometry().part;
    for (int d = 0; d < Part::rank; ++d) {
      const index_t place[] = {p.begin(d), p.global_extent(d)};
      m.place               = hash_bytes(place, sizeof(place), m.place);
    }
    if (m.data == nullptr) m.state = &p.any_geometry();
  }
  return m;
}

/// Appends the slots of an input's parts. Those that the table doesn't know are new inputs.
template <class Value>
void append_input(ValueTable& table, std::vector<ValueSlot*>& slots, const Value& v) {
  for_parts(
      [&]<class Part>(const Part& p) {
        const PartMemory memory = part_memory(p);
        ValueSlot* slot         = table.find(memory);
        if (slot == nullptr) {
          slot         = &table.add(memory, std::make_shared<const Part>(p), {});
          slot->wanted = true;
        }
        slots.push_back(slot);
      },
      v);
}
/// The same for the output of an operation with these inputs. Throws ArgumentError if a part isn't
/// new.
template <class Value>
void append_output(ValueTable& table, std::vector<ValueSlot*>& slots, const Value& v,
                   const std::vector<ValueSlot*>& inputs) {
  for_parts(
      [&]<class Part>(const Part& p) {
        const PartMemory memory = part_memory(p);
        ValueSlot* slot         = table.find(memory);
        // other ranks may have points, so it isn't an error of this one
        if (slot != nullptr && !memory.is_empty()) table.throw_not_new(memory);
        if (slot == nullptr) slot = &table.add(memory, std::make_shared<const Part>(p), inputs);
        slots.push_back(slot);
      },
      v);
}
/// The slots of a value's parts; empty if the table doesn't know one of them.
template <class Value>
std::vector<ValueSlot*> slots_of(const ValueTable& table, const Value& v) {
  std::vector<ValueSlot*> slots;
  bool known = true;
  for_parts(
      [&](const auto& p) {
        slots.push_back(table.find(part_memory(p)));
        known = known && slots.back() != nullptr;
      },
      v);
  if (!known) slots.clear();
  return slots;
}

/// The adjoint at one of a slot's places, made if there is none.
template <class Part>
const typename CotangentOf<Part>::type& adjoint_in(std::shared_ptr<void>& place, const Part& like) {
  using Adjoint = typename CotangentOf<Part>::type;
  if (!place) place = std::make_shared<Adjoint>(cotangent_like(like, "shard::adjoint"));
  return *static_cast<const Adjoint*>(place.get());
}
template <class Part>
const Part& tangent_of(ValueSlot& slot, const Part& like) {
  if (!slot.tangent) slot.tangent = std::make_shared<Part>(like_value(like, "shard::tangent"));
  return *static_cast<const Part*>(slot.tangent.get());
}

template <class Value>
struct TangentOf {
  using type = Value;
};
/// A value whose parts are next(part) of each part of v, in order. `As<Value>::type` is its type.
template <template <class> class As, class Value, class Next>
typename As<Value>::type composed(const Value& v, Next& next) {
  using Result = typename As<Value>::type;
  if constexpr (is_tuple_v<Value>) {
    // braces, because they evaluate in order
    return std::apply([&](const auto&... p) { return Result{composed<As>(p, next)...}; }, v);
  } else if constexpr (FieldSet<Value>) {
    Result fields;
    for (const auto& p : v) fields.push_back(next(p));
    return fields;
  } else {
    return next(v);
  }
}

/// A value's tangent and its adjoint, from its slots.
template <class Value>
Value tangent(ValueSlot* const* slot, const Value& v) {
  const auto next = [&](const auto& p) { return tangent_of(**slot++, p); };
  return composed<TangentOf>(v, next);
}
template <class Value>
typename CotangentOf<Value>::type adjoint(ValueSlot* const* slot, const Value& v) {
  const auto next = [&](const auto& p) { return adjoint_in((*slot++)->adjoint, p); };
  return composed<CotangentOf>(v, next);
}
/// The adjoint, where parts without one are 0.
template <class Space, class Value>
typename CotangentOf<Value>::type filled_adjoint(const Space& space, ValueSlot* const* slot,
                                                 const Value& v) {
  const auto next = [&](const auto& p) {
    ValueSlot& s  = **slot++;
    const auto& a = adjoint_in(s.adjoint, p);
    if (!s.filled) zero_value(space, a);
    return a;
  };
  return composed<CotangentOf>(v, next);
}
/// Sets the adjoint of a value, in which a part may occur twice. None of its slots is filled.
template <class Space, class Value>
void set_adjoint(const Space& space, ValueSlot* const* slot, const Value& v,
                 const typename CotangentOf<Value>::type& to) {
  for_parts(
      [&](const auto& p, const auto& d) {
        ValueSlot& s = **slot++;
        copy_value(space, adjoint_in(s.filled ? s.extra : s.adjoint, p), d);
        if (s.filled) add_value(space, adjoint_in(s.adjoint, p), adjoint_in(s.extra, p));
        s.filled = true;
      },
      v, to);
}

inline bool any_wanted(const ValueSlot* const* first, const ValueSlot* const* last) {
  bool wanted = false;
  for (; first != last; ++first) wanted = wanted || (*first)->wanted;
  return wanted;
}
inline bool any_wanted(const std::vector<ValueSlot*>& slots) {
  return any_wanted(slots.data(), slots.data() + slots.size());
}
inline bool any_filled(const std::vector<ValueSlot*>& slots) {
  bool filled = false;
  for (const ValueSlot* slot : slots) filled = filled || slot->filled;
  return filled;
}

template <class Field, int... D>
constexpr bool has_halo_in(std::integer_sequence<int, D...>) {
  return ((Field::halo_lo(D) > 0 || Field::halo_hi(D) > 0 ||
           !std::is_void_v<typename Field::template shard_dim<D>::indices>) ||
          ...);
}
/// Whether a part of a value has a halo, as far as its type tells.
template <class Part>
constexpr bool may_have_halo() {
  if constexpr (is_sharded_view_v<Part>)
    return has_halo_in<Part>(std::make_integer_sequence<int, Part::rank>());
  else
    return false;
}

/// Where the pullback of an operation writes the adjoints of its inputs: to a slot's adjoint if
/// that has no value yet, else to other memory, which is then added.
class InputAdjoints {
 public:
  std::vector<ValueSlot*> slots;

  /// The adjoint of an x whose parts begin at slot `first`. Its halo is 0: an operation may write
  /// the owned points alone, and what an earlier one left in the halo would count again.
  template <class Space, class X>
  typename CotangentOf<X>::type to_write(const Space& space, std::size_t first, const X& x) {
    added_.resize(slots.size());
    own_.resize(slots.size());
    const auto next = [&]<class P>(const P& p) {
      const std::size_t k = first++;
      ValueSlot& s        = *slots[k];
      bool again          = false;  // an operation may have the same x several times
      for (std::size_t j = 0; j < k; ++j) again = again || slots[j] == &s;
      added_[k]                    = s.wanted && s.filled;
      std::shared_ptr<void>& place = s.wanted && !s.filled ? s.adjoint : again ? own_[k] : s.extra;
      s.filled                     = s.filled || s.wanted;
      const bool is_new            = place == nullptr;  // zeros
      const auto& adjoint          = adjoint_in(place, p);
      if (may_have_halo<P>() && !is_new) zero_value(space, adjoint);
      return adjoint;
    };
    return composed<CotangentOf>(x, next);
  }
  /// Adds what the pullback has written to other memory.
  template <class Space, class X>
  void add(const Space& space, std::size_t first, const X& x,
           const typename CotangentOf<X>::type& dx) {
    for_parts(
        [&](const auto& p, const auto& d) {
          const std::size_t k = first++;
          if (added_[k]) add_value(space, adjoint_in(slots[k]->adjoint, p), d);
        },
        x, dx);
  }

 private:
  std::vector<std::shared_ptr<void>> own_;
  std::vector<char> added_;
};

}  // namespace shard::impl

#endif
