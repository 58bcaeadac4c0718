// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <cstddef>
#include <string>

#include "device_norm.hpp"
#include "launch.hpp"
#include "norm_slope.hpp"
#include "row_sums.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

namespace shard::impl {

/// The weight of a row of cells.
KOKKOS_FORCEINLINE_FUNCTION double row_weight(const NormRows& rows, index_t z, index_t y) {
  return rows.weights == nullptr ? 1.0 : rows.weights[rows.dim == 0 ? z : y];
}

/// True if each cell of a line has a weight of its own.
KOKKOS_FORCEINLINE_FUNCTION bool weighs_cells(const NormRows& rows) {
  return rows.weights != nullptr && rows.dim == 2;
}

template <class T>
struct NormMomentsRows {
  double* moments;
  Block<const T> x;
  NormRows rows;

  struct Value {
    const T* row;
    index_t step;
    double weight;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weight * static_cast<double>(row[i * step]);
    }
  };
  struct WeighedValue {
    const T* row;
    index_t step;
    const double* weights;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weights[i] * static_cast<double>(row[i * step]);
    }
  };
  struct SquaredDifference {
    const T* row;
    index_t step;
    double weight, mean;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      const double d = static_cast<double>(row[i * step]) - mean;
      return weight * (d * d);
    }
  };
  struct WeighedSquaredDifference {
    const T* row;
    index_t step;
    const double* weights;
    double mean;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      const double d = static_cast<double>(row[i * step]) - mean;
      return weights[i] * (d * d);
    }
  };

  KOKKOS_FUNCTION double total() const {
    if (rows.weights == nullptr) return static_cast<double>(x.cells());
    double sum       = 0.0;
    const index_t of = x.end[rows.dim];
    for (index_t r = 0; r < of; ++r) sum += rows.weights[r];
    return of > 0 ? sum * static_cast<double>(x.cells() / of) : 0.0;
  }

  void operator()(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels, step = x.stride[4];
    const double weight   = total();
    double sum[sum_lanes] = {}, squares[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y)
        if (weighs_cells(rows))
          add_row(sum, x.end[2], WeighedValue{&x.at(n, c, z, y, 0), step, rows.weights});
        else
          add_row(sum, x.end[2], Value{&x.at(n, c, z, y, 0), step, row_weight(rows, z, y)});
    const double mean = weight > 0.0 ? add_lanes(sum) / weight : 0.0;
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y)
        if (weighs_cells(rows))
          add_row(squares, x.end[2],
                  WeighedSquaredDifference{&x.at(n, c, z, y, 0), step, rows.weights, mean});
        else
          add_row(squares, x.end[2],
                  SquaredDifference{&x.at(n, c, z, y, 0), step, row_weight(rows, z, y), mean});
    moments[3 * item]     = weight;
    moments[3 * item + 1] = mean;
    moments[3 * item + 2] = add_lanes(squares);
  }
};

template <class T>
struct NormApplyRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  const double* statistics;
  const T* weight;
  const T* bias;
  NormGroups groups;

  void operator()(index_t item) const {
    const auto r    = split.row(item);
    const double* s = statistics + norm_figures * groups.slot(r.n, r.c);
    const T mean    = static_cast<T>(s[0]);
    const T scale =
        static_cast<T>(weight == nullptr ? s[1] : s[1] * static_cast<double>(weight[r.c]));
    const T shift   = bias == nullptr ? T(0) : bias[r.c];
    T* y            = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* x      = &from.at(r.n, r.c, r.z, r.y, r.x);
    const index_t p = to.stride[4], q = from.stride[4];
    if (p == 1 && q == 1)
      for (index_t i = 0; i < r.count; ++i) y[i] = (x[i] - mean) * scale + shift;
    else
      for (index_t i = 0; i < r.count; ++i) y[i * p] = (x[i * q] - mean) * scale + shift;
  }
};

