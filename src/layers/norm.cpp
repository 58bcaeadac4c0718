// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <cstddef>
#include <string>

#include "device_norm.hpp"
#include "launch.hpp"
#include "norm_rows.hpp"
#include "norm_slope.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

namespace shard::impl {

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
    if (bias_gradient != nullptr) bias_gradient[c] += static_cast<T>(db);
    weight_gradient[c] += static_cast<T>(dw);
  }
};

struct NormUpdateRunningKernel {
  double* mean;
  double* variance;
  const double* statistics;
  double momentum;

  KOKKOS_FUNCTION void operator()(index_t c) const {
    const double* s = statistics + statistics_per_slot * c;
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
    statistics[statistics_per_slot * c]     = mean[c];
    statistics[statistics_per_slot * c + 1] = 1.0 / Kokkos::sqrt(variance[c] + eps);
    statistics[statistics_per_slot * c + 2] = variance[c];
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

/// The statistics of a slot from its moments.
void store_statistics(const Moments& sum, double eps, double correction, double* statistics) {
  const double variance = sum.weight > 0.0 ? sum.squares / sum.weight : 0.0;
  statistics[0]         = sum.mean;
  statistics[1]         = 1.0 / std::sqrt(variance + eps);
  statistics[2]         = variance * correction;
}

/// All of a norm for a slot.
template <class T>
struct NormSlotRows {
  NormMomentsRows<T> moments;
  NormApplyRows<T> apply;
  double* statistics;
  double eps, correction;

  void operator()(index_t slot) const {
    const Block<const T>& x = moments.x;
    const SlotRange r       = apply.groups.range(slot, x.batch, x.channels);
    const index_t rows      = r.c0 < r.c1 ? apply.split.items() / (x.batch * x.channels) : 0;
    Moments own, all;
    for (index_t n = r.n0; n < r.n1; ++n)
      for (index_t c = r.c0; c < r.c1; ++c) {
        const index_t item = n * x.channels + c;
        moments(item);
        const double* m = moments.moments + 3 * item;
        merge(own, {m[0], m[1], m[2]});
      }
    merge(all, own);
    store_statistics(all, eps, correction, statistics + statistics_per_slot * slot);
    for (index_t n = r.n0; n < r.n1; ++n)
      for (index_t i = (n * x.channels + r.c0) * rows; i < (n * x.channels + r.c1) * rows; ++i)
        apply(i);
  }
};

template <class Space, class T>
void NormKernels<Space, T>::norm_slots(const Space& space, const Block<T>& y,
                                       const Block<const T>& x, double* moments, double* statistics,
                                       const T* weight, const T* bias, const NormGroups& groups,
                                       const NormRows& rows, double eps, double correction) {
  if constexpr (is_host_v<Space>)
    launch("shard::norm", space, groups.slots(x.batch),
           NormSlotRows<T>{{moments, x, rows},
                           {RowSplit::of(space, y), y, x, statistics, weight, bias, groups},
                           statistics,
                           eps,
                           correction});
}

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
    store_statistics(sum, eps, correction, statistics + statistics_per_slot * s);
    total = sum.weight;
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

SHARD_KERNELS(NormKernels)

}  // namespace shard::impl
