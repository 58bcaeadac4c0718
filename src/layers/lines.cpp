// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "device_lines.hpp"
#include "launch.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/line_kernels.hpp"
#include "strips.hpp"

namespace shard::impl {

/// The cells of a line in a block.
template <class T>
struct CellsAlong {
  T* first;
  index_t step;
};

/// Divides a block into lines along `dim`, on a host.
struct LineSplit {
  index_t channels = 0, extent[3] = {}, length = 0, lines = 0;
  int dim = 0;

  template <class T>
  static LineSplit of(const Block<T>& b, int dim) {
    LineSplit s;
    s.channels = b.channels;
    s.lines    = b.batch * b.channels;
    s.dim      = dim;
    s.length   = b.extent(dim);
    for (int d = 0; d < 3; ++d) {
      s.extent[d] = d == dim ? 1 : b.extent(d);
      s.lines *= s.extent[d];
    }
    return s;
  }
  template <class T>
  CellsAlong<T> line(const Block<T>& b, index_t item) const {
    const index_t x = item % extent[2];
    item /= extent[2];
    const index_t y = item % extent[1];
    item /= extent[1];
    const index_t z = item % extent[0];
    item /= extent[0];
    return {&b.at(item / channels, item % channels, z, y, x), b.stride[2 + dim]};
  }
};

/// The work items on a host: one line if lines are along the last dimension, otherwise up to
/// `strip_width` neighbouring lines.
struct LineStrips {
  LineSplit split;
  index_t chunks = 1;

  template <class T>
  static LineStrips of(const Block<T>& b, int dim) {
    LineStrips s{LineSplit::of(b, dim)};
    if (dim < 2) s.chunks = (s.split.extent[2] + strip_width - 1) / strip_width;
    return s;
  }
  bool single() const { return split.dim == 2; }
  index_t items() const {
    return split.lines == 0 ? 0 : single() ? split.lines : split.lines / split.extent[2] * chunks;
  }

  struct Place {
    index_t line;  ///< the first one
    int lines;
  };
  Place place(index_t item) const {
    if (single()) return {item, 1};
    const index_t x = item % chunks * strip_width, row = item / chunks;
    return {row * split.extent[2] + x,
            static_cast<int>(std::min<index_t>(strip_width, split.extent[2] - x))};
  }
  template <class T>
  Strip<T> strip(const Block<T>& b, const Place& p) const {
    const auto cells = split.line(b, p.line);
    return single() ? Strip<T>::pieces(cells.first, split.length, cells.step)
                    : Strip<T>::side_by_side(cells.first, split.length, cells.step, b.stride[4],
                                             p.lines);
  }
  /// Calls use(place across, line) for the lines of a strip.
  template <class Use>
  void for_lines(const Place& p, const Use& use) const {
    for (int j = 0; j < p.lines; ++j) use(j, p.line + j);
  }
  /// Copies a single line's value to all places of the strip.
  template <class T>
  void spread(T* values) const {
    if (single()) std::fill_n(values + 1, strip_width - 1, values[0]);
  }
  /// Computes maximum and sum of exponentials of each line. Stores the exponentials to `to` unless
  /// it is null.
  template <class T>
  void find_statistics(StripStatistics<T>& found, const Place& p, double* statistics,
                       const Strip<const T>& values, const Strip<T>* to) const {
    found.find_maxima(values);
    if (single()) found.join_maxima();
    for_lines(
        p, [&](int j, index_t line) { statistics[2 * line] = static_cast<double>(found.most[j]); });
    found.make_finite();
    if (to == nullptr)
      found.add_exponentials(values);
    else
      found.add_exponentials(values, *to);
    for_sums(p, found.sum, [&](index_t line, double sum) { statistics[2 * line + 1] = sum; });
  }
  /// Calls use(line, sum) for the lines of a strip.
  template <class Use>
  void for_sums(const Place& p, const double* sums, const Use& use) const {
    if (single()) return use(p.line, sum_of(sums));
    for_lines(p, [&](int j, index_t line) { use(line, sums[j]); });
  }
};

/// A contiguous line, whose sums are those of a few vectors. A row of a field is too short for
/// strips, whose statistics would take longer than their values.
template <class T>
struct ContiguousLine {
  static constexpr int width     = 128 / static_cast<int>(sizeof(T));
  static constexpr index_t block = StripStatistics<T>::block * width;  ///< values summed in T
  static constexpr T none        = StripStatistics<T>::none;

