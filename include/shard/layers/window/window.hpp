// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_WINDOW_HPP
#define SHARD_LAYERS_WINDOW_WINDOW_HPP

#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/view/halo.hpp"

namespace shard {

/// Extents of a window, one per spatial dimension. The layer's number of dimensions is read from
/// it.
template <int... K>
struct Kernel {
  static_assert(sizeof...(K) >= 1 && sizeof...(K) <= 3,
                "a window has one, two or three dimensions");
  static_assert(((K >= 1) && ...), "a window has at least one cell in each dimension");
};

/// Steps of a window, one per dimension; default 1.
template <int... S>
struct Stride {
  static_assert(((S >= 1) && ...), "a stride is at least one");
};

/// Distances between the points of a window, one per dimension; default 1.
template <int... D>
struct Dilation {
  static_assert(((D >= 1) && ...), "a dilation is at least one");
};

/// Numbers of points at the low and at the high end of a dimension: of a padding, see `low_high`,
/// or of the halo that a window needs.
struct LowHigh {
  int lo;  ///< points before the first
  int hi;  ///< points after the last
};

/// Padding of one dimension, different at its low and its high end: `Padding<low_high<0, 1>,
/// low_high<2, 2>>`.
template <int Lo, int Hi>
inline constexpr LowHigh low_high{Lo, Hi};

/// Padding of each dimension, one entry per dimension: a number for both ends or `low_high<lo,
/// hi>`; default 0. The field's boundary defines the values: Zero is PyTorch's padding mode
/// "zeros".
template <auto... P>
struct Padding {};

/// The window of one dimension as a value. All formulas hold for every partition, empty shards
/// included.
struct Window {
  int kernel     = 1;  ///< points
  int stride     = 1;  ///< from one window to the next
  int padding_lo = 0;  ///< points added before the first
  int padding_hi = 0;  ///< points added after the last
  int dilation   = 1;  ///< distance of neighbouring points of the window

  /// Distance from the first to the last point of the window.
  constexpr int reach() const { return dilation * (kernel - 1); }
};

/// A half-open range of indices.
struct IndexRange {
  index_t begin;  ///< first index
  index_t end;    ///< one past the last

