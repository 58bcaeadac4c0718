// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <vector>

#include "launch.hpp"
#include "separable_rows.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/interpolation_kernels.hpp"

namespace shard::impl {

template <class T>
struct InterpolateKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  InterpolatedDim dims[3];

  struct Pair {
    index_t first, second;
    double share;
  };
  KOKKOS_FUNCTION Pair pair(int d, index_t o) const {
    const InterpolatedDim& w    = dims[d];
    const InterpolationSource s = interpolation_source(w, w.output_begin + o);
    const bool next             = w.rule != InterpolationRule::nearest && s.cell + 1 < w.inputs;
    return {s.cell - w.input_begin, s.cell + (next ? 1 : 0) - w.input_begin, s.share};
  }
  KOKKOS_FUNCTION static T between(T a, T b, double share) {
    return static_cast<T>(1.0 - share) * a + static_cast<T>(share) * b;
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    const Pair z = pair(0, r.z), y = pair(1, r.y), x = pair(2, r.x);
    const T* a = &from.at(r.n, r.c, z.first, y.first, 0);
    const T* b = &from.at(r.n, r.c, z.first, y.second, 0);
    const T* c = &from.at(r.n, r.c, z.second, y.first, 0);
    const T* d = &from.at(r.n, r.c, z.second, y.second, 0);
    index_t i = x.first * from.stride[4], j = x.second * from.stride[4];
    T* cell = &to.at(r.n, r.c, r.z, r.y, r.x);
    for (index_t k = r.c; k < r.c + channels_at_once && k < to.channels; ++k) {
      T value = between(a[i], a[j], x.share);
      if (y.share != 0.0) value = between(value, between(b[i], b[j], x.share), y.share);
      if (z.share != 0.0) {
        T other = between(c[i], c[j], x.share);
        if (y.share != 0.0) other = between(other, between(d[i], d[j], x.share), y.share);
        value = between(value, other, z.share);
      }
      *cell = value;
      cell += to.stride[1];
      i += from.stride[1];
      j += from.stride[1];
    }
  }
};

template <class T>
struct InterpolateTapsKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  InterpolatedDim dims[3];

  struct Taps {
    index_t begin, count;
    double share;
  };
  KOKKOS_FUNCTION Taps taps(int d, index_t o) const {
    const InterpolatedDim& w    = dims[d];
    const InterpolationSource s = interpolation_source(w, w.output_begin + o);
    const IndexRange t          = interpolation_taps(w, w.output_begin + o, s.cell);
    return {t.begin, t.end - t.begin, s.share};
  }
  KOKKOS_FUNCTION index_t cell(int d, index_t k) const {
    return inside_world(k, dims[d].inputs) - dims[d].input_begin;
  }
  KOKKOS_FUNCTION T weight(int d, const Taps& t, index_t k) const {
    return static_cast<T>(interpolation_weight(dims[d].rule, t.count, t.share, k));
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    const Taps z = taps(0, r.z), y = taps(1, r.y), x = taps(2, r.x);
    const index_t rest      = to.channels - r.c;
    T sum[channels_at_once] = {};
    for (index_t i = 0; i < z.count; ++i) {
      const T wz = weight(0, z, i);
      for (index_t j = 0; j < y.count; ++j) {
        const T wy   = weight(1, y, j) * wz;
        const T* row = &from.at(r.n, r.c, cell(0, z.begin + i), cell(1, y.begin + j), 0);
        for (index_t k = 0; k < x.count; ++k) {
          const T w     = weight(2, x, k) * wy;
          const T* read = row + cell(2, x.begin + k) * from.stride[4];
          for (int c = 0; c < channels_at_once; ++c)
            if (c < rest) sum[c] += w * read[c * from.stride[1]];
        }
      }
    }
    for (int c = 0; c < channels_at_once; ++c)
      if (c < rest) to.at(r.n, r.c + c, r.z, r.y, r.x) = sum[c];
  }
};

template <class T>
struct InterpolatePullbackKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> outer;
  InterpolatedDim dims[3];

  /// The outputs in the block of dy that may read the local input i.
  KOKKOS_FUNCTION IndexRange readers(int d, index_t i) const {
    const InterpolatedDim& w = dims[d];
    IndexRange r             = interpolation_readers(w, w.input_begin + i);
    r.begin -= w.output_begin;
    r.end -= w.output_begin;
    if (r.begin < outer.begin[d]) r.begin = outer.begin[d];
    if (r.end > outer.end[d]) r.end = outer.end[d];
    return r;
  }
  KOKKOS_FUNCTION T weight(int d, index_t o, index_t i) const {
    return static_cast<T>(
        interpolation_share(dims[d], dims[d].output_begin + o, dims[d].input_begin + i));
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r       = split.row(item);
    const IndexRange z = readers(0, r.z), y = readers(1, r.y), x = readers(2, r.x);
    const index_t rest      = to.channels - r.c;
    T sum[channels_at_once] = {};
    for (index_t oz = z.begin; oz < z.end; ++oz) {
      const T wz = weight(0, oz, r.z);
      if (wz == T(0)) continue;
      for (index_t oy = y.begin; oy < y.end; ++oy) {
        const T wy = weight(1, oy, r.y) * wz;
        if (wy == T(0)) continue;
        for (index_t ox = x.begin; ox < x.end; ++ox) {
          const T w     = wy * weight(2, ox, r.x);
          const T* read = &outer.at(r.n, r.c, oz, oy, ox);
          for (int c = 0; c < channels_at_once; ++c)
            if (c < rest) sum[c] += w * read[c * outer.stride[1]];
        }
      }
    }
    for (int c = 0; c < channels_at_once; ++c)
      if (c < rest) to.at(r.n, r.c + c, r.z, r.y, r.x) = sum[c];
  }
};

