// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_GRAPH_RECORDS_HPP
#define SHARD_AUTODIFF_IMPL_GRAPH_RECORDS_HPP

#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/impl/tape_records.hpp"
#include "shard/autodiff/operation.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

/// A value of an OperationGraph. Its tangent and its adjoints are made when they are first needed.
template <class V>
class GraphSlot {
 public:
  explicit GraphSlot(const V& v) : value(v) {}
  const V& tangent() {
    if (!tangent_) tangent_ = like_value(value, "shard::tangent");
    return *tangent_;
  }
  const auto& adjoint() { return adjoint_in(adjoint_, value); }
  /// Another adjoint, for contributions to be added to the first.
  const auto& part() { return adjoint_in(part_, value); }

  const V value;
  bool filled = false;  ///< the adjoint has a value

 private:
  std::optional<V> tangent_;
  std::shared_ptr<void> adjoint_, part_;
};
/// What the function of an OperationGraph has in the place of a value.
template <class V>
struct GraphValue {
  std::shared_ptr<GraphSlot<V>> slot;
};

/// Whether an operation's pushforward takes its inputs too (a concept: see PullsBackWith).
template <class Op, class Space, class... Arguments>
concept PushesForwardWith = requires(const Op& op, const Space& space,
                                     const Arguments&... arguments) {
  op.pushforward(space, arguments...);
};

/// Whether a mark says nothing: that of an operation without one, or of a chain of such.
template <class Mark>
inline constexpr bool is_no_mark_v = std::is_same_v<Mark, NoMark>;
template <class... Marks>
inline constexpr bool is_no_mark_v<std::tuple<Marks...>> = (is_no_mark_v<Marks> && ...);

/// One operation of a graph.
template <class Space>
struct GraphRecord {
  GraphRecord()                              = default;
  GraphRecord(const GraphRecord&)            = delete;
  GraphRecord& operator=(const GraphRecord&) = delete;
  virtual ~GraphRecord()                     = default;

  virtual void apply(const Space& space)       = 0;
  virtual void pushforward(const Space& space) = 0;
  virtual void pullback(const Space& space)    = 0;
  /// The adjoint of its output has no value.
  virtual void forget() = 0;
  /// Identifies the operation's memory; null if it has none.
  virtual const void* memory() const = 0;
};

template <class Space, class Op, class Y, class... X>
class OperationRecord final : public GraphRecord<Space> {
 public:
  OperationRecord(const Op& op, const GraphValue<Y>& y, const GraphValue<X>&... x)
      : op_(op), y_(y.slot), x_(x.slot...) {}

  const void* memory() const override { return remembers<Op>() ? &type_tag<Op> : nullptr; }
  void forget() override { y_->filled = false; }
  void apply(const Space& space) override {
    std::apply([&](const auto&... x) { op_.apply(space, y_->value, x->value...); }, x_);
  }
  void pushforward(const Space& space) override {
    std::apply(
        [&](const auto&... x) {
          if constexpr (PushesForwardWith<Op, Space, Y, X..., X...>)
            op_.pushforward(space, y_->tangent(), x->tangent()..., x->value...);
          else
            op_.pushforward(space, y_->tangent(), x->tangent()...);
        },
        x_);
  }
  void pullback(const Space& space) override {
    if (y_->filled) pull<0>(space);
  }

 private:
  /// Decides for each x which memory its adjoint is written to; then pulls back.
  template <std::size_t I, class... DX>
  void pull(const Space& space, const DX&... dx) {
    if constexpr (I == sizeof...(X)) {
      call(space, std::index_sequence_for<X...>{}, dx...);
    } else {
      auto& x = *std::get<I>(x_);
      if (!x.filled) {
        x.filled = true;
        pull<I + 1>(space, dx..., x.adjoint());
      } else {
        // an operation may have the same x several times
        const bool again = is_among(&x, std::make_index_sequence<I>{});
        const auto& part = again ? adjoint_in(own_[I], x.value) : x.part();
        pull<I + 1>(space, dx..., part);
        add_value(space, x.adjoint(), part);
      }
    }
  }
  // not a lambda: g++ 12 can't capture dx there
  template <std::size_t... I, class... DX>
  void call(const Space& space, std::index_sequence<I...>, const DX&... dx) {
    if constexpr (PullsBackWith<Op, Space, DX..., typename CotangentOf<Y>::type, X...>)
      op_.pullback(space, dx..., y_->adjoint(), std::get<I>(x_)->value...);
    else
      op_.pullback(space, dx..., y_->adjoint());
  }
  template <std::size_t... I>
  bool is_among([[maybe_unused]] const void* slot, std::index_sequence<I...>) const {
    return ((std::get<I>(x_).get() == slot) || ...);
  }

