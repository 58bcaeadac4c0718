// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers with input, output and their gradients in each kind of memory, over each kind of partition
// and mesh: the bits of fields in ordinary memory.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "shard/model/impl/layer_call.hpp"
#include "shard/shard.hpp"
#include "support/field_inputs.hpp"

namespace sweep_layers_test {

struct Member;
struct Lat;
struct Lon;

using namespace shard;
using Space = Kokkos::DefaultHostExecutionSpace;
using Field = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                          ShardDim<3, Lon, Halo<1>>, Kokkos::HostSpace>;
/// With a whole first dimension of space.
using Columns =
    ShardedView<double****, Kokkos::LayoutRight, ShardDim<3, Lon, Halo<1>>, Kokkos::HostSpace>;

double value_at(index_t b, index_t c, index_t i, index_t j, int seed) {
  return static_cast<double>((b * 59 + c * 83 + i * 37 + j * 11 + seed * 13) % 101 - 50) / 32;
}

/// The owned points' values; the halo gets NaN, which nobody may read before it is filled.
template <class F>
void fill(const F& f, int seed) {
  for (index_t b = 0; b < f.extent(0); ++b)
    for (index_t c = 0; c < f.extent(1); ++c)
      for (index_t i = -F::halo_lo(2); i < f.extent(2) + F::halo_hi(2); ++i)
        for (index_t j = -1; j <= f.extent(3); ++j)
          f(b, c, i, j) = i < 0 || j < 0 || i == f.extent(2) || j == f.extent(3)
                              ? Kokkos::Experimental::quiet_NaN_v<double>
                              : value_at(b, c, f.to_global(2, i), f.to_global(3, j), seed);
}
template <class F>
std::vector<double> owned_values(const F& f) {
  std::vector<double> values;
  for (index_t b = 0; b < f.extent(0); ++b)
    for (index_t c = 0; c < f.extent(1); ++c)
      for (index_t i = 0; i < f.extent(2); ++i)
        for (index_t j = 0; j < f.extent(3); ++j) values.push_back(f(b, c, i, j));
  return values;
}

/// A layer with its parameters and a state for x; calls it whatever these are.
template <class Layer>
struct Called {
  static constexpr bool has_parameters = impl::has_parameters_v<Layer, double, Kokkos::HostSpace>;
  Layer layer;

  auto parameters(const char* label) const {
    if constexpr (has_parameters)
      return make_parameters<double, Kokkos::HostSpace>(layer, label);
    else
      return 0;
  }
  /// y, dx and the gradients of parameters, if there are any.
  template <class Y, class X, class DX, class DY>
  std::vector<double> operator()(const Y& y, const X& x, const DX& dx, const DY& dy) const {
    const Space space;
    fill(x, 1);
    fill(y, 2);
    fill(dx, 3);
    fill(dy, 4);
    auto own = parameters("own"), gradients = parameters("gradients");
    if constexpr (has_parameters) initialise(space, layer, own, 1, 0);
    const auto call = [&](auto&... state) {
      if constexpr (has_parameters) {
        layer.apply(space, state..., own, y, x);
        layer.pullback(space, state..., own, gradients, dx, dy, x);
      } else {
        layer.apply(space, state..., y, x);
        if constexpr (requires { layer.pullback(space, state..., dx, dy, x); })
          layer.pullback(space, state..., dx, dy, x);
        else
          layer.pullback(space, state..., dx, dy);
      }
    };
    if constexpr (requires { layer.state(x); }) {
      auto state = layer.state(x);
      call(state);
    } else {
      call();
    }
    space.fence();
    std::vector<double> values = owned_values(y), more = owned_values(dx);
    values.insert(values.end(), more.begin(), more.end());
    if constexpr (has_parameters)
      std::apply(
          [&](const auto&... array) {
            (values.insert(values.end(), array.data(), array.data() + array.span()), ...);
          },
          std::tie(gradients.weight, gradients.bias));
    return values;
  }
};

/// x times itself, and times gates.
struct Squared {
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> gates, gradients;

