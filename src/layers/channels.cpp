// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "device_channels.hpp"
#include "lanes.hpp"
#include "launch.hpp"
#include "row_sums.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "strips.hpp"

namespace shard::impl {

/// Divides a block's cells into work items. An item has all channels of up to `strip_width` cells.
struct CellSplit {
  RowSplit rows;

  template <class Space, class T>
  static CellSplit of(const Space& space, const Block<T>& b) {
    CellSplit s{RowSplit::of(space, b)};
    s.rows.channels = 1;
    s.rows.chunk    = strip_width;
    s.rows.chunks   = (s.rows.extent[2] + s.rows.chunk - 1) / s.rows.chunk;
    return s;
  }
  KOKKOS_FUNCTION index_t cell(const RowSplit::Row& r) const {
    return ((r.n * rows.extent[0] + r.z) * rows.extent[1] + r.y) * rows.extent[2] + r.x;
  }
};

/// The channels of a work item's cells.
template <class T>
Strip<T> channel_strip(const Block<T>& b, const RowSplit::Row& r) {
  return Strip<T>::side_by_side(&b.at(r.n, 0, r.z, r.y, r.x), b.channels, b.stride[1], b.stride[4],
                                static_cast<int>(r.count));
}

/// Two numbers for each cell of a strip in two arrays, which vectorise; in memory the numbers
/// alternate.
struct CellPairs {
  double first[strip_width] = {}, second[strip_width] = {};

  void load(const double* from, index_t count) {
    for (index_t i = 0; i < count; ++i) {
      first[i]  = from[2 * i];
      second[i] = from[2 * i + 1];
    }
  }
  void store(double* to, index_t count) const {
    for (index_t i = 0; i < count; ++i) {
      to[2 * i]     = first[i];
      to[2 * i + 1] = second[i];
    }
  }
  /// Computes the mean of each cell's channels, and the sum of squared differences from it. Both
  /// must be zero before. The mean stays zero unless `centred`.
  template <class T>
  void add_moments(const Strip<const T>& x, bool centred) {
    T buffer[strip_width];
    for (index_t c = 0; centred && c < x.length; ++c) {
      x.ask_next(c);
      const T* const v = x.load(c, T(0), buffer);
      for (int j = 0; j < strip_width; ++j) first[j] += static_cast<double>(v[j]);
    }
    for (int j = 0; j < strip_width; ++j) first[j] /= static_cast<double>(x.length);
    for (index_t c = 0; c < x.length; ++c) {
      const T* const v = x.load(c, T(0), buffer);
      for (int j = 0; j < strip_width; ++j) {
        const double d = static_cast<double>(v[j]) - first[j];
        second[j] += d * d;
      }
    }
  }
  /// Adds the sums over channels of w a and w a xhat. `weight` may be null. `statistics` are the
  /// mean and 1 / sqrt(variance + eps).
  template <class T>
  void add_products(const Strip<const T>& a, const Strip<const T>& x, const CellPairs& statistics,
                    const T* weight) {
    T factors[strip_width], buffer[strip_width];
    for (index_t c = 0; c < x.length; ++c) {
      a.ask_next(c);
      x.ask_next(c);
      const T *const f = a.load(c, T(0), factors), *const v = x.load(c, T(0), buffer);
      const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
      for (int j = 0; j < strip_width; ++j) {
        const double g   = w * static_cast<double>(f[j]);
        const double hat = (static_cast<double>(v[j]) - statistics.first[j]) * statistics.second[j];
        first[j] += g;
        second[j] += g * hat;
      }
    }
  }
};

template <class T>
struct ChannelMomentsRows {
  CellSplit split;
  double* moments;
  Block<const T> from;
  bool centred;

  void operator()(index_t item) const {
    const auto r = split.rows.row(item);
    CellPairs pairs;
    if (from.channels > 0) pairs.add_moments(channel_strip(from, r), centred);
    pairs.store(moments + 2 * split.cell(r), r.count);
  }
};

template <class T>
struct ChannelNormRows {
  CellSplit split;
  Block<T> to;
  Block<const T> from;
  double* statistics;
  const T* weight;
  const T* bias;
  ChannelNormOptions options;
  bool given;

