// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>

#include "device_channels.hpp"
#include "launch.hpp"
#include "row_sums.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "softmax_strips.hpp"

namespace shard::impl {

/// Cells of one row that a work item takes together on a host, so that its loops over them are
/// vectorised.
inline constexpr int channel_cells = 16;

/// The cells of a block, all channels of some of them per work item.
struct CellSplit {
  RowSplit rows;

  template <class Space, class T>
  static CellSplit of(const Space& space, const Block<T>& b, int cells = channel_cells) {
    CellSplit s{RowSplit::of(space, b)};
    s.rows.channels = 1;
    s.rows.chunk    = cells;
    s.rows.chunks   = (s.rows.extent[2] + s.rows.chunk - 1) / s.rows.chunk;
    return s;
  }
  KOKKOS_FUNCTION index_t cell(const RowSplit::Row& r) const {
    return ((r.n * rows.extent[0] + r.z) * rows.extent[1] + r.y) * rows.extent[2] + r.x;
  }
};

/// Calls use(channel, i, value) for the cells of a work item, channels ascending.
template <class T, class Use>
KOKKOS_FORCEINLINE_FUNCTION void for_channels(const Block<const T>& b, const RowSplit::Row& r,
                                              const Use& use) {
  for (index_t c = 0; c < b.channels; ++c) {
    const T* row = &b.at(r.n, c, r.z, r.y, r.x);
    for (index_t i = 0; i < r.count; ++i) use(c, i, static_cast<double>(row[i * b.stride[4]]));
  }
}

/// Mean of each cell's channels and sum of squared differences from it; both begin with zeros.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void channel_moments(const Block<const T>& b, const RowSplit::Row& r,
                                                 double* mean, double* squares) {
  const double count = static_cast<double>(b.channels);
  for_channels(b, r, [&](index_t, index_t i, double x) { mean[i] += x; });
  for (index_t i = 0; i < r.count; ++i) mean[i] /= count;
  for_channels(b, r,
               [&](index_t, index_t i, double x) { squares[i] += (x - mean[i]) * (x - mean[i]); });
}

template <class T>
struct ChannelMomentsRows {
  CellSplit split;
  double* moments;
  Block<const T> from;

  void operator()(index_t item) const {
    const auto r               = split.rows.row(item);
    double* m                  = moments + 2 * split.cell(r);
    double mean[channel_cells] = {}, squares[channel_cells] = {};
    if (from.channels > 0) channel_moments(from, r, mean, squares);
    for (index_t i = 0; i < r.count; ++i) {
      m[2 * i]     = mean[i];
      m[2 * i + 1] = squares[i];
    }
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
  double eps;
  bool given;

  void operator()(index_t item) const {
    const auto r               = split.rows.row(item);
    double* s                  = statistics + 2 * split.cell(r);
    double mean[channel_cells] = {}, rstd[channel_cells] = {};
    if (given) {
      for (index_t i = 0; i < r.count; ++i) {
        mean[i] = s[2 * i];
        rstd[i] = s[2 * i + 1];
      }
    } else {
      const double count = static_cast<double>(from.channels);
      channel_moments(from, r, mean, rstd);
      for (index_t i = 0; i < r.count; ++i) {
        rstd[i]      = 1.0 / Kokkos::sqrt(rstd[i] / count + eps);
        s[2 * i]     = mean[i];
        s[2 * i + 1] = rstd[i];
      }
    }
    for (index_t c = 0; c < from.channels; ++c) {
      T* y           = &to.at(r.n, c, r.z, r.y, r.x);
      const T* x     = &from.at(r.n, c, r.z, r.y, r.x);
      const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[c]),
                   b = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
      for (index_t i = 0; i < r.count; ++i)
        y[i * to.stride[4]] = static_cast<T>(
            (static_cast<double>(x[i * from.stride[4]]) - mean[i]) * rstd[i] * w + b);
    }
  }
};

/// Sums over channels of w a and w a xhat of each cell, which begin with zeros; w may be null.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void channel_sums(const Block<const T>& a, const Block<const T>& x,
                                              const RowSplit::Row& r, const double* s,
                                              const T* weight, double* s1, double* s2) {
  for_channels(a, r, [&](index_t c, index_t i, double value) {
    const double g   = weight == nullptr ? value : value * static_cast<double>(weight[c]);
    const T at       = x.at(r.n, c, r.z, r.y, r.x + i);
    const double hat = (static_cast<double>(at) - s[2 * i]) * s[2 * i + 1];
    s1[i] += g;
    s2[i] += g * hat;
  });
}

