// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/product_terms.hpp"

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

/// An entry of B on its way to another rank.
struct SentEntry {
  EntryPlace at;
  index_t number;
};

/// Sets the ranges of the rows in list[first, end).
void set_ranges(RangeOfRow& ranges, const std::vector<EntryPlace>& list, std::size_t first) {
  for (std::size_t i = first, end = i; i < list.size(); i = end) {
    while (end < list.size() && list[end].row == list[i].row) ++end;
    ranges[list[i].row] = {i, end};
  }
}

struct Term {
  std::int64_t column;
  index_t a, b;
};

}  // namespace

ProductTerms product_terms(MPI_Comm comm, const std::vector<EntryPlace>& a,
                           const std::vector<std::int64_t>& rows,
                           const std::vector<EntryPlace>& b) {
  RangeOfRow ranges;
  for (const std::int64_t id : rows) ranges.emplace(id, EntryRange());
  std::vector<std::int64_t> ids = rows;  // own rows, then those of other ranks
  for (const EntryPlace& e : a)
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
  std::map<int, std::vector<SentEntry>> answers;
  for (const auto& [rank, list] : exchange(asked))
    for (const std::int64_t id : list) {
      const EntryRange& range = ranges.at(id);
      for (std::size_t k = range.begin; k < range.end; ++k)
        answers[rank].push_back({b[k], static_cast<index_t>(k)});
    }
  ProductTerms made;
  std::vector<EntryPlace> all = b;
  for (const auto& [rank, list] : exchange(answers)) {
    const std::size_t first = all.size();
    for (const SentEntry& e : list) {
      all.push_back(e.at);
      made.owner.push_back(rank);
      made.place.push_back(e.number);
    }
    set_ranges(ranges, all, first);
  }

  std::vector<Term> row;
  for (std::size_t i = 0, end = i; i < a.size(); i = end) {
    row.clear();
    for (; end < a.size() && a[end].row == a[i].row; ++end) {
      const EntryRange& range = ranges.at(a[end].column);
      for (std::size_t k = range.begin; k < range.end; ++k)
        row.push_back({all[k].column, static_cast<index_t>(end), static_cast<index_t>(k)});
    }
    std::stable_sort(row.begin(), row.end(),
                     [](const Term& x, const Term& y) { return x.column < y.column; });
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (k == 0 || row[k - 1].column != row[k].column) {
        made.begin.push_back(static_cast<index_t>(made.a.size()));
        made.entries.push_back({a[i].row, row[k].column});
      }
      made.a.push_back(row[k].a);
      made.b.push_back(row[k].b);
    }
  }
  made.begin.push_back(static_cast<index_t>(made.a.size()));
  return made;
}

}  // namespace shard::impl
