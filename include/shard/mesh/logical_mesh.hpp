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

/// A mesh of devices as an immutable value: ids, shape and names of axes. It needs no communicator,
/// so it can describe any machine. Mesh<Axes...> binds it to a communicator, whose ranks are then
/// the devices. Copies share cached shardings.
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

  /// The sharding of a spec on this mesh. It is cached: the same spec, by names or positions,
  /// returns the same object. Throws ArgumentError for a name that the mesh lacks, a position out
  /// of bounds, an axis used twice.
  OpSharding get_op_sharding(const PartitionSpec& spec) const;
  /// The number of cached shardings.
  int op_shardings_made() const;

  /// Throws ArgumentError unless `devices` is at least 1 and equals the mesh's size. Called when a
  /// mesh is bound to a communicator, with its number of ranks.
  void require_devices(int devices) const;

  /// `{'device_ids': [0, 1], 'mesh_shape': (2, 1), 'axis_names': ('x', 'y')}`
  std::string text() const;
  /// The mesh that text() wrote; none if the text is something else.
  static std::optional<LogicalMesh> from_text(std::string_view words);

  /// Whether devices, shape and names are equal.
  friend bool operator==(const LogicalMesh& a, const LogicalMesh& b);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A mesh of one axis, devices 0 to devices - 1.
LogicalMesh one_axis_mesh(int devices, std::string name = {});

/// The default mesh of this process, for calls without a mesh; none until one is set.
std::optional<LogicalMesh> get_global_mesh();
/// Sets the default mesh, for all threads; std::nullopt unsets it.
void set_global_mesh(std::optional<LogicalMesh> mesh);

}  // namespace shard

#endif
