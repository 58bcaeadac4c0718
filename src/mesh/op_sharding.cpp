// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/op_sharding.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "literal.hpp"
#include "shard/base/error.hpp"
#include "shard/mesh/impl/sharding_algebra.hpp"
#include "sharding_data.hpp"

namespace shard {

namespace {

void nested(const DeviceArray& array, std::size_t axis, std::size_t& next, std::string& words) {
  if (axis == array.shape.size()) {
    words += std::to_string(array.ids[next++]);
    return;
  }
  words += '[';
  for (int i = 0; i < array.shape[axis]; ++i) {
    if (i > 0) words += ", ";
    nested(array, axis + 1, next, words);
  }
  words += ']';
}

/// "4,2", without spaces, as XLA writes lists.
std::string list(const std::vector<int>& values) {
  std::string words;
  for (const int value : values) {
    if (!words.empty()) words += ',';
    words += std::to_string(value);
  }
  return words;
}

/// Position of each id in a list of the ids 0 to n - 1.
std::vector<int> inverse(const std::vector<int>& ids) {
  std::vector<int> positions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    positions[static_cast<std::size_t>(ids[i])] = static_cast<int>(i);
  return positions;
}

bool in_order(const std::vector<int>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] != static_cast<int>(i)) return false;
  return true;
}

}  // namespace

int DeviceArray::at(std::initializer_list<int> position) const {
  std::size_t offset = 0, axis = 0;
  bool inside = position.size() == shape.size();
  for (const int i : position) {
    if (!inside || i < 0 || i >= shape[axis]) {
      inside = false;
      break;
    }
    offset = offset * static_cast<std::size_t>(shape[axis]) + static_cast<std::size_t>(i);
    ++axis;
  }
  if (!inside || offset >= ids.size())
    impl::throw_argument("DeviceArray::at", {"there is nothing at ", impl::tuple_text(position),
                                             " in an array of shape ", impl::tuple_text(shape)});
  return ids[offset];
}

std::string DeviceArray::text() const {
  if (ids.empty()) return "[]";
  std::string words;
  std::size_t next = 0;
  nested(*this, 0, next, words);
  return words;
}

std::vector<int> IotaSharding::devices() const {
  const int size = impl::product(reshape.data(), static_cast<int>(reshape.size()));
  std::vector<int> all(static_cast<std::size_t>(size)), tiles(all.size());
  std::iota(all.begin(), all.end(), 0);
  impl::transpose(order.empty() ? all.data() : order.data(), reshape.data(),
                  static_cast<int>(reshape.size()), permutation.data(), tiles.data());
  return tiles;
}

std::string IotaSharding::text() const {
  std::string words = "{devices=[" + list(dims) + "]";
  if (order.empty()) {
    if (in_order(permutation))
      words += "<=[" +
               std::to_string(impl::product(reshape.data(), static_cast<int>(reshape.size()))) +
               "]";
    else
      words += "<=[" + list(reshape) + "]T(" + list(permutation) + ")";
  } else {
    words += list(devices());
  }
  return words + (subgroups.empty() ? "}" : " last_tile_dim_replicate}");
}

