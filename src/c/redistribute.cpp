// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>
#include <cstddef>

#include "handles.hpp"
#include "shard/redistribute/redistribution.hpp"

namespace shard::c {

namespace {

impl::RedistributionSide side_of_field(const shard_field_s& field) {
  impl::RedistributionSide side;
  side.geometry = &field.geometry;
  side.data     = field.origin;
  side.left     = field.left;
  for (int d = 0; d < field.geometry.rank; ++d)
    side.stride[impl::Geometry::at(d)] = field.stride[impl::Geometry::at(d)] * field.value_size;
  return side;
}

impl::Redistribution redistribution_of(const char* function, const shard_field_s& field) {
  impl::Redistribution redistribution;
  redistribution.function   = function;
  redistribution.mesh       = field.geometry.mesh.get();
  redistribution.rank       = field.geometry.rank;
  redistribution.value_size = field.value_size;
  redistribution.kind       = field.kind;
  return redistribution;
}
void run(const shard_field_s& field, const impl::Redistribution& redistribution) {
  if (field.on_device)
    impl::Redistributions<DeviceSpace>::run(device_space(), redistribution);
  else
    impl::Redistributions<HostSpace>::run(HostSpace(), redistribution);
}

void move(const char* function, const shard_field_s& to, const shard_field_s& from, bool adds) {
  if (to.geometry.rank != from.geometry.rank || to.kind != from.kind ||
      to.on_device != from.on_device)
    impl::throw_argument(function, {"\"", to.geometry.label, "\" and \"", from.geometry.label,
                                    "\" have other ranks, types or memories"});
  impl::require_same_cells(function, to.geometry, from.geometry);
  auto redistribution = redistribution_of(function, to);
  redistribution.to   = side_of_field(to);
  redistribution.from = side_of_field(from);
  redistribution.adds = adds;
  from.fetch();
  to.fetch();
  run(to, redistribution);
  to.store();
}

/// From the field to an array of one rank, or back.
void move_array(const char* function, const shard_field_s& field, void* data,
                const int64_t* strides, int root, bool gathers) {
  const auto& geometry = field.geometry;
  std::array<index_t, impl::max_rank> extents{};
  impl::RedistributionSide array;
  array.data         = static_cast<std::byte*>(data);
  index_t contiguous = field.value_size;
  for (int d = geometry.rank - 1; d >= 0; --d) {
    const auto at    = impl::Geometry::at(d);
    extents[at]      = geometry.global(d);
    array.stride[at] = strides == nullptr ? contiguous : strides[d] * field.value_size;
    contiguous *= extents[at];
  }
  impl::require_array(function, geometry, root, extents.data());
  impl::require_no_error(
      geometry.mesh->comm(), function,
      geometry.mesh->rank() == root && data == nullptr ? "the array is null" : "");
  auto redistribution                                 = redistribution_of(function, field);
  (gathers ? redistribution.to : redistribution.from) = array;
  (gathers ? redistribution.from : redistribution.to) = side_of_field(field);
  redistribution.root                                 = root;
  field.fetch();
  run(field, redistribution);
  if (!gathers) field.store();
}

}  // namespace

}  // namespace shard::c

int shard_redistribute(shard_field to, shard_field from) {
  using shard::c::require;
  return shard::c::guarded([&] {
    shard::c::move("redistribute", require(to, "the target"), require(from, "the source"), false);
  });
}

int shard_redistribute_adjoint(shard_field from, shard_field to) {
  using shard::c::require;
  return shard::c::guarded([&] {
    shard::c::move("redistribute_adjoint", require(from, "the source"), require(to, "the target"),
                   true);
  });
}

int shard_gather(void* data, const int64_t* strides, shard_field field, int root) {
  using shard::c::require;
  return shard::c::guarded([&] {
    shard::c::move_array("gather", require(field, "the field"), data, strides, root, true);
  });
}

int shard_scatter(shard_field field, const void* data, const int64_t* strides, int root) {
  using shard::c::require;
  return shard::c::guarded([&] {
    shard::c::move_array("scatter", require(field, "the field"), const_cast<void*>(data), strides,
                         root, false);
  });
}