template <class T>
struct NormPairSumsRows {
  double* sums;
  Block<const T> a, x;
  const double* statistics;
  NormGroups groups;
  NormRows rows;

  struct Value {
    const T* row;
    index_t step;
    double weight;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weight * static_cast<double>(row[i * step]);
    }
  };
  struct Product {
    const T *a, *x;
    index_t a_step, x_step;
    double weight, mean, rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weight * static_cast<double>(a[i * a_step]) *
             ((static_cast<double>(x[i * x_step]) - mean) * rstd);
    }
  };
  struct WeighedValue {
    const T* row;
    index_t step;
    const double* weights;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weights[i] * static_cast<double>(row[i * step]);
    }
  };
  struct WeighedProduct {
    const T *a, *x;
    index_t a_step, x_step;
    const double* weights;
    double mean, rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weights[i] * static_cast<double>(a[i * a_step]) *
             ((static_cast<double>(x[i * x_step]) - mean) * rstd);
    }
  };

  void operator()(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels;
    const double* s         = statistics + norm_figures * groups.slot(n, c);
    double first[sum_lanes] = {}, second[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y) {
        const T *p = &a.at(n, c, z, y, 0), *q = &x.at(n, c, z, y, 0);
        const index_t p_step = a.stride[4], q_step = x.stride[4];
        if (weighs_cells(rows)) {
          add_row(first, x.end[2], WeighedValue{p, p_step, rows.weights});
          add_row(second, x.end[2], WeighedProduct{p, q, p_step, q_step, rows.weights, s[0], s[1]});
        } else {
          const double w = row_weight(rows, z, y);
          add_row(first, x.end[2], Value{p, p_step, w});
          add_row(second, x.end[2], Product{p, q, p_step, q_step, w, s[0], s[1]});
        }
      }
    sums[2 * item]     = add_lanes(first);
    sums[2 * item + 1] = add_lanes(second);
  }
};

/// Merges the moments of one slot per work item: batch entries, then channels, ascending.
template <class T>
struct NormFoldSlotsKernel {
  double* slot_sums;
  const double* sums;
  const T* weight;
  index_t batch, channels;
  NormGroups groups;

  KOKKOS_FUNCTION void operator()(index_t slot) const {
    const SlotRange r = groups.range(slot, batch, channels);
    double s1 = 0.0, s2 = 0.0;
    for (index_t n = r.n0; n < r.n1; ++n)
      for (index_t c = r.c0; c < r.c1; ++c) {
        const double w  = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
        const double* s = sums + 2 * (n * channels + c);
        s1 += w * s[0];
        s2 += w * s[1];
      }
    slot_sums[2 * slot]     = s1;
    slot_sums[2 * slot + 1] = s2;
  }
};

template <class T>
struct NormFoldParametersKernel {
  T* weight_gradient;
  T* bias_gradient;
  const double* sums;
  index_t batch, channels;

  KOKKOS_FUNCTION void operator()(index_t c) const {
    double db = 0.0, dw = 0.0;
    for (index_t n = 0; n < batch; ++n) {
      db += sums[2 * (n * channels + c)];
      dw += sums[2 * (n * channels + c) + 1];
    }
    bias_gradient[c] += static_cast<T>(db);
    weight_gradient[c] += static_cast<T>(dw);
  }
};