  const T* x;
  index_t length;

  T maximum() const {
    T most[width];
    std::fill_n(most, width, none);
    const index_t whole = length - length % width;
    const auto larger   = [](T a, T b) { return b > a ? b : a; };
    for (index_t i = 0; i < whole; i += width)
      for (int j = 0; j < width; ++j) most[j] = larger(most[j], x[i + j]);
    T last = none;
    for (index_t i = whole; i < length; ++i) last = larger(last, x[i]);
    return larger(folded<width>(most, larger), last);
  }
  /// to = exp(x - most), which may be x
  void exponentials(T most, T* to) const {
    for (index_t i = 0; i < length; ++i) to[i] = exponential_of_part(x[i] - most);
  }
  /// The sum of x, times `a` unless it is null.
  double sum(const T* a) const {
    double all = 0.0;
    for (index_t first = 0; first < length; first += block) {
      const index_t count = std::min(length - first, block);
      all +=
          a == nullptr
              ? sum_block(count, [v = x + first](index_t i) { return v[i]; })
              : sum_block(count, [v = x + first, f = a + first](index_t i) { return v[i] * f[i]; });
    }
    return all;
  }

 private:
  template <class Term>
  static double sum_block(index_t count, const Term& term) {
    T part[width]       = {};
    double lanes[width] = {};
    const index_t whole = count - count % width;
    for (index_t i = 0; i < whole; i += width)
      for (int j = 0; j < width; ++j) part[j] += term(i + j);
    for (int j = 0; j < width; ++j) lanes[j] = static_cast<double>(part[j]);
    double rest = 0.0;
    for (index_t i = whole; i < count; ++i) rest += static_cast<double>(term(i));
    return folded<width>(lanes, [](double a, double b) { return a + b; }) + rest;
  }
};

/// Prefetches the line after a line, whose values are computed meanwhile.
template <class T>
void prefetch(const T* from, index_t count) {
#if defined(__GNUC__)
  const index_t few = std::min(count, index_t{1024});
  for (index_t i = 0; i < few; i += 64 / static_cast<index_t>(sizeof(T)))
    __builtin_prefetch(from + i);
#else
  static_cast<void>(from), static_cast<void>(count);
#endif
}

template <class T>
struct LineExponentialsStrips {
  LineStrips strips;
  double* statistics;
  Block<const T> x;

  void operator()(index_t item) const {
    const auto place = strips.place(item);
    StripStatistics<T> found;
    strips.find_statistics<T>(found, place, statistics, strips.strip(x, place), nullptr);
  }
};

/// Maximum and 1 / sum of each line of a strip, in the type of the values.
template <class T>
struct LineStatistics {
  T most[strip_width] = {}, inverse[strip_width] = {};

  LineStatistics(const LineStrips& strips, const LineStrips::Place& place,
                 const double* statistics) {
    strips.for_lines(place, [&](int j, index_t line) {
      most[j]    = static_cast<T>(statistics[2 * line]);
      inverse[j] = static_cast<T>(1.0 / statistics[2 * line + 1]);
    });
    strips.spread(most);
    strips.spread(inverse);
  }
};

template <class T>
struct LineSoftmaxStrips {
  LineStrips strips;
  Block<T> to;
  Block<const T> x;
  const double* statistics;

  void operator()(index_t item) const {
    const auto place = strips.place(item);
    const LineStatistics<T> of(strips, place, statistics);
    map_strip([&](int j, T v) { return exponential_of_part(v - of.most[j]) * of.inverse[j]; },
              strips.strip(to, place), strips.strip(x, place));
  }
};

template <class T>
struct LineDotsStrips {
  LineStrips strips;
  double* sums;
  Block<const T> a, x;
  const double* statistics;

