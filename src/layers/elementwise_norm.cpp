// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/elementwise_norm_kernels.hpp"

#include "launch.hpp"
#include "shard/layers/impl/layer_checks.hpp"

namespace shard::impl {

template <class T>
struct ElementwiseCombineKernel {
  RowSplit split;
  Block<T> to;
  Block<const T> from, factor, x, slope, shift;
  const double* statistics;
  NormGroups groups;

  KOKKOS_FUNCTION static double value(const Block<const T>& b, const RowSplit::Row& r, index_t i) {
    return static_cast<double>(b.at(r.n, r.c, r.z, r.y, r.x + i));
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r      = split.row(item);
    const double* s   = statistics + norm_figures * groups.slot(r.n, r.c);
    const bool scaled = from.origin != nullptr, weighed = factor.origin != nullptr,
               sloped = slope.origin != nullptr, shifted = shift.origin != nullptr;
    for (index_t i = 0; i < r.count; ++i) {
      double sum = 0.0;
      if (scaled) sum = value(from, r, i);
      if (weighed) sum *= value(factor, r, i);
      if (sloped) sum += (value(x, r, i) - s[0]) * s[1] * value(slope, r, i);
      if (shifted) sum += value(shift, r, i);
      to.at(r.n, r.c, r.z, r.y, r.x + i) = static_cast<T>(sum);
    }
  }
};

/// A row of one channel per work item, all batch entries.
template <class T>
struct ElementwiseGradientsKernel {
  RowSplit split;
  Block<T> weight, bias;
  Block<const T> dy, x;
  const double* statistics;
  NormGroups groups;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t i = r.x; i < r.x + r.count; ++i) {
      double dw = 0.0, db = 0.0;
      for (index_t n = 0; n < dy.batch; ++n) {
        const double* s    = statistics + norm_figures * groups.slot(n, r.c);
        const double value = static_cast<double>(dy.at(n, r.c, r.z, r.y, i));
        dw += value * ((static_cast<double>(x.at(n, r.c, r.z, r.y, i)) - s[0]) * s[1]);
        db += value;
      }
      weight.at(0, r.c, r.z, r.y, i) += static_cast<T>(dw);
      bias.at(0, r.c, r.z, r.y, i) += static_cast<T>(db);
    }
  }
};

template <class Space, class T>
void ElementwiseNormKernels<Space, T>::combine(
    const Space& space, const Block<T>& to, const Block<const T>& from,
    const Block<const T>& factor, const Block<const T>& x, const double* statistics,
    const NormGroups& groups, const Block<const T>& slope, const Block<const T>& shift) {
  const RowSplit split = RowSplit::of(space, to);
  launch("shard::elementwise_norm", space, split.items(),
         ElementwiseCombineKernel<T>{split, to, from, factor, x, slope, shift, statistics, groups});
}

template <class Space, class T>
void ElementwiseNormKernels<Space, T>::add_gradients(
    const Space& space, const Block<T>& weight_gradient, const Block<T>& bias_gradient,
    const Block<const T>& dy, const Block<const T>& x, const double* statistics,
    const NormGroups& groups) {
  RowSplit split = RowSplit::of(space, dy);
  split.batch    = 1;
  launch("shard::elementwise_norm_gradients", space, split.items(),
         ElementwiseGradientsKernel<T>{split, weight_gradient, bias_gradient, dy, x, statistics,
                                       groups});
}

void require_cells_of(std::string_view function, const Geometry& cells, const Geometry& x) {
  if (cells.mesh != x.mesh)
    throw_argument(function, {"fields \"", cells.label, "\" and \"", x.label,
                              "\" live on different meshes; a layer's fields share a mesh"});
  for (int d = 1; d < x.rank; ++d) {
    const DimGeometry& mine = cells.dims[Geometry::at(d - 1)];
    require_same_partition(function, cells.label, d - 1, mine.partition,
                           x.dims[Geometry::at(d)].partition);
  }
}

template struct ElementwiseNormKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ElementwiseNormKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct ElementwiseNormKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ElementwiseNormKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