template <class T>
struct NormDerivativeRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from, x;
  NormSlope<T> slope;

  void operator()(index_t item) const {
    const auto r        = split.row(item);
    const NormRows rows = slope.rows;
    const auto by       = slope.channel(r.n, r.c);
    const T mean = by.mean, scale = by.scale;
    T* out          = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* in     = &from.at(r.n, r.c, r.z, r.y, r.x);
    const T* value  = &x.at(r.n, r.c, r.z, r.y, r.x);
    const index_t p = to.stride[4], q = from.stride[4], s = x.stride[4];
    if (weighs_cells(rows)) {
      const double* row = rows.weights + r.x;
      for (index_t i = 0; i < r.count; ++i)
        out[i * p] =
            scale * in[i * q] -
            static_cast<T>(row[i] * (by.b + by.c * static_cast<double>(value[i * s] - mean)));
      return;
    }
    const double row = row_weight(rows, r.z, r.y);
    const T flat = static_cast<T>(row * by.b), steep = static_cast<T>(row * by.c);
    if (p == 1 && q == 1 && s == 1)
      for (index_t i = 0; i < r.count; ++i)
        out[i] = scale * in[i] - flat - steep * (value[i] - mean);
    else
      for (index_t i = 0; i < r.count; ++i)
        out[i * p] = scale * in[i * q] - flat - steep * (value[i * s] - mean);
  }
};

struct NormUpdateRunningKernel {
  double* mean;
  double* variance;
  const double* statistics;
  double momentum;

  KOKKOS_FUNCTION void operator()(index_t c) const {
    const double* s = statistics + norm_figures * c;
    mean[c]         = (1.0 - momentum) * mean[c] + momentum * s[0];
    variance[c]     = (1.0 - momentum) * variance[c] + momentum * s[2];
  }
};

struct NormFromRunningKernel {
  double* statistics;
  const double* mean;
  const double* variance;
  double eps;

  KOKKOS_FUNCTION void operator()(index_t c) const {
    statistics[norm_figures * c]     = mean[c];
    statistics[norm_figures * c + 1] = 1.0 / Kokkos::sqrt(variance[c] + eps);
    statistics[norm_figures * c + 2] = variance[c];
  }
};

struct NormAddRanksKernel {
  double* sums;
  const double* gathered;
  index_t count;
  int ranks;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    double sum = 0.0;
    for (int r = 0; r < ranks; ++r) sum += gathered[r * count + i];
    sums[i] = sum;
  }
};

template <class Space, class T>
void NormKernels<Space, T>::moments(const Space& space, double* moments, const Block<const T>& x,
                                    const NormRows& rows, double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::norm_moments", space, x.batch * x.channels,
           NormMomentsRows<T>{moments, x, rows});
  else
    device_norm_moments(space, moments, x, rows, parts);
}

template <class Space, class T>
void NormKernels<Space, T>::statistics(const Space& space, double* statistics,
                                       const double* moments, index_t batch, index_t channels,
                                       const NormGroups& groups, double eps, double correction) {
  device_norm_merge<true>("shard::norm_statistics", space, statistics, groups.slots(batch),
                          NormPlanes{moments, batch, channels, groups}, eps, correction);
}

template <class Space, class T>
void NormKernels<Space, T>::slot_moments(const Space& space, double* slots, const double* moments,
                                         index_t batch, index_t channels,
                                         const NormGroups& groups) {
  device_norm_merge<false>("shard::norm_slots", space, slots, groups.slots(batch),
                           NormPlanes{moments, batch, channels, groups});
}

template <class Space, class T>
void NormKernels<Space, T>::merge_ranks(const Space& space, double* statistics,
                                        const double* gathered, index_t slots, int ranks,
                                        double eps, double correction) {
  device_norm_merge<true>("shard::norm_ranks", space, statistics, slots,
                          NormRanks{gathered, ranks, slots}, eps, correction);
}

template <class Space, class T>
void NormKernels<Space, T>::add_ranks(const Space& space, double* sums, const double* gathered,
                                      index_t count, int ranks) {
  launch("shard::norm_add_ranks", space, count, NormAddRanksKernel{sums, gathered, count, ranks});
}

template <class Space, class T>
void NormKernels<Space, T>::apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                                  const double* statistics, const T* weight, const T* bias,
                                  const NormGroups& groups) {
  if constexpr (is_host_v<Space>) {
    const RowSplit split = RowSplit::of(space, y);
    launch("shard::norm_apply", space, split.items(),
           NormApplyRows<T>{split, y, x, statistics, weight, bias, groups});
  } else {
    map_planes("shard::norm_apply", space, NormApplyOp<T>{y, x, statistics, weight, bias, groups},
               y);
  }
}