  void operator()(index_t item) const {
    const auto place = strips.place(item);
    StripStatistics<T> found;
    strips.for_lines(
        place, [&](int j, index_t line) { found.most[j] = static_cast<T>(statistics[2 * line]); });
    strips.spread(found.most);
    found.add_dots(strips.strip(x, place), strips.strip(a, place), nullptr);
    strips.for_sums(place, found.dot,
                    [&](index_t line, double dot) { sums[line] = dot / statistics[2 * line + 1]; });
  }
};

template <class T>
struct LineDerivativeStrips {
  LineStrips strips;
  Block<T> to;
  Block<const T> a, x;
  const double* statistics;
  const double* sums;

  void operator()(index_t item) const {
    const auto place = strips.place(item);
    const LineStatistics<T> of(strips, place, statistics);
    T dot[strip_width] = {};
    strips.for_lines(place, [&](int j, index_t line) { dot[j] = static_cast<T>(sums[line]); });
    strips.spread(dot);
    map_strip(
        [&](int j, T v, T factor) {
          return exponential_of_part(v - of.most[j]) * of.inverse[j] * (factor - dot[j]);
        },
        strips.strip(to, place), strips.strip(x, place), strips.strip(a, place));
  }
};

/// LineExponentialsStrips and LineSoftmaxStrips fused: computes the exponentials once.
template <class T>
struct LineSoftmaxOfLines {
  LineStrips strips;
  Block<T> to;
  Block<const T> x;
  double* statistics;

  void operator()(index_t item) const {
    const auto place = strips.place(item);
    const auto y     = strips.strip(to, place);
    if (strips.single() && x.stride[4] == 1 && to.stride[4] == 1) {
      const ContiguousLine<T> line{strips.split.line(x, item).first, strips.split.length};
      const T most = line.maximum();
      T* const e   = y.first;
      prefetch(line.x + line.length, line.length);
      line.exponentials(most == line.none ? T(0) : most, e);
      const double sum         = ContiguousLine<T>{e, line.length}.sum(nullptr);
      statistics[2 * item]     = static_cast<double>(most);
      statistics[2 * item + 1] = sum;
      const T inverse          = static_cast<T>(1.0 / sum);
      for (index_t i = 0; i < line.length; ++i) e[i] *= inverse;
      return;
    }
    StripStatistics<T> found;
    strips.find_statistics(found, place, statistics, strips.strip(x, place), &y);
    const LineStatistics<T> of(strips, place, statistics);
    map_strip([&](int j, T e) { return e * of.inverse[j]; }, y, as_const(y));
  }
};

/// LineDotsStrips and LineDerivativeStrips fused: computes the exponentials once.
template <class T>
struct LineDerivativeOfLines {
  LineStrips strips;
  Block<T> to;
  Block<const T> a, x;
  const double* statistics;

