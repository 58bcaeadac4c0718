// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_SEPARABLE_ROWS_HPP
#define SHARD_SRC_LAYERS_SEPARABLE_ROWS_HPP

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "launch.hpp"
#include "scratch.hpp"

/// \file
/// Interpolation and average pooling on a host, forward and backward. Each cell is a weighted sum
/// over a box of cells, and a weight is the product of one weight for each dimension. A table for
/// each dimension, made once a call, has the sources and weights of each cell. A row is first
/// summed over the other dimensions, in vectors, then along itself.

namespace shard::impl {

/// The sources of cells along one dimension: cell i reads the entries [begin[i], begin[i + 1]),
/// ascending.
template <class T>
struct ReadTable {
  struct Run {
    index_t begin, end;
    int terms;
    int period  = 0,
        advance = 0;  ///< cell i + period reads `advance` cells after cell i; 0: irregular
    int other   = 0;  ///< entries of each second cell, if one and two entries alternate
  };
  std::vector<index_t> begin{0};
  std::vector<int> source;
  std::vector<T> weight;
  std::vector<Run> runs;        ///< runs of cells with the same number of entries
  std::vector<T> divisor;       ///< of each cell's sum; may be empty
  std::vector<T> by_source;     ///< divisor of each source from `first` on; may be empty
  index_t first = 0, last = 0;  ///< sources are in [first, last)
  bool unit = true;             ///< all weights are 1

  void add(index_t from, T w) {
    if (source.empty()) {
      first = from;
      last  = from + 1;
    }
    first = std::min(first, from);
    last  = std::max(last, from + 1);
    unit  = unit && w == T(1);
    source.push_back(static_cast<int>(from));
    weight.push_back(w);
  }
  void end_cell() {
    const auto end  = static_cast<index_t>(source.size());
    const int terms = static_cast<int>(end - begin.back());
    const auto cell = static_cast<index_t>(begin.size()) - 1;
    if (runs.empty() || runs.back().terms != terms) runs.push_back({cell, cell, terms});
    ++runs.back().end;
    begin.push_back(end);
  }
  index_t cells() const { return static_cast<index_t>(begin.size()) - 1; }

  /// Finds the runs with regular sources, whose loops need no list of sources.
  void find_patterns() {
    constexpr int patterns[][2] = {{1, 1}, {1, 2}, {2, 1}};
    join_alternating();
    for (Run& run : runs)
      for (const auto& pattern : patterns)
        if (run.period == 0 && has_pattern(run, pattern[0], pattern[1])) {
          run.period  = pattern[0];
          run.advance = pattern[1];
        }
  }

 private:
  /// Joins runs of one cell each whose cells have one and two entries in turn, as those that the
  /// adjoint of a window of three with stride two reads.
  void join_alternating() {
    std::vector<Run> joined;
    for (std::size_t i = 0; i < runs.size();) {
      Run run        = runs[i];
      std::size_t to = i + 1;
      while (to < runs.size() && runs[to].end == runs[to].begin + 1 &&
             runs[to].terms + runs[to - 1].terms == 3)
        ++to;
      run.end   = runs[to - 1].end;
      run.other = 3 - run.terms;
      if (runs[i].end == runs[i].begin + 1 && to >= i + 4 && run.terms * run.other == 2 &&
          has_pattern(run, 2, 1)) {
        joined.push_back(run);
        i = to;
      } else {
        joined.push_back(runs[i++]);
      }
    }
    runs = std::move(joined);
  }
  bool has_pattern(const Run& run, int period, int advance) const {
    const auto at = [](index_t i) { return static_cast<std::size_t>(i); };
    for (index_t cell = run.begin + period; cell < run.end; ++cell)
      for (index_t k = 0; k < begin[at(cell) + 1] - begin[at(cell)]; ++k)
        if (source[at(begin[at(cell)] + k)] != source[at(begin[at(cell - period)] + k)] + advance)
          return false;
    return true;
  }
};

/// Makes the transpose of a table: call `add` with sources ascending.
template <class T>
struct Readers {
  struct Entry {
    index_t cell, source;
    T weight;
  };
  index_t first, count;  ///< the table has the cells [first, first + count)
  std::vector<Entry> entries{};

