// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <string>

#include "handles.hpp"
#include "shard/comm/shared_field.hpp"

struct shard_allocation_s : shard::c::Counted {
  std::shared_ptr<shard::impl::FieldMemory> shared;
  Kokkos::View<std::byte*, Kokkos::HostSpace> own;

  void* data() const { return shared != nullptr ? shared->data() : own.data(); }
  std::string describe() const override {
    return shared != nullptr ? "memory that the ranks of a node share\n" : "ordinary memory\n";
  }
};

int shard_allocate(shard_mesh mesh, int64_t bytes, shard_allocation* allocation, void** data) {
  using namespace shard::c;
  return guarded([&] {
    auto& state            = *require(mesh, "the mesh").state;
    shard_allocation& made = require(allocation, "the allocation to be made");
    void*& first           = require(data, "the address");
    shard::impl::require_no_error(
        state.comm(), "allocate",
        bytes < 0 ? shard::impl::text(static_cast<shard::index_t>(bytes)) + " bytes" : "");
    const auto size = static_cast<std::size_t>(bytes);
    auto handle     = std::make_unique<shard_allocation_s>();
    handle->shared  = shard::impl::shared_memory_if(state, size, true);
    if (handle->shared == nullptr)
      handle->own = Kokkos::View<std::byte*, Kokkos::HostSpace>("shard_allocate", size);
    first = handle->data();
    made  = handle.release();
  });
}
int shard_allocation_retain(shard_allocation allocation) {
  return shard::c::retain(allocation, "the allocation");
}
int shard_allocation_release(shard_allocation* allocation) {
  return shard::c::release(allocation, "the allocation");
}
int shard_allocation_address(shard_allocation allocation, void** data) {
  using namespace shard::c;
  return guarded(
      [&] { require(data, "the address") = require(allocation, "the allocation").data(); });
}
