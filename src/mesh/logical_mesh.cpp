// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/logical_mesh.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "literal.hpp"
#include "shard/base/error.hpp"
#include "shard/mesh/impl/sharding_algebra.hpp"
#include "sharding_data.hpp"

namespace shard {

namespace {

constexpr const char* in_logical_mesh = "LogicalMesh";

/// Number of places of a shape. Throws for an extent below 1, or if an int overflows.
int places(const std::vector<int>& shape) {
  index_t all = 1;
  for (const int extent : shape) {
    if (extent < 1)
      impl::throw_argument(in_logical_mesh,
                           {"the mesh's shape ", impl::tuple_text(shape),
                            " has an extent below 1; give an unused axis extent 1"});
    all *= extent;
    if (all > std::int32_t{2147483647})
      impl::throw_argument(in_logical_mesh, {"the mesh's shape ", impl::tuple_text(shape),
                                             " has more places than 2147483647"});
  }
  return static_cast<int>(all);
}

/// The first duplicate in a sorted list, or null.
template <class T>
const T* first_double(const std::vector<T>& sorted) {
  const auto found = std::adjacent_find(sorted.begin(), sorted.end());
  return found == sorted.end() ? nullptr : &*found;
}

void check_names(const std::vector<int>& shape, const std::vector<std::string>& names) {
  if (names.empty()) return;
  if (names.size() != shape.size())
    impl::throw_argument(
        in_logical_mesh,
        {"the number of axis names (", impl::text(static_cast<index_t>(names.size())),
         ") must match the mesh dimensions (", impl::text(static_cast<index_t>(shape.size())),
         "); name every axis, or none"});
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (const std::string* twice = first_double(sorted))
    impl::throw_argument(in_logical_mesh,
                         {"axis names must be unique, and ", *twice, " appears twice"});
}

void check_ids(const std::vector<int>& ids, const std::vector<int>& shape) {
  const int size = places(shape);
  if (ids.size() != static_cast<std::size_t>(size))
    impl::throw_argument(in_logical_mesh, {"the number of device ids (",
                                           impl::text(static_cast<index_t>(ids.size())),
                                           ") must match the mesh size (", impl::text(size),
                                           " places in the shape ", impl::tuple_text(shape), ")"});
  std::vector<int> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  if (const int* twice = first_double(sorted))
    impl::throw_argument(in_logical_mesh,
                         {"device ids must be unique, and ", impl::text(*twice), " appears twice"});
  if (sorted.empty()) return;
  const int wrong = sorted.front() < 0 ? sorted.front() : sorted.back();
  if (wrong < 0 || wrong >= size)
    impl::throw_argument(in_logical_mesh, {"device ids must be less than the mesh size ",
                                           impl::text(size), " and not negative, got ",
                                           impl::text(wrong), "; number the devices from 0"});
}

}  // namespace

struct LogicalMesh::State {
  std::vector<int> ids, shape;
  std::vector<std::string> names;
  std::mutex mutex;  // protects the following
  std::map<impl::ResolvedSpec, OpSharding> kept;
  int made = 0;
};

LogicalMesh::LogicalMesh(std::vector<int> device_ids, std::vector<int> mesh_shape,
                         std::vector<std::string> axis_names) {
  check_names(mesh_shape, axis_names);
  check_ids(device_ids, mesh_shape);
  state_        = std::make_shared<State>();
  state_->ids   = std::move(device_ids);
  state_->shape = std::move(mesh_shape);
  state_->names = std::move(axis_names);
}

LogicalMesh LogicalMesh::of_shape(std::vector<int> mesh_shape,
                                  std::vector<std::string> axis_names) {
  std::vector<int> ids(static_cast<std::size_t>(places(mesh_shape)));
  std::iota(ids.begin(), ids.end(), 0);
  return {std::move(ids), std::move(mesh_shape), std::move(axis_names)};
}

int LogicalMesh::size() const { return static_cast<int>(state_->ids.size()); }
int LogicalMesh::rank() const { return static_cast<int>(state_->shape.size()); }
const std::vector<int>& LogicalMesh::mesh_shape() const { return state_->shape; }
const std::vector<std::string>& LogicalMesh::axis_names() const { return state_->names; }
const std::vector<int>& LogicalMesh::device_ids() const { return state_->ids; }
DeviceArray LogicalMesh::get_logical_mesh() const { return {state_->shape, state_->ids}; }

std::vector<std::pair<std::string, int>> LogicalMesh::shape() const {
  std::vector<std::pair<std::string, int>> axes;
  for (std::size_t a = 0; a < state_->shape.size(); ++a)
    axes.emplace_back(state_->names.empty() ? std::to_string(a) : state_->names[a],
                      state_->shape[a]);
  return axes;
}

std::optional<int> LogicalMesh::get_axis_name_idx(std::string_view name) const {
  if (state_->names.empty())
    impl::throw_argument("LogicalMesh::get_axis_name_idx",
                         {"the mesh's axes have no names; give them, or use positions"});
  const auto found = std::find(state_->names.begin(), state_->names.end(), name);
  if (found == state_->names.end()) return std::nullopt;
  return static_cast<int>(found - state_->names.begin());
}

OpSharding LogicalMesh::get_op_sharding(const PartitionSpec& spec) const {
  const impl::ResolvedSpec key = impl::resolve(spec, rank(), state_->names);
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->kept.find(key);
  if (found != state_->kept.end()) return found->second;
  ++state_->made;
  return state_->kept.emplace(key, OpSharding(impl::work_out(state_->ids, state_->shape, key)))
      .first->second;
}

int LogicalMesh::op_shardings_made() const {
  const std::lock_guard lock(state_->mutex);
  return state_->made;
}

void LogicalMesh::require_devices(int devices) const {
  if (devices < 1)
    impl::throw_argument(in_logical_mesh,
                         {"a mesh needs devices and the machine has ", impl::text(devices)});
  if (devices != size())
    impl::throw_argument(
        in_logical_mesh,
        {"the number of device ids (", impl::text(size()),
         ") must match the global number of devices (", impl::text(devices), "); a mesh of shape ",
         impl::tuple_text(state_->shape), " needs ", impl::text(size()), " of them"});
}

std::string LogicalMesh::text() const {
  std::string names = "None";
  if (!state_->names.empty()) {
    names = "(";
    for (const std::string& name : state_->names)
      names += (names.size() > 1 ? ", " : "") + impl::quoted(name);
    names += state_->names.size() == 1 ? ",)" : ")";
  }
  return "{'device_ids': " + impl::list_text(state_->ids) +
         ", 'mesh_shape': " + impl::tuple_text(state_->shape) + ", 'axis_names': " + names + "}";
}

std::optional<LogicalMesh> LogicalMesh::from_text(std::string_view words) {
  const auto value = impl::parse_literal(words);
  if (!value || value->kind != impl::Literal::Kind::dictionary || value->keys.size() > 3)
    return std::nullopt;
  std::optional<std::vector<int>> ids, shape;
  std::optional<std::vector<std::string>> names(std::in_place);
  for (std::size_t i = 0; i < value->keys.size(); ++i) {
    const impl::Literal& item = value->items[i];
    if (value->keys[i] == "device_ids") {
      ids = impl::integers(item);
    } else if (value->keys[i] == "mesh_shape") {
      shape = impl::integers(item);
    } else if (value->keys[i] == "axis_names") {
      if (item.kind != impl::Literal::Kind::none) names = impl::strings(item);
    } else {
      return std::nullopt;
    }
  }
  if (!ids || !shape || !names) return std::nullopt;
  try {
    return LogicalMesh(std::move(*ids), std::move(*shape), std::move(*names));
  } catch (const ArgumentError&) {
    return std::nullopt;
  }
}

bool operator==(const LogicalMesh& a, const LogicalMesh& b) {
  return a.state_ == b.state_ ||
         (a.state_->ids == b.state_->ids && a.state_->shape == b.state_->shape &&
          a.state_->names == b.state_->names);
}

void impl::refuse_static_mesh(const char* why) { throw_argument("StaticMesh", {why}); }

LogicalMesh one_axis_mesh(int devices, std::string name) {
  return LogicalMesh::of_shape({devices}, name.empty() ? std::vector<std::string>{}
                                                       : std::vector<std::string>{std::move(name)});
}

namespace {

struct GlobalMesh {
  std::mutex mutex;
  std::optional<LogicalMesh> mesh;
};

GlobalMesh& global() {
  static GlobalMesh one;
  return one;
}

}  // namespace

std::optional<LogicalMesh> get_global_mesh() {
  const std::lock_guard lock(global().mutex);
  return global().mesh;
}

void set_global_mesh(std::optional<LogicalMesh> mesh) {
  const std::lock_guard lock(global().mutex);
  global().mesh = std::move(mesh);
}

}  // namespace shard
