// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_PRODUCT_TERMS_HPP
#define SHARD_SOLVE_IMPL_PRODUCT_TERMS_HPP

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "shard/base/types.hpp"

namespace shard::impl {

/// The place of an entry, by global ids.
struct EntryPlace {
  std::int64_t row = 0, column = 0;
};

/// What this rank's entries of A B are sums of. Entries of B that other ranks have are numbered
/// behind this rank's own, as a halo.
struct ProductTerms {
  std::vector<EntryPlace> entries;  ///< of A B, in the order of A's rows, then of columns' ids
  std::vector<index_t> begin;       ///< of each entry's terms; one more than entries
  std::vector<index_t> a, b;        ///< of each term the entries of A and B
  std::vector<int> owner;           ///< of the halo: which rank has the entry
  std::vector<index_t> place;       ///< and its number there
};

/// From the places of this rank's entries of A and of B, both by rows and with a row's columns in
/// the order of ids. `rows`: the ids of B's rows that this rank owns. Terms are in the order of A's
/// columns (Gustavson 1978). Collective over `comm`. Throws ArgumentError on every rank for a
/// column of A that is no row of B.
ProductTerms product_terms(MPI_Comm comm, const std::vector<EntryPlace>& a,
                           const std::vector<std::int64_t>& rows, const std::vector<EntryPlace>& b);

}  // namespace shard::impl

#endif
