// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the layer has no sharding rule for a sharded dimension
// expect: layer_can_be_sharded<Fourier, shard::Dim<3>
#include <shard/model/domain_parallel.hpp>

struct Lat;
struct Lon;

/// A transform along longitude: no rule says how longitude may be cut.
struct Fourier {
  static constexpr auto sharding = shard::LayerSharding::local;
  static constexpr bool can_be_sharded(int d) { return d == 0; }
};

auto rows(const shard::Mesh<Lat, Lon>& mesh) {
  return shard::domain_parallel<Lat, Lon>(shard::sequential<float>(Fourier{}), mesh);
}
