// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/elementwise_norm_kernels.hpp"

#include <algorithm>

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
    const double* s   = statistics + statistics_per_slot * groups.slot(r.n, r.c);
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

/// A work item has one row of one channel in all batch entries.
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
        const double* s    = statistics + statistics_per_slot * groups.slot(n, r.c);
        const double value = static_cast<double>(dy.at(n, r.c, r.z, r.y, i));
        dw += value * ((static_cast<double>(x.at(n, r.c, r.z, r.y, i)) - s[0]) * s[1]);
        db += value;
      }
      weight.at(0, r.c, r.z, r.y, i) += static_cast<T>(dw);
      bias.at(0, r.c, r.z, r.y, i) += static_cast<T>(db);
    }
  }
};

/// ElementwiseCombineKernel on a host. The two usual sums have loops that compilers vectorise.
template <class T>
struct ElementwiseCombineRows {
  ElementwiseCombineKernel<T> kernel;

  void operator()(index_t item) const {
    const auto r      = kernel.split.row(item);
    const double* s   = kernel.statistics + statistics_per_slot * kernel.groups.slot(r.n, r.c);
    const double mean = s[0], rstd = s[1];
    const T *const from = row(kernel.from, r), *const factor = row(kernel.factor, r),
                   *const x = row(kernel.x, r), *const slope = row(kernel.slope, r),
                   *const shift = row(kernel.shift, r);
    const auto real             = [](T v) { return static_cast<double>(v); };
    T* const y                  = &kernel.to.at(r.n, r.c, r.z, r.y, r.x);
    const bool contiguous       = kernel.to.stride[4] == 1 && is_contiguous(kernel.from) &&
                            is_contiguous(kernel.factor) && is_contiguous(kernel.x) &&
                            is_contiguous(kernel.slope) && is_contiguous(kernel.shift);
    if (contiguous && from == nullptr && slope != nullptr && shift != nullptr)
      for (index_t i = 0; i < r.count; ++i)
        y[i] = static_cast<T>((real(x[i]) - mean) * rstd * real(slope[i]) + real(shift[i]));
    else if (contiguous && from != nullptr && factor != nullptr && slope == nullptr &&
             shift == nullptr)
      for (index_t i = 0; i < r.count; ++i) y[i] = static_cast<T>(real(from[i]) * real(factor[i]));
    else
      kernel(item);
  }

 private:
  static const T* row(const Block<const T>& b, const RowSplit::Row& r) {
    return b.origin == nullptr ? nullptr : &b.at(r.n, r.c, r.z, r.y, r.x);
  }
  static bool is_contiguous(const Block<const T>& b) {
    return b.origin == nullptr || b.stride[4] == 1;
  }
};

/// ElementwiseGradientsKernel on a host, several cells at a time.
template <class T>
struct ElementwiseGradientsRows {
  static constexpr index_t width = 64;
  ElementwiseGradientsKernel<T> kernel;

  void operator()(index_t item) const {
    const auto r   = kernel.split.row(item);
    const auto &dy = kernel.dy, &x = kernel.x;
    if (dy.stride[4] != 1 || x.stride[4] != 1) {
      kernel(item);
      return;
    }
    for (index_t first = r.x; first < r.x + r.count; first += width) {
      const index_t count = std::min(width, r.x + r.count - first);
      double dw[width] = {}, db[width] = {};
      for (index_t n = 0; n < dy.batch; ++n) {
        const double* s   = kernel.statistics + statistics_per_slot * kernel.groups.slot(n, r.c);
        const double mean = s[0], rstd = s[1];
        const T *const a = &dy.at(n, r.c, r.z, r.y, first), *const v =
                                                                &x.at(n, r.c, r.z, r.y, first);
        for (index_t i = 0; i < count; ++i) {
          const double value = static_cast<double>(a[i]);
          dw[i] += value * ((static_cast<double>(v[i]) - mean) * rstd);
          db[i] += value;
        }
      }
      add(kernel.weight, r, first, dw, count);
      add(kernel.bias, r, first, db, count);
    }
  }
  static void add(const Block<T>& to, const RowSplit::Row& r, index_t first, const double* sums,
                  index_t count) {
    T* const cells     = &to.at(0, r.c, r.z, r.y, first);
    const index_t step = to.stride[4];
    if (step == 1)
      for (index_t i = 0; i < count; ++i) cells[i] += static_cast<T>(sums[i]);
    else
      for (index_t i = 0; i < count; ++i) cells[i * step] += static_cast<T>(sums[i]);
  }
};

template <class Space, class T>
void ElementwiseNormKernels<Space, T>::combine(
    const Space& space, const Block<T>& to, const Block<const T>& from,
    const Block<const T>& factor, const Block<const T>& x, const double* statistics,
    const NormGroups& groups, const Block<const T>& slope, const Block<const T>& shift) {
  const RowSplit split = RowSplit::of(space, to);
  const ElementwiseCombineKernel<T> kernel{split, to,    from,       factor, x,
                                           slope, shift, statistics, groups};
  constexpr const char* name = "shard::elementwise_norm";
  if constexpr (is_host_v<Space>)
    launch(name, space, split.items(), ElementwiseCombineRows<T>{kernel});
  else
    launch(name, space, split.items(), kernel);
}

template <class Space, class T>
void ElementwiseNormKernels<Space, T>::add_gradients(
    const Space& space, const Block<T>& weight_gradient, const Block<T>& bias_gradient,
    const Block<const T>& dy, const Block<const T>& x, const double* statistics,
    const NormGroups& groups) {
  RowSplit split = RowSplit::of(space, dy);
  split.batch    = 1;
  const ElementwiseGradientsKernel<T> kernel{split, weight_gradient, bias_gradient, dy,
                                             x,     statistics,      groups};
  constexpr const char* name = "shard::elementwise_norm_gradients";
  if constexpr (is_host_v<Space>)
    launch(name, space, split.items(), ElementwiseGradientsRows<T>{kernel});
  else
    launch(name, space, split.items(), kernel);
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

SHARD_KERNELS(ElementwiseNormKernels)

}  // namespace shard::impl
