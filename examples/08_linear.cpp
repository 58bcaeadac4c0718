// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two Linear layers, data parallel and 2-way model parallel (on 8 ranks 4 x 2), by types: the first
// one's weight is cut in rows, the second one's in columns, so that one sum over Model is all that
// the forward pass sends. The types say which tensors are contributions to a sum.
#include <shard/shard.hpp>

#include <cstdio>
#include <type_traits>

struct Data;
struct Model;

using Batch   = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Data>>;
using Rows    = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Model>>;
using Columns = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<1, Model>>;

using Hidden = shard::linear_result_t<Batch, Rows>;      // cut by Data and by Model
using Output = shard::linear_result_t<Hidden, Columns>;  // contributions to a sum over Model
static_assert(std::is_same_v<
              Hidden, shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Data>,
                                         shard::ShardDim<1, Model>>>);
static_assert(std::is_same_v<
              Output, shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Data>,
                                         shard::Partial<Model, shard::Sum>>>);

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const int ranks = environment.size(), model = ranks % 2 == 0 ? 2 : 1;
  const shard::Mesh<Data, Model> mesh(environment.world(), {ranks / model, model});
  const Kokkos::DefaultExecutionSpace space;

  constexpr shard::index_t samples = 64, in = 32, width = 128, out = 16;
  const Batch x("x", mesh, {samples, in});
  const Rows up("up", mesh, {width, in});
  const Columns down("down", mesh, {out, width});
  const Hidden hidden("hidden", mesh, {samples, width});
  const Output part("part", mesh, {samples, out});
  Kokkos::deep_copy(space, x.view(), 0.5F);
  Kokkos::deep_copy(space, up.view(), 0.25F);
  Kokkos::deep_copy(space, down.view(), 0.125F);

  shard::linear(space, hidden, x, up);       // no message
  shard::linear(space, part, hidden, down);  // no message
  const Batch y = shard::redistribute<Batch>(space, part);

  // J = sum of y^2 / 2, so that dJ/dy = y
  const shard::linear_input_gradient_t<Hidden, Columns> d_hidden("d hidden", mesh,
                                                                 {samples, width});
  const shard::linear_weight_gradient_t<Hidden, Columns> part_down("d down", mesh, {out, width});
  const shard::linear_weight_gradient_t<Batch, Rows> part_up("d up", mesh, {width, in});
  shard::linear_pullback_weight(space, part_down, y, hidden);
  shard::linear_pullback_input(space, d_hidden, y, down);  // nothing to be summed
  shard::linear_pullback_weight(space, part_up, d_hidden, x);
  const Columns d_down = shard::redistribute<Columns>(space, part_down);  // sums over Data
  const Rows d_up      = shard::redistribute<Rows>(space, part_up);

  const double j     = 0.5 * shard::dot(space, y, y),
               steep = shard::norm2(space, d_up) + shard::norm2(space, d_down);
  if (mesh.rank() == 0)
    std::printf("J = %g, its gradients have norms of %g together, on %d x %d ranks\n%s", j, steep,
                ranks / model, model, describe(part).c_str());
}
