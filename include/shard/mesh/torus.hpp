// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_TORUS_HPP
#define SHARD_MESH_TORUS_HPP

#include <vector>

#include "shard/mesh/op_sharding.hpp"

namespace shard {

/// Whether one axis of a torus may serve several axes of a mesh.
enum class SplitAxes {
  never,     ///< each axis of the torus belongs to one axis of the mesh, or it throws
  if_needed  ///< the same where that can be had, else axes are split
};

/// How the axes of a mesh lie on a physical torus.
struct TorusAssignment {
  std::vector<int> physical;  ///< extents of the torus
  std::vector<int> logical;   ///< extents of the mesh, the axis that communicates most last
  /// sizes[p * logical.size() + l]: how much of torus axis p serves mesh axis l. The products along
  /// a row are the torus' extents, down a column the mesh's.
  std::vector<int> sizes;

  /// How much of torus axis p serves mesh axis l.
  int size(int p, int l) const {
    return sizes[static_cast<std::size_t>(p) * logical.size() + static_cast<std::size_t>(l)];
  }
  /// The nodes of the torus, an array of the shape `physical`, as an array of the shape `logical`.
  /// Throws ArgumentError for another shape.
  DeviceArray place(const DeviceArray& torus) const;
  /// The same with the torus' nodes numbered row-major.
  DeviceArray place() const;
};

/// Gives the axes of a mesh to those of a torus of any rank, so that the mesh's last axis, which
/// communicates most, gets the most and the first of them. From the last axis to the first: the
/// most torus axes whose remaining extents multiply to its extent, of those the first in
/// lexicographic order. Where that fails and `split` allows it, torus axes are split among mesh
/// axes: the extent's prime factors are spread over the axes so that whole ones are taken first.
/// Throws ArgumentError if the numbers of devices differ, for an extent below 1, and where nothing
/// fits and splitting is not allowed. (JAX's mesh_utils, without its limits.)
TorusAssignment assign_torus(std::vector<int> physical, std::vector<int> logical,
                             SplitAxes split = SplitAxes::if_needed);

namespace impl {

/// Prime factors, ascending, with their multiplicities; none for 1.
std::vector<int> prime_factors(int n);
/// Every way to give an axis of extent `n` to a torus of which `taken` is assigned already.
std::vector<std::vector<int>> feasible_assignments(const std::vector<int>& physical,
                                                   const std::vector<int>& taken, int n);
/// Whether the first is the better of two ways.
bool prefers(const std::vector<int>& x, const std::vector<int>& y, const std::vector<int>& physical,
             const std::vector<int>& taken);

}  // namespace impl
}  // namespace shard

#endif