  void operator()(index_t item) const {
    const auto r    = split.rows.row(item);
    double* const s = statistics + 2 * split.cell(r);
    const auto x    = channel_strip(from, r);
    CellPairs pairs;
    if (given) {
      pairs.load(s, r.count);
    } else {
      pairs.add_moments(x, options.centred);
      const double count = static_cast<double>(from.channels);
      for (double& square : pairs.second) square = square / count + options.eps;
      square_roots(pairs.second, strip_width);
      for (double& root : pairs.second) root = 1.0 / root;
      pairs.store(s, r.count);
    }
    const auto channel = [&](index_t c) {
      const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]),
                   b = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
      return [&, w, b](int j, T v) {
        return static_cast<T>((static_cast<double>(v) - pairs.first[j]) * pairs.second[j] * w + b);
      };
    };
    map_rows(channel, channel_strip(to, r), x);
  }
};

/// Sums over the cells of a few channels, which share the statistics of a row.
template <class T>
struct ChannelNormSumsRows {
  static constexpr index_t together = 4;
  static_assert(strip_width % sum_lanes == 0, "pieces of a row add to the row's sums");
  double* sums;
  Block<const T> dy, x;
  const double* statistics;

  struct Value {
    const T* row;
    index_t step;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(row[i * step]);
    }
  };
  struct Product {
    const T *dy, *x;
    index_t dy_step, x_step;
    const double *mean, *rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(dy[i * dy_step]) *
             ((static_cast<double>(x[i * x_step]) - mean[i]) * rstd[i]);
    }
  };

  static index_t items(const Block<const T>& x) {
    return x.batch * ((x.channels + together - 1) / together);
  }

  void operator()(index_t item) const {
    const index_t groups = (x.channels + together - 1) / together, n = item / groups,
                  first_channel       = item % groups * together,
                  some                = std::min(together, x.channels - first_channel);
    double first[together][sum_lanes] = {}, second[together][sum_lanes] = {};
    CellPairs cells;
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y)
        for (index_t begin = 0; begin < x.end[2]; begin += strip_width) {
          const index_t count = std::min<index_t>(strip_width, x.end[2] - begin);
          cells.load(statistics + 2 * (((n * x.end[0] + z) * x.end[1] + y) * x.end[2] + begin),
                     count);
          for (index_t k = 0; k < some; ++k) {
            const index_t c = first_channel + k;
            const T *a = &dy.at(n, c, z, y, begin), *b = &x.at(n, c, z, y, begin);
            add_row(first[k], count, Value{a, dy.stride[4]});
            add_row(second[k], count,
                    Product{a, b, dy.stride[4], x.stride[4], cells.first, cells.second});
          }
        }
    for (index_t k = 0; k < some; ++k) {
      double* const of = sums + 2 * (n * x.channels + first_channel + k);
      of[0]            = add_lanes(first[k]);
      of[1]            = add_lanes(second[k]);
    }
  }
};

template <class T>
struct ChannelCellSumsRows {
  CellSplit split;
  double* sums;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;

  void operator()(index_t item) const {
    const auto r       = split.rows.row(item);
    const index_t cell = split.cell(r);
    CellPairs pairs, found;
    pairs.load(statistics + 2 * cell, r.count);
    found.add_products(channel_strip(from, r), channel_strip(x, r), pairs, weight);
    found.store(sums + 2 * cell, r.count);
  }
};

template <class T>
struct ChannelNormDerivativeRows {
  CellSplit split;
  Block<T> to;
  Block<const T> from, x;
  const double* statistics;
  const T* weight;
  const T* weight_tangent;
  const T* bias_tangent;
  bool adjoint, with_input, centred;
  CellSums given;

