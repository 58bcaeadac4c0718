// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HOSTS_CHECKSUM_HPP
#define SHARD_BENCHMARKS_HOSTS_CHECKSUM_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <bit>
#include <cstdint>

namespace workloads {

/// A hash of a value and its place, to be added to those of other places.
inline std::uint64_t hash_at(std::uint64_t place, double value) {
  std::uint64_t h = place * 0x9e3779b97f4a7c15 + std::bit_cast<std::uint64_t>(value);
  h               = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9;
  h               = (h ^ (h >> 27U)) * 0x94d049bb133111eb;
  return h ^ (h >> 31U);
}

/// Of a field in two or three dimensions: the same for every partition. Collective.
template <class Field>
std::uint64_t checksum(MPI_Comm comm, const Field& field) {
  const auto host = create_mirror_view(field);
  deep_copy(Kokkos::DefaultExecutionSpace(), host, field);
  Kokkos::fence("benchmark");
  std::uint64_t sum = 0;
  const auto add    = [&](auto... place) {
    std::uint64_t number = 0;
    int d                = 0;
    ((number = number * static_cast<std::uint64_t>(field.global_extent(d)) +
               static_cast<std::uint64_t>(field.to_global(d, place)),
      ++d),
     ...);
    sum += hash_at(number, host(place...));
  };
  for (int i = 0; i < static_cast<int>(field.extent(0)); ++i)
    for (int j = 0; j < static_cast<int>(field.extent(1)); ++j)
      if constexpr (Field::rank == 2)
        add(i, j);
      else
        for (int k = 0; k < static_cast<int>(field.extent(2)); ++k) add(i, j, k);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, comm);
  return sum;
}

}  // namespace workloads

#endif
