// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_CONSECUTIVE_NUMBERS_HPP
#define SHARD_SOLVE_IMPL_CONSECUTIVE_NUMBERS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/solve/sparse_matrix.hpp"

namespace shard::impl {

/// The numbers of an index space's places, by coordinates along its axis, then by places:
/// this rank's own, and those of its halo by an exchange. Collective.
template <class Int, class Tag, class Axis, class MeshType>
std::vector<Int> consecutive_numbers(const MeshType& mesh, const IndexSpace<Tag, Axis>& space) {
  using Numbers = ShardedView<std::int64_t*, Kokkos::LayoutRight, ShardDim<0, Axis, Indices<Tag>>,
                              Kokkos::HostSpace>;
  const Numbers numbers("numbers", mesh, {space.partition()});
  for (index_t i = 0; i < space.owned(); ++i) numbers(i) = numbers.to_global(0, i);
  const Kokkos::DefaultHostExecutionSpace host;
  exchange(host, numbers);
  host.fence("shard::consecutive_numbers");
  std::vector<Int> all;
  for (index_t i = 0; i < space.places(); ++i) all.push_back(static_cast<Int>(numbers(i)));
  return all;
}

/// A matrix' rows on the host, with another library's numbers: row r has counts[r] entries. Fences
/// Kokkos, since a kernel may be writing the values.
template <class Int, class T>
struct NumberedRows {
  std::vector<Int> rows, columns;  ///< of each entry
  std::vector<Int> row;            ///< of each row
  std::vector<int> counts;
  typename Kokkos::View<T*, Kokkos::HostSpace>::const_type values;

  template <class MeshType, class Matrix>
  NumberedRows(const MeshType& mesh, const Matrix& a)
      : row(consecutive_numbers<Int>(mesh, a.rows())) {
    Kokkos::fence("shard::SparseMatrix: the values");
    values             = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values());
    const auto numbers = consecutive_numbers<Int>(mesh, a.columns());
    const auto begin   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.row_begin());
    const auto column  = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.column());
    row.resize(begin.extent(0) - 1);
    for (std::size_t r = 0; r + 1 < begin.extent(0); ++r) {
      counts.push_back(static_cast<int>(begin(r + 1) - begin(r)));
      for (index_t e = begin(r); e < begin(r + 1); ++e) {
        rows.push_back(row[r]);
        columns.push_back(numbers[static_cast<std::size_t>(column(e))]);
      }
    }
  }
};

}  // namespace shard::impl

#endif