  void operator()(index_t item) const {
    const auto r       = split.rows.row(item);
    const index_t cell = split.cell(r);
    const auto values  = channel_strip(x, r);
    const auto a       = with_input ? channel_strip(from, r) : values;
    CellPairs pairs, sums;
    pairs.load(statistics + 2 * cell, r.count);
    if (with_input && given.sums == nullptr)
      sums.add_products(a, values, pairs, adjoint ? weight : nullptr);
    else if (with_input)
      sums.load(given.sums + 2 * cell, r.count);
    const double count = given.sums == nullptr ? static_cast<double>(x.channels) : given.channels;
    for (int j = 0; j < strip_width; ++j) {
      sums.first[j] = centred ? sums.first[j] / count : 0.0;
      sums.second[j] /= count;
    }
    const auto channel = [&](index_t c) {
      const auto at = [c](const T* parameter, double none) {
        return parameter == nullptr ? none : static_cast<double>(parameter[c]);
      };
      const double w = at(weight, 1.0), inside = adjoint ? w : 1.0,
                   outside = !with_input ? 0.0
                             : adjoint   ? 1.0
                                         : w;
      const double tw = at(weight_tangent, 0.0), tb = at(bias_tangent, 0.0);
      return [&, inside, outside, tw, tb](int j, T v, T g) {
        const double hat = (static_cast<double>(v) - pairs.first[j]) * pairs.second[j];
        const double slope =
            inside * static_cast<double>(g) - (sums.first[j] + hat * sums.second[j]);
        return static_cast<T>(outside * pairs.second[j] * slope + (hat * tw + tb));
      };
    };
    map_rows(channel, channel_strip(to, r), values, a);
  }
};

template <class T>
struct ChannelSoftmaxRows {
  CellSplit split;
  Block<T> to;
  Block<const T> from;

  void operator()(index_t item) const {
    const auto r = split.rows.row(item);
    const auto y = channel_strip(to, r);
    StripStatistics<T> statistics;
    statistics.find_maxima(channel_strip(from, r));
    statistics.make_finite();
    statistics.add_exponentials(channel_strip(from, r), y);
    T inverse[strip_width];
    for (int j = 0; j < strip_width; ++j) inverse[j] = static_cast<T>(1.0 / statistics.sum[j]);
    map_strip([&](int j, T e) { return e * inverse[j]; }, y, as_const(y));
  }
};

template <class T>
struct ChannelSoftmaxDerivativeRows {
  CellSplit split;
  Block<T> to;
  Block<const T> from, x;

  void operator()(index_t item) const {
    const auto r      = split.rows.row(item);
    const auto values = channel_strip(x, r), factors = channel_strip(from, r);
    StripStatistics<T> statistics;
    statistics.find_maxima(values);
    statistics.make_finite();
    T* const exponentials = scratch_values<T>(x.channels * strip_width);
    statistics.add_dots(values, factors, exponentials);
    T inverse[strip_width], dot[strip_width];
    for (int j = 0; j < strip_width; ++j) {
      inverse[j] = static_cast<T>(1.0 / statistics.sum[j]);
      dot[j]     = static_cast<T>(statistics.dot[j] / statistics.sum[j]);
    }
    map_strip([&](int j, T e, T a) { return e * inverse[j] * (a - dot[j]); }, channel_strip(to, r),
              Strip<const T>::side_by_side(exponentials, x.channels, strip_width, 1, strip_width),
              factors);
  }
};