template <class T>
struct ChannelNormSumsRows {
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
    const double* statistics;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(dy[i * dy_step]) *
             ((static_cast<double>(x[i * x_step]) - statistics[2 * i]) * statistics[2 * i + 1]);
    }
  };

  void operator()(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels;
    double first[sum_lanes] = {}, second[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y) {
        const T *a = &dy.at(n, c, z, y, 0), *b = &x.at(n, c, z, y, 0);
        const index_t cell = ((n * x.end[0] + z) * x.end[1] + y) * x.end[2];
        add_row(first, x.end[2], Value{a, dy.stride[4]});
        add_row(second, x.end[2], Product{a, b, dy.stride[4], x.stride[4], statistics + 2 * cell});
      }
    sums[2 * item]     = add_lanes(first);
    sums[2 * item + 1] = add_lanes(second);
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
    const auto r             = split.rows.row(item);
    const index_t cell       = split.cell(r);
    double s1[channel_cells] = {}, s2[channel_cells] = {};
    channel_sums(from, x, r, statistics + 2 * cell, weight, s1, s2);
    for (index_t i = 0; i < r.count; ++i) {
      sums[2 * (cell + i)]     = s1[i];
      sums[2 * (cell + i) + 1] = s2[i];
    }
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
  bool adjoint, with_input;
  CellSums given;

  void operator()(index_t item) const {
    const auto r       = split.rows.row(item);
    const index_t cell = split.cell(r);
    const double* s    = statistics + 2 * cell;
    const double count = given.sums == nullptr ? static_cast<double>(x.channels) : given.channels;
    const auto hat     = [&](index_t c, index_t i) {
      const T value = x.at(r.n, c, r.z, r.y, r.x + i);
      return (static_cast<double>(value) - s[2 * i]) * s[2 * i + 1];
    };
    const auto w = [&](index_t c) {
      return weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
    };
    double s1[channel_cells] = {}, s2[channel_cells] = {};
    if (with_input) {
      if (given.sums == nullptr)
        channel_sums(from, x, r, s, adjoint ? weight : nullptr, s1, s2);
      else
        for (index_t i = 0; i < r.count; ++i) {
          s1[i] = given.sums[2 * (cell + i)];
          s2[i] = given.sums[2 * (cell + i) + 1];
        }
    }
    for (index_t c = 0; c < x.channels; ++c) {
      const double weighs = w(c), inside = adjoint ? weighs : 1.0, outside = adjoint ? 1.0 : weighs;
      const double tw = weight_tangent == nullptr ? 0.0 : static_cast<double>(weight_tangent[c]),
                   tb = bias_tangent == nullptr ? 0.0 : static_cast<double>(bias_tangent[c]);
      T* out          = &to.at(r.n, c, r.z, r.y, r.x);
      const T* in     = &from.at(r.n, c, r.z, r.y, r.x);
      for (index_t i = 0; i < r.count; ++i) {
        const double h = hat(c, i);
        double sum     = h * tw + tb;
        if (with_input)
          sum +=
              outside * s[2 * i + 1] *
              (inside * static_cast<double>(in[i * from.stride[4]]) - (s1[i] + h * s2[i]) / count);
        out[i * to.stride[4]] = static_cast<T>(sum);
      }
    }
  }
};

/// The channels of a work item's cells.
template <class T>
Strip<T> channel_strip(const Block<T>& b, const RowSplit::Row& r) {
  return Strip<T>::side_by_side(&b.at(r.n, 0, r.z, r.y, r.x), b.channels, b.stride[1], b.stride[4],
                                static_cast<int>(r.count));
}

template <class T>
struct ChannelSoftmaxRows {
  CellSplit split;
  Block<T> to;
  Block<const T> from;

  void operator()(index_t item) const {
    const auto r = split.rows.row(item);
    const auto y = channel_strip(to, r);
    StripFigures<T> figures;
    figures.find_maxima(channel_strip(from, r));
    figures.make_finite();
    figures.add_exponentials(channel_strip(from, r), y);
    T inverse[strip_width];
    for (int j = 0; j < strip_width; ++j) inverse[j] = static_cast<T>(1.0 / figures.sum[j]);
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
    StripFigures<T> figures;
    figures.find_maxima(values);
    figures.make_finite();
    T* const exponentials = scratch_values<T>(x.channels * strip_width);
    figures.add_dots(values, factors, exponentials);
    T inverse[strip_width], dot[strip_width];
    for (int j = 0; j < strip_width; ++j) {
      inverse[j] = static_cast<T>(1.0 / figures.sum[j]);
      dot[j]     = static_cast<T>(figures.dot[j] / figures.sum[j]);
    }
    map_strip([&](int j, T e, T a) { return e * inverse[j] * (a - dot[j]); }, channel_strip(to, r),
              Strip<const T>::side_by_side(exponentials, x.channels, strip_width, 1, strip_width),
              factors);
  }
};

