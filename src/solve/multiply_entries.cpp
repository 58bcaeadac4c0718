// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of sparse matrices (Gustavson 1978), with rows of B from other ranks.
#include "shard/solve/impl/multiply_entries.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "../view/index_directory.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

/// The entries of one row, in a list.
struct EntryRange {
  std::size_t begin = 0, end = 0;
};
using RangeOfRow = std::unordered_map<std::int64_t, EntryRange>;

/// Sets the ranges of the rows in list[first, end).
template <class T>
void set_ranges(RangeOfRow& ranges, const std::vector<MatrixEntry<T>>& list, std::size_t first) {
  for (std::size_t i = first, end = i; i < list.size(); i = end) {
    while (end < list.size() && list[end].row == list[i].row) ++end;
    ranges[list[i].row] = {i, end};
  }
}

}  // namespace

template <class T>
std::vector<MatrixEntry<T>> multiply_entries(MPI_Comm comm, const std::vector<MatrixEntry<T>>& a,
                                             const std::vector<std::int64_t>& rows,
                                             const std::vector<MatrixEntry<T>>& b) {
  RangeOfRow ranges;
  for (const std::int64_t id : rows) ranges.emplace(id, EntryRange());
  std::vector<std::int64_t> ids = rows;  // own rows, then those of other ranks
  for (const auto& e : a)
    if (ranges.emplace(e.column, EntryRange()).second) ids.push_back(e.column);
  SparseExchange exchange(comm);
  std::string wrong;
  const std::vector<Home> homes =
      homes_of(comm, exchange, ids, static_cast<index_t>(rows.size()), wrong);
  require_no_error(comm, "product", wrong);

  set_ranges(ranges, b, 0);
  std::map<int, std::vector<std::int64_t>> asked;
  for (std::size_t i = 0; i < homes.size(); ++i)
    asked[static_cast<int>(homes[i].rank)].push_back(ids[rows.size() + i]);
  std::map<int, std::vector<MatrixEntry<T>>> answers;
  for (const auto& [rank, list] : exchange(asked))
    for (const std::int64_t id : list) {
      const EntryRange& range = ranges.at(id);
      answers[rank].insert(answers[rank].end(),
                           b.begin() + static_cast<std::ptrdiff_t>(range.begin),
                           b.begin() + static_cast<std::ptrdiff_t>(range.end));
    }
  std::vector<MatrixEntry<T>> all = b;
  for (const auto& [rank, list] : exchange(answers)) {
    const std::size_t first = all.size();
    all.insert(all.end(), list.begin(), list.end());
    set_ranges(ranges, all, first);
  }

  std::vector<MatrixEntry<T>> made, row;
  for (std::size_t i = 0, end = i; i < a.size(); i = end) {
    row.clear();
    for (; end < a.size() && a[end].row == a[i].row; ++end) {
      const EntryRange& range = ranges.at(a[end].column);
      for (std::size_t k = range.begin; k < range.end; ++k)
        row.push_back({a[i].row, all[k].column, a[end].value * all[k].value});
    }
    std::stable_sort(row.begin(), row.end(),
                     [](const auto& x, const auto& y) { return x.column < y.column; });
    for (std::size_t k = 0; k < row.size(); ++k)
      if (k > 0 && row[k - 1].column == row[k].column)
        made.back().value += row[k].value;
      else
        made.push_back(row[k]);
  }
  return made;
}

#define SHARD_MULTIPLY_ENTRIES(T)                                                     \
  template std::vector<MatrixEntry<T>> multiply_entries(                              \
      MPI_Comm, const std::vector<MatrixEntry<T>>&, const std::vector<std::int64_t>&, \
      const std::vector<MatrixEntry<T>>&);
SHARD_MULTIPLY_ENTRIES(float)
SHARD_MULTIPLY_ENTRIES(double)
SHARD_MULTIPLY_ENTRIES(Kokkos::complex<float>)
SHARD_MULTIPLY_ENTRIES(Kokkos::complex<double>)
#undef SHARD_MULTIPLY_ENTRIES

}  // namespace shard::impl
