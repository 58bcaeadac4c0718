// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIPLY_ENTRIES_HPP
#define SHARD_SOLVE_IMPL_MULTIPLY_ENTRIES_HPP

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "shard/solve/impl/assembly.hpp"

namespace shard::impl {

/// This rank's entries of A B, from its entries of A and of B, both by rows and with a row's
/// columns in the order of ids. `rows`: the ids of B's rows that this rank owns; the rows of B that
/// A's columns name come from their owners. Terms are added in the order of A's columns. Collective
/// over `comm`. Throws ArgumentError on every rank for a column of A that is no row of B.
template <class T>
std::vector<MatrixEntry<T>> multiply_entries(MPI_Comm comm, const std::vector<MatrixEntry<T>>& a,
                                             const std::vector<std::int64_t>& rows,
                                             const std::vector<MatrixEntry<T>>& b);

}  // namespace shard::impl

#endif
