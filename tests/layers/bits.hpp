// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_BITS_HPP
#define SHARD_TESTS_LAYERS_BITS_HPP

#include <cstring>

#include "layers/layer_support.hpp"

namespace shard::testing {

/// The owned cells of all ranks.
template <class Field>
World<Field::rank> gathered(const Field& f, MPI_Comm comm) {
  std::array<index_t, Field::rank> n{};
  for (int d = 0; d < Field::rank; ++d) n[static_cast<std::size_t>(d)] = f.global_extent(d);
  World<Field::rank> world(n);
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence();
  for_owned(host, [&](const auto& i, auto value) { world.v[world.at(i)] = value; });
  MPI_Allreduce(MPI_IN_PLACE, world.v.data(), static_cast<int>(world.v.size()), MPI_DOUBLE, MPI_SUM,
                comm);
  return world;
}

/// Cells that differ in a bit; a zero's sign doesn't count, for `gathered` loses it.
inline index_t different_bits(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return -1;
  index_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different += std::memcmp(&a[i], &b[i], sizeof(double)) != 0 && !(a[i] == 0.0 && b[i] == 0.0);
  return different;
}

/// Largest absolute value in the halo, over all ranks. Sets the owned cells to zero.
template <class Field>
double largest_in_halo(const Field& f) {
  Kokkos::deep_copy(f.owned(), 0);
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence();
  double largest = 0.0;
  for (std::size_t i = 0; i < host.view().span(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(host.view().data()[i])));
  MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return largest;
}

}  // namespace shard::testing

#endif
