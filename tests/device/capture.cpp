// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loop of exchanges and stencils captured in a graph, by the native calls and by Kokkos'.
#include "capture.hpp"

#include <Kokkos_Graph.hpp>

#include <stdexcept>
#include <string>

namespace captured {
namespace {

using Field = Loop::Field;
using Space = Loop::Space;

/// Over 512 bytes, which Kokkos passes to a kernel in another way: a graph must not replay one
/// step's functor in the other step.
struct Smooth {
  Field from, to;
  Kokkos::Array<double, 64> weights;

  Smooth(const Field& source, const Field& target, double along) : from(source), to(target) {
    for (double& w : weights) w = 0.5 - along;
    weights[0] = along;
  }
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    to(i, j) = weights[0] * (from(i - 1, j) + from(i + 1, j)) +
               weights[63] * (from(i, j - 1) + from(i, j + 1));
  }
};
static_assert(sizeof(Smooth) > 512);

struct Start {
  Field t;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const auto row = t.to_global(0, i), column = t.to_global(1, j);
    t(i, j) = 1.0 / static_cast<double>(1 + (row * 7919 + column * 104729) % 1009);
  }
};

#if defined(KOKKOS_ENABLE_CUDA)
using Graph        = cudaGraph_t;
using Executable   = cudaGraphExec_t;
using NativeStream = cudaStream_t;
NativeStream native(const Space& space) { return space.cuda_stream(); }
void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void begin(NativeStream stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
auto end(NativeStream stream, Graph& graph) { return cudaStreamEndCapture(stream, &graph); }
void instantiate(Executable& executable, Graph graph) {
  check(cudaGraphInstantiate(&executable, graph, 0));
}
void launch(Executable executable, NativeStream stream) {
  check(cudaGraphLaunch(executable, stream));
}
void destroy(Executable executable, Graph graph) {
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
}
#elif defined(KOKKOS_ENABLE_HIP)
using Graph        = hipGraph_t;
using Executable   = hipGraphExec_t;
using NativeStream = hipStream_t;
NativeStream native(const Space& space) { return space.hip_stream(); }
void check(hipError_t status) {
  if (status != hipSuccess) throw std::runtime_error(hipGetErrorString(status));
}
void begin(NativeStream stream) {
  check(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
}
auto end(NativeStream stream, Graph& graph) { return hipStreamEndCapture(stream, &graph); }
void instantiate(Executable& executable, Graph graph) {
  check(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
}
void launch(Executable executable, NativeStream stream) {
  check(hipGraphLaunch(executable, stream));
}
void destroy(Executable executable, Graph graph) {
  check(hipGraphExecDestroy(executable));
  check(hipGraphDestroy(graph));
}
#endif

}  // namespace

void run_graph(const Space& space, int times, const std::function<void()>& work) {
  Graph graph{};
  const NativeStream stream = native(space);
  begin(stream);
  try {
    work();
  } catch (...) {
    static_cast<void>(end(stream, graph));
    throw;
  }
  check(end(stream, graph));
  Executable executable{};
  instantiate(executable, graph);
  for (int i = 0; i < times; ++i) launch(executable, stream);
  space.fence();
  destroy(executable, graph);
}

Loop::Loop(const shard::Mesh<Y, X>& mesh)
    : t_("t", mesh, {30, 41}), next_("next", mesh, {30, 41}), halos_(t_) {
  const Space space;
  shard::parallel_for("start", space, shard::owned_region(t_), Start{t_});
  space.fence();
}

void Loop::step(const Space& space) const {
  auto pending = halos_.start(space);
  shard::parallel_for("smooth", space, shard::interior(t_), Smooth(t_, next_, 0.25));
  pending.finish();
  shard::parallel_for("smooth", space, shard::rim(t_), Smooth(t_, next_, 0.25));
  shard::exchange(space, next_);
  shard::parallel_for("smooth", space, shard::owned_region(t_), Smooth(next_, t_, 0.375));
}

void Loop::run_graph(const Space& space, int times) const {
  captured::run_graph(space, times, [&] { step(space); });
}

bool Loop::run_kokkos_graph([[maybe_unused]] const Space& space, [[maybe_unused]] int times) const {
#if KOKKOS_VERSION >= 50000
  const auto steps = [this](const Space& instance) { step(instance); };
  auto graph       = Kokkos::Experimental::create_graph([&](const auto& root) {
#if defined(KOKKOS_ENABLE_CUDA)
    root.cuda_capture(space, steps);
#elif defined(KOKKOS_ENABLE_HIP)
    root.hip_capture(space, steps);
#endif
  });
  graph.instantiate();
  for (int i = 0; i < times; ++i) graph.submit(space);
  space.fence();
  return true;
#else
  return false;
#endif
}

Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> Loop::values() const {
  const auto view = t_.view();
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> copy("copy", view.extent(0),
                                                                      view.extent(1));
  Kokkos::deep_copy(copy, view);
  return copy;
}

}  // namespace captured