  void add(index_t cell, index_t source, T weight) {
    if (cell >= first && cell < first + count && weight != T(0))
      entries.push_back({cell - first, source, weight});
  }
  ReadTable<T> table() {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.cell < b.cell; });
    ReadTable<T> t;
    auto e = entries.begin();
    for (index_t cell = 0; cell < count; ++cell) {
      for (; e != entries.end() && e->cell == cell; ++e) t.add(e->source, e->weight);
      t.end_cell();
    }
    return t;
  }
};

/// to = sum over the entries of three tables of weight times cell of `from`, with the tables'
/// divisors.
template <class T>
struct SeparableRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  const ReadTable<T>* tables;  ///< of z, y, x

  /// `tables` must exist until `launch` returns; host kernels have run then.
  static void run(const char* name, const auto& space, const Block<T>& to,
                  const Block<const T>& from, ReadTable<T> (&tables)[3]) {
    tables[2].find_patterns();
    const RowSplit split = RowSplit::of(space, to);
    launch(name, space, split.items(), SeparableRows{split, to, from, tables});
  }

  void operator()(index_t item) const {
    const auto r          = split.row(item);
    const ReadTable<T>& x = tables[2];
    const index_t width   = x.last - x.first;
    const T* const sums   = width > 0 ? sum_of_rows(r, width) : nullptr;
    T* const cells        = &to.at(r.n, r.c, r.z, r.y, r.x);
    const index_t step    = to.stride[4];
    const bool divides    = !x.divisor.empty();
    const T divisor       = divides ? divisor_of(0, r.z) * divisor_of(1, r.y) : T(1);
    if (sums == nullptr)
      for (index_t i = 0; i < r.count; ++i) cells[i * step] = T(0);
    else
      for (const auto& run : x.runs) switch (run.other > 0 ? -2 : run.terms) {
          case -2: alternating(run, sums, cells, step); break;
          case 0: along<0>(run, sums, cells, step); break;
          case 1: along<1>(run, sums, cells, step); break;
          case 2: along<2>(run, sums, cells, step); break;
          case 3: along<3>(run, sums, cells, step); break;
          case 4: along<4>(run, sums, cells, step); break;
          default: along<-1>(run, sums, cells, step);
        }
    if (divides)
      for (index_t i = 0; i < r.count; ++i)
        cells[i * step] /= divisor * x.divisor[static_cast<std::size_t>(i)];
  }

 private:
  T divisor_of(int d, index_t cell) const {
    return tables[d].divisor[static_cast<std::size_t>(cell - to.begin[d])];
  }

  /// The weighted sum of the rows that a row reads; null if it reads none.
  const T* sum_of_rows(const RowSplit::Row& r, index_t width) const {
    const ReadTable<T>&z = tables[0], &y = tables[1], &x = tables[2];
    const auto entries = [](const ReadTable<T>& t, index_t cell) {
      const auto i = static_cast<std::size_t>(cell);
      return IndexRange{t.begin[i], t.begin[i + 1]};
    };
    const IndexRange zs = entries(z, r.z - to.begin[0]), ys = entries(y, r.y - to.begin[1]);
    if (zs.empty() || ys.empty()) return nullptr;
    const auto row_at = [&](index_t i, index_t j) {
      return &from.at(r.n, r.c, z.source[static_cast<std::size_t>(i)],
                      y.source[static_cast<std::size_t>(j)], x.first);
    };
    const auto weight_at = [&](index_t i, index_t j) {
      return z.weight[static_cast<std::size_t>(i)] * y.weight[static_cast<std::size_t>(j)];
    };
    if ((zs.end - zs.begin) * (ys.end - ys.begin) == 1 && from.stride[4] == 1 &&
        x.by_source.empty() && weight_at(zs.begin, ys.begin) == T(1))
      return row_at(zs.begin, ys.begin);
    T* const sums = scratch_values<T>(width);
    bool add      = false;
    for (index_t i = zs.begin; i < zs.end; ++i)
      for (index_t j = ys.begin; j < ys.end;) {
        if (!x.by_source.empty()) {
          add_divided(row_at(i, j), source_divisor(0, i) * source_divisor(1, j), width, sums, add);
          ++j;
        } else if (j + 1 < ys.end) {
          const T* const rows[] = {row_at(i, j), row_at(i, j + 1)};
          const T weights[]     = {weight_at(i, j), weight_at(i, j + 1)};
          add_rows<2>(rows, weights, width, sums, add);
          j += 2;
        } else {
          const T* const rows[] = {row_at(i, j)};
          const T weights[]     = {weight_at(i, j)};
          add_rows<1>(rows, weights, width, sums, add);
          ++j;
        }
        add = true;
      }
    return sums;
  }
  T source_divisor(int d, index_t entry) const {
    return tables[d].by_source[static_cast<std::size_t>(
        tables[d].source[static_cast<std::size_t>(entry)] - from.begin[d])];
  }

  /// sums = (add ? sums : 0) + sum of weights times rows.
  template <int Rows>
  void add_rows(const T* const* rows, const T* weights, index_t width, T* sums, bool add) const {
    const index_t step = from.stride[4];
    const T *const a = rows[0], *const b = rows[Rows - 1];
    const T wa = weights[0], wb = weights[Rows - 1];
    const auto value = [=](index_t i, index_t at) {
      static_cast<void>(i);
      return Rows == 1 ? wa * a[at] : wa * a[at] + wb * b[at];
    };
    if (step == 1 && !add)
      for (index_t i = 0; i < width; ++i) sums[i] = value(i, i);
    else if (step == 1)
      for (index_t i = 0; i < width; ++i) sums[i] += value(i, i);
    else
      for (index_t i = 0; i < width; ++i)
        sums[i] = add ? sums[i] + value(i, i * step) : value(i, i * step);
  }
  void add_divided(const T* row, T divisor, index_t width, T* sums, bool add) const {
    const index_t step = from.stride[4];
    const T* const by  = tables[2].by_source.data() + (tables[2].first - from.begin[2]);
    if (!add) std::fill_n(sums, width, T(0));
    if (step == 1)
      for (index_t i = 0; i < width; ++i) sums[i] += row[i] / (divisor * by[i]);
    else
      for (index_t i = 0; i < width; ++i) sums[i] += row[i * step] / (divisor * by[i]);
  }

  /// Computes a run of cells from the sums. Terms: entries of a cell, -1 if not a constant.
  template <int Terms>
  void along(typename ReadTable<T>::Run run, const T* sums, T* cells, index_t step) const {
    const ReadTable<T>& x = tables[2];
    if constexpr (Terms > 0)
      if (step == 1 && run.period > 0) {
        constexpr auto terms = std::make_integer_sequence<int, Terms>();
        const auto go        = [&]<int Period, int Advance>() {
          constexpr auto cell = std::make_integer_sequence<int, Period * Terms>();
          x.unit ? along_pattern<Period, Advance, true>(run, sums, cells, terms, cell)
                        : along_pattern<Period, Advance, false>(run, sums, cells, terms, cell);
        };
        if (run.period == 2)
          go.template operator()<2, 1>();
        else if (run.advance == 2)
          go.template operator()<1, 2>();
        else
          go.template operator()<1, 1>();
        run.begin = run.end - (run.end - run.begin) % run.period;
      }
    const index_t terms = Terms >= 0 ? Terms : run.terms;
    const auto entry    = static_cast<std::size_t>(x.begin[static_cast<std::size_t>(run.begin)]);
    const int* const source = x.source.data() + entry;
    const T* const weight   = x.weight.data() + entry;
    const index_t count     = run.end - run.begin;
    T* const row            = cells + run.begin * step;
    const auto sum          = [&](index_t i, bool unit) {
      T s = T(0);
      for (index_t k = 0; k < terms; ++k) {
        const T v = sums[source[i * terms + k] - x.first];
        s         = k == 0 ? (unit ? v : weight[i * terms] * v)
                                    : s + (unit ? v : weight[i * terms + k] * v);
      }
      return s;
    };
    if (x.unit)
      for (index_t i = 0; i < count; ++i) row[i * step] = sum(i, true);
    else
      for (index_t i = 0; i < count; ++i) row[i * step] = sum(i, false);
  }

  /// A run of cells with one and two entries in turn, or two and one.
  void alternating(typename ReadTable<T>::Run run, const T* sums, T* cells, index_t step) const {
    const ReadTable<T>& x = tables[2];
    if (step == 1) {
      if (run.terms == 1)
        x.unit ? pairs<1, true>(run, sums, cells) : pairs<1, false>(run, sums, cells);
      else
        x.unit ? pairs<2, true>(run, sums, cells) : pairs<2, false>(run, sums, cells);
      run.begin = run.end - (run.end - run.begin) % 2;
    }
    for (index_t cell = run.begin; cell < run.end; ++cell) {
      const auto i = static_cast<std::size_t>(cell);
      along<-1>({cell, cell + 1, static_cast<int>(x.begin[i + 1] - x.begin[i])}, sums, cells, step);
    }
  }
  /// Pairs of cells, the first of which has First entries of three. Leaves an odd cell.
  template <int First, bool Unit>
  void pairs(const typename ReadTable<T>::Run& run, const T* sums, T* cells) const {
    const ReadTable<T>& x = tables[2];
    const auto entry      = static_cast<std::size_t>(x.begin[static_cast<std::size_t>(run.begin)]);
    const T* const weight = x.weight.data() + entry;
    const T* const read[] = {sums + (x.source[entry] - x.first),
                             sums + (x.source[entry + 1] - x.first),
                             sums + (x.source[entry + 2] - x.first)};
    T* const row          = cells + run.begin;
    const index_t count   = (run.end - run.begin) / 2;
    const auto term       = [&](index_t i, int e) {
      const T v = read[e][i];
      return Unit ? v : weight[i * 3 + e] * v;
    };
    for (index_t i = 0; i < count; ++i) {
      row[i * 2]     = First == 1 ? term(i, 0) : term(i, 0) + term(i, 1);
      row[i * 2 + 1] = First == 1 ? term(i, 1) + term(i, 2) : term(i, 2);
    }
  }

  /// `along` if cell i + Period reads Advance cells after cell i. Uses fold expressions, so that
  /// compilers vectorise the loop. Leaves the cells of an incomplete period.
  template <int Period, int Advance, bool Unit, int... K, int... Entry>
  void along_pattern(const typename ReadTable<T>::Run& run, const T* sums, T* cells,
                     std::integer_sequence<int, K...>, std::integer_sequence<int, Entry...>) const {
    constexpr int terms   = static_cast<int>(sizeof...(K));
    const ReadTable<T>& x = tables[2];
    const auto entry      = static_cast<std::size_t>(x.begin[static_cast<std::size_t>(run.begin)]);
    const T* const weight = x.weight.data() + entry;
    const T* const read[] = {sums + (x.source[entry + Entry] - x.first)...};
    T* const row          = cells + run.begin;
    const index_t count   = (run.end - run.begin) / Period;
    const auto term       = [&](index_t i, int e) {
      const T v = read[e][i * Advance];
      return Unit ? v : weight[i * Period * terms + e] * v;
    };
    for (index_t i = 0; i < count; ++i) {
      row[i * Period] = (... + term(i, K));
      if constexpr (Period == 2) row[i * Period + 1] = (... + term(i, terms + K));
    }
  }
};

}  // namespace shard::impl

#endif
