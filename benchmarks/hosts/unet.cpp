// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <memory>

#include "checksum.hpp"
#include "model/unet_training.hpp"
#include "workloads.hpp"

workloads::Run workloads::unet(MPI_Comm comm, int parts) {
  const auto training =
      std::make_shared<::unet::Training>(comm, 16, shard::index_t{32} * parts, 64);
  const auto checksum = [training] {  // all ranks have the same parameters
    const auto values =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), training->parameters());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < values.extent(0); ++i)
      sum += hash_at(i, static_cast<double>(values(i)));
    return sum;
  };
  return {[training] { training->step(); }, checksum};
}
