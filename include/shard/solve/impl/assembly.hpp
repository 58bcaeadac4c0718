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

/// An entry at the owner of its row: the row's place, the column's id, and the rank that gave it,
/// with its place in that rank's list.
template <class T>
struct PlacedEntry {
  std::int64_t row, column, from, number;
  T value;
};

/// The entries of this rank's `rows` that all ranks give, in the order of rows, columns, ranks and
/// lists. Collective over `comm`. Throws ArgumentError on every rank for a row that no rank owns.
template <class T>
std::vector<PlacedEntry<T>> entries_of_rows(const char* function, MPI_Comm comm,
                                            const std::vector<std::int64_t>& rows,
                                            const std::vector<MatrixEntry<T>>& entries);

/// Which of the given values are added to each entry of a matrix. Those that other ranks give are
/// numbered behind this rank's own, as a halo.
struct AssemblySources {
  std::vector<index_t> begin;   ///< of each entry's sources; one more than entries
  std::vector<index_t> source;  ///< numbers of given values
  std::vector<int> owner;       ///< of the halo: the rank that gives the value
  std::vector<index_t> place;   ///< and its number there
};

/// Finds them. `of_matrix`: this rank's entries by rows, then by columns' ids. Collective over
/// `comm`. Throws ArgumentError on every rank for a given entry that the matrix hasn't.
template <class T>
AssemblySources assembly_sources(MPI_Comm comm, const std::vector<std::int64_t>& rows,
                                 const std::vector<MatrixEntry<T>>& of_matrix,
                                 const std::vector<MatrixEntry<T>>& given);

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
