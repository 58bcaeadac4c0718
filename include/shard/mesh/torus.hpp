// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_TORUS_HPP
#define SHARD_MESH_TORUS_HPP

#include <vector>

#include "shard/mesh/op_sharding.hpp"

namespace shard {

/// Whether one axis of a torus may be split among several axes of a mesh.
enum class SplitAxes {
  never,     ///< each axis of the torus belongs to one axis of the mesh, or it throws
  if_needed  ///< the same if possible, else axes are split
};

/// The mapping of the axes of a mesh to those of a physical torus.
struct TorusAssignment {
  std::vector<int> physical;  ///< extents of the torus
  std::vector<int> logical;   ///< extents of the mesh, the axis that communicates most last
  /// sizes[p * logical.size() + l]: the factor of torus axis p that mesh axis l takes. The product
  /// of a row is the torus' extent, that of a column the mesh's.
  std::vector<int> sizes;

  /// The factor of torus axis p that mesh axis l takes.
  int size(int p, int l) const {
    return sizes[static_cast<std::size_t>(p) * logical.size() + static_cast<std::size_t>(l)];
  }
  /// The nodes of the torus, an array of the shape `physical`, as an array of the shape `logical`.
  /// Throws ArgumentError for another shape.
  DeviceArray place(const DeviceArray& torus) const;
  /// The same with the torus' nodes numbered row-major.
  DeviceArray place() const;
};

/// Maps the axes of a mesh to those of a torus of any rank. From the last mesh axis, which
/// communicates most, to the first: each takes the largest set of torus axes whose remaining
/// extents multiply to its extent, of equal ones the first in lexicographic order. If that fails
/// and `split` allows it, torus axes are split among mesh axes by prime factors, whole axes first.
/// Throws ArgumentError if the numbers of devices differ, for an extent below 1, and if nothing
/// fits and splitting isn't allowed. (JAX's mesh_utils, without its limits.)
TorusAssignment assign_torus(std::vector<int> physical, std::vector<int> logical,
                             SplitAxes split = SplitAxes::if_needed);

namespace impl {

/// Prime factors, ascending, with their multiplicities; none for 1.
std::vector<int> prime_factors(int n);
/// Every way to map an axis of extent `n` to a torus of which `taken` is already assigned.
std::vector<std::vector<int>> feasible_assignments(const std::vector<int>& physical,
                                                   const std::vector<int>& taken, int n);
/// Whether the first is the better of two ways.
bool prefers(const std::vector<int>& x, const std::vector<int>& y, const std::vector<int>& physical,
             const std::vector<int>& taken);

}  // namespace impl
}  // namespace shard

#endif
