// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/solve/impl/galerkin_levels.hpp"
#include "shard/solve/impl/multigrid_levels.hpp"

namespace shard::impl {

namespace {

/// All ranks' lists, in the order of ranks.
template <class V>
std::vector<V> gathered(MPI_Comm comm, const std::vector<V>& mine) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  const auto bytes = static_cast<int>(mine.size() * sizeof(V));
  std::vector<int> counts(static_cast<std::size_t>(ranks)), begins(counts.size());
  await_mpi("MPI_Allgather", MPI_Allgather, &bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, comm);
  for (std::size_t r = 1; r < counts.size(); ++r) begins[r] = begins[r - 1] + counts[r - 1];
  std::vector<V> all(static_cast<std::size_t>(begins.back() + counts.back()) / sizeof(V));
  await_mpi("MPI_Allgatherv", MPI_Allgatherv, mine.data(), bytes, MPI_BYTE, all.data(),
            counts.data(), begins.data(), MPI_BYTE, comm);
  return all;
}

}  // namespace

InverseRows gathered_inverse(MPI_Comm comm, MPI_Comm all, const std::vector<std::int64_t>& rows,
                             const std::vector<MatrixEntry<double>>& entries, double epsilon) {
  constexpr std::int64_t most = 1024;
  auto count                  = static_cast<std::int64_t>(rows.size());
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_SUM, comm);
  require_no_error(all, "GalerkinMultigrid",
                   count > most ? "the last level has " + text(count) + " unknowns, at most " +
                                      text(most) + " are allowed; give a coarser level"
                                : std::string());
  InverseRows made;
  made.columns = gathered(comm, rows);
  std::sort(made.columns.begin(), made.columns.end());
  const auto n  = made.columns.size();
  const auto at = [&](std::int64_t id) {
    return static_cast<std::size_t>(std::lower_bound(made.columns.begin(), made.columns.end(), id) -
                                    made.columns.begin());
  };
  std::vector<double> dense(n * n);
  for (const auto& e : gathered(comm, entries)) dense[at(e.row) * n + at(e.column)] = e.value;
  // sums of products from all finer levels have more rounding than the operator's rows
  const double zero     = std::max(1e-12, 64 * epsilon) * static_cast<double>(n),
               rounding = epsilon * static_cast<double>(n);
  require_no_error(all, "GalerkinMultigrid",
                   invert_symmetric(dense.data(), static_cast<int>(n), zero, rounding)
                       ? std::string()
                       : "the last level's matrix isn't positive definite");
  for (const std::int64_t id : rows) {
    const auto row = dense.begin() + static_cast<std::ptrdiff_t>(at(id) * n);
    made.values.insert(made.values.end(), row, row + static_cast<std::ptrdiff_t>(n));
  }
  return made;
}

void require_positive_diagonal(double largest) {
  if (!std::isfinite(largest))
    throw_argument("GalerkinMultigrid",
                   {"a matrix' diagonal isn't positive somewhere, or an element isn't finite: the "
                    "matrix must be symmetric positive definite"});
}

}  // namespace shard::impl