template <class Space, class T>
void ChannelKernels<Space, T>::norm(const Space& space, const Block<T>& y, const Block<const T>& x,
                                    double* statistics, const T* weight, const T* bias, double eps,
                                    bool given) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, y);
    launch("shard::layer_norm", space, split.rows.items(),
           ChannelNormRows<T>{split, y, x, statistics, weight, bias, eps, given});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, y);
    launch_tiles("shard::layer_norm", space, tiles,
                 ChannelNormTeamKernel<T>{tiles, y, x, statistics, weight, bias, eps, given});
  }
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_moments(const Space& space, double* moments,
                                            const Block<const T>& x) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, x);
    launch("shard::layer_norm_moments", space, split.rows.items(),
           ChannelMomentsRows<T>{split, moments, x});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, x);
    launch_tiles("shard::layer_norm_moments", space, tiles,
                 ChannelMomentsTeamKernel<T>{tiles, moments, x});
  }
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_sums(const Space& space, double* sums, const Block<const T>& dy,
                                         const Block<const T>& x, const double* statistics,
                                         double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::layer_norm_sums", space, x.batch * x.channels,
           ChannelNormSumsRows<T>{sums, dy, x, statistics});
  else
    sum_planes("shard::layer_norm_sums", space, ChannelPairTerm<T>{dy, x, statistics}, x, sums,
               parts);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_cell_sums(const Space& space, double* sums,
                                              const Block<const T>& a, const Block<const T>& x,
                                              const double* statistics, const T* weight) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, a);
    launch("shard::layer_norm_cell_sums", space, split.rows.items(),
           ChannelCellSumsRows<T>{split, sums, a, x, statistics, weight});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, a);
    launch_tiles("shard::layer_norm_cell_sums", space, tiles,
                 ChannelCellSumsTeamKernel<T>{tiles, sums, a, x, statistics, weight});
  }
}

template <class Space, class T>
void channel_derivative(const char* label, const Space& space, const Block<T>& to,
                        const Block<const T>& from, const Block<const T>& x,
                        const double* statistics, const T* weight, const T* weight_tangent,
                        const T* bias_tangent, bool adjoint, bool with_input,
                        const CellSums& given) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, to);
    launch(label, space, split.rows.items(),
           ChannelNormDerivativeRows<T>{split, to, from, x, statistics, weight, weight_tangent,
                                        bias_tangent, adjoint, with_input, given});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, to);
    launch_tiles(
        label, space, tiles,
        ChannelNormDerivativeTeamKernel<T>{tiles, to, from, x, statistics, weight, weight_tangent,
                                           bias_tangent, adjoint, with_input, given});
  }
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_pullback(const Space& space, const Block<T>& dx,
                                             const Block<const T>& dy, const Block<const T>& x,
                                             const double* statistics, const T* weight,
                                             const CellSums& given) {
  channel_derivative<Space, T>("shard::layer_norm_pullback", space, dx, dy, x, statistics, weight,
                               nullptr, nullptr, true, true, given);
}

template <class Space, class T>
void ChannelKernels<Space, T>::norm_pushforward(const Space& space, const Block<T>& ty,
                                                const Block<const T>& tx, bool with_input,
                                                const Block<const T>& x, const double* statistics,
                                                const T* weight, const T* weight_tangent,
                                                const T* bias_tangent, const CellSums& given) {
  channel_derivative<Space, T>("shard::layer_norm_pushforward", space, ty, tx, x, statistics,
                               weight, weight_tangent, bias_tangent, false, with_input, given);
}

template <class Space, class T>
void ChannelKernels<Space, T>::softmax(const Space& space, const Block<T>& y,
                                       const Block<const T>& x) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, y, strip_width);
    if (x.channels > 0)
      launch("shard::softmax", space, split.rows.items(), ChannelSoftmaxRows<T>{split, y, x});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, y);
    launch_tiles("shard::softmax", space, tiles, ChannelSoftmaxTeamKernel<T>{tiles, y, {}, x});
  }
}

template <class Space, class T>
void ChannelKernels<Space, T>::softmax_derivative(const Space& space, const Block<T>& b,
                                                  const Block<const T>& a,
                                                  const Block<const T>& x) {
  if constexpr (is_host_v<Space>) {
    const CellSplit split = CellSplit::of(space, b, strip_width);
    if (x.channels > 0)
      launch("shard::softmax_derivative", space, split.rows.items(),
             ChannelSoftmaxDerivativeRows<T>{split, b, a, x});
  } else {
    const ChannelTiles tiles = ChannelTiles::of(space, b);
    launch_tiles("shard::softmax_derivative", space, tiles,
                 ChannelSoftmaxTeamKernel<T>{tiles, b, a, x});
  }
}

void merge_cells(const double* gathered, index_t cells, const double* channels, int ranks,
                 double eps, double* statistics) {
  for (index_t i = 0; i < cells; ++i) {
    Moments sum;
    for (int r = 0; r < ranks; ++r) {
      const double* m = gathered + 2 * (r * cells + i);
      merge(sum, {channels[r], m[0], m[1]});
    }
    statistics[2 * i]     = sum.mean;
    statistics[2 * i + 1] = 1.0 / std::sqrt(sum.squares / sum.weight + eps);
  }
}

template struct ChannelKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ChannelKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct ChannelKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ChannelKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