namespace impl {

std::shared_ptr<const ShardingData> work_out(const std::vector<int>& device_ids,
                                             const std::vector<int>& mesh_shape,
                                             const ResolvedSpec& spec) {
  auto made         = std::make_shared<ShardingData>();
  ShardingData& d   = *made;
  const int rank    = static_cast<int>(mesh_shape.size());
  const int entries = static_cast<int>(spec.counts.size());
  const int devices = static_cast<int>(device_ids.size());
  d.mesh_shape      = mesh_shape;
  if (!in_order(device_ids)) d.order = device_ids;

  d.permutation.resize(mesh_shape.size());
  sharding_permutation(spec.axes.data(), static_cast<int>(spec.axes.size()), rank,
                       d.permutation.data());
  d.tile.shape.resize(mesh_shape.size());
  d.tile.ids.resize(device_ids.size());
  transpose(device_ids.data(), mesh_shape.data(), rank, d.permutation.data(), d.tile.ids.data());
  const int tile_rank = tile_shape(mesh_shape.data(), rank, d.permutation.data(),
                                   spec.counts.data(), entries, d.tile.shape.data());
  d.tile.shape.resize(static_cast<std::size_t>(tile_rank));
  d.position = inverse(d.tile.ids);

  d.type = sharding_type(devices, spec.counts.data(), entries, tile_rank);
  d.tiles.resize(spec.counts.size());
  const int shards = tiles_per_dimension(mesh_shape.data(), spec.axes.data(), spec.counts.data(),
                                         entries, d.tiles.data());
  d.replicas       = devices / shards;

  if (d.type == ShardingType::partial) {
    d.groups.shape = d.tiles;
    d.groups.ids.resize(static_cast<std::size_t>(shards));
    std::iota(d.groups.ids.begin(), d.groups.ids.end(), 0);
    d.members = {{shards, d.replicas}, d.tile.ids};
  }
  if (entries == 0) d.tile = {};
  return made;
}

}  // namespace impl

ShardingType OpSharding::type() const { return data_->type; }
int OpSharding::devices() const { return static_cast<int>(data_->position.size()); }
int OpSharding::rank() const { return static_cast<int>(data_->tiles.size()); }
const std::vector<int>& OpSharding::tiles() const { return data_->tiles; }
int OpSharding::tiles(int d) const {
  if (d < 0 || d >= rank())
    impl::throw_argument("OpSharding::tiles", {"there is no dimension ", impl::text(d),
                                               " in a sharding of rank ", impl::text(rank())});
  return data_->tiles[static_cast<std::size_t>(d)];
}
int OpSharding::replicas() const { return data_->replicas; }
bool OpSharding::replicated() const { return data_->replicas == devices(); }
const DeviceArray& OpSharding::tile_assignment() const { return data_->tile; }
const DeviceArray& OpSharding::group_assignment() const { return data_->groups; }
const DeviceArray& OpSharding::replication_groups() const { return data_->members; }

std::string OpSharding::text() const {
  if (replicated()) return "{replicated}";
  std::vector<int> dims = data_->tiles;
  if (data_->replicas > 1) dims.push_back(data_->replicas);
  return "{devices=[" + list(dims) + "]" + list(data_->tile.ids) +
         (data_->replicas > 1 ? " last_tile_dim_replicate}" : "}");
}

IotaSharding OpSharding::iota() const {
  IotaSharding form{data_->tiles, data_->mesh_shape, data_->permutation, {}, data_->order};
  if (data_->replicas > 1) {
    form.dims.push_back(data_->replicas);
    form.subgroups.push_back(ShardingType::replicated);
  }
  return form;
}

std::vector<int> OpSharding::tile_of(int device) const {
  int tile = position_of(device) / data_->replicas;
  std::vector<int> coordinates(data_->tiles.size());
  for (std::size_t d = coordinates.size(); d-- > 0; tile /= data_->tiles[d])
    coordinates[d] = tile % data_->tiles[d];
  return coordinates;
}

int OpSharding::replica_id(int device) const {
  const int position = position_of(device);
  return type() == ShardingType::replicated ? device : position % data_->replicas;
}

int OpSharding::position_of(int device) const {
  if (device < 0 || device >= devices())
    impl::throw_argument("OpSharding", {"there is no device ", impl::text(device),
                                        " among the mesh's ", impl::text(devices()), " devices"});
  return data_->position[static_cast<std::size_t>(device)];
}

bool operator==(const OpSharding& a, const OpSharding& b) {
  return a.data_ == b.data_ ||
         (a.type() == b.type() && a.tiles() == b.tiles() && a.data_->position == b.data_->position);
}

}  // namespace shard