  /// Whether there is no index in it.
  constexpr bool empty() const { return end <= begin; }
};

/// The halo of a shard; negative if it doesn't read all its owned points.
struct SignedHalo {
  index_t lo;  ///< points before the first owned one
  index_t hi;  ///< points after the last owned one
};

/// a / b, rounded down.
constexpr index_t floor_div(index_t a, index_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}
/// a / b, rounded up.
constexpr index_t ceil_div(index_t a, index_t b) { return -floor_div(-a, b); }

/// Output extent of a convolution or a pooling over `n` points: floor((n + p_lo + p_hi - d(k-1) -
/// 1) / s) + 1, 0 if the window doesn't fit.
constexpr index_t conv_output_extent(const Window& w, index_t n) {
  const index_t room = n + w.padding_lo + w.padding_hi - w.reach() - 1;
  return room < 0 ? 0 : room / w.stride + 1;
}

/// First output of the shard that owns input points from `begin`: min(M, ceil(begin / s)); the
/// first shard begins at 0, the last ends at M.
constexpr index_t conv_output_begin(const Window& w, index_t begin, index_t output_extent) {
  const index_t c = ceil_div(begin, w.stride);
  return c < output_extent ? c : output_extent;
}

/// Input points (global, outside the domain too) that the outputs `outputs` read: output o reads o
/// s
/// - p_lo + j d.
constexpr IndexRange conv_reads(const Window& w, IndexRange outputs) {
  if (outputs.empty()) return {0, 0};
  return {outputs.begin * w.stride - w.padding_lo,
          (outputs.end - 1) * w.stride - w.padding_lo + w.reach() + 1};
}

/// Halo of a shard that owns `inputs` and computes `outputs`; zero if it computes nothing.
constexpr SignedHalo conv_signed_halo(const Window& w, IndexRange inputs, IndexRange outputs) {
  if (outputs.empty()) return {0, 0};
  const IndexRange r = conv_reads(w, outputs);
  return {inputs.begin - r.begin, r.end - inputs.end};
}

/// Output extent of a transposed convolution: (n - 1) s - p_lo - p_hi + d(k-1) + op + 1.
constexpr index_t conv_transpose_output_extent(const Window& w, index_t n, index_t output_padding) {
  const index_t m =
      (n - 1) * w.stride - w.padding_lo - w.padding_hi + w.reach() + output_padding + 1;
  return m > 0 ? m : 0;
}

/// First output of the shard that owns input points from `begin`: clamp(begin s, 0, M); the last
/// shard ends at M.
constexpr index_t conv_transpose_output_begin(const Window& w, index_t begin,
                                              index_t output_extent) {
  const index_t c = begin * w.stride;
  return c < output_extent ? c : output_extent;
}

/// Input points (global, outside the domain too) that the outputs `outputs` of a transposed
/// convolution read: i with o = i s - p_lo + j d.
constexpr IndexRange conv_transpose_reads(const Window& w, IndexRange outputs) {
  if (outputs.empty()) return {0, 0};
  return {ceil_div(outputs.begin + w.padding_lo - w.reach(), w.stride),
          floor_div(outputs.end - 1 + w.padding_lo, w.stride) + 1};
}

/// Whether an output padding is valid: in [0, max(s, d)), as in PyTorch.
constexpr bool is_output_padding(const Window& w, index_t output_padding) {
  return output_padding >= 0 && output_padding < (w.stride > w.dilation ? w.stride : w.dilation);
}

namespace impl {

constexpr int at_least_zero(index_t n) { return n > 0 ? static_cast<int>(n) : 0; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

/// Widest halo of a convolution over all partitions: lo <= p_lo, hi <= max(d(k-1) - p_lo, p_hi).
constexpr LowHigh conv_bound(const Window& w) {
  return {w.padding_lo, at_least_zero(larger(w.reach() - w.padding_lo, w.padding_hi))};
}

/// Halo of a convolution if every shard begins and ends at a multiple of the stride.
constexpr LowHigh conv_aligned_bound(const Window& w) {
  const int inner    = w.reach() + 1 - w.stride - w.padding_lo;
  const index_t last = w.stride * floor_div(w.padding_lo + w.padding_hi - w.reach() - 1, w.stride) +
                       w.reach() + 1 - w.padding_lo;
  return {w.padding_lo, larger(at_least_zero(inner), at_least_zero(last))};
}

/// Halo in an unsharded dimension: the padding.
constexpr LowHigh conv_unsharded_bound(const Window& w) { return {w.padding_lo, w.padding_hi}; }

/// Widest halo of a transposed convolution over all partitions, for its natural output partition
/// (begin s) or that of a finer level (a_r = ceil(b_r / s)): ceil((d(k-1)
/// - p) / s) and ceil(p / s).
constexpr LowHigh conv_transpose_bound(const Window& w) {
  return {at_least_zero(ceil_div(w.reach() - w.padding_lo, w.stride)),
          at_least_zero(ceil_div(w.padding_lo, w.stride))};
}

/// Halo of a transposed convolution with its natural output partition.
constexpr LowHigh conv_transpose_aligned_bound(const Window& w) {
  return {at_least_zero(floor_div(w.reach() - w.padding_lo, w.stride)),
          at_least_zero(ceil_div(w.padding_lo, w.stride))};
}

/// Halo of a convolution's dy for an ordered pullback, over all partitions: input points [b, e),
/// and the padding at the edges of the domain, read outputs from ceil((b + p - d(k-1)) / s) to
/// floor((e
/// - 1 + p) / s), the rank owns those from ceil(b / s) to ceil(e / s) - 1.
constexpr LowHigh conv_ordered_bound(const Window& w) {
  return {at_least_zero(ceil_div(w.reach() - w.padding_lo, w.stride)),
          larger(at_least_zero(ceil_div(w.padding_lo, w.stride)),
                 at_least_zero(ceil_div(w.padding_lo + w.padding_hi - w.reach(), w.stride)))};
}

/// The same for a transposed convolution: input points [b, e) read outputs from b s - p to (e - 1)
/// s
/// - p + d(k-1), the rank owns those from b s, or fewer than s before it, on.
constexpr LowHigh conv_transpose_ordered_bound(const Window& w) {
  return {w.padding_lo, at_least_zero(w.reach() - w.padding_lo)};
}

}  // namespace impl

namespace impl {

/// Whether a layer is a transposed window.
template <class Layer>
inline constexpr bool is_transposed_v = requires {
  requires Layer::transposed;
};

}  // namespace impl

/// Halo that a layer needs in its spatial dimension `Dim` (0 is the slowest), for every partition.
template <class Layer, int Dim>
using required_halo_t = Halo<Layer::halo_bound(Dim).lo, Layer::halo_bound(Dim).hi>;

/// The smaller halo that is enough if all shards begin and end at multiples of the stride.
template <class Layer, int Dim>
using aligned_halo_t = Halo<Layer::aligned_halo_bound(Dim).lo, Layer::aligned_halo_bound(Dim).hi>;

/// The halo that a layer needs in an unsharded dimension.
template <class Layer, int Dim>
using unsharded_halo_t =
    Halo<Layer::unsharded_halo_bound(Dim).lo, Layer::unsharded_halo_bound(Dim).hi>;

/// The halo that the gradient of a layer's output needs in a sharded dimension for an ordered
/// pullback (see Determinism), for every partition; in an unsharded dimension it needs none.
template <class Layer, int Dim>
using ordered_halo_t = Halo<Layer::ordered_halo_bound(Dim).lo, Layer::ordered_halo_bound(Dim).hi>;

/// Whether a layer reads beyond its shard in the dimension `Dim`.
template <class Layer, int Dim>
inline constexpr bool needs_halo_v = Layer::halo_bound(Dim).lo > 0 || Layer::halo_bound(Dim).hi > 0;

/// Number of a field's dimension, in messages.
template <int D>
struct Dim {};
/// The halo that a layer needs, in messages.
template <class H>
struct Needs {};
/// The halo that a field has, in messages.
template <class H>
struct Has {};

/// Whether a field's halo `Has<...>` in its dimension `Dim<...>` is as wide as the layer needs.
/// Never specialised: a failed check shows all four names.
template <class Layer, class FieldDim, class NeedsHalo, class HasHalo>
struct halo_is_wide_enough;

/// The check itself.
template <class Layer, class FieldDim, int NeedsLo, int NeedsHi, int HasLo, int HasHi>
struct halo_is_wide_enough<Layer, FieldDim, Needs<Halo<NeedsLo, NeedsHi>>,
                           Has<Halo<HasLo, HasHi>>> {
  /// Whether neither side is narrower.
  static constexpr bool value = NeedsLo <= HasLo && NeedsHi <= HasHi;
};

/// Whether a field's boundary `Has` in its dimension `Dim<...>` is the layer's padding mode `Mode`.
/// Never specialised: a failed check shows all four names.
template <class Layer, class FieldDim, class Mode, class Has>
struct boundary_is_the_padding_mode {
  /// Whether they are the same type.
  static constexpr bool value = std::is_same_v<Mode, Has>;
};

}  // namespace shard

#endif
