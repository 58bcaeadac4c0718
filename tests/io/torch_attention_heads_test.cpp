// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What PyTorch's attention computes (tests/data/make_attention_heads.py): the same here, and the
// gradients, on every mesh.

#include "layers/layer_support.hpp"
#include "shard/io/safetensors.hpp"

namespace shard::testing {
namespace {

constexpr const char* values = SHARD_TEST_DATA "/attention_heads.safetensors";

World<4> read_world(const std::string& name) {
  const auto header = read_safetensors_header(values);
  std::array<index_t, 4> n{};
  const auto& extents = header.find(name)->extents;
  std::copy(extents.begin(), extents.end(), n.begin());
  World<4> world(n);
  world.v = read_safetensors<double>(values, name);
  return world;
}

/// The layer's output and gradients on every mesh. `F` is the type of the queries.
template <class F, class Key = F, class Layer>
void check(const std::string& name, const Layer& layer) {
  const World<4> q0 = read_world(name + ".q"), k0 = read_world(name + ".k");
  const Space space;
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    auto parts = some_partitions(q0.n, shape, which, random);
    const F q("q", mesh, parts), y = q.like("y"), dq = q.like("dq");
    parts[1] = Partition::balanced(k0.n[1], 1);
    const Key k("k", mesh, parts), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, read_world(name + ".v"));
    auto state = layer.state(q);
    layer.apply(space, state, y, q, k, v);
    EXPECT_LT(difference(y, read_world(name + ".y")), 1e-12);
    scatter(y, read_world(name + ".dy"));
    layer.pullback(space, state, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(dq, read_world(name + ".q.gradient")), 1e-12);
    EXPECT_LT(difference(dk, read_world(name + ".k.gradient")), 1e-12);
    EXPECT_LT(difference(dv, read_world(name + ".v.gradient")), 1e-12);
  });
}

using Plain = OutputOf<double, 2>;

TEST(TorchAttentionHeads, QueriesShareHeadsOfKeys) {
  check<Plain>("gqa", WindowAttention<3, 4>{.heads = 6, .key_heads = 2});
}

TEST(TorchAttentionHeads, MasksAreAdded) {
  const World<4> numbers = read_world("mask.mask");
  Kokkos::View<double****, Kokkos::LayoutRight, Kokkos::HostSpace> mask(
      "mask", numbers.n[0], numbers.n[1], numbers.n[2], numbers.n[3]);
  std::copy(numbers.v.begin(), numbers.v.end(), mask.data());
  check<Plain>("mask", Masked<WindowAttention<3, 4>>{{.heads = 2}, mask});
}

TEST(TorchAttentionHeads, PointsSeeTheirNeighbourhood) {
  using Layer = NeighbourhoodAttention<Kernel<5, 3>, Dilation<2, 1>, PaddingMode<Zero, Periodic>>;
  using Key   = ShardedView<double****, Kokkos::LayoutRight,
                          ShardDim<2, Lat, required_halo_t<Layer, 0>, Zero>,
                          ShardDim<3, Lon, required_halo_t<Layer, 1>, Periodic>>;
  check<Plain, Key>("neighbourhood", Layer{.heads = 4, .key_heads = 2});
}

}  // namespace
}  // namespace shard::testing
