// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_TAPE_RECORDS_HPP
#define SHARD_AUTODIFF_IMPL_TAPE_RECORDS_HPP

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/operation.hpp"

namespace shard::impl {

/// Identifies a type at run time, without RTTI.
template <class T>
inline constexpr char type_tag = 0;

/// The adjoint of a value on the tape.
struct AdjointSlot {
  const void* identity = nullptr;
  const void* tag      = nullptr;  ///< of the value's type
  bool wanted          = false;    ///< it depends on a differentiated input
  bool filled          = false;    ///< it has a value
  std::shared_ptr<void> adjoint;   ///< a Value, made when it is first needed
  std::shared_ptr<void> part;      ///< another, for contributions to be added to the first
};

/// The adjoints of all values of a tape.
class AdjointTable {
 public:
  AdjointSlot* find(const void* identity);
  /// The value's slot, a new one if there is none. Throws ArgumentError if the same memory is on
  /// the tape with another type.
  AdjointSlot& slot(const void* identity, const void* tag);
  void clear() { slots_.clear(); }
  /// Marks all as not filled.
  void forget();

 private:
  std::vector<std::unique_ptr<AdjointSlot>> slots_;
};

template <class Value>
AdjointSlot& slot_of(AdjointTable& table, const Value& v) {
  return table.slot(identity_of(v), &type_tag<Value>);
}

/// The adjoint in one of a slot's two places, made if there is none.
template <class Value>
const typename CotangentOf<Value>::type& adjoint_in(std::shared_ptr<void>& place,
                                                    const Value& like) {
  using Adjoint = typename CotangentOf<Value>::type;
  if (!place) place = std::make_shared<Adjoint>(cotangent_like(like, "shard::adjoint"));
  return *static_cast<const Adjoint*>(place.get());
}

/// A record of one applied operation.
template <class Space>
struct TapeRecord {
  TapeRecord()                             = default;
  TapeRecord(const TapeRecord&)            = delete;
  TapeRecord& operator=(const TapeRecord&) = delete;
  virtual ~TapeRecord()                    = default;
  /// Adds to the adjoints of its inputs, if that of its output is filled. Returns the number of
  /// recomputed applies.
  virtual index_t pullback(const Space& space, AdjointTable& table, bool memory_is_fresh) = 0;
  /// Identifies the operation's memory; null if it has none.
  virtual const void* memory() const = 0;
};

/// Whether an operation's pullback takes its inputs too. A concept, because nvcc 13 evaluates the
/// same expression within a function wrongly.
template <class Op, class Space, class... Arguments>
concept PullsBackWith = requires(const Op& op, const Space& space, const Arguments&... arguments) {
  op.pullback(space, arguments...);
};

/// Whether one of the first I values of a tuple has the identity of the I-th.
template <std::size_t I, class... X>
bool is_repeated(const std::tuple<X...>& x) {
  const auto among = [&]<std::size_t... J>(std::index_sequence<J...>) {
    return ((identity_of(std::get<J>(x)) == identity_of(std::get<I>(x))) || ...);
  };
  return among(std::make_index_sequence<I>{});
}

/// An operation with its inputs and output.
template <class Space, class Op, class Y, class... X>
struct AppliedRecord final : TapeRecord<Space> {
  /// Before the operation is applied.
  AppliedRecord(const Op& op, const Y& y, const X&... x)
      : op_(op), y_(y), x_(x...), mark_(mark_of(op)) {}

  const void* memory() const override { return remembers<Op>() ? &type_tag<Op> : nullptr; }

  index_t pullback(const Space& space, AdjointTable& table, bool memory_is_fresh) override {
    AdjointSlot* const given = table.find(identity_of(y_));
    if (given == nullptr || !given->filled) return 0;
    index_t again = 0;
    if (remembers<Op>() && !memory_is_fresh) {
      std::apply([&](const auto&... x) { apply_again(op_, space, mark_, y_, x...); }, x_);
      again = 1;
    }
    pull<0>(space, table, adjoint_in(given->adjoint, y_));
    return again;
  }

 private:
  /// Decides for each x whether its adjoint is wanted; then pulls back.
  template <std::size_t I, class DY, class... DX>
  void pull(const Space& space, AdjointTable& table, const DY& dy, const DX&... dx) {
    if constexpr (I == sizeof...(X)) {
      call(space, std::index_sequence_for<X...>{}, dy, dx...);
    } else {
      const auto& x     = std::get<I>(x_);
      AdjointSlot& slot = slot_of(table, x);
      if (!slot.wanted) {
        if constexpr (takes_not_wanted())
          pull<I + 1>(space, table, dy, dx..., not_wanted);
        else
          pull<I + 1>(space, table, dy, dx..., adjoint_in(slot.part, x));
      } else if (!slot.filled) {
        slot.filled = true;
        pull<I + 1>(space, table, dy, dx..., adjoint_in(slot.adjoint, x));
      } else {
        // an operation may have the same x several times
        const auto& part = adjoint_in(is_repeated<I>(x_) ? own_[I] : slot.part, x);
        pull<I + 1>(space, table, dy, dx..., part);
        add_value(space, adjoint_in(slot.adjoint, x), part);
      }
    }
  }
  // not a lambda: g++ 12 can't capture dx there
  template <std::size_t... I, class DY, class... DX>
  void call(const Space& space, std::index_sequence<I...>, const DY& dy, const DX&... dx) {
    if constexpr (PullsBackWith<Op, Space, DX..., DY, X...>)
      op_.pullback(space, dx..., dy, std::get<I>(x_)...);
    else
      op_.pullback(space, dx..., dy);
  }
  /// Whether the operation's pullback accepts not_wanted.
  static constexpr bool takes_not_wanted() {
    if constexpr (requires { Op::takes_not_wanted; })
      return Op::takes_not_wanted;
    else
      return false;
  }

  Op op_;
  Y y_;
  std::tuple<X...> x_;
  std::shared_ptr<void> own_[sizeof...(X)];  ///< adjoints of repeated inputs
  [[no_unique_address]] MarkOf<Op> mark_;
};

}  // namespace shard::impl

#endif
