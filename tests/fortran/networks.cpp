// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The network of the Fortran test, as a user's C++ file has it.
#include <shard/c/network.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/shard.hpp>

struct Lat;
struct Lon;

extern "C" void register_networks() {
  using Rows = shard::Conv<shard::Kernel<3, 1>, shard::Stride<1, 1>, shard::Padding<1, 0>>;
  // the model's first axis is the longitude
  shard::register_network<Lon, Lat>("rows", [](const shard::Mesh<Lon, Lat>& mesh) {
    return shard::domain_parallel<Lat, Lon>(shard::sequential<double>(Rows{1, 1}), mesh);
  });
}
