// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_GRAPH_RECORDS_HPP
#define SHARD_AUTODIFF_IMPL_GRAPH_RECORDS_HPP

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/impl/tape_records.hpp"
#include "shard/autodiff/operation.hpp"

namespace shard::impl {

/// What the function of an OperationGraph has in the place of a value.
template <class V>
struct GraphValue {
  V value;
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
struct GraphRecord : TapeRecord<Space> {
  virtual void pushforward(const Space& space) = 0;
  virtual bool has_parameters() const          = 0;
  virtual bool has_mark() const                = 0;
  /// The operation's mark; null if it has none.
  virtual std::shared_ptr<const void> mark() const             = 0;
  virtual void set_mark(const void* mark, bool is_again) const = 0;
};

template <class Space, class Op, class Y, class... X>
class OperationRecord final : public AppliedRecord<GraphRecord<Space>, Space, Op, Y, X...> {
 public:
  using AppliedRecord<GraphRecord<Space>, Space, Op, Y, X...>::AppliedRecord;

  bool has_parameters() const override { return impl::has_parameters(this->op_); }
  bool has_mark() const override { return !is_no_mark_v<Mark>; }
  std::shared_ptr<const void> mark() const override {
    if constexpr (is_no_mark_v<Mark>)
      return nullptr;
    else
      return std::make_shared<const Mark>(mark_of(this->op_));
  }
  void set_mark([[maybe_unused]] const void* mark, [[maybe_unused]] bool is_again) const override {
    if constexpr (!is_no_mark_v<Mark>) {
      const Mark& saved = *static_cast<const Mark*>(mark);
      this->op_.set_mark(is_again ? as_again(saved) : saved);
    }
  }
  void pushforward(const Space& space) override {
    this->restore(space);
    const Y ty = tangent(this->outputs.data(), this->y_);
    push(space, std::index_sequence_for<X...>{}, ty);
  }

 private:
  using Mark = MarkOf<Op>;
  template <std::size_t... I>
  void push(const Space& space, std::index_sequence<I...>, const Y& ty) {
    ValueSlot* const* const slots = this->inputs.slots.data();
    if constexpr (PushesForwardWith<Op, Space, Y, X..., X...>)
      this->op_.pushforward(space, ty,
                            tangent(slots + this->first_slot(I), std::get<I>(this->x_))...,
                            std::get<I>(this->x_)...);
    else
      this->op_.pushforward(space, ty,
                            tangent(slots + this->first_slot(I), std::get<I>(this->x_))...);
  }
};

/// Records the operations of a graph.
template <class Space>
struct GraphRecorder {
  template <class Op, class... X>
  auto run(const Op& op, const GraphValue<X>&... x) {
    using Y = OutputOf<Op, X...>;
    const GraphValue<Y> y{make_output(op, x.value...)};
    records.push_back(
        std::make_unique<OperationRecord<Space, Op, Y, X...>>(table, op, y.value, x.value...));
    return y;
  }

  ValueTable table{"operation_graph"};
  std::vector<std::unique_ptr<GraphRecord<Space>>> records;
};

/// A graph's value for each part of a tuple, or for the one value.
template <class V>
auto graph_values(const V& v) {
  const auto made = []<class P>(const P& part) { return GraphValue<P>{part}; };
  if constexpr (is_tuple_v<V>)
    return std::apply([&](const auto&... part) { return std::tuple(made(part)...); }, v);
  else
    return std::tuple(made(v));
}

/// What a function that returns one value or a tuple has computed.
template <class V>
V value_of(const GraphValue<V>& v) {
  return v.value;
}
template <class... Parts>
std::tuple<Parts...> value_of(const std::tuple<GraphValue<Parts>...>& v) {
  return std::apply([](const auto&... part) { return std::tuple<Parts...>(part.value...); }, v);
}

/// Calls f for a graph's recorder and an input.
template <class F, class Recorder, class X>
auto traced(const F& f, Recorder& recorder, const X& x) {
  return value_of(
      std::apply([&](const auto&... value) { return f(recorder, value...); }, graph_values(x)));
}

/// Whether f can be called so. A function with the fields' types in place of `auto` can't.
template <class F, class Space, class X>
inline constexpr bool is_traced_v = []<class... Value>(const std::tuple<Value...>*) {
  return std::is_invocable_v<const F&, GraphRecorder<Space>&, const Value&...>;
}(static_cast<decltype(graph_values(std::declval<const X&>()))*>(nullptr));

}  // namespace shard::impl

#endif
