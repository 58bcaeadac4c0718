// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_LOGICAL_MESH_HPP
#define SHARD_MESH_LOGICAL_MESH_HPP

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shard/mesh/op_sharding.hpp"
#include "shard/mesh/partition_spec.hpp"

namespace shard {

/// A mesh of devices as a value: ids, shape and names of axes that come from a file or a command
/// line. It needs no communicator and no machine, so that those that aren't here can be described;
/// Mesh<Axes...> binds it to a communicator, whose ranks are then the devices. Copies share what
/// was computed for it; it never changes.
class LogicalMesh {
 public:
  /// Devices in row-major order of the shape. Throws ArgumentError, in this order: as many names as
  /// axes (or none), no name twice, extents of at least 1, as many ids as the shape has places, no
  /// id twice, ids from 0 to the number of places - 1.
  LogicalMesh(std::vector<int> device_ids, std::vector<int> mesh_shape,
              std::vector<std::string> axis_names = {});
  /// Devices 0, 1, 2, ... in this shape. Errors as above.
  static LogicalMesh of_shape(std::vector<int> mesh_shape,
                              std::vector<std::string> axis_names = {});

  /// Number of devices.
  int size() const;
  /// Number of axes.
  int rank() const;
  /// Extents of the axes.
  const std::vector<int>& mesh_shape() const;
  /// Names of the axes; none if they have none.
  const std::vector<std::string>& axis_names() const;
  /// The devices in row-major order.
  const std::vector<int>& device_ids() const;
  /// Name (or position, as text, where axes have no names) and extent of each axis, in order.
  std::vector<std::pair<std::string, int>> shape() const;
  /// The devices in their shape.
  DeviceArray get_logical_mesh() const;
  /// Position of the axis of this name, or none. Throws ArgumentError if the mesh has no names.
  std::optional<int> get_axis_name_idx(std::string_view name) const;

  /// The spec worked out on this mesh. Kept: who asks again, by names or positions, gets the same
  /// object. Throws ArgumentError for a name that the mesh lacks, a position out of bounds, an axis
  /// used twice.
  OpSharding get_op_sharding(const PartitionSpec& spec) const;
  /// How many shardings have been worked out so far; who asks again for one doesn't count.
  int op_shardings_made() const;

  /// Throws ArgumentError unless the machine has at least one device and exactly as many as the
  /// mesh. Called when a mesh is bound to a communicator, with its number of ranks.
  void require_devices(int devices) const;

  /// `{'device_ids': [0, 1], 'mesh_shape': (2, 1), 'axis_names': ('x', 'y')}`
  std::string text() const;
  /// The mesh that text() wrote; none where that isn't what the words are.
  static std::optional<LogicalMesh> from_text(std::string_view words);

  /// Whether devices, shape and names are equal.
  friend bool operator==(const LogicalMesh& a, const LogicalMesh& b);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A mesh of one axis, devices 0 to devices - 1.
LogicalMesh one_axis_mesh(int devices, std::string name = {});

/// The mesh that calls without one of their own use; none until one is set. It is this process'.
std::optional<LogicalMesh> get_global_mesh();
/// Sets it, for all threads, or with std::nullopt takes it away.
void set_global_mesh(std::optional<LogicalMesh> mesh);

}  // namespace shard

#endif
