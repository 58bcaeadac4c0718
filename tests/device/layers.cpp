// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every kernel of the layers and optimisers that src/ doesn't instantiate, and every layer's host
// side, for the device.

#include <shard/shard.hpp>

#include "../../src/layers/library_product.hpp"
#include "../../src/layers/vendor_boxes.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "shard/layers/loss/mean_square.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/layers/window/stencil.hpp"
#include "shard/train/adam.hpp"
#include "shard/model/parameter_arena.hpp"

struct Lat;
struct Lon;

namespace device_layers {

using Space = Kokkos::DefaultExecutionSpace;

/// One attention with parameters, on fields of any halo.
template <class T, class Layer, class Field>
void use_biased(const Layer& layer, const Field& q, const Field& y) {
  const Space space;
  const auto p = shard::make_parameters<T>(layer, "p");
  auto state   = layer.state(q);
  layer.apply(space, state, p, y, q, q, q);
  layer.pushforward(space, state, p, p, y, q, q, q, q, q, q);
  layer.pullback(space, state, p, p, y, y, y, q, q, q, q);
}
template <class T>
void use_attention(const shard::Mesh<Lat, Lon>& mesh) {
  using namespace shard;
  const ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat>, ShardDim<3, Lon>> q(
      "q", mesh, {1, 4, 16, 16}),
      y = q.like("y");
  use_biased<T>(Biased<WindowAttention<4, 4>, RelativeBias>{{.shift = {2, 2}}}, q, y);
  use_biased<T>(Biased<WindowAttention<4, 4>, EarthBias>{{}, {4}}, q, y);
  use_biased<T>(Biased<WindowAttention<4, 4>, ContinuousBias>{}, q, y);
  use_biased<T>(Biased<GridAttention<4, 4>, DynamicBias>{}, q, y);
  using Neighbours = NeighbourhoodAttention<Kernel<3, 3>, PaddingMode<Zero, Periodic>>;
  const ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<2>>,
                    ShardDim<3, Lon, Halo<2>, Periodic>>
      near("near", mesh, {1, 4, 16, 16});
  use_biased<T>(Biased<Neighbours, RelativeBias>{}, near, near);
  const Space space;
  const Masked<WindowAttention<4, 4>> masked{{.key_heads = 1}, {}};
  auto of_masked = masked.state(q);
  masked.apply(space, of_masked, y, q, q, q);
  const Neighbours neighbours{};
  auto of_neighbours = neighbours.state(near);
  neighbours.apply(space, of_neighbours, near, near, near, near);
  neighbours.pullback(space, of_neighbours, near, near, near, near, near, near, near);
  const auto use_norm = [&](const auto& layer) {
    const auto p = make_parameters<T>(layer, "p");
    auto state   = layer.state(q);
    layer.apply(space, state, p, y, q);
    layer.pushforward(space, state, p, p, y, q, q);
    layer.pullback(space, state, p, p, y, y, q);
  };
  use_norm(HeadNorm<RMSNorm>{{2}, 2});
  use_norm(CosineNorm{2});
  const ShardedView<T*****, Kokkos::LayoutRight, ShardDim<3, Lat>, ShardDim<4, Lon>> levels(
      "levels", mesh, {1, 4, 3, 8, 8}),
      seen = levels.like("seen");
  const ColumnAttention columns{2};
  auto of_columns = columns.state(levels);
  columns.apply(space, of_columns, seen, levels, levels, levels);
  columns.pullback(space, of_columns, seen, seen, seen, levels, levels, levels, levels);
  const LearnedQueries queries{3, 4};
  const auto p = make_parameters<T>(queries, "queries");
  queries.apply(space, p, seen, levels);
  queries.pullback(space, p, p, levels, seen, levels);
}

template <class T>
void use_nodes(const shard::Mesh<Lat, Lon>& mesh) {
  using namespace shard;
  const ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat>, ShardDim<3, Lon>> x(
      "x", mesh, {1, 4, 16, 16}),
      y = x.like("y");
  const ShardedView<T****, Kokkos::LayoutRight> s("s", mesh, {1, 4, 3, 1});
  const Space space;
  const SpatialPool<2> pool{3, {16, 16}};
  const SpatialUnpool<2> unpool{3, {16, 16}};
  const auto in = make_parameters<T>(pool, "in"), out = make_parameters<T>(unpool, "out");
  auto sums = pool.state(x), back = unpool.state(x, s);
  pool.apply(space, sums, in, s, x);
  pool.pushforward(space, sums, in, in, s, x, x);
  pool.pullback(space, sums, in, in, y, s, x);
  unpool.apply(space, back, out, y, x, s);
  unpool.pushforward(space, back, out, out, y, x, s, x, s);
  unpool.pullback(space, back, out, out, y, s, x, x, s);
}

template <class T>
double use(const shard::Mesh<Lat, Lon>& mesh) {
  using namespace shard;
  using Field = ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<2>, Clamp>,
                            ShardDim<3, Lon, Halo<2>, Periodic>>;
  const Space space;
  const Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, low_high<1, 2>>> down{4, 4};
  const ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>> up{4, 4};
  const Interpolate<2, Meets<2>> interpolate;
  const GroupNorm norm{2, 4};
  ParameterArena<T> values("values",
                           parameter_count(down) + parameter_count(up) + parameter_count(norm));
  const auto p0 = values.take("0", down);
  const auto p1 = values.take("1", up);
  const auto p2 = values.take("2", norm);
  initialise(space, down, p0, 1, 0);
  const Field x("x", mesh, {1, 4, 16, 16}), z = x.like("z"), t = x.like("t");
  const Field y("y", mesh, down.output_partitions(x.partitions())), dy = y.like("dy");
  auto state = norm.state(y);
  down.apply(space, p0, y, x);
  norm.apply(space, state, p2, y, y);
  SiLU().apply(space, y, y);
  up.apply(space, p1, z, y);
  interpolate.apply(space, z, y);
  add(space, z, z, x);
  MeanSquare mean_square(z, {});
  AnomalyCorrelation correlation(z, {});
  const double loss = mean_square(space, z, t) + mean_square.pushforward(space, x, z, t) +
                      correlation(space, z, t, x);
  mean_square.pullback(space, z, z, t);
  CRPS crps(z, t, {}, 0.0);
  const double score = crps(space, z, t) + crps.pushforward(space, z, z, t);
  crps.pullback(space, z, z, t);
  EnergyScore energy(z, t, {}, 0.0);
  energy.pullback(space, z, z, t, energy(space, z, t) + energy.pushforward(space, z, z, t));
  interpolate.pullback(space, dy, z);
  interpolate.template pullback<Determinism::ordered>(space, dy, z);
  up.pullback(space, p1, p1, dy, z, y);
  SiLU().pullback(space, dy, dy, y);
  norm.pullback(space, state, p2, p2, dy, dy, y);
  down.pullback(space, p0, p0, t, dy, x);
  down.template pullback<Determinism::ordered>(space, p0, p0, t, dy, x);
  up.template pullback_input<Determinism::ordered>(space, p1, dy, z);
  const StarStencil<4, 2, 3> laplace{{-4.0, 1.0, 1.0, 1.0, 1.0}};
  laplace.apply(space, z, x);
  laplace.pullback(space, z, x);
  laplace.template pullback<Determinism::ordered>(space, z, x);
  copy_owned(space, z, t);
  const BatchNorm batch_norm{4};
  const LayerNorm layer_norm{4};
  auto of_batch = batch_norm.state(y);
  auto of_layer = layer_norm.state(y);
  batch_norm.apply(space, of_batch, p2, y, y);
  batch_norm.pushforward(space, of_batch, p2, p2, dy, dy, y);
  batch_norm.pullback(space, of_batch, p2, p2, dy, dy, y);
  layer_norm.apply(space, of_layer, p2, y, y);
  layer_norm.pushforward(space, of_layer, p2, p2, dy, dy, y);
  layer_norm.pullback(space, of_layer, p2, p2, dy, dy, y);
  const ElementwiseLayerNorm<2> cells{{4, y.global_extent(2), y.global_extent(3)}};
  auto of_cells      = cells.state(y);
  const auto weights = cells.parameters(mesh, y, "cells");
  cells.apply(space, of_cells, weights, y, y);
  cells.pushforward(space, of_cells, weights, weights, dy, dy, y);
  cells.pullback(space, of_cells, weights, cells.gradients(mesh, y, "gradients"), dy, dy, y);
  const MaxPool<Kernel<2, 2>, Stride<1, 1>, Padding<1, 1>, CeilMode> largest;
  const Field highest("highest", mesh, largest.output_partitions(x.partitions()));
  const auto taps = largest.ordered_state(x, highest);
  largest.apply(space, taps, highest, x);
  largest.template pullback<Determinism::ordered>(space, taps, z, highest, x);
  const SpatialSoftmax<0> along;
  auto of_lines = along.state(y);
  along.apply(space, of_lines, y, y);
  along.pullback(space, of_lines, dy, dy, y);
  Softmax().apply(space, y, y);
  GELU().pushforward(space, dy, dy, y);
  const Dropout dropout{0.1};
  auto steps = dropout.state(y);
  dropout.apply(space, steps, y, y);
  dropout.pullback(space, steps, dy, dy, y);
  const Field gate("gate", mesh, y.partitions());
  Multiply().apply(space, y, y, gate);
  Multiply().pullback(space, dy, gate, dy, y, gate);
  const Kokkos::View<T**, Kokkos::LayoutRight> vectors("vectors", 1, 4);
  Multiply().apply(space, y, y, vectors);
  Multiply().pullback(space, dy, vectors, dy, y, vectors);
  const RMSNorm rms_norm{4};
  const auto p4    = make_parameters<T>(rms_norm, "4");
  auto of_channels = rms_norm.state(y);
  rms_norm.apply(space, of_channels, p4, y, y);
  rms_norm.pullback(space, of_channels, p4, p4, dy, dy, y);
  const Modulated<GroupNorm> modulated{norm};
  auto of_modulated = modulated.state(y);
  modulated.apply(space, of_modulated, p2, y, y, gate, vectors);
  modulated.pushforward(space, of_modulated, p2, p2, dy, dy, gate, vectors, y, gate, vectors);
  modulated.pullback(space, of_modulated, p2, p2, dy, gate, vectors, dy, y, gate, vectors);
  LayerScale{4}.apply(space, p4, y, y);
  LayerScale{4}.pullback(space, p4, p4, dy, dy, y);
  const Field half("half", mesh, SwiGLU().output_partitions(y.partitions()));
  SwiGLU().apply(space, half, y);
  SwiGLU().pullback(space, dy, half, y);
  const DropPath path{0.1};
  path.apply(space, steps, y, y);
  path.pullback(space, steps, dy, dy, y);
  normal(space, y, 1, 2);
  const Rotary rotary{2};
  rotary.apply(space, rotary.state(y), y, y);
  rotary.pullback(space, rotary.state(y), dy, dy, y);
  const auto waves = WaveEmbedding<>::sinusoidal(8);
  const Kokkos::View<T*> times("times", 3);
  const auto embedded = waves.output(times);
  waves.apply(space, embedded, times);
  waves.pullback(space, times, embedded, times);
  const Linear linear_layer{16, 4};
  const auto p3 = make_parameters<T>(linear_layer, "3");
  const Kokkos::View<T**, Kokkos::LayoutRight> in("in", 8, 16), out("out", 8, 4);
  linear_layer.apply(space, p3, out, in);
  linear_layer.pullback(space, p3, p3, in, out, in);
  GradientSum<T>(x, parameter_count(down))(space, values.values());
  Adam<T>(parameter_count(down))(space, values.values(), values.values());
  const impl::StartProductKernel<T> start{
      out.data(), in.data(), 4, 1, 0, 1, 8, impl::Divisor::of(4)};  // with Kokkos Kernels alone
  impl::launch("start", space, start.items(), start);
  const impl::VendorTensor box = impl::VendorTensor::of({1, 4, 1, 2, 8});
  const Kokkos::View<float*> packed("packed", 64), unpacked("unpacked", 64);
  impl::unpack_box(space, box, unpacked.data(), packed.data(), false);  // with MIOpen alone
  return loss + score + dot(space, x, t);
}

double use_layers(const shard::Mesh<Lat, Lon>& mesh) {
  use_nodes<float>(mesh);
  use_nodes<double>(mesh);
  use_attention<float>(mesh);
  use_attention<double>(mesh);
  return use<float>(mesh) + use<double>(mesh);
}

}  // namespace device_layers
