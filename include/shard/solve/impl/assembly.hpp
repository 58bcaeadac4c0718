// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_ASSEMBLY_HPP
#define SHARD_SOLVE_IMPL_ASSEMBLY_HPP

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "shard/base/types.hpp"

namespace shard {

/// An entry of a matrix, by global ids.
template <class T>
struct MatrixEntry {
  std::int64_t row    = 0;  ///< id of the row
  std::int64_t column = 0;  ///< id of the column
  T value{};                ///< added to what other entries of the same place say
};

namespace impl {

/// A rank's rows, on the host. The columns of a row are in the order of their ids.
template <class T>
struct AssembledRows {
  std::vector<index_t> row_begin;  ///< one more than rows
  std::vector<int> column;         ///< places: owned columns, then the halo
  std::vector<T> value;
  std::vector<std::int64_t> halo;  ///< ids of columns that other ranks own
};

/// Collective over `comm`. Entries may be of any rank's rows; those of one place are added in the
/// order of ranks, then of the list. Throws ArgumentError on every rank for a row that no rank
/// owns.
template <class T>
AssembledRows<T> assemble(MPI_Comm comm, const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& columns,
                          const std::vector<MatrixEntry<T>>& entries);

}  // namespace impl
}  // namespace shard

#endif