  void operator()(index_t item) const {
    const auto place  = strips.place(item);
    const auto values = strips.strip(x, place), factors = strips.strip(a, place);
    if (strips.single() && x.stride[4] == 1 && a.stride[4] == 1 && to.stride[4] == 1) {
      const ContiguousLine<T> line{values.first, strips.split.length};
      T* const e = scratch_values<T>(line.length);
      prefetch(line.x + line.length, line.length);
      prefetch(factors.first + line.length, line.length);
      const double of = statistics[2 * item + 1];
      line.exponentials(static_cast<T>(statistics[2 * item]), e);
      const T dot     = static_cast<T>(ContiguousLine<T>{e, line.length}.sum(factors.first) / of);
      const T inverse = static_cast<T>(1.0 / of);
      T* const b      = strips.strip(to, place).first;
      for (index_t i = 0; i < line.length; ++i) b[i] = e[i] * inverse * (factors.first[i] - dot);
      return;
    }
    const LineStatistics<T> of(strips, place, statistics);
    StripStatistics<T> found;
    std::copy_n(of.most, strip_width, found.most);
    T* const exponentials = scratch_values<T>(values.length * strip_width);
    found.add_dots(values, factors, exponentials);
    T dot[strip_width] = {};
    strips.for_sums(place, found.dot, [&](index_t line, double sum) {
      dot[line - place.line] = static_cast<T>(sum / statistics[2 * line + 1]);
    });
    strips.spread(dot);
    map_strip(
        [&](int j, T e, T factor) { return e * of.inverse[j] * (factor - dot[j]); },
        strips.strip(to, place),
        Strip<const T>::side_by_side(exponentials, values.length, strip_width, 1, strip_width),
        factors);
  }
};

/// Launches `Strips` on a host and `TeamKernel` on a device, made of the lines and `args`.
template <class Strips, class TeamKernel, class Space, class T, class... Args>
void launch_lines(const char* name, const Space& space, const Block<T>& b, int dim,
                  const Args&... args) {
  if constexpr (is_host_v<Space>) {
    const LineStrips strips = LineStrips::of(b, dim);
    launch(name, space, strips.items(), Strips{strips, args...});
  } else {
    const LineTiles tiles = LineTiles::of(space, b, 2 + dim);
    launch_tiles(name, space, tiles, TeamKernel{tiles, args...});
  }
}

template <class Space, class T>
void LineKernels<Space, T>::exponentials(const Space& space, double* statistics,
                                         const Block<const T>& x, int dim) {
  launch_lines<LineExponentialsStrips<T>, LineExponentialsTeamKernel<T>>(
      "shard::line_exponentials", space, x, dim, statistics, x);
}

template <class Space, class T>
void LineKernels<Space, T>::softmax(const Space& space, const Block<T>& y, const Block<const T>& x,
                                    const double* statistics, int dim) {
  launch_lines<LineSoftmaxStrips<T>, LineSoftmaxTeamKernel<T, true>>("shard::line_softmax", space,
                                                                     x, dim, y, x, statistics);
}

template <class Space, class T>
void LineKernels<Space, T>::softmax_of_lines(const Space& space, const Block<T>& y,
                                             double* statistics, const Block<const T>& x, int dim) {
  launch_lines<LineSoftmaxOfLines<T>, LineSoftmaxTeamKernel<T, false>>("shard::line_softmax", space,
                                                                       x, dim, y, x, statistics);
}

template <class Space, class T>
void LineKernels<Space, T>::dots(const Space& space, double* sums, const Block<const T>& a,
                                 const Block<const T>& x, const double* statistics, int dim) {
  launch_lines<LineDotsStrips<T>, LineDotsTeamKernel<T>>("shard::line_dots", space, x, dim, sums, a,
                                                         x, statistics);
}

template <class Space, class T>
void LineKernels<Space, T>::derivative(const Space& space, const Block<T>& b,
                                       const Block<const T>& a, const Block<const T>& x,
                                       const double* statistics, const double* sums, int dim) {
  launch_lines<LineDerivativeStrips<T>, LineSoftmaxDerivativeTeamKernel<T>>(
      "shard::line_derivative", space, x, dim, b, a, x, statistics, sums);
}

template <class Space, class T>
void LineKernels<Space, T>::derivative_of_lines(const Space& space, const Block<T>& b,
                                                const Block<const T>& a, const Block<const T>& x,
                                                const double* statistics, int dim) {
  launch_lines<LineDerivativeOfLines<T>, LineSoftmaxDerivativeTeamKernel<T>>(
      "shard::line_derivative", space, x, dim, b, a, x, statistics);
}

/// A line's maximum and sum of exponentials from those of all ranks.
struct MergeExponentialsKernel {
  double* statistics;
  const double* gathered;
  index_t lines;
  int ranks;

  KOKKOS_FUNCTION void operator()(index_t line) const {
    const double* const of_line = gathered + 2 * line;
    const index_t rank          = 2 * lines;
    double most = of_line[0], sum = 0.0;
    for (int r = 1; r < ranks; ++r)
      if (const double m = of_line[r * rank]; m > most || m != m) most = m;
    for (int r = 0; r < ranks; ++r)
      if (const double s = of_line[r * rank + 1]; s != 0.0)
        sum += s * Kokkos::exp(of_line[r * rank] - most);
    statistics[2 * line]     = most;
    statistics[2 * line + 1] = sum;
  }
};

template <class Space, class T>
void LineKernels<Space, T>::merge(const Space& space, double* statistics, const double* gathered,
                                  index_t lines, int ranks) {
  launch("shard::line_merge", space, lines,
         MergeExponentialsKernel{statistics, gathered, lines, ranks});
}

SHARD_KERNELS(LineKernels)

}  // namespace shard::impl