template <class Space, class T>
void NormKernels<Space, T>::pair_sums(const Space& space, double* sums, const Block<const T>& a,
                                      const Block<const T>& x, const double* statistics,
                                      const NormGroups& groups, const NormRows& rows,
                                      double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::norm_pair_sums", space, x.batch * x.channels,
           NormPairSumsRows<T>{sums, a, x, statistics, groups, rows});
  else
    sum_planes("shard::norm_pair_sums", space, NormPairTerm<T>{a, x, statistics, groups, rows}, x,
               sums, parts);
}

template <class Space, class T>
void NormKernels<Space, T>::fold_slots(const Space& space, double* slot_sums, const double* sums,
                                       const T* weight, index_t batch, index_t channels,
                                       const NormGroups& groups) {
  launch("shard::norm_fold_slots", space, groups.slots(batch),
         NormFoldSlotsKernel<T>{slot_sums, sums, weight, batch, channels, groups});
}

template <class Space, class T>
void NormKernels<Space, T>::fold_parameters(const Space& space, T* weight_gradient,
                                            T* bias_gradient, const double* sums, index_t batch,
                                            index_t channels) {
  launch("shard::norm_fold_parameters", space, channels,
         NormFoldParametersKernel<T>{weight_gradient, bias_gradient, sums, batch, channels});
}

template <class Space, class T>
void norm_derivative(const char* label, const Space& space, const Block<T>& to,
                     const Block<const T>& from, const Block<const T>& x,
                     const NormSlope<T>& slope) {
  if constexpr (is_host_v<Space>) {
    const RowSplit split = RowSplit::of(space, to);
    launch(label, space, split.items(), NormDerivativeRows<T>{split, to, from, x, slope});
  } else {
    map_planes(label, space, NormDerivativeOp<T>{to, from, x, slope}, to);
  }
}

template <class Space, class T>
void NormKernels<Space, T>::pullback(const Space& space, const Block<T>& dx,
                                     const Block<const T>& dy, const Block<const T>& x,
                                     const double* statistics, const double* slot_sums,
                                     const T* weight, const NormGroups& groups,
                                     const NormRows& rows, double total) {
  norm_derivative("shard::norm_pullback", space, dx, dy, x,
                  NormSlope<T>{statistics, slot_sums, weight, nullptr, nullptr, false, true, groups,
                               rows, total});
}

template <class Space, class T>
void NormKernels<Space, T>::pushforward(const Space& space, const Block<T>& ty,
                                        const Block<const T>& tx, bool with_input,
                                        const Block<const T>& x, const double* statistics,
                                        const double* slot_sums, const T* weight,
                                        const T* weight_tangent, const T* bias_tangent,
                                        const NormGroups& groups, double total) {
  norm_derivative("shard::norm_pushforward", space, ty, tx, x,
                  NormSlope<T>{statistics, slot_sums, weight, weight_tangent, bias_tangent, true,
                               with_input, groups, NormRows{}, total});
}

template <class Space, class T>
void NormKernels<Space, T>::update_running(const Space& space, double* mean, double* variance,
                                           const double* statistics, double momentum,
                                           index_t channels) {
  launch("shard::norm_update_running", space, channels,
         NormUpdateRunningKernel{mean, variance, statistics, momentum});
}

template <class Space, class T>
void NormKernels<Space, T>::from_running(const Space& space, double* statistics, const double* mean,
                                         const double* variance, double eps, index_t channels) {
  launch("shard::norm_from_running", space, channels,
         NormFromRunningKernel{statistics, mean, variance, eps});
}

