// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host side of what trains a model and keeps its state, for the device.

#include <shard/io/checkpoint.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/shard.hpp>

#include "shard/layers/window/conv.hpp"
#include "shard/train/gradient_buckets.hpp"
#include "shard/train/gradient_norm.hpp"
#include "shard/train/loss_scale.hpp"
#include "shard/train/optimisers.hpp"

struct Lat;
struct Lon;

/// A layer with a computed weight.
template <class Layer>
void use_weights(const shard::Mesh<Lat, Lon>& mesh, const Layer& layer) {
  using namespace shard;
  using Field = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                            ShardDim<3, Lon, Halo<1>, Periodic>>;
  const Kokkos::DefaultExecutionSpace space;
  const Field x("x", mesh, {1, 2, 8, 8}), y = x.like("y"), dx = x.like("dx");
  const auto p = make_parameters<float>(layer, "p"), g = make_parameters<float>(layer, "g");
  initialise(space, layer, p, 1, 0);
  auto state = layer.state(x);
  layer.apply(space, state, p, y, x);
  layer.pullback(space, state, p, g, dx, y, x);
}

bool use_training(const shard::Mesh<Lat, Lon>& mesh) {
  using namespace shard;
  using Field = ShardedView<float***, Kokkos::LayoutRight, ShardDim<1, Lat, Halo<1>>,
                            ShardDim<2, Lon, Halo<1>, Periodic>>;
  const Kokkos::DefaultExecutionSpace space;
  const Field x("x", mesh, {2, 8, 8});
  const Conv<Kernel<3, 3>> layer{2, 2};
  const index_t count = parameter_count(layer);
  ParameterArena<float> values("values", count), gradients("gradients", count);
  values.take("0", layer);
  gradients.take("0", layer);
  use_weights(mesh, LowRank<Conv<Kernel<3, 3>, Padding<1, 1>>>({2, 2}));
  use_weights(mesh, SpectralNorm<Conv<Kernel<3, 3>, Padding<1, 1>>>({2, 2}));
  use_weights(mesh, WeightNorm<Conv<Kernel<3, 3>, Padding<1, 1>>>({2, 2}));
  use_weights(mesh, JoinedWeight<Conv<Kernel<3, 3>, Padding<1, 1>>>({2, 2}, {{"a", 1}, {"b", 1}}));
  GradientBuckets<float> buckets(x, gradients);
  buckets.ready(space, "0");
  buckets.finish(space);
  LossScale<float> scale(count, mesh.communicator());
  const bool good = scale.unscale(space, gradients.values());
  GradientNorm<float>(count).clip(space, gradients.values(), 1.0);
  SGD<float> sgd(count, {0.1, 0.9});
  AdamW<float> adam(count);
  sgd(space, values.values(), gradients.values());
  adam(space, values.values(), gradients.values());
  EMA<float> ema(values);
  ema(space, values.values());
  ema.swap(space, values.values());
  const GradientSum<float> sum(x, count);
  AdamW<float> of_part(sum.part().count);
  sum.step(space, of_part, values.values(), gradients.values());
  round_values(space, values.values(), values.values(), LowPrecision::half);
  Checkpoint state(mesh.communicator());
  index_t step = 0;
  state.add("x", x);
  state.add("model", values);
  state.add("sgd", sgd);
  state.add("adam", adam);
  state.add("ema", ema);
  state.add("part", sum.part(), of_part);
  state.add("scale", scale);
  state.add("step", step);
  state.save("state");
  state.load("state");
  save_safetensors("weights", values, mesh.communicator());
  load_safetensors("weights", values, mesh.communicator());
  return good;
}
