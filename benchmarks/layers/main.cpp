// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// layers [--seconds S]: reads names of cases from standard input and answers each with one line of
// JSON: seconds of a forward call and of a backward call (all gradients), the least of those made
// in S seconds (0.3), and the core's peak before and after. `layers --list` prints the cases. One
// rank, one thread: benchmarks/layers/compare.py runs it in turns with pytorch.py.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "peak.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/shard.hpp"
#include "support/arguments.hpp"

namespace {

using shard::index_t;

struct Lat;
struct Lon;
using Grid = shard::Mesh<Lat, Lon>;

/// This process's seconds, all threads together; where a device computes, the clock's.
double processor_time() {
  constexpr bool host = shard::impl::is_host_space_v<Kokkos::DefaultExecutionSpace>;
  timespec now{};
  clock_gettime(host ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The fastest of the calls made in `least` seconds, in processor time: of one thread it is the
/// time, and others on the machine disturb it least.
double seconds_of(double least, const std::function<void()>& call) {
  call();
  double fastest     = 1e300;
  int calls          = 0;
  const double begin = processor_time();
  for (double from = begin; calls < 5 || from - begin < least; ++calls) {
    call();
    const double now = processor_time();
    fastest          = std::min(fastest, now - from);
    from             = now;
  }
  return fastest;
}

template <class View>
void fill(const View& view) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.span(); ++i)
    host.data()[i] =
        static_cast<typename View::value_type>(static_cast<double>(i * 7919 % 1000) / 500 - 1);
  Kokkos::deep_copy(view, host);
}

struct Shape {
  index_t channels, rows, columns;
};

/// Forward, and the gradients of input, weights and bias, of as many output channels as input ones.
template <class T, class Layer>
void time_layer(const Grid& mesh, const Shape& shape, double least) {
  using X = shard::ShardedView<T****, Kokkos::LayoutRight,
                               shard::ShardDim<2, Lat, shard::required_halo_t<Layer, 0>>,
                               shard::ShardDim<3, Lon, shard::required_halo_t<Layer, 1>>>;
  using Y = shard::ShardedView<T****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                               shard::ShardDim<3, Lon>>;
  const Kokkos::DefaultExecutionSpace space;
  const Layer layer{shape.channels, shape.channels};
  const X x("x", mesh, {1, shape.channels, shape.rows, shape.columns}), dx = x.like("dx");
  const Y y("y", mesh, layer.output_partitions(x.partitions())), dy        = y.like("dy");
  const auto parameters = shard::make_parameters<T>(layer, "p");
  const auto gradients  = shard::make_parameters<T>(layer, "g");
  fill(x.view());
  fill(dy.view());
  fill(parameters.weight);
  double taps = 1;
  for (int d = 0; d < Layer::dims; ++d) taps *= Layer::window(d).kernel;
  const bool transposed = y.global_extent(2) > x.global_extent(2);
  const auto& coarse    = transposed ? x.partitions() : y.partitions();
  const double flops    = 2.0 * taps * static_cast<double>(shape.channels * shape.channels) *
                       static_cast<double>(coarse[2].size() * coarse[3].size());
  const double before     = register_peak<T>(5);
  const double forward    = seconds_of(least, [&] {
    layer.apply(space, parameters, y, x);
    space.fence();
  });
  const double of_input   = seconds_of(least / 2, [&] {
    layer.pullback_input(space, parameters, dx, dy);
    space.fence();
  });
  const double of_weights = seconds_of(least / 2, [&] {
    layer.pullback_parameters(space, gradients, dy, x);
    space.fence();
  });
  const double backward   = seconds_of(least, [&] {
    layer.pullback(space, parameters, gradients, dx, dy, x);
    space.fence();
  });
  const double peak       = std::max(before, register_peak<T>(5));
  std::printf(
      "{\"flops\": %.0f, \"forward\": %.6e, \"backward\": %.6e, \"of_input\": %.6e, "
      "\"of_parameters\": %.6e, \"peak\": %.1f}\n",
      flops, forward, backward, of_input, of_weights, peak);
}

using Case = std::function<void(const Grid&, double)>;

template <class T, class Layer>
Case of(index_t channels, index_t rows, index_t columns) {
  return [=](const Grid& mesh, double least) {
    time_layer<T, Layer>(mesh, {channels, rows, columns}, least);
  };
}

template <int K, int S, int P>
using Square = shard::Conv<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;
template <int K, int S, int P>
using Upward = shard::ConvTranspose<shard::Kernel<K, K>, shard::Stride<S, S>, shard::Padding<P, P>>;

/// op/type/channels x rows x columns/kernel, stride, padding
std::map<std::string, Case> cases() {
  return {{"conv/float/64x181x360/k3s1p1", of<float, Square<3, 1, 1>>(64, 181, 360)},
          {"conv/float/32x192x288/k5s1p2", of<float, Square<5, 1, 2>>(32, 192, 288)},
          {"conv/float/64x192x288/k3s2p1", of<float, Square<3, 2, 1>>(64, 192, 288)},
          {"conv/double/64x181x360/k3s1p1", of<double, Square<3, 1, 1>>(64, 181, 360)},
          {"conv/float/64x181x360/k1s1p0", of<float, Square<1, 1, 0>>(64, 181, 360)},
          {"conv/float/64x192x288/k4s2p1", of<float, Square<4, 2, 1>>(64, 192, 288)},
          {"conv/float/64x192x288/k2s2p0", of<float, Square<2, 2, 0>>(64, 192, 288)},
          {"conv_transpose/float/64x96x144/k4s2p1", of<float, Upward<4, 2, 1>>(64, 96, 144)},
          {"conv_transpose/float/64x96x144/k2s2p0", of<float, Upward<2, 2, 0>>(64, 96, 144)}};
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const auto known = cases();
  double least     = 0.3;
  support::Arguments given(argc, argv, "[--seconds S] [--list]");
  given.take("--seconds", least);
  const bool list = given.flag("--list");
  if (!given.understood()) return 2;
  if (list) {
    for (const auto& [name, run] : known) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (environment.size() != 1) throw std::runtime_error("layers: one rank is timed, not several");
  const Grid mesh(environment.world(), {1, 1});
  for (std::string name; std::getline(std::cin, name);) {
    const auto found = known.find(name);
    if (found == known.end()) throw std::runtime_error("layers: there is no case " + name);
    found->second(mesh, least);
    std::fflush(stdout);
  }
}