  Squared() : gates("gates", 2, 4), gradients("gradients", 2, 4) {
    for (std::size_t i = 0; i < gates.size(); ++i) gates.data()[i] = 0.5 + static_cast<double>(i);
  }
  template <class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    Multiply{}.apply(space, y, x, x);
    Multiply{}.apply(space, y, y, gates);
  }
  template <class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    Multiply{}.pullback(space, not_wanted, gradients, dy, x, gates);
    Multiply{}.pullback(space, dx, not_wanted, dy, x, x);
    Multiply{}.apply(space, dx, dx, gradients);
  }
};

/// A norm of x with scales and shifts of x.
struct Adaptive {
  Modulated<LayerNorm> layer{{4, 1e-5, false}};
  LayerNorm::Parameters<double, Kokkos::HostSpace> none;

  template <class X>
  auto state(const X& x) const {
    return layer.state(x);
  }
  template <class S, class Y, class X>
  void apply(const Space& space, S& state, const Y& y, const X& x) const {
    layer.apply(space, state, none, y, x, x, x);
  }
  template <class S, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const DX& dx, const DY& dy, const X& x) const {
    layer.pullback(space, state, none, not_wanted, not_wanted, dx, not_wanted, dy, x, x, x);
    space.fence();
    const auto dscale = owned_values(dx);
    layer.pullback(space, state, none, not_wanted, dx, not_wanted, not_wanted, dy, x, x, x);
    space.fence();
    std::size_t i = 0;
    for (index_t b = 0; b < dx.extent(0); ++b)
      for (index_t c = 0; c < dx.extent(1); ++c)
        for (index_t j = 0; j < dx.extent(2); ++j)
          for (index_t k = 0; k < dx.extent(3); ++k) dx(b, c, j, k) += dscale[i++];
  }
};

/// All points pooled to nodes on every rank, and back, with the same weights.
template <class MeshType>
struct PooledToNodes {
  MeshType mesh;
  SpatialPool<2> pool;
  SpatialUnpool<2> unpool{pool.nodes, pool.points};
  using Nodes = ShardedView<double****, Kokkos::LayoutRight, Kokkos::HostSpace>;
  template <class T, class Memory>
  using Parameters = SpatialPool<2>::Parameters<T, Memory>;

  std::vector<ParameterShape> parameter_shapes() const { return pool.parameter_shapes(); }

  struct State {
    Nodes s, ds;
    SpatialPool<2>::State<double, Kokkos::HostSpace> pool, unpool;
  };
  template <class X>
  State state(const X& x) const {
    const Nodes s("s", mesh, pool.output_partitions(x.partitions()));
    return {s, s.like("ds"), pool.state(x), unpool.state(x, s)};
  }
  template <class P>
  auto back(const P& parameters) const {
    return wrap_parameters<double, Kokkos::HostSpace>(unpool, parameters.weight.data());
  }
  template <class P, class Y, class X>
  void apply(const Space& space, State& state, const P& p, const Y& y, const X& x) const {
    pool.apply(space, state.pool, p, state.s, x);
    unpool.apply(space, state.unpool, back(p), y, x, state.s);
  }
  template <class P, class DX, class DY, class X>
  void pullback(const Space& space, State& state, const P& p, const P& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    unpool.pullback(space, state.unpool, back(p), back(gradients), dx, state.ds, dy, x, state.s);
    pool.pullback(space, state.pool, p, gradients, dx, state.ds, x);
  }
};

