// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces NCCL in a build without it: no group can be made, so the other functions are never
// called.
#include "shard/comm/nccl_transport.hpp"

namespace shard::impl {

std::string nccl_version() { return {}; }

NcclGroup::NcclGroup(MPI_Comm) {
  throw NcclError(
      "shard::NcclGroup: shard was built without NCCL and RCCL; configure it with "
      "-DSHARD_ENABLE_NCCL=ON (CUDA) or -DSHARD_ENABLE_RCCL=ON (HIP)");
}
NcclGroup::~NcclGroup() = default;
void NcclGroup::run(const std::vector<PlacedBytes>&, const std::vector<PlacedBytes>&, Stream) {
  poll();
}
void NcclGroup::poll() { fail("", 0); }
void NcclGroup::fail(const char*, int) { throw NcclError("shard::NcclGroup: there is none"); }

}  // namespace shard::impl