/// Calls use(global input, weight) for each input that output o reads, ascending.
template <class Use>
void for_inputs(const InterpolatedDim& d, index_t o, const Use& use) {
  const InterpolationSource s = interpolation_source(d, o);
  const IndexRange taps       = interpolation_taps(d, o, s.cell);
  const auto share            = [&](index_t k) {
    return interpolation_weight(d.rule, taps.end - taps.begin, s.share, k - taps.begin);
  };
  if (d.rule == InterpolationRule::linear && s.share == 0.0) {
    use(s.cell, 1.0);  // the next cell may not exist
    return;
  }
  double weight = 0.0;  // sum over the taps that are the same cell, at the domain boundary
  for (index_t k = taps.begin; k < taps.end; ++k) {
    const index_t cell = inside_world(k, d.inputs);
    weight += share(k);
    if (k + 1 < taps.end && inside_world(k + 1, d.inputs) == cell) continue;
    use(cell, weight);
    weight = 0.0;
  }
}

template <class Space, class T>
void InterpolationKernels<Space, T>::apply(const Space& space, const Block<T>& y,
                                           const Block<const T>& x, const InterpolatedDim* dims) {
  if constexpr (is_host_v<Space>) {
    ReadTable<T> tables[3];
    for (int d = 0; d < 3; ++d)
      for (index_t o = y.begin[d]; o < y.end[d]; ++o) {
        for_inputs(dims[d], dims[d].output_begin + o, [&](index_t cell, double weight) {
          tables[d].add(cell - dims[d].input_begin, static_cast<T>(weight));
        });
        tables[d].end_cell();
      }
    SeparableRows<T>::run("shard::interpolate", space, y, x, tables);
  } else {
    const RowSplit split         = RowSplit::of_groups(space, y);
    const InterpolationRule rule = dims[2].rule;
    if (rule == InterpolationRule::nearest || rule == InterpolationRule::linear)
      launch("shard::interpolate", space, split.items(),
             InterpolateKernel<T>{split, y, x, {dims[0], dims[1], dims[2]}});
    else
      launch("shard::interpolate_taps", space, split.items(),
             InterpolateTapsKernel<T>{split, y, x, {dims[0], dims[1], dims[2]}});
  }
}

template <class Space, class T>
void InterpolationKernels<Space, T>::pullback(const Space& space, const Block<T>& dx,
                                              const Block<const T>& dy,
                                              const InterpolatedDim* dims) {
  if constexpr (is_host_v<Space>) {
    ReadTable<T> tables[3];
    for (int d = 0; d < 3; ++d) {
      Readers<T> readers{dx.begin[d], dx.extent(d)};
      for (index_t o = dy.begin[d]; o < dy.end[d]; ++o)
        for_inputs(dims[d], dims[d].output_begin + o, [&](index_t cell, double weight) {
          readers.add(cell - dims[d].input_begin, o, static_cast<T>(weight));
        });
      tables[d] = readers.table();
    }
    SeparableRows<T>::run("shard::interpolate_pullback", space, dx, dy, tables);
  } else {
    const RowSplit split = RowSplit::of_groups(space, dx);
    launch("shard::interpolate_pullback", space, split.items(),
           InterpolatePullbackKernel<T>{split, dx, dy, {dims[0], dims[1], dims[2]}});
  }
}

IndexRange interpolation_reads(const void* dim, IndexRange outputs) {
  const auto& d  = *static_cast<const InterpolatedDim*>(dim);
  const auto& at = [&d](index_t o) {
    return interpolation_taps(d, o, interpolation_source(d, o).cell);
  };
  return {inside_world(at(outputs.begin).begin, d.inputs),
          inside_world(at(outputs.end - 1).end - 1, d.inputs) + 1};
}

IndexRange interpolation_read_by(const void* dim, IndexRange inputs) {
  const auto& d = *static_cast<const InterpolatedDim*>(dim);
  IndexRange outputs{interpolation_readers(d, inputs.begin).begin,
                     interpolation_readers(d, inputs.end - 1).end};
  for (; !outputs.empty(); ++outputs.begin) {
    const InterpolationSource s = interpolation_source(d, outputs.begin);
    const IndexRange taps       = interpolation_taps(d, outputs.begin, s.cell);
    bool reads                  = false;
    for (index_t k = taps.begin; k < taps.end; ++k)
      reads = reads ||
              (inside_world(k, d.inputs) >= inputs.begin &&
               interpolation_weight(d.rule, taps.end - taps.begin, s.share, k - taps.begin) != 0.0);
    if (reads) break;
  }
  return outputs;
}

std::vector<index_t> interpolated_begins(const InterpolatedDim& dim, const Partition& input) {
  std::vector<index_t> begins(static_cast<std::size_t>(input.parts()) + 1, dim.outputs);
  begins[0] = 0;
  for (int r = 1; r < input.parts(); ++r)
    begins[static_cast<std::size_t>(r)] = input.begin(r) == 0 ? 0
                                          : input.begin(r) < input.size()
                                              ? first_interpolated(dim, input.begin(r))
                                              : dim.outputs;
  return begins;
}

index_t interpolated_extent(index_t n, index_t size, double scale) {
  if (size > 0) return size;
  if (!(scale > 0.0))
    throw_argument("Interpolate", {"neither a size nor a scale was given to the layer; give it "
                                   "one, or output_partitions the extents"});
  return static_cast<index_t>(std::floor(static_cast<double>(n) * scale));
}

SHARD_KERNELS(InterpolationKernels)

}  // namespace shard::impl
