// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plan asks about the device: whose memory it is, and the stream for a stream-ordered
// transport.
#include <shard/comm/impl/device_space.hpp>
#include <shard/comm/nccl_transport.hpp>

namespace device_comm {

using namespace shard::impl;
using Space  = Kokkos::DefaultExecutionSpace;
using Memory = Space::memory_space;

#if defined(KOKKOS_ENABLE_CUDA)
static_assert(device_kind_of<Memory> == DeviceKind::cuda);
#elif defined(KOKKOS_ENABLE_HIP)
static_assert(device_kind_of<Memory> == DeviceKind::rocm);
#endif
static_assert(device_kind_of<Kokkos::HostSpace> == DeviceKind::other);

void run_once(NcclTransport& transport, const Space& space) {
  transport.post_receives(1);
  transport.send_all(stream_of(space));
  transport.wait(stream_of(space));
  transport.release();
}

bool on_a_stream(const Space& space) {
  return stream_of(space).handle != nullptr &&
         stream_of(Kokkos::DefaultHostExecutionSpace()).handle == nullptr;
}

}  // namespace device_comm