void merge(Moments& sum, const Moments& more) {
  if (more.weight == 0.0) return;
  if (sum.weight == 0.0) {
    sum = more;
    return;
  }
  const double both = sum.weight + more.weight, difference = more.mean - sum.mean;
  sum.squares += more.squares + difference * difference * (sum.weight * more.weight / both);
  sum.mean += difference * (more.weight / both);
  sum.weight = both;
}

void merge_channels(const double* moments, index_t batch, index_t channels,
                    const NormGroups& groups, double* slots) {
  for (index_t s = 0; s < 3 * groups.slots(batch); ++s) slots[s] = 0.0;
  for (index_t n = 0; n < batch; ++n)
    for (index_t c = 0; c < channels; ++c) {
      const double* m = moments + 3 * (n * channels + c);
      double* s       = slots + 3 * groups.slot(n, c);
      Moments sum{s[0], s[1], s[2]};
      merge(sum, {m[0], m[1], m[2]});
      s[0] = sum.weight;
      s[1] = sum.mean;
      s[2] = sum.squares;
    }
}

double merge_moments(const double* gathered, index_t slots, int ranks, double eps,
                     double correction, double* statistics) {
  double total = 0.0;
  for (index_t s = 0; s < slots; ++s) {
    Moments sum;
    for (int r = 0; r < ranks; ++r) {
      const double* m = gathered + 3 * (r * slots + s);
      merge(sum, {m[0], m[1], m[2]});
    }
    const double variance            = sum.weight > 0.0 ? sum.squares / sum.weight : 0.0;
    statistics[norm_figures * s]     = sum.mean;
    statistics[norm_figures * s + 1] = 1.0 / std::sqrt(variance + eps);
    statistics[norm_figures * s + 2] = variance * correction;
    total                            = sum.weight;
  }
  return total;
}

NormGroups own_groups(const NormGroups& world, const Geometry& geometry) {
  const Partition& channels = geometry.dims[1].partition;
  NormGroups own            = world;
  if (channels.parts() == 1 || world.groups < 1 || world.channels < 1 ||
      world.channels % world.groups != 0)  // apply throws
    return own;
  own.first  = geometry.begin(1);
  own.across = !keeps_groups_whole(channels, world.per_group());
  if (own.across) return own;
  own.first    = 0;
  own.channels = geometry.owned(1);
  own.groups   = own.channels / world.per_group();
  return own;
}

void require_area_weights(std::string_view function, std::string_view field, index_t rows,
                          const std::vector<double>& weights) {
  require_extent(function, field, "rows, as many as there are weights,", rows,
                 static_cast<index_t>(weights.size()));
  double total = 0.0;
  for (std::size_t r = 0; r < weights.size(); ++r) {
    if (!(weights[r] >= 0.0) || std::isinf(weights[r]))
      throw_argument(function, {"the weight of row ", text(static_cast<index_t>(r)), " is ",
                                std::to_string(weights[r]), "; weights are finite and at least 0"});
    total += weights[r];
  }
  if (rows > 0 && total == 0.0)
    throw_argument(function, {"all weights of the rows are 0; one at least is above it"});
}

namespace {

/// The number of values of a channel, of all ranks or of this one.
double values_per_channel(const Geometry& geometry, bool world) {
  double values = 1.0;
  for (int d = 0; d < geometry.rank; ++d)
    if (d != 1) values *= static_cast<double>(world ? geometry.global(d) : geometry.owned(d));
  return values;
}

}  // namespace

double unbiased(const Geometry& geometry, bool world) {
  const double values = values_per_channel(geometry, world);
  return values > 1.0 ? values / (values - 1.0) : 1.0;
}

void require_several_values(std::string_view function, std::string_view field,
                            const Geometry& geometry) {
  if (values_per_channel(geometry, true) == 1.0)
    throw_argument(function, {"\"", std::string(field),
                              "\" has one value per channel; its variance needs several"});
}

template struct NormKernels<Kokkos::DefaultExecutionSpace, float>;
template struct NormKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct NormKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct NormKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