/// Runs `Rows` on a host, `TeamKernel` on a device, made of the cells of `b` and `args`.
template <class Rows, class TeamKernel, class Space, class T, class... Args>
void launch_channels(const char* label, const Space& space, const Block<T>& b,
                     const Args&... args) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, b);
    launch(label, space, split.rows.items(), Rows{split, args...});
  } else {
    const LineTiles tiles = LineTiles::of(space, b, LineTiles::channel_dim);
    launch_tiles(label, space, tiles, TeamKernel{tiles, args...});
  }
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm(const Space& space, const Block<T>& y, const Block<const T>& x,
                                    double* statistics, const T* weight, const T* bias,
                                    const ChannelNormOptions& options, bool given) {
  launch_channels<ChannelNormRows<T>, ChannelNormTeamKernel<T>>(
      "shard::layer_norm", space, y, y, x, statistics, weight, bias, options, given);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_moments(const Space& space, double* moments,
                                            const Block<const T>& x, bool centred) {
  launch_channels<ChannelMomentsRows<T>, ChannelMomentsTeamKernel<T>>(
      "shard::layer_norm_moments", space, x, moments, x, centred);
}

/// A point's statistics from all ranks' moments.
struct MergeMomentsKernel {
  double* statistics;
  const double* gathered;
  const double* channels;
  index_t points;
  int ranks;
  double eps;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    Moments sum;
    for (int r = 0; r < ranks; ++r) {
      const double* m = gathered + 2 * (r * points + i);
      merge(sum, {channels[r], m[0], m[1]});
    }
    statistics[2 * i]     = sum.mean;
    statistics[2 * i + 1] = 1.0 / Kokkos::sqrt(sum.squares / sum.weight + eps);
  }
};

template <class Space, class T>
void ChannelKernels<Space, T>::merge_moments(const Space& space, double* statistics,
                                             const double* gathered, index_t points,
                                             const double* channels, int ranks, double eps) {
  launch("shard::layer_norm_merge", space, points,
         MergeMomentsKernel{statistics, gathered, channels, points, ranks, eps});
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_sums(const Space& space, double* sums, const Block<const T>& dy,
                                         const Block<const T>& x, const double* statistics,
                                         double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::layer_norm_sums", space, ChannelNormSumsRows<T>::items(x),
           ChannelNormSumsRows<T>{sums, dy, x, statistics});
  else
    sum_planes("shard::layer_norm_sums", space, ChannelPairTerm<T>{dy, x, statistics}, x, sums,
               parts);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_cell_sums(const Space& space, double* sums,
                                              const Block<const T>& a, const Block<const T>& x,
                                              const double* statistics, const T* weight) {
  launch_channels<ChannelCellSumsRows<T>, ChannelCellSumsTeamKernel<T>>(
      "shard::layer_norm_cell_sums", space, a, sums, a, x, statistics, weight);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_pullback(const Space& space, const Block<T>& dx,
                                             const Block<const T>& dy, const Block<const T>& x,
                                             const double* statistics, const T* weight,
                                             bool centred, const CellSums& given) {
  const T* const none = nullptr;
  launch_channels<ChannelNormDerivativeRows<T>, ChannelNormDerivativeTeamKernel<T>>(
      "shard::layer_norm_pullback", space, dx, dx, dy, x, statistics, weight, none, none, true,
      true, centred, given);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_pushforward(const Space& space, const Block<T>& ty,
                                                const Block<const T>& tx, bool with_input,
                                                const Block<const T>& x, const double* statistics,
                                                const T* weight, const T* weight_tangent,
                                                const T* bias_tangent, bool centred,
                                                const CellSums& given) {
  launch_channels<ChannelNormDerivativeRows<T>, ChannelNormDerivativeTeamKernel<T>>(
      "shard::layer_norm_pushforward", space, ty, ty, tx, x, statistics, weight, weight_tangent,
      bias_tangent, false, with_input, centred, given);
}

template <class Space, class T>
void ChannelKernels<Space, T>::softmax(const Space& space, const Block<T>& y,
                                       const Block<const T>& x) {
  if (x.channels > 0)
    launch_channels<ChannelSoftmaxRows<T>, LineSoftmaxTeamKernel<T, false>>("shard::softmax", space,
                                                                            y, y, x);
}

template <class Space, class T>
void ChannelKernels<Space, T>::softmax_derivative(const Space& space, const Block<T>& b,
                                                  const Block<const T>& a,
                                                  const Block<const T>& x) {
  if (x.channels > 0)
    launch_channels<ChannelSoftmaxDerivativeRows<T>, LineSoftmaxDerivativeTeamKernel<T>>(
        "shard::softmax_derivative", space, b, b, a, x);
}

SHARD_KERNELS(ChannelKernels)

}  // namespace shard::impl
