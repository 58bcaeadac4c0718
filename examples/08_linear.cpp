// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two Linear layers, data parallel and 2-way model parallel (on 8 ranks 4 x 2). mark_sharding
// shards the values by specs that might come from a file, and as_sharded gives fields. The first
// weight is sharded by rows, the second by columns, so the forward pass needs only one sum over
// Model.
#include <shard/shard.hpp>

#include <cstdio>
#include <type_traits>

struct Data;
struct Model;

using Matrix  = Kokkos::View<float**, Kokkos::LayoutRight>;
using Batch   = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Data>>;
using Rows    = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Model>>;
using Columns = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<1, Model>>;
using Hidden  = shard::linear_result_t<Batch, Rows>;      // sharded over Data and Model
using Output  = shard::linear_result_t<Hidden, Columns>;  // contributions to a sum over Model
static_assert(std::is_same_v<
              Output, shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Data>,
                                         shard::Partial<Model, shard::Sum>>>);

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const int ranks = environment.size(), model = ranks % 2 == 0 ? 2 : 1;
  const shard::Mesh<Data, Model> mesh(environment.world(), {ranks / model, model});
  const shard::DeviceMesh devices(mesh, {"data", "model"});
  const Kokkos::DefaultExecutionSpace space;

  constexpr std::size_t samples = 64, in = 32, width = 128, out = 16;
  const auto whole = [&](std::size_t rows, std::size_t columns, float value) {
    const Matrix matrix("whole", rows, columns);
    Kokkos::deep_copy(space, matrix, value);
    return matrix;
  };
  const auto marked = [&](const Matrix& values, const char* spec) {
    return shard::mark_sharding(space, values, devices, shard::PartitionSpec::from_text(spec));
  };
  const auto x  = shard::as_sharded<Batch>(marked(whole(samples, in, 0.5F), "(data, None)"), mesh);
  const auto up = shard::as_sharded<Rows>(marked(whole(width, in, 0.25F), "(model, None)"), mesh);
  const auto down =
      shard::as_sharded<Columns>(marked(whole(out, width, 0.125F), "(None, model)"), mesh);

  const Hidden hidden("hidden", mesh, {x.partition(0), up.partition(0)});
  const Output part("part", mesh, {x.partition(0), down.partition(0)});
  shard::linear(space, hidden, x, up);       // no message
  shard::linear(space, part, hidden, down);  // no message
  const Batch y = shard::redistribute<Batch>(space, part);

  // J = sum of y^2 / 2, so that dJ/dy = y
  const shard::linear_input_gradient_t<Hidden, Columns> d_hidden("d hidden", mesh,
                                                                 hidden.partitions());
  const shard::linear_weight_gradient_t<Hidden, Columns> part_down("d down", mesh,
                                                                   down.partitions());
  const shard::linear_weight_gradient_t<Batch, Rows> part_up("d up", mesh, up.partitions());
  shard::linear_pullback_weight(space, part_down, y, hidden);
  shard::linear_pullback_input(space, d_hidden, y, down);  // local
  shard::linear_pullback_weight(space, part_up, d_hidden, x);
  const Columns d_down = shard::redistribute<Columns>(space, part_down);  // sums over Data
  const Rows d_up      = shard::redistribute<Rows>(space, part_up);

  const double j     = 0.5 * shard::dot(space, y, y),
               steep = shard::norm2(space, d_up) + shard::norm2(space, d_down);
  if (mesh.rank() == 0)
    std::printf("J = %g, its gradients have norms of %g together, on %d x %d ranks\n%s", j, steep,
                ranks / model, model, describe(part).c_str());
}
