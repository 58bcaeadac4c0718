// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_OPERATION_GRAPH_HPP
#define SHARD_AUTODIFF_OPERATION_GRAPH_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/impl/graph_records.hpp"
#include "shard/autodiff/operation.hpp"

namespace shard {

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
/// whose loop steps by a graph needs the memory of one step, and that of the stored states. Copies
/// share the values. Made by `operation_graph`.
template <class Space, class X, class Y>
class OperationGraph {
 public:
  static constexpr bool remembers = true;  ///< all values of the last apply

  /// Calls f for an input like x. Collective if the `output` of an operation is. Throws
  /// ArgumentError if an operation that remembers its last apply occurs twice.
  template <class F>
  OperationGraph(const X& x, const F& f) : graph_(std::make_shared<Content>(x, f)) {}

  /// A new y. Collective if one of its parts is a Partial sum.
  Y output(const X&) const { return impl::like_value(graph_->y(), "shard::output"); }

  /// y = f(x), for an x like that of the constructor. Local or collective as the operations.
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::copy_value(space, graph_->input, x);
    for (const auto& record : graph_->recorder.records) record->apply(space);
    impl::copy_value(space, y, graph_->y());
  }
  /// ty = J tx at the x of the last apply. Local or collective as the operations.
  void pushforward(const Space& space, const Y& ty, const X& tx) const {
    Content& g = *graph_;
    impl::for_slots([&](auto& slot, const auto& t) { impl::copy_value(space, slot.tangent(), t); },
                    g.inputs, tx);
    for (const auto& record : g.recorder.records) record->pushforward(space);
    impl::for_slots([&](auto& slot, const auto& t) { impl::copy_value(space, t, slot.tangent()); },
                    g.outputs, ty);
  }
  /// dx = J' dy at the x of the last apply. Local or collective as the operations.
  void pullback(const Space& space, const typename impl::CotangentOf<X>::type& dx,
                const typename impl::CotangentOf<Y>::type& dy) const {
    Content& g = *graph_;
    impl::for_slots([](auto& slot, const auto&) { slot.filled = false; }, g.inputs, dx);
    for (const auto& record : g.recorder.records) record->forget();
    impl::for_slots(
        [&](auto& slot, const auto& d) {
          if (slot.filled)  // returned twice
            impl::add_value(space, slot.adjoint(), d);
          else
            impl::copy_value(space, slot.adjoint(), d);
          slot.filled = true;
        },
        g.outputs, dy);
    for (auto record = g.recorder.records.rbegin(); record != g.recorder.records.rend(); ++record)
      (*record)->pullback(space);
    impl::for_slots(
        [&](auto& slot, const auto& d) {
          if (slot.filled)
            impl::copy_value(space, d, slot.adjoint());
          else
            impl::zero_value(space, d);
        },
        g.inputs, dx);
  }

  /// Number of operations.
  index_t size() const { return static_cast<index_t>(graph_->recorder.records.size()); }

 private:
  using Inputs  = impl::GraphValuesOf<X>;
  using Outputs = impl::GraphValuesOf<Y>;
  struct Content {
    template <class F>
    Content(const X& x, const F& f)
        : input(impl::like_value(x, "shard::graph")),
          inputs(impl::graph_values(input)),
          outputs(impl::as_tuple(impl::call_with_values(f, recorder, inputs))) {}
    Y y() const { return impl::value_of<Y>(outputs); }

    X input;
    impl::GraphRecorder<Space> recorder;
    Inputs inputs;
    Outputs outputs;
  };
  std::shared_ptr<Content> graph_;
};

/// The graph of f for inputs like x, on `Space`. Collective if the `output` of an operation is.
template <class Space = Kokkos::DefaultExecutionSpace, class X, class F>
auto operation_graph(const X& x, const F& f) {
  using Result = decltype(impl::call_with_values(f, std::declval<impl::GraphRecorder<Space>&>(),
                                                 impl::graph_values(x)));
  return OperationGraph<Space, X, typename impl::GraphResult<Result>::type>(x, f);
}

}  // namespace shard

#endif
