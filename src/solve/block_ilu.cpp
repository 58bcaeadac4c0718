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

template <class T>
IncompleteLU<T>::IncompleteLU(index_t rows, const index_t* row_begin, const int* column) {
  begin_.push_back(0);
  std::vector<std::pair<int, index_t>> row;
  for (index_t r = 0; r < rows; ++r) {
    row.clear();
    for (index_t e = row_begin[r]; e < row_begin[r + 1]; ++e)
      if (column[e] < rows) row.emplace_back(column[e], e);
    std::sort(row.begin(), row.end());
    diagonal_.push_back(-1);
    for (const auto& [c, e] : row) {
      if (c == r) diagonal_.back() = static_cast<index_t>(column_.size());
      column_.push_back(c);
      source_.push_back(e);
    }
    begin_.push_back(static_cast<index_t>(column_.size()));
  }
  value_.resize(column_.size());
}

template <class T>
std::string IncompleteLU<T>::factor(const T* values) {
  for (std::size_t e = 0; e < value_.size(); ++e) value_[e] = values[source_[e]];
  std::vector<index_t> where(diagonal_.size(), -1);  // of the row's columns
  for (std::size_t r = 0; r < diagonal_.size(); ++r) {
    const index_t begin = begin_[r], end = begin_[r + 1], own = diagonal_[r];
    if (own < 0) return "row " + text(static_cast<index_t>(r)) + " has no diagonal entry";
    for (index_t e = begin; e < end; ++e) where[at(column_[at(e)])] = e;
    for (index_t e = begin; e < own; ++e) {
      const auto k  = at(column_[at(e)]);
      const T l     = value_[at(e)] / value_[at(diagonal_[k])];
      value_[at(e)] = l;
      for (index_t u = diagonal_[k] + 1; u < begin_[k + 1]; ++u)
        if (const index_t to = where[at(column_[at(u)])]; to >= 0)
          value_[at(to)] -= l * value_[at(u)];
    }
    for (index_t e = begin; e < end; ++e) where[at(column_[at(e)])] = -1;
    if (const T pivot = value_[at(own)]; pivot == T(0) || !std::isfinite(pivot))
      return "the pivot of row " + text(static_cast<index_t>(r)) + " is 0 or not finite";
  }
  return {};
}

template <class T>
void IncompleteLU<T>::solve(T* x, index_t x_stride, const T* b, index_t b_stride) const {
  const auto n = static_cast<index_t>(diagonal_.size());
  for (index_t r = 0; r < n; ++r) {
    T sum = b[r * b_stride];
    for (index_t e = begin_[at(r)]; e < diagonal_[at(r)]; ++e)
      sum -= value_[at(e)] * x[column_[at(e)] * x_stride];
    x[r * x_stride] = sum;
  }
  for (index_t r = n - 1; r >= 0; --r) {
    T sum = x[r * x_stride];
    for (index_t e = diagonal_[at(r)] + 1; e < begin_[at(r) + 1]; ++e)
      sum -= value_[at(e)] * x[column_[at(e)] * x_stride];
    x[r * x_stride] = sum / value_[at(diagonal_[at(r)])];
  }
}

template class IncompleteLU<float>;
template class IncompleteLU<double>;

}  // namespace shard::impl
