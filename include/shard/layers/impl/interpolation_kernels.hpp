// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_INTERPOLATION_KERNELS_HPP
#define SHARD_LAYERS_IMPL_INTERPOLATION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// The rule of an interpolation.
enum class InterpolationRule : std::uint8_t { nearest, linear, cubic, area };

/// The interpolation of one dimension: N global inputs to M global outputs, and the begins of this
/// rank's. Source positions are exact rational numbers, or (o + 1/2) step - 1/2 if a step is given.
struct InterpolatedDim {
  InterpolationRule rule = InterpolationRule::nearest;
  bool corners = false;  ///< the centres of the first and last points of input and output coincide
  double step  = 0.0;    ///< 1 / scale, or 0 for N / M
  index_t inputs = 1, outputs = 1;
  index_t input_begin = 0, output_begin = 0;
};

/// Position of an output among the inputs: cell + share, 0 <= share < 1. For an area it is the
/// first point.
struct InterpolationSource {
  index_t cell;
  double share;
};

KOKKOS_INLINE_FUNCTION InterpolationSource interpolation_source(const InterpolatedDim& d,
                                                                index_t o) {
  const index_t n = d.inputs, m = d.outputs;
  if (d.rule == InterpolationRule::area) return {o * n / m, 0.0};
  if (d.rule == InterpolationRule::nearest) {
    const index_t i =
        d.step > 0.0 ? static_cast<index_t>(static_cast<double>(o) * d.step) : o * n / m;
    return {i < n ? i : n - 1, 0.0};
  }
  if (d.step > 0.0 && !d.corners) {
    const double x = (static_cast<double>(o) + 0.5) * d.step - 0.5;
    if (x < 0.0 && d.rule == InterpolationRule::linear) return {0, 0.0};
    const double whole = Kokkos::floor(x);
    const auto i       = static_cast<index_t>(whole);
    return i < n ? InterpolationSource{i, x - whole} : InterpolationSource{n - 1, 0.0};
  }
  const index_t above = d.corners ? o * (n - 1) : (2 * o + 1) * n - m;
  const index_t below = d.corners ? (m > 1 ? m - 1 : 1) : 2 * m;
  if (above == 0 || (d.corners && m == 1)) return {0, 0.0};
  if (above < 0) {
    if (d.rule == InterpolationRule::linear) return {0, 0.0};
    return {-1, static_cast<double>(above + below) / static_cast<double>(below)};
  }
  return {above / below, static_cast<double>(above % below) / static_cast<double>(below)};
}

/// The inputs that output o reads, before clamping to the domain.
KOKKOS_INLINE_FUNCTION IndexRange interpolation_taps(const InterpolatedDim& d, index_t o,
                                                     index_t cell) {
  switch (d.rule) {
    case InterpolationRule::nearest: return {cell, cell + 1};
    case InterpolationRule::linear: return {cell, cell + 2};
    case InterpolationRule::cubic: return {cell - 1, cell + 3};
    case InterpolationRule::area: break;
  }
  return {cell, ((o + 1) * d.inputs + d.outputs - 1) / d.outputs};
}

/// The weight of tap k, counted from the first of `taps`. Cubic: Keys' kernel with a = -3/4.
KOKKOS_INLINE_FUNCTION double interpolation_weight(InterpolationRule rule, index_t taps,
                                                   double share, index_t k) {
  if (rule == InterpolationRule::area) return 1.0 / static_cast<double>(taps);
  if (rule == InterpolationRule::nearest) return 1.0;
  if (rule == InterpolationRule::linear) return k == 0 ? 1.0 - share : share;
  const double a = -0.75,
               x = k < 2 ? share + static_cast<double>(1 - k) : static_cast<double>(k - 1) - share;
  if (k == 1 || k == 2) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
}

KOKKOS_INLINE_FUNCTION index_t inside_world(index_t i, index_t n) {
  return i < 0 ? 0 : i < n ? i : n - 1;
}

