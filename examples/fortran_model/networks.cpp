// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's network: one variable in, one out, from a cell's neighbourhood of 5 x 5.
#include <shard/c/network.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/shard.hpp>

struct X;
struct Y;

extern "C" void register_networks() {
  using Conv3 = shard::Conv<shard::Kernel<3, 3>, shard::Stride<1, 1>, shard::Padding<1, 1>,
                            shard::PaddingMode<shard::Reflect, shard::Periodic>>;
  // the mesh has the axes of the model, x first; the network's dimensions are [y, x]
  shard::register_network<X, Y>("smoother", [](const shard::Mesh<X, Y>& mesh) {
    return shard::domain_parallel<Y, X>(
        shard::sequential<double>(Conv3{1, 8}, shard::SiLU{}, Conv3{8, 1}), mesh);
  });
}
