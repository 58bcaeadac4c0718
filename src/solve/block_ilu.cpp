// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/block_ilu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace shard::impl {

namespace {
std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
}  // namespace

IncompletePattern::IncompletePattern(index_t rows, const index_t* row_begin,
                                     const int* matrix_column, int level) {
  struct Entry {
    int column;
    index_t source;
    int level;
  };
  const auto before = [](const Entry& a, const Entry& b) { return a.column < b.column; };
  std::vector<Entry> row;
  std::vector<int> levels;  // of all entries
  begin.push_back(0);
  for (index_t r = 0; r < rows; ++r) {
    row.clear();
    for (index_t e = row_begin[r]; e < row_begin[r + 1]; ++e)
      if (matrix_column[e] < rows) row.push_back({matrix_column[e], e, 0});
    std::sort(row.begin(), row.end(), before);
    // eliminating column k adds the columns of row k behind its diagonal
    for (std::size_t i = 0; level > 0 && i < row.size() && row[i].column < r; ++i) {
      const auto k = at(row[i].column);
      if (diagonal[k] < 0) continue;
      for (index_t u = diagonal[k] + 1; u < begin[k + 1]; ++u) {
        const Entry fill{column[at(u)], -1, row[i].level + levels[at(u)] + 1};
        if (fill.level > level) continue;
        const auto there = std::lower_bound(row.begin(), row.end(), fill, before);
        if (there == row.end() || there->column != fill.column)
          row.insert(there, fill);  // behind i
        else
          there->level = std::min(there->level, fill.level);
      }
    }
    diagonal.push_back(-1);
    for (const Entry& entry : row) {
      if (entry.column == r) diagonal.back() = static_cast<index_t>(column.size());
      column.push_back(entry.column);
      source.push_back(entry.source);
      levels.push_back(entry.level);
    }
    begin.push_back(static_cast<index_t>(column.size()));
  }
}

std::string IncompletePattern::missing() const {
  const auto none = std::find(diagonal.begin(), diagonal.end(), index_t(-1));
  if (none == diagonal.end()) return {};
  return "row " + text(static_cast<index_t>(none - diagonal.begin())) + " has no diagonal entry";
}

template <class T>
IncompleteLU<T>::IncompleteLU(IncompletePattern pattern)
    : pattern_(std::move(pattern)), value_(pattern_.column.size()), next_(value_.size()) {}

template <class T>
std::string IncompleteLU<T>::factor(const T* values) {
  if (std::string none = pattern_.missing(); !none.empty()) return none;
  const auto& [begins, diagonal, source, column] = pattern_;
  for (std::size_t e = 0; e < next_.size(); ++e)
    next_[e] = source[e] < 0 ? T(0) : values[source[e]];
  std::vector<index_t> where(diagonal.size(), -1);  // of the row's columns
  for (std::size_t r = 0; r < diagonal.size(); ++r) {
    const index_t begin = begins[r], end = begins[r + 1], own = diagonal[r];
    for (index_t e = begin; e < end; ++e) where[at(column[at(e)])] = e;
    for (index_t e = begin; e < own; ++e) {
      const auto k = at(column[at(e)]);
      const T l    = next_[at(e)] / next_[at(diagonal[k])];
      next_[at(e)] = l;
      for (index_t u = diagonal[k] + 1; u < begins[k + 1]; ++u)
        if (const index_t to = where[at(column[at(u)])]; to >= 0) next_[at(to)] -= l * next_[at(u)];
    }
    for (index_t e = begin; e < end; ++e) where[at(column[at(e)])] = -1;
    if (const T pivot = next_[at(own)]; pivot == T(0) || !std::isfinite(pivot))
      return "the pivot of row " + text(static_cast<index_t>(r)) + " is 0 or not finite";
  }
  return {};
}

template <class T>
void IncompleteLU<T>::solve(T* x, index_t x_stride, const T* b, index_t b_stride) const {
  const auto& [begin, diagonal, source, column] = pattern_;
  const index_t n                               = pattern_.rows();
  for (index_t r = 0; r < n; ++r) {
    T sum = b[r * b_stride];
    for (index_t e = begin[at(r)]; e < diagonal[at(r)]; ++e)
      sum -= value_[at(e)] * x[column[at(e)] * x_stride];
    x[r * x_stride] = sum;
  }
  for (index_t r = n - 1; r >= 0; --r) {
    T sum = x[r * x_stride];
    for (index_t e = diagonal[at(r)] + 1; e < begin[at(r) + 1]; ++e)
      sum -= value_[at(e)] * x[column[at(e)] * x_stride];
    x[r * x_stride] = sum / value_[at(diagonal[at(r)])];
  }
}

template class IncompleteLU<float>;
template class IncompleteLU<double>;

}  // namespace shard::impl
