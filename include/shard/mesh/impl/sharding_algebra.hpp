// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_IMPL_SHARDING_ALGEBRA_HPP
#define SHARD_MESH_IMPL_SHARDING_ALGEBRA_HPP

#include "shard/mesh/sharding_type.hpp"

/// \file
/// The arithmetic of a spec on a mesh, shared by LogicalMesh and StaticMesh. It works on plain
/// arrays of the caller, so that it runs at compile time too. A spec is given as `named`, the axes
/// of all its entries in order, and `counts`, the number of axes of each entry.

namespace shard::impl {

/// Throws ArgumentError with this message. It isn't constexpr, so in a constant expression the
/// compiler's error shows the call.
[[noreturn]] void refuse_static_mesh(const char* why);

/// Product of `count` sizes.
constexpr int product(const int* sizes, int count) {
  int all = 1;
  for (int i = 0; i < count; ++i) all *= sizes[i];
  return all;
}

/// Whether the ids are 0 to count - 1 in some order; quadratic, for small meshes at compile time.
constexpr bool is_order(const int* ids, int count) {
  for (int i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= count) return false;
    for (int j = 0; j < i; ++j)
      if (ids[i] == ids[j]) return false;
  }
  return true;
}

/// The axes that a spec names, in its order, then the others, ascending.
constexpr void sharding_permutation(const int* named, int count, int rank, int* permutation) {
  for (int i = 0; i < count; ++i) permutation[i] = named[i];
  int next = count;
  for (int axis = 0; axis < rank; ++axis) {
    bool used = false;
    for (int i = 0; i < count; ++i) used = used || named[i] == axis;
    if (!used) permutation[next++] = axis;
  }
}

/// One axis of transpose(), slowest first; returns the end of the output so far.
constexpr int* transpose_axis(const int* from, const int* shape, int rank, const int* permutation,
                              int level, int* to) {
  if (level == rank) {
    *to = *from;
    return to + 1;
  }
  const int axis   = permutation[level];
  const int stride = product(shape + axis + 1, rank - axis - 1);
  if (level + 1 == rank) {
    for (int i = 0; i < shape[axis]; ++i) to[i] = from[i * stride];
    return to + shape[axis];
  }
  for (int i = 0; i < shape[axis]; ++i)
    to = transpose_axis(from + i * stride, shape, rank, permutation, level + 1, to);
  return to;
}

/// The array `from`, of the given shape and row-major, with its axes in the order of `permutation`.
constexpr void transpose(const int* from, const int* shape, int rank, const int* permutation,
                         int* to) {
  transpose_axis(from, shape, rank, permutation, 0, to);
}

/// Shape of the tile assignment: the transposed mesh with the axes of each tuple merged. Returns
/// its rank, at most that of the mesh.
constexpr int tile_shape(const int* shape, int rank, const int* permutation, const int* counts,
                         int entries, int* tiles) {
  int from = 0, to = 0;
  for (int d = 0; d < entries; ++d) {
    if (counts[d] == 0) continue;
    tiles[to] = 1;
    for (int i = 0; i < counts[d]; ++i) tiles[to] *= shape[permutation[from++]];
    ++to;
  }
  while (from < rank) tiles[to++] = shape[permutation[from++]];
  return to;
}

/// Type of a spec on a mesh. If the tile assignment has more axes than the tensor has dimensions,
/// the type is PARTIAL; torch_xla's ShardingSpec lacks this rule.
constexpr ShardingType sharding_type(int devices, const int* counts, int entries, int tile_rank) {
  if (entries == 0) return ShardingType::replicated;
  if (tile_rank > entries) return ShardingType::partial;
  if (devices == 1) return ShardingType::maximal;
  int cut = 0;
  for (int d = 0; d < entries; ++d) cut += counts[d] > 0 ? 1 : 0;
  if (cut == 0) return ShardingType::replicated;
  return cut < entries ? ShardingType::partial : ShardingType::tiled;
}

/// Number of tiles along each of the tensor's dimensions, 1 where nothing shards it. Returns their
/// product, the number of different shards.
constexpr int tiles_per_dimension(const int* shape, const int* named, const int* counts,
                                  int entries, int* tiles) {
  int shards = 1;
  for (int d = 0; d < entries; ++d) {
    tiles[d] = 1;
    for (int i = 0; i < counts[d]; ++i) tiles[d] *= shape[*named++];
    shards *= tiles[d];
  }
  return shards;
}

}  // namespace shard::impl

#endif