  Op op_;
  std::shared_ptr<GraphSlot<Y>> y_;
  std::tuple<std::shared_ptr<GraphSlot<X>>...> x_;
  std::shared_ptr<void> own_[sizeof...(X)];
};

/// Records the operations of a graph.
template <class Space>
struct GraphRecorder {
  template <class Op, class... X>
  auto run(const Op& op, const GraphValue<X>&... x) {
    static_assert(is_no_mark_v<MarkOf<Op>>,
                  "the state of an operation in a graph mustn't change at each apply, as that of "
                  "Dropout does; run it on a tape");
    using Y = OutputOf<Op, X...>;
    const GraphValue<Y> y{std::make_shared<GraphSlot<Y>>(make_output(op, x.slot->value...))};
    auto record = std::make_unique<OperationRecord<Space, Op, Y, X...>>(op, y, x...);
    for (const auto& other : records)
      if (record->memory() != nullptr && record->memory() == other->memory())
        throw_argument("operation_graph",
                       {"an operation that remembers its last apply occurs twice; give it to a "
                        "tape, which applies it again where needed"});
    records.push_back(std::move(record));
    return y;
  }

  std::vector<std::unique_ptr<GraphRecord<Space>>> records;
};

/// A graph's value for each part of a tuple, or for the one value.
template <class V>
struct GraphValues {
  using type = std::tuple<GraphValue<V>>;
};
template <class... Parts>
struct GraphValues<std::tuple<Parts...>> {
  using type = std::tuple<GraphValue<Parts>...>;
};
template <class V>
using GraphValuesOf = typename GraphValues<V>::type;

template <class V>
GraphValuesOf<V> graph_values(const V& v) {
  const auto made = []<class P>(const P& part) {
    return GraphValue<P>{std::make_shared<GraphSlot<P>>(part)};
  };
  if constexpr (is_tuple_v<V>)
    return std::apply([&](const auto&... part) { return GraphValuesOf<V>(made(part)...); }, v);
  else
    return GraphValuesOf<V>(made(v));
}

/// What a function that returns one value or a tuple computes.
template <class Result>
struct GraphResult;
template <class V>
struct GraphResult<GraphValue<V>> {
  using type = V;
};
template <class... Parts>
struct GraphResult<std::tuple<GraphValue<Parts>...>> {
  using type = std::tuple<Parts...>;
};

template <class F, class Recorder, class Values>
auto call_with_values(const F& f, Recorder& recorder, const Values& values) {
  return std::apply([&](const auto&... value) { return f(recorder, value...); }, values);
}
template <class V>
std::tuple<GraphValue<V>> as_tuple(const GraphValue<V>& value) {
  return {value};
}
template <class... V>
std::tuple<GraphValue<V>...> as_tuple(const std::tuple<GraphValue<V>...>& values) {
  return values;
}
/// The value, or the tuple of values.
template <class V>
V value_of(const GraphValuesOf<V>& values) {
  return std::apply([](const auto&... value) { return V(value.slot->value...); }, values);
}

/// Calls use(slot, part) for each value of a graph and the part of v that belongs to it.
template <class Use, class Values, class V>
void for_slots(const Use& use, const Values& values, const V& v) {
  if constexpr (is_tuple_v<V>) {
    const auto each = [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(*std::get<I>(values).slot, std::get<I>(v)), ...);
    };
    each(std::make_index_sequence<std::tuple_size_v<V>>{});
  } else {
    use(*std::get<0>(values).slot, v);
  }
}

}  // namespace shard::impl

#endif
