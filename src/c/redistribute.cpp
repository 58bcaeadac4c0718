// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handles.hpp"
#include "shard/redistribute/movement.hpp"

namespace shard::c {

namespace {

impl::MovementSide side_of_field(const shard_field_s& field) {
  impl::MovementSide side;
  side.geometry = &field.geometry;
  side.data     = field.origin;
  side.left     = field.left;
  for (int d = 0; d < field.geometry.rank; ++d)
    side.stride[impl::Geometry::at(d)] = field.stride[impl::Geometry::at(d)] * field.value_size;
  return side;
}

void move(const char* function, const shard_field_s& to, const shard_field_s& from, bool adds) {
  if (to.geometry.rank != from.geometry.rank || to.kind != from.kind ||
      to.on_device != from.on_device)
    impl::throw_argument(function, {"\"", to.geometry.label, "\" and \"", from.geometry.label,
                                    "\" have other ranks, types or memories"});
  impl::require_same_cells(function, to.geometry, from.geometry);
  impl::Movement movement;
  movement.function   = function;
  movement.mesh       = to.geometry.mesh.get();
  movement.rank       = to.geometry.rank;
  movement.value_size = to.value_size;
  movement.kind       = to.kind;
  movement.to         = side_of_field(to);
  movement.from       = side_of_field(from);
  movement.adds       = adds;
  if (to.on_device)
    impl::Movements<DeviceSpace>::run(DeviceSpace(), movement);
  else
    impl::Movements<HostSpace>::run(HostSpace(), movement);
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
