// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <optional>

#include "handles.hpp"

namespace shard::c {

namespace {

std::optional<DeviceSpace> chosen;

}  // namespace

DeviceSpace device_space() { return chosen ? *chosen : DeviceSpace(); }

}  // namespace shard::c

int shard_set_stream(void* stream) {
  using namespace shard::c;
  return guarded([&] {
    if (stream == nullptr) {
      chosen.reset();
      return;
    }
#if defined(KOKKOS_ENABLE_CUDA)
    const DeviceSpace space(static_cast<cudaStream_t>(stream));
#elif defined(KOKKOS_ENABLE_HIP)
    const DeviceSpace space(static_cast<hipStream_t>(stream));
#else
    const DeviceSpace space;
    shard::impl::throw_argument("set_stream", {"this build has no device; give NULL"});
#endif
    static bool ends_with_kokkos = false;
    if (!ends_with_kokkos)
      Kokkos::push_finalize_hook([] { chosen.reset(), ends_with_kokkos = false; });
    ends_with_kokkos = true;
    chosen.emplace(space);
  });
}

int shard_fence(void) {
  return shard::c::guarded([] { Kokkos::fence("shard_fence"); });
}
