// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/shard_layout.hpp"

#include <cstddef>
#include <utility>

#include "shard/base/error.hpp"

namespace shard {

namespace {

std::vector<index_t> difference(const std::vector<index_t>& a, const std::vector<index_t>& b) {
  std::vector<index_t> d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

}  // namespace

std::vector<index_t> DeviceShard::extent() const { return difference(end, begin); }
std::vector<index_t> DeviceShard::padding() const { return difference(padded_extent, extent()); }

std::string DeviceShard::text() const {
  if (whole) return "...";
  std::string words;
  for (std::size_t d = 0; d < begin.size(); ++d)
    words += (d == 0 ? "[" : ", ") + impl::text(begin[d]) + ":" + impl::text(end[d]);
  return words + "]";
}

ShardLayout::ShardLayout(OpSharding sharding, const std::vector<index_t>& extents, ShardRule rule)
    : sharding_(std::move(sharding)), extents_(extents) {
  const int rank = static_cast<int>(extents_.size());
  if (rank != sharding_.rank())
    impl::throw_argument("ShardLayout",
                         {"the partition spec's length (", impl::text(sharding_.rank()),
                          ") should be equal to the tensor's rank (", impl::text(rank),
                          "); give one entry per dimension"});
  for (int d = 0; d < rank; ++d) {
    const index_t n = extents_[static_cast<std::size_t>(d)];
    if (n < 0)
      impl::throw_argument("ShardLayout",
                           {"extents are not negative, got ", impl::text(extents_.data(), rank)});
    const int tiles = sharding_.tiles(d);
    partitions_.push_back(rule == ShardRule::ceil ? Partition::ceil(n, tiles)
                                                  : Partition::balanced(n, tiles));
    shard_shape_.push_back(partitions_.back().count(0));  // the first tile is the largest
  }
}

const Partition& ShardLayout::partition(int d) const {
  if (d < 0 || d >= static_cast<int>(partitions_.size()))
    impl::throw_argument("ShardLayout::partition",
                         {"there is no dimension ", impl::text(d), " in a tensor of rank ",
                          impl::text(static_cast<index_t>(partitions_.size()))});
  return partitions_[static_cast<std::size_t>(d)];
}

DeviceShard ShardLayout::shard(int device) const {
  DeviceShard s;
  s.device                    = device;
  s.replica_id                = sharding_.replica_id(device);
  s.whole                     = sharding_.replicated();
  const std::vector<int> tile = sharding_.tile_of(device);
  for (std::size_t d = 0; d < tile.size(); ++d) {
    s.begin.push_back(partitions_[d].begin(tile[d]));
    s.end.push_back(partitions_[d].end(tile[d]));
  }
  s.padded_extent = shard_shape_;
  return s;
}

std::vector<DeviceShard> ShardLayout::shards(const std::vector<int>& devices) const {
  std::vector<DeviceShard> all;
  for (const int device : devices) all.push_back(shard(device));
  return all;
}

}  // namespace shard
