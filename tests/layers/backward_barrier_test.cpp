// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/window/backward_barrier.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "shard/mesh/mesh.hpp"

namespace {

struct Lat;
using Space  = Kokkos::DefaultExecutionSpace;
using View   = Kokkos::View<double**, Kokkos::LayoutRight>;
using Params = shard::Linear::Parameters<double>;

/// Bytes of Kokkos allocations whose label speaks of gradients: alive now, and at most.
struct Live {
  static inline std::int64_t now = 0, peak = 0, fences = 0;
  static inline bool freed_before_fence = false;

  static bool counts(const char* label) {
    return std::string(label).find("gradients") != std::string::npos;
  }
  static void on_allocate(Kokkos::Profiling::SpaceHandle, const char* label, const void*,
                          std::uint64_t bytes) {
    if (!counts(label)) return;
    now += static_cast<std::int64_t>(bytes);
    peak   = std::max(peak, now);
    fences = 0;
  }
  static void on_free(Kokkos::Profiling::SpaceHandle, const char* label, const void*,
                      std::uint64_t bytes) {
    if (!counts(label)) return;
    now -= static_cast<std::int64_t>(bytes);
    freed_before_fence = freed_before_fence || fences == 0;
  }
  static void on_fence(const char* label, std::uint32_t, std::uint64_t*) {
    if (std::string(label).find("backward_barrier") != std::string::npos) ++fences;
  }

  Live() {
    now = peak = fences = 0;
    freed_before_fence  = false;
    using namespace Kokkos::Tools::Experimental;
    set_allocate_data_callback(on_allocate);
    set_deallocate_data_callback(on_free);
    set_begin_fence_callback(on_fence);
  }
  ~Live() {
    using namespace Kokkos::Tools::Experimental;
    set_allocate_data_callback(nullptr);
    set_deallocate_data_callback(nullptr);
    set_begin_fence_callback(nullptr);
  }
};

std::vector<double> host_values(const double* data, std::size_t n) {
  const Kokkos::View<const double*, Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>
      view(data, n);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + n};
}

/// A chain of Linear layers and what goes through it.
struct Chain {
  static constexpr int layers = 4, width = 16, rows = 6;
  std::vector<shard::Linear> linear{layers, shard::Linear{width, width}};
  std::vector<Params> parameters;
  std::vector<View> x, dx;

  Chain() {
    const Space space;
    for (int l = 0; l <= layers; ++l) {
      x.emplace_back("x", rows, width);
      dx.emplace_back("dx", rows, width);
    }
    for (int l = 0; l < layers; ++l) {
      const auto i = static_cast<std::size_t>(l);
      parameters.push_back(shard::make_parameters<double>(linear[i], "layer"));
      shard::initialise(space, linear[i], parameters[i], 3, static_cast<std::uint64_t>(l));
    }
    const shard::ParameterShape shape{"input", {rows, width}, 1.0};
    shard::impl::fill_parameter(space, shape, x[0].data(), 5, 1);
    shard::impl::fill_parameter(space, shape, dx[layers].data(), 5, 2);
    for (std::size_t l = 0; l < layers; ++l) linear[l].apply(space, parameters[l], x[l + 1], x[l]);
    space.fence();
  }
};

TEST(BackwardBarrier, PeakOfLiveGradientsIsOneLayers) {
  Chain chain;
  const Space space;
  const auto bytes = static_cast<std::int64_t>(sizeof(double)) * (Chain::width + 1) * Chain::width;
  std::vector<std::vector<double>> expected(Chain::layers);
  std::vector<double> dx;
  {
    const Live live;
    std::vector<Params> gradients;
    for (std::size_t l = Chain::layers; l-- > 0;) {
      gradients.push_back(shard::make_parameters<double>(chain.linear[l], "gradients"));
      chain.linear[l].pullback(space, chain.parameters[l], gradients.back(), chain.dx[l],
                               chain.dx[l + 1], chain.x[l]);
    }
    space.fence();
    EXPECT_GE(Live::peak, Chain::layers * bytes);
    for (std::size_t l = 0; l < Chain::layers; ++l)
      expected[l] =
          host_values(gradients[Chain::layers - 1 - l].weight.data(), Chain::width * Chain::width);
    dx = host_values(chain.dx[0].data(), Chain::rows * Chain::width);
  }
  Kokkos::deep_copy(chain.dx[0], 0.0);
  {
    const Live live;
    for (std::size_t l = Chain::layers; l-- > 0;) {
      const auto layer = shard::backward_barrier(chain.linear[l]);
      EXPECT_EQ(Live::now, 0) << "the layer before has freed its gradients";
      int flushed      = 0;
      const auto flush = [&](const Space& on, const Params& gradients) {
        on.fence();
        EXPECT_EQ(host_values(gradients.weight.data(), Chain::width * Chain::width), expected[l]);
        ++flushed;
      };
      layer.pullback(space, chain.parameters[l], flush, chain.dx[l], chain.dx[l + 1], chain.x[l]);
      EXPECT_EQ(flushed, 1);
    }
    EXPECT_EQ(Live::now, 0);
    EXPECT_GE(Live::peak, bytes);
    EXPECT_LT(Live::peak, 2 * bytes);
    EXPECT_FALSE(Live::freed_before_fence);
  }
  EXPECT_EQ(host_values(chain.dx[0].data(), Chain::rows * Chain::width), dx);
}

TEST(BackwardBarrier, LayersWithState) {
  using Field = shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;
  int size    = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const shard::Mesh<Lat> mesh(MPI_COMM_WORLD, {size});
  const Space space;
  const shard::GroupNorm norm{2, 4};
  const auto layer      = shard::backward_barrier(norm);
  const auto parameters = shard::make_parameters<double>(layer, "norm"),
             gradients  = shard::make_parameters<double>(layer, "plain");
  shard::initialise(space, layer, parameters, 1, 0);
  const Field x("x", mesh, {2, 4, 9}), y = x.like("y"), dx = x.like("dx");
  const shard::ParameterShape shape{"input", {static_cast<shard::index_t>(x.view().size())}, 1.0};
  shard::impl::fill_parameter(space, shape, x.view().data(), 5,
                              static_cast<std::uint64_t>(mesh.rank()));
  auto state = layer.state(x);
  layer.apply(space, state, parameters, y, x);
  norm.pullback(space, state, parameters, gradients, dx, y, x);
  space.fence();
  const std::vector<double> expected = host_values(gradients.weight.data(), 4);
  std::vector<double> flushed;
  const auto flush = [&](const Space& on, const auto& made) {
    on.fence();
    flushed = host_values(made.weight.data(), 4);
  };
  layer.pullback_with_state(space, state, parameters, flush, dx, y, x);
  EXPECT_EQ(flushed, expected);
}

}  // namespace
