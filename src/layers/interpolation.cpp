// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <vector>

#include "launch.hpp"
#include "shard/layers/interpolate.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

template <class T>
struct InterpolateKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  InterpolatedDim dims[3];
  InterpolationRule rule;

  KOKKOS_FUNCTION InterpolationStencil stencil(int d, index_t o) const {
    InterpolationStencil s =
        interpolation_stencil(rule, dims[d].inputs, dims[d].outputs, dims[d].output_begin + o);
    s.first -= dims[d].input_begin;
    s.second -= dims[d].input_begin;
    return s;
  }
  KOKKOS_FUNCTION static T between(T a, T b, double share) {
    return static_cast<T>(1.0 - share) * a + static_cast<T>(share) * b;
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r                 = split.row(item);
    const InterpolationStencil z = stencil(0, r.z), y = stencil(1, r.y);
    const T* a = &from.at(r.n, r.c, z.first, y.first, 0);
    const T* b = &from.at(r.n, r.c, z.first, y.second, 0);
    const T* c = &from.at(r.n, r.c, z.second, y.first, 0);
    const T* d = &from.at(r.n, r.c, z.second, y.second, 0);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const InterpolationStencil s = stencil(2, x);
      const index_t i = s.first * from.stride[4], j = s.second * from.stride[4];
      T value = between(a[i], a[j], s.share);
      if (y.share != 0.0) value = between(value, between(b[i], b[j], s.share), y.share);
      if (z.share != 0.0) {
        T other = between(c[i], c[j], s.share);
        if (y.share != 0.0) other = between(other, between(d[i], d[j], s.share), y.share);
        value = between(value, other, z.share);
      }
      to.at(r.n, r.c, r.z, r.y, x) = value;
    }
  }
};

template <class T>
struct InterpolatePullbackKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> outer;
  InterpolatedDim dims[3];
  InterpolationRule rule;

  /// The owned outputs that may read local input i.
  KOKKOS_FUNCTION IndexRange readers(int d, index_t i) const {
    const InterpolatedDim& w = dims[d];
    const index_t g          = w.input_begin + i;
    IndexRange r{first_interpolated(rule, w.inputs, w.outputs, g - 1) - w.output_begin,
                 first_interpolated(rule, w.inputs, w.outputs, g + 1) - w.output_begin};
    if (r.begin < outer.begin[d]) r.begin = outer.begin[d];
    if (r.end > outer.end[d]) r.end = outer.end[d];
    return r;
  }
  KOKKOS_FUNCTION T weight(int d, index_t o, index_t i) const {
    const InterpolatedDim& w = dims[d];
    const InterpolationStencil s =
        interpolation_stencil(rule, w.inputs, w.outputs, w.output_begin + o);
    const index_t g = w.input_begin + i;
    T sum           = T(0);
    if (s.first == g) sum += static_cast<T>(1.0 - s.share);
    if (s.second == g) sum += static_cast<T>(s.share);
    return sum;
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r       = split.row(item);
    const IndexRange z = readers(0, r.z), y = readers(1, r.y);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      const IndexRange columns = readers(2, x);
      T sum                    = T(0);
      for (index_t oz = z.begin; oz < z.end; ++oz) {
        const T wz = weight(0, oz, r.z);
        if (wz == T(0)) continue;
        for (index_t oy = y.begin; oy < y.end; ++oy) {
          const T wy = weight(1, oy, r.y) * wz;
          if (wy == T(0)) continue;
          for (index_t ox = columns.begin; ox < columns.end; ++ox)
            sum += wy * weight(2, ox, x) * outer.at(r.n, r.c, oz, oy, ox);
        }
      }
      to.at(r.n, r.c, r.z, r.y, x) = sum;
    }
  }
};

template <class Space, class T>
void InterpolationKernels<Space, T>::apply(const Space& space, const Block<T>& y,
                                           const Block<const T>& x, const InterpolatedDim* dims,
                                           InterpolationRule rule) {
  const RowSplit split = RowSplit::of(space, y);
  launch("shard::interpolate", space, split.items(),
         InterpolateKernel<T>{split, y, x, {dims[0], dims[1], dims[2]}, rule});
}

template <class Space, class T>
void InterpolationKernels<Space, T>::pullback(const Space& space, const Block<T>& dx,
                                              const Block<const T>& dy, const InterpolatedDim* dims,
                                              InterpolationRule rule) {
  const RowSplit split = RowSplit::of(space, dx);
  launch("shard::interpolate_pullback", space, split.items(),
         InterpolatePullbackKernel<T>{split, dx, dy, {dims[0], dims[1], dims[2]}, rule});
}

std::vector<index_t> interpolated_begins(InterpolationRule rule, const Partition& input,
                                         index_t m) {
  std::vector<index_t> begins(static_cast<std::size_t>(input.parts()) + 1, m);
  begins[0] = 0;
  for (int r = 1; r < input.parts(); ++r)
    begins[static_cast<std::size_t>(r)] =
        input.begin(r) < input.size() ? first_interpolated(rule, input.size(), m, input.begin(r))
                                      : m;
  return begins;
}

template struct InterpolationKernels<Kokkos::DefaultExecutionSpace, float>;
template struct InterpolationKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct InterpolationKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct InterpolationKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
