// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model of two layers on a mesh, with its gradients.
#include <shard/shard.hpp>
struct Lat;
struct Lon;
int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  auto net = shard::sequential<float>(shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>{4, 4},
                                      shard::SiLU{});
  auto model = shard::domain_parallel<Lat, Lon>(net, mesh);
  auto x = model.input("x", {1, 4, 61, 120}), dx = x.like("dx");
  const Kokkos::DefaultExecutionSpace space;
  auto& y = model(space, x);
  model.pullback(space, dx, y, x);
}