/// The weight of input g in output o.
KOKKOS_INLINE_FUNCTION double interpolation_share(const InterpolatedDim& d, index_t o, index_t g) {
  const InterpolationSource s = interpolation_source(d, o);
  const IndexRange taps       = interpolation_taps(d, o, s.cell);
  double sum                  = 0.0;
  for (index_t k = taps.begin; k < taps.end; ++k)
    if (inside_world(k, d.inputs) == g)
      sum += interpolation_weight(d.rule, taps.end - taps.begin, s.share, k - taps.begin);
  return sum;
}

/// The first output whose point is at least j (M if there is none).
KOKKOS_INLINE_FUNCTION index_t first_interpolated(const InterpolatedDim& d, index_t j) {
  const index_t n = d.inputs, m = d.outputs;
  const bool below_zero = d.rule == InterpolationRule::cubic && !d.corners;
  if (j < 0 || (j == 0 && !below_zero)) return 0;
  index_t o     = m;
  const auto up = [](index_t a, index_t b) { return a / b + (a % b > 0 ? 1 : 0); };
  if (d.step > 0.0 && !d.corners && d.rule != InterpolationRule::area) {
    const double half = d.rule == InterpolationRule::nearest ? 0.0 : 0.5;
    o = inside_world(static_cast<index_t>((static_cast<double>(j) + half) / d.step - half), m + 1);
    while (o > 0 && interpolation_source(d, o - 1).cell >= j) --o;
    while (o < m && interpolation_source(d, o).cell < j) ++o;
    return o;
  }
  if (d.rule == InterpolationRule::nearest || d.rule == InterpolationRule::area)
    o = up(j * m, n);
  else if (!d.corners)
    o = up(2 * m * j + m - n, 2 * n);
  else if (n > 1 && m > 1)
    o = up(j * (m - 1), n - 1);
  return o < 0 ? 0 : o < m ? o : m;
}

/// The outputs that may read input g.
KOKKOS_INLINE_FUNCTION IndexRange interpolation_readers(const InterpolatedDim& d, index_t g) {
  switch (d.rule) {
    case InterpolationRule::nearest:
      return {first_interpolated(d, g), first_interpolated(d, g + 1)};
    case InterpolationRule::linear:
      return {first_interpolated(d, g - 1), first_interpolated(d, g + 1)};
    case InterpolationRule::cubic:
      return {g == 0 ? 0 : first_interpolated(d, g - 2),
              g == d.inputs - 1 ? d.outputs : first_interpolated(d, g + 2)};
    case InterpolationRule::area: break;
  }
  return {g * d.outputs / d.inputs, first_interpolated(d, g + 1)};
}

/// The global inputs that outputs [begin, end) read; `dim` is an InterpolatedDim.
IndexRange interpolation_reads(const void* dim, IndexRange outputs);

/// The global outputs that read inputs [begin, end): from the first with a nonzero weight to the
/// last possible one.
IndexRange interpolation_read_by(const void* dim, IndexRange inputs);

/// Begins of the output's natural partition: the first output whose point is at least the input's
/// begin.
std::vector<index_t> interpolated_begins(const InterpolatedDim& dim, const Partition& input);

/// The output extent for n points: `size` if it isn't 0, else floor(n scale). Throws ArgumentError
/// if neither is positive.
index_t interpolated_extent(index_t n, index_t size, double scale);

/// Kernels of interpolation. They are asynchronous on `space`.
template <class Space, class T>
struct InterpolationKernels : RequireLayerKernels<Space> {
  /// y[o] = sum of weights times points of x. On a host rows are added first, then points along the
  /// last dimension; on a device the last dimension comes first. `pullback` adds likewise.
  static void apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                    const InterpolatedDim* dims);
  /// dx[i] = sum over the outputs in dy's block that read point i (ascending) of weight dy[o], for
  /// all points of dx's block.
  static void pullback(const Space& space, const Block<T>& dx, const Block<const T>& dy,
                       const InterpolatedDim* dims);
};

}  // namespace shard::impl

#endif
