// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_STATIC_MESH_HPP
#define SHARD_MESH_STATIC_MESH_HPP

#include <array>
#include <cstddef>
#include <initializer_list>

#include "shard/mesh/impl/sharding_algebra.hpp"
#include "shard/mesh/sharding_type.hpp"

namespace shard {

/// An entry of a compile-time spec: `{}` for a dimension that nothing shards, else the positions of
/// up to eight mesh axes, the first the slowest.
struct StaticEntry {
  std::array<int, 8> axes{};  ///< the first `count` of them
  int count = 0;              ///< 0: nothing shards the dimension

  /// Nothing.
  constexpr StaticEntry() = default;
  /// The given axes.
  constexpr StaticEntry(std::initializer_list<int> positions) {
    for (const int axis : positions) {
      if (count == static_cast<int>(axes.size()))
        impl::refuse_static_mesh("at most eight mesh axes shard one dimension");
      axes[static_cast<std::size_t>(count++)] = axis;
    }
  }
};

/// A compile-time OpSharding: `Devices` devices on a mesh of `Axes` axes, for a tensor of rank
/// `Rank`. Unused places of the arrays are 0.
template <int Devices, int Axes, int Rank>
struct StaticSharding {
  ShardingType type = ShardingType::unknown;                      ///< MAXIMAL, TILED, ...
  std::array<int, static_cast<std::size_t>(Axes)> tile_shape{};   ///< of the tile assignment
  int tile_rank = 0;                                              ///< how many of those there are
  std::array<int, static_cast<std::size_t>(Devices)> tile{};      ///< devices, in the tiles' order
  std::array<int, static_cast<std::size_t>(Rank)> tiles{};        ///< per dimension of the tensor
  int replicas = 1;                                               ///< devices with the same tile
  std::array<int, static_cast<std::size_t>(Axes)> permutation{};  ///< of the iota form

  /// Number of replication groups (device g * replicas + i of `tile` is member i of group g); 0
  /// unless PARTIAL.
  constexpr int groups() const { return type == ShardingType::partial ? Devices / replicas : 0; }
  /// Whether every device has the whole tensor.
  constexpr bool replicated() const { return replicas == Devices; }
  /// Whether all is equal.
  friend constexpr bool operator==(const StaticSharding&, const StaticSharding&) = default;
};

/// A mesh whose shape the compiler knows: `StaticMesh<4, 2>{}.op_sharding({{0}, {}})` is a
/// constant. Devices are 0, 1, 2, ... by default. Errors are as of LogicalMesh, in constant
/// expressions at compile time.
template <int... Shape>
struct StaticMesh {
  static_assert(sizeof...(Shape) >= 1 && ((Shape >= 1) && ...), "extents are at least 1");
  static constexpr int size = (Shape * ...);                                ///< number of devices
  static constexpr int axes = static_cast<int>(sizeof...(Shape));           ///< number of axes
  static constexpr std::array<int, sizeof...(Shape)> mesh_shape{Shape...};  ///< extents
  std::array<int, static_cast<std::size_t>(size)> device_ids{};             ///< row-major

  /// Devices 0, 1, 2, ...
  constexpr StaticMesh() {
    for (std::size_t i = 0; i < device_ids.size(); ++i) device_ids[i] = static_cast<int>(i);
  }
  /// Devices in another order.
  constexpr explicit StaticMesh(const std::array<int, static_cast<std::size_t>(size)>& ids)
      : device_ids(ids) {
    if (!impl::is_order(ids.data(), size))
      impl::refuse_static_mesh("device ids are unique and less than the mesh size");
  }

  /// The sharding of a spec on this mesh, one entry per dimension of the tensor.
  template <std::size_t Rank>
  constexpr StaticSharding<size, axes, static_cast<int>(Rank)> op_sharding(
      const StaticEntry (&spec)[Rank]) const {
    int named[axes] = {}, counts[Rank] = {}, count = 0;
    for (std::size_t d = 0; d < Rank; ++d) {
      counts[d] = spec[d].count;
      for (int i = 0; i < spec[d].count; ++i) {
        const int axis = spec[d].axes[static_cast<std::size_t>(i)];
        if (axis < 0 || axis >= axes)
          impl::refuse_static_mesh("a spec's axes are 0 to the mesh's number of axes - 1");
        for (int j = 0; j < count; ++j)
          if (named[j] == axis)
            impl::refuse_static_mesh("each mesh axis appears at most once in a spec");
        named[count++] = axis;
      }
    }
    constexpr int entries = static_cast<int>(Rank);
    StaticSharding<size, axes, entries> s;
    impl::sharding_permutation(named, count, axes, s.permutation.data());
    impl::transpose(device_ids.data(), mesh_shape.data(), axes, s.permutation.data(),
                    s.tile.data());
    s.tile_rank = impl::tile_shape(mesh_shape.data(), axes, s.permutation.data(), counts, entries,
                                   s.tile_shape.data());
    for (std::size_t i = static_cast<std::size_t>(s.tile_rank); i < s.tile_shape.size(); ++i)
      s.tile_shape[i] = 0;
    s.type = impl::sharding_type(size, counts, entries, s.tile_rank);
    s.replicas =
        size / impl::tiles_per_dimension(mesh_shape.data(), named, counts, entries, s.tiles.data());
    return s;
  }
};

}  // namespace shard

#endif
