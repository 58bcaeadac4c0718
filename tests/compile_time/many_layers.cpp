// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model of 41 layers: one, then ten residual blocks of four.
#include <shard/shard.hpp>
struct Lat;
struct Lon;
using Same = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
auto unit() {
  return shard::residual(Same{8, 8}, shard::GroupNorm{4, 8}, shard::SiLU{}, Same{8, 8});
}
int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  auto net   = shard::sequential<float>(Same{4, 8}, unit(), unit(), unit(), unit(), unit(), unit(),
                                      unit(), unit(), unit(), unit());
  auto model = shard::domain_parallel<Lat, Lon>(net, mesh);
  auto x = model.input("x", {1, 4, 61, 120}), dx = x.like("dx");
  const Kokkos::DefaultExecutionSpace space;
  auto& y = model(space, x);
  model.pullback(space, dx, y, x);
}
