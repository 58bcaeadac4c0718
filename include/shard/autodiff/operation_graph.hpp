// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_OPERATION_GRAPH_HPP
#define SHARD_AUTODIFF_OPERATION_GRAPH_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shard/autodiff/impl/graph_records.hpp"
#include "shard/autodiff/operation.hpp"

namespace shard {

/// The marks of the operations of an OperationGraph that have one.
struct GraphMark {
  std::vector<std::shared_ptr<const void>> marks;  ///< each has its operation's type
  bool again = false;                              ///< the next apply is a repetition
};

/// An operation that is written as a function of other operations. The function is called once, by
/// the constructor. It gets an object with the tape's function `run`, and the input (the parts of a
/// tuple one by one). It returns one value, or a std::tuple of values:
///
///   const auto step = shard::operation_graph(state, [&](auto& graph, const auto& h, const auto& u)
///   {
///     const auto flux = graph.run(product, graph.run(mean, h), u);
///     return std::tuple(graph.run(minus, h, graph.run(divergence, flux)), u);
///   });
///   step.apply(space, next, state);
///   step.pushforward(space, tangent, direction);  // about the x of the last apply
///   step.pullback(space, gradient, cotangent);    // the same
///
/// The graph allocates its values once and keeps them, so its pullback recomputes nothing: a tape
/// whose loop steps by a graph needs the memory of one step, and that of the stored states. Only an
/// operation whose state another apply has overwritten is applied again: one that occurs twice.
/// Copies share the values. Made by `operation_graph`.
template <class Space, class X, class Y>
class OperationGraph {
 public:
  static constexpr bool remembers = true;  ///< all values of the last apply
  /// Number of applies.
  std::uint64_t applied() const { return graph_->applied; }

  /// Calls f for an input like x. Collective if the `output` of an operation is. Throws
  /// ArgumentError if an operation's output overlaps another value.
  template <class F>
  OperationGraph(const X& x, const F& f) : graph_(std::make_shared<Content>(x, f)) {}

  /// A new y. Collective if one of its parts is a Partial sum.
  Y output(const X&) const { return impl::like_value(graph_->y, "shard::output"); }
  /// Whether one of the operations has parameters.
  bool has_parameters() const {
    bool has = false;
    for (const auto& record : graph_->recorder.records) has = has || record->has_parameters();
    return has;
  }
  /// The operations' marks.
  GraphMark mark() const {
    GraphMark all;
    for (const auto& record : graph_->recorder.records)
      if (auto mark = record->mark()) all.marks.push_back(std::move(mark));
    return all;
  }
  /// Sets them.
  void set_mark(const GraphMark& mark) const {
    auto next = mark.marks.begin();
    for (const auto& record : graph_->recorder.records)
      if (next != mark.marks.end() && record->has_mark())
        record->set_mark((next++)->get(), mark.again);
  }

  /// y = f(x), for an x like that of the constructor. Local or collective as the operations.
  void apply(const Space& space, const Y& y, const X& x) const {
    ++graph_->applied;
    impl::copy_value(space, graph_->x, x);
    for (const auto& record : graph_->recorder.records) record->apply(space);
    impl::copy_value(space, y, graph_->y);
  }
  /// ty = J tx at the x of the last apply. Local or collective as the operations.
  void pushforward(const Space& space, const Y& ty, const X& tx) const {
    Content& g = *graph_;
    impl::copy_value(space, impl::tangent(g.inputs.data(), g.x), tx);
    for (const auto& record : g.recorder.records) record->pushforward(space);
    impl::copy_value(space, ty, impl::tangent(g.outputs.data(), g.y));
  }
  /// dx = J' dy at the x of the last apply. Local or collective as the operations.
  void pullback(const Space& space, const typename impl::CotangentOf<X>::type& dx,
                const typename impl::CotangentOf<Y>::type& dy) const {
    Content& g    = *graph_;
    auto& records = g.recorder.records;
    g.recorder.table.forget();
    impl::set_adjoint(space, g.outputs.data(), g.y, dy);
    for (auto record = records.rbegin(); record != records.rend(); ++record)
      (*record)->pullback(space);
    impl::copy_value(space, dx, impl::filled_adjoint(space, g.inputs.data(), g.x));
  }

  /// Number of operations.
  index_t size() const { return static_cast<index_t>(graph_->recorder.records.size()); }

 private:
  struct Content {
    template <class F>
    Content(const X& like, const F& f) : x(impl::like_value(like, "shard::graph")) {
      impl::append_input(recorder.table, inputs, x);
      y = impl::traced(f, recorder, x);
      impl::append_input(recorder.table, outputs, y);
    }

    X x;
    Y y;
    impl::GraphRecorder<Space> recorder;
    std::vector<impl::ValueSlot*> inputs, outputs;
    std::uint64_t applied = 0;
  };
  std::shared_ptr<Content> graph_;
};

/// The graph of f for inputs like x, on `Space`. Collective if the `output` of an operation is.
template <class Space = Kokkos::DefaultExecutionSpace, class X, class F>
auto operation_graph(const X& x, const F& f) {
  static_assert(impl::is_traced_v<F, Space, X>,
                "the function of operation_graph takes the graph as auto& and each part of the "
                "input as const auto&: it is called with marks in the place of fields");
  using Y = decltype(impl::traced(f, std::declval<impl::GraphRecorder<Space>&>(), x));
  return OperationGraph<Space, X, Y>(x, f);
}

}  // namespace shard

#endif