template <class F = Field, class Layer, class... Axes>
void check(const char* name, const Layer& layer, const Mesh<Axes...>& mesh,
           const std::array<Partition, 4>& partitions) {
  SCOPED_TRACE(name);
  const Called<Layer> called{layer};
  const auto after = impl::partitions_after(layer, partitions);
  const F x("x", mesh, partitions), dx = x.like("dx"), y("y", mesh, after), dy = y.like("dy");
  const std::vector<double> expected = called(y, x, dx, dy);
  EXPECT_TRUE(std::none_of(expected.begin(), expected.end(), [](double v) { return v != v; }));
  const auto xs = shard::testing::same_type_inputs<F>(mesh, partitions),
             ys = shard::testing::same_type_inputs<F>(mesh, after);
  for (std::size_t k = 1; k < xs.size(); ++k) {
    SCOPED_TRACE(xs[k].name);
    EXPECT_EQ(called(y, xs[k].field, dx, dy), expected) << "x";
    EXPECT_EQ(called(ys[k].field, x, dx, dy), expected) << "y";
    EXPECT_EQ(called(y, x, xs[k].field, dy), expected) << "dx";
    EXPECT_EQ(called(y, x, dx, ys[k].field), expected) << "dy";
  }
  SCOPED_TRACE("strided");
  const auto sx = shard::testing::strided_input<F>(mesh, partitions),
             sy = shard::testing::strided_input<F>(mesh, after);
  EXPECT_EQ(called(sy, sx, dx, dy), expected) << "x and y";
  const auto sdx = shard::testing::strided_input<F>(mesh, partitions),
             sdy = shard::testing::strided_input<F>(mesh, after);
  EXPECT_EQ(called(y, x, sdx, sdy), expected) << "dx and dy";
}

template <class... Axes>
void check_on(const char* mesh_name, const Mesh<Axes...>& mesh) {
  SCOPED_TRACE(mesh_name);
  const index_t rows = 10, columns = 12;
  const auto lats = shard::testing::partition_inputs(rows, mesh.template size<Lat>()),
             lons = shard::testing::partition_inputs(columns, mesh.template size<Lon>());
  for (std::size_t p = 0; p < std::max(lats.size(), lons.size()); ++p) {
    const auto& lat = lats[p % lats.size()];
    const auto& lon = lons[p % lons.size()];
    SCOPED_TRACE(lat.first + " x " + lon.first);
    const std::array<Partition, 4> partitions{Partition::whole(2), Partition::whole(4), lat.second,
                                              lon.second};
    check("Conv", Conv<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>{4, 3}, mesh, partitions);
    check("ConvTranspose", ConvTranspose<Kernel<2, 2>, Stride<2, 2>>{4, 2}, mesh, partitions);
    check("MaxPool", MaxPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>{}, mesh, partitions);
    check("AvgPool", AvgPool<Kernel<2, 2>>{}, mesh, partitions);
    check("Interpolate", Interpolate<2>{.size = {15, 9}}, mesh, partitions);
    check("PixelShuffle", PixelShuffle<2>{}, mesh, partitions);
    check("GroupNorm", GroupNorm{2, 4}, mesh, partitions);
    check("BatchNorm", BatchNorm{4}, mesh, partitions);
    check("LayerNorm", LayerNorm{4}, mesh, partitions);
    check("GELU", GELU{}, mesh, partitions);
    check("Softmax", Softmax{}, mesh, partitions);
    check("SpatialSoftmax", SpatialSoftmax<0>{}, mesh, partitions);
    check("Dropout", Dropout{0.25, 7}, mesh, partitions);
    check("DropPath", DropPath{0.25, 7}, mesh, partitions);
    check("Multiply", Squared{}, mesh, partitions);
    check("LayerScale", LayerScale{4}, mesh, partitions);
    check("SwiGLU", SwiGLU{}, mesh, partitions);
    check("RMSNorm", RMSNorm{4}, mesh, partitions);
    check("Modulated", Adaptive{}, mesh, partitions);
    check("Rotary", Rotary{2}, mesh, partitions);
    check("patches", PixelShuffle<2, 2, PixelOrder::points_first>{}, mesh, partitions);
    check("rows kept", PixelShuffle<2, 2, PixelOrder::channels_first, 1>{}, mesh, partitions);
    check("SpatialPool", PooledToNodes<Mesh<Axes...>>{mesh, {3, {rows, columns}}}, mesh,
          partitions);
    check<Columns>("LearnedQueries", LearnedQueries{3, 5}, mesh,
                   {partitions[0], partitions[1], Partition::whole(rows), partitions[3]});
  }
}

TEST(Sweep, LayersOfFieldsInEachKindOfMemory) {
  shard::testing::on_input_meshes<Member, Lat, Lon>(
      [](const char* name, const auto& mesh) { check_on(name, mesh); });
}

}  // namespace sweep_layers_test
