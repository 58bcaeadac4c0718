// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_KERNELS_HPP
#define SHARD_LAYERS_IMPL_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/impl/local_field.hpp"

namespace shard::impl {

/// A rank's points of a field [batch, channel, space...] for the layers' kernels: always three
/// spatial dimensions (leading ones of extent 1 if the field has fewer), so that each kernel is
/// compiled once per value type. Index 0 is the first owned point; the block has the points [begin,
/// end) of each spatial dimension.
template <class T>
struct Block {
  T* origin         = nullptr;
  index_t batch     = 0;
  index_t channels  = 0;
  index_t begin[3]  = {0, 0, 0};
  index_t end[3]    = {1, 1, 1};
  index_t stride[5] = {};  ///< batch, channel, space

  KOKKOS_FUNCTION index_t extent(int d) const { return end[d] > begin[d] ? end[d] - begin[d] : 0; }
  KOKKOS_FUNCTION index_t cells() const { return extent(0) * extent(1) * extent(2); }
  KOKKOS_FUNCTION T& at(index_t n, index_t c, index_t z, index_t y, index_t x) const {
    return origin[n * stride[0] + c * stride[1] + z * stride[2] + y * stride[3] + x * stride[4]];
  }
};

template <class T, int Rank>
Block<T> make_block(const LocalField<T, Rank>& f, bool with_halo) {
  static_assert(std::is_same_v<std::remove_const_t<T>, float> ||
                    std::is_same_v<std::remove_const_t<T>, double>,
                "the layers' kernels are compiled for float and double");
  static_assert(Rank >= 3 && Rank <= 5,
                "a layer's field is [batch, channel, one to three spatial dimensions]");
  Block<T> b;
  b.origin    = f.origin;
  b.batch     = f.extent[0];
  b.channels  = f.extent[1];
  b.stride[0] = f.stride[0];
  b.stride[1] = f.stride[1];
  for (int d = 2; d < Rank; ++d) {
    const int to     = d + 3 - Rank;
    b.stride[to + 2] = f.stride[d];
    b.begin[to]      = with_halo ? -f.lo[d] : 0;
    b.end[to]        = f.extent[d] + (with_halo ? f.hi[d] : 0);
  }
  return b;
}

/// The owned points of a field.
template <class T, int Rank>
Block<T> owned_block(const LocalField<T, Rank>& f) {
  return make_block(f, false);
}
/// The owned points and the halo of a field.
template <class T, int Rank>
Block<T> haloed_block(const LocalField<T, Rank>& f) {
  return make_block(f, true);
}
template <class T>
Block<const T> as_const(const Block<T>& b) {
  Block<const T> c;
  c.origin   = b.origin;
  c.batch    = b.batch;
  c.channels = b.channels;
  for (int d = 0; d < 3; ++d) {
    c.begin[d] = b.begin[d];
    c.end[d]   = b.end[d];
  }
  for (int d = 0; d < 5; ++d) c.stride[d] = b.stride[d];
  return c;
}

/// The window of a convolution between local indices. The coarse side (a convolution's output, a
/// transposed one's input) has point o, the fine side point i = o s + k d + offset. Weights are
/// [coarse channel][fine channel within its group][k...].
struct LocalWindow {
  int kernel[3]     = {1, 1, 1};
  int stride[3]     = {1, 1, 1};
  int dilation[3]   = {1, 1, 1};
  index_t offset[3] = {0, 0, 0};
  index_t groups    = 1;

  KOKKOS_FUNCTION index_t taps() const {
    return static_cast<index_t>(kernel[0]) * kernel[1] * kernel[2];
  }
};

/// Number of interleaved sums over points: column x (from the block's first) goes into sum x mod
/// sum_lanes, and the sums are added in ascending order at the end. So sums are vectorised in a
/// fixed order.
inline constexpr int sum_lanes = 16;

/// The pieces in which a device sums the points of one batch entry and channel, a team of threads
/// each. They have equal lengths, which depend only on the number of points, and one team can merge
/// them.
struct CellPieces {
  static constexpr index_t shortest = 4096, most = 128;
  index_t cells = 0, length = shortest, count = 1;

  static CellPieces of(index_t cells) {
    constexpr index_t step = shortest * most;
    CellPieces p;
    p.cells = cells;
    if (cells > step) p.length = (cells + step - 1) / step * shortest;
    if (cells > p.length) p.count = (cells + p.length - 1) / p.length;
    return p;
  }
  /// Size of the pieces' sums, `kinds` for each piece of each of `planes`; 0 on a host, whose
  /// kernels sum a plane at once.
  template <class Memory>
  static std::size_t room(index_t planes, index_t cells, int kinds) {
    const index_t count = of(cells).count;
    if (std::is_same_v<Memory, Kokkos::HostSpace> || count == 1) return 0;
    return static_cast<std::size_t>(planes * count * kinds);
  }
};

/// Execution spaces for which the layers' kernels are compiled.
template <class Space>
inline constexpr bool has_layer_kernels_v =
    std::is_same_v<Space, Kokkos::DefaultExecutionSpace> ||
    std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>;
/// Base of the classes of kernels.
template <class Space>
struct RequireLayerKernels {
  static_assert(has_layer_kernels_v<Space>,
                "the layers' kernels are compiled for Kokkos' default execution space and its "
                "default host execution space");
};

/// Kernels of convolutions, compiled in src/layers for float and double. All are asynchronous on
/// `space`.
template <class Space, class T>
struct ConvolutionKernels : RequireLayerKernels<Space> {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "the layers' kernels are compiled for float and double");

  /// coarse[n, a, o] = bias[a] + sum over b (ascending, of the group), k (ascending, the last
  /// dimension fastest) of w[a][b][k] fine[n, b, o s + k d + offset]; points outside `fine` are
  /// zero. `bias` may be null.
  static void correlate(const Space& space, const Block<T>& coarse, const Block<const T>& fine,
                        const T* weight, const T* bias, const LocalWindow& window);

  /// fine[n, b, i] = bias[b] + sum over a (ascending, of the group), k (ascending) with i = o s + k
  /// d + offset of w[a][b][k] coarse[n, a, o]; points outside `coarse` are zero. `bias` may be
  /// null.
  static void correlate_transposed(const Space& space, const Block<T>& fine,
                                   const Block<const T>& coarse, const T* weight, const T* bias,
                                   const LocalWindow& window);

  /// dw[a][b][k] += sum over n, o (ascending, the last dimension fastest) of coarse[n, a, o]
  /// fine[n, b, o s + k d + offset], in sequence; with few channels in a group, in lanes (see
  /// CorrelateWeightsRows); on a device, the sums of pieces of fixed length. Points outside `fine`
  /// are zero.
  static void correlate_weights(const Space& space, T* weight_gradient,
                                const Block<const T>& coarse, const Block<const T>& fine,
                                const LocalWindow& window);

  /// db[c] += sum over n, points of dy[n, c, ...], in sum_lanes interleaved sums; on a device, in
  /// fixed pieces and trees.
  static void sum_channels(const Space& space, T* bias_gradient, const Block<const T>& dy);
};

/// Kernels point by point over owned points; all blocks have the same extents. They are
/// asynchronous on `space`.
template <class Space, class T>
struct PointwiseKernels : RequireLayerKernels<Space> {
  /// y = x
  static void copy(const Space& space, const Block<T>& y, const Block<const T>& x);
  /// y = a + b
  static void add(const Space& space, const Block<T>& y, const Block<const T>& a,
                  const Block<const T>& b);
};

}  // namespace shard::impl

#endif
