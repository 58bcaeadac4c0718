// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entries of a matrix go to the ranks that own their rows.
#include "shard/solve/impl/assembly.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "../view/index_directory.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

std::unordered_map<std::int64_t, index_t> places_of(const std::vector<std::int64_t>& ids) {
  std::unordered_map<std::int64_t, index_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) places.emplace(ids[i], static_cast<index_t>(i));
  return places;
}

}  // namespace

template <class T>
std::vector<PlacedEntry<T>> entries_of_rows(const char* function, MPI_Comm comm,
                                            const std::vector<std::int64_t>& rows,
                                            const std::vector<MatrixEntry<T>>& entries) {
  int me = 0;
  check_mpi(MPI_Comm_rank(comm, &me), "MPI_Comm_rank");
  const auto own                = places_of(rows);
  std::vector<std::int64_t> ids = rows;  // own rows, then those of other ranks
  std::unordered_map<std::int64_t, std::size_t> others;
  for (const auto& e : entries)
    if (!own.contains(e.row) && others.emplace(e.row, ids.size() - rows.size()).second)
      ids.push_back(e.row);
  SparseExchange exchange(comm);
  std::string wrong;
  const std::vector<Home> homes =
      homes_of(comm, exchange, ids, static_cast<index_t>(rows.size()), wrong);
  require_no_error(comm, function, wrong);

  std::map<int, std::vector<PlacedEntry<T>>> sent;
  std::vector<PlacedEntry<T>> all;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& e     = entries[i];
    const auto number = static_cast<std::int64_t>(i);
    if (const auto mine = own.find(e.row); mine != own.end()) {
      all.push_back({mine->second, e.column, me, number, e.value});
      continue;
    }
    const Home& home = homes[others.at(e.row)];
    sent[static_cast<int>(home.rank)].push_back({home.place, e.column, me, number, e.value});
  }
  for (const auto& [rank, list] : exchange(sent)) all.insert(all.end(), list.begin(), list.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.row, a.column, a.from, a.number) <
           std::tie(b.row, b.column, b.from, b.number);
  });
  return all;
}

template <class T>
AssembledRows<T> assemble(MPI_Comm comm, const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& columns,
                          const std::vector<MatrixEntry<T>>& entries) {
  const std::vector<PlacedEntry<T>> all = entries_of_rows("SparseMatrix", comm, rows, entries);
  AssembledRows<T> made;
  auto column_places = places_of(columns);
  for (const auto& e : all)
    if (!column_places.contains(e.column)) made.halo.push_back(e.column);
  std::sort(made.halo.begin(), made.halo.end());
  made.halo.erase(std::unique(made.halo.begin(), made.halo.end()), made.halo.end());
  for (std::size_t h = 0; h < made.halo.size(); ++h)
    column_places.emplace(made.halo[h], static_cast<index_t>(columns.size() + h));

  made.row_begin.assign(rows.size() + 1, 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& e = all[i];
    if (i > 0 && all[i - 1].row == e.row && all[i - 1].column == e.column) {
      made.value.back() += e.value;
      continue;
    }
    made.column.push_back(static_cast<int>(column_places.at(e.column)));
    made.value.push_back(e.value);
    ++made.row_begin[static_cast<std::size_t>(e.row) + 1];
  }
  for (std::size_t r = 0; r < rows.size(); ++r) made.row_begin[r + 1] += made.row_begin[r];
  return made;
}

template <class T>
AssemblySources assembly_sources(MPI_Comm comm, const std::vector<std::int64_t>& rows,
                                 const std::vector<MatrixEntry<T>>& of_matrix,
                                 const std::vector<MatrixEntry<T>>& given) {
  int me = 0;
  check_mpi(MPI_Comm_rank(comm, &me), "MPI_Comm_rank");
  const auto all = entries_of_rows("MatrixAssembly", comm, rows, given);
  AssemblySources made;
  std::size_t next = 0, row = 0;
  for (const auto& e : of_matrix) {
    made.begin.push_back(static_cast<index_t>(made.source.size()));
    while (rows[row] != e.row) ++row;
    for (; next < all.size() && all[next].row == static_cast<std::int64_t>(row) &&
           all[next].column == e.column;
         ++next) {
      const auto& from = all[next];
      if (from.from == me) {
        made.source.push_back(from.number);
        continue;
      }
      made.source.push_back(static_cast<index_t>(given.size() + made.owner.size()));
      made.owner.push_back(static_cast<int>(from.from));
      made.place.push_back(from.number);
    }
  }
  made.begin.push_back(static_cast<index_t>(made.source.size()));
  std::string wrong;  // the first that no entry took
  if (next < all.size())
    wrong = "rank " + text(all[next].from) + " gives an entry that the matrix hasn't, in row " +
            text(rows[static_cast<std::size_t>(all[next].row)]) + " and column " +
            text(all[next].column);
  require_no_error(comm, "MatrixAssembly", wrong);
  return made;
}

#define SHARD_ASSEMBLE(T)                                                                   \
  template AssembledRows<T> assemble(MPI_Comm, const std::vector<std::int64_t>&,            \
                                     const std::vector<std::int64_t>&,                      \
                                     const std::vector<MatrixEntry<T>>&);                   \
  template std::vector<PlacedEntry<T>> entries_of_rows(const char*, MPI_Comm,               \
                                                       const std::vector<std::int64_t>&,    \
                                                       const std::vector<MatrixEntry<T>>&); \
  template AssemblySources assembly_sources(MPI_Comm, const std::vector<std::int64_t>&,     \
                                            const std::vector<MatrixEntry<T>>&,             \
                                            const std::vector<MatrixEntry<T>>&);
SHARD_ASSEMBLE(float)
SHARD_ASSEMBLE(double)
SHARD_ASSEMBLE(Kokkos::complex<float>)
SHARD_ASSEMBLE(Kokkos::complex<double>)
#undef SHARD_ASSEMBLE

}  // namespace shard::impl
