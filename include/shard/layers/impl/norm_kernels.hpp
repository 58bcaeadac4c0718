// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_NORM_KERNELS_HPP
#define SHARD_LAYERS_IMPL_NORM_KERNELS_HPP

#include <string_view>
#include <vector>

#include "shard/layers/impl/kernels.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// Batch entries and channels of a slot, counted from the first owned ones.
struct SlotRange {
  index_t n0, n1, c0, c1;
};

/// The "slots" of a field [batch, channel, space...]: values that share statistics. A slot is a
/// group of channels, of one batch entry or of all. Channels count from the first owned one.
struct NormGroups {
  index_t groups   = 1;      ///< number of this rank's groups: all, or the owned ones
  index_t channels = 1;      ///< channels of all groups
  bool over_batch  = false;  ///< whether batch entries share slots
  index_t first    = 0;      ///< the first owned channel, among `channels`
  bool across      = false;  ///< whether ranks with other channels share slots

  KOKKOS_FUNCTION index_t per_group() const { return channels / groups; }
  KOKKOS_FUNCTION index_t slot(index_t n, index_t c) const {
    return (over_batch ? 0 : n * groups) + (first + c) / per_group();
  }
  index_t slots(index_t batch) const { return over_batch ? groups : batch * groups; }
  /// The part of a slot on a rank with `batch` batch entries and `owned` channels.
  KOKKOS_FUNCTION SlotRange range(index_t slot, index_t batch, index_t owned) const {
    const index_t per = per_group(), begin = slot % groups * per - first;
    const index_t n0 = over_batch ? 0 : slot / groups, n1 = over_batch ? batch : n0 + 1;
    return {n0, n1, begin > 0 ? begin : 0, begin + per < owned ? begin + per : owned};
  }
};

/// Weights of this rank's rows, along spatial dimension `dim` of a Block; null: all are 1.
struct NormRows {
  const double* weights = nullptr;
  int dim               = 0;
};

/// Weight (without row weights the number of points), mean, and weighted sum of squared differences
/// from it.
struct Moments {
  double weight = 0.0, mean = 0.0, squares = 0.0;
};
/// Merges another set of values into `sum` (Chan, Golub and LeVeque 1983).
KOKKOS_INLINE_FUNCTION void merge(Moments& sum, const Moments& more) {
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

/// Number of statistics per slot: mean, 1 / sqrt(variance + eps), and the variance for running
/// averages.
inline constexpr int statistics_per_slot = 3;

/// Kernels of the norms whose statistics are sums over points, compiled in src/layers for float and
/// double. They are asynchronous on `space`.
template <class Space, class T>
struct NormKernels : RequireLayerKernels<Space> {
  /// Moments of each (batch, channel). On a host in double, in sum_lanes interleaved sums; weighted
  /// ones in two passes. On a device one pass; `parts` has three numbers for each of the
  /// CellPieces.
  static void moments(const Space& space, double* moments, const Block<const T>& x,
                      const NormRows& rows, double* parts);
  /// On a device: the statistics of each slot from the moments of each (batch, channel), if each
  /// slot is on one rank. As merge_channels and merge_moments.
  static void statistics(const Space& space, double* statistics, const double* moments,
                         index_t batch, index_t channels, const NormGroups& groups, double eps,
                         double correction);
  /// On a device: the moments of each slot on this rank, and the statistics from those of all
  /// ranks, rank by rank.
  static void slot_moments(const Space& space, double* slots, const double* moments, index_t batch,
                           index_t channels, const NormGroups& groups);
  static void merge_ranks(const Space& space, double* statistics, const double* gathered,
                          index_t slots, int ranks, double eps, double correction);
  /// The sums of `count` numbers over the ranks, in their order.
  static void add_ranks(const Space& space, double* sums, const double* gathered, index_t count,
                        int ranks);
  /// y = (x - mean) rstd w + b; w and b may be null.
  static void apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                    const double* statistics, const T* weight, const T* bias,
                    const NormGroups& groups);
  /// On a host: `moments`, the statistics of slots that are on this rank alone, and `apply`, slot
  /// by slot, so that a slot's values are still in the cache. The same bits as one after the other.
  static void norm_slots(const Space& space, const Block<T>& y, const Block<const T>& x,
                         double* moments, double* statistics, const T* weight, const T* bias,
                         const NormGroups& groups, const NormRows& rows, double eps,
                         double correction);
  /// For each (batch, channel): sums of r a and of r a xhat, xhat = (x - mean) rstd, r the row's
  /// weight. `parts` as above, two numbers each.
  static void pair_sums(const Space& space, double* sums, const Block<const T>& a,
                        const Block<const T>& x, const double* statistics, const NormGroups& groups,
                        const NormRows& rows, double* parts);
  /// For each slot: sums of `weight` (null: 1) times the sums per channel, over `channels` owned
  /// ones.
  static void fold_slots(const Space& space, double* slot_sums, const double* sums, const T* weight,
                         index_t batch, index_t channels, const NormGroups& groups);
  /// Adds the second and first sums per channel, over the batch, to dw[c] and db[c].
  static void fold_parameters(const Space& space, T* weight_gradient, T* bias_gradient,
                              const double* sums, index_t batch, index_t channels);
  /// dx = rstd (w dy - r (S1 + xhat S2) / D), r the row's weight, S the slots' sums over all ranks
  /// (null: zeros).
  static void pullback(const Space& space, const Block<T>& dx, const Block<const T>& dy,
                       const Block<const T>& x, const double* statistics, const double* slot_sums,
                       const T* weight, const NormGroups& groups, const NormRows& rows,
                       double total);
  /// ty = w rstd (tx - (S1 + xhat S2) / D) + xhat tw + tb. Null slot_sums, tw, tb: zeros; without
  /// `with_input` tx is zero.
  static void pushforward(const Space& space, const Block<T>& ty, const Block<const T>& tx,
                          bool with_input, const Block<const T>& x, const double* statistics,
                          const double* slot_sums, const T* weight, const T* weight_tangent,
                          const T* bias_tangent, const NormGroups& groups, double total);
  /// Running averages a = (1 - momentum) a + momentum new, of mean and variance.
  static void update_running(const Space& space, double* mean, double* variance,
                             const double* statistics, double momentum, index_t channels);
  /// Statistics from running averages.
  static void from_running(const Space& space, double* statistics, const double* mean,
                           const double* variance, double eps, index_t channels);
};

/// Merges the moments per (batch, owned channel) into those per slot: batch entries, then channels,
/// ascending.
void merge_channels(const double* moments, index_t batch, index_t channels,
                    const NormGroups& groups, double* slots);
/// Merges `ranks` ranks' moments of `slots` slots, in rank order, into statistics; the variance for
/// running averages is multiplied by `correction`. Returns the weight of a slot.
double merge_moments(const double* gathered, index_t slots, int ranks, double eps,
                     double correction, double* statistics);

/// The slots of a rank of a field, from all groups `world`: its own groups if the partition of the
/// channels keeps each on one rank, else all groups, shared by ranks with other channels. The same
/// choice on every rank.
NormGroups own_groups(const NormGroups& world, const Geometry& geometry);

/// Throws ArgumentError, on every rank, unless each row has a finite, nonnegative weight, and one
/// is above zero.
void require_area_weights(std::string_view function, std::string_view field, index_t rows,
                          const std::vector<double>& weights);

/// D / (D - 1) for the D values of a channel, on all ranks or on this one; 1 for one value.
double unbiased(const Geometry& geometry, bool world);

/// Throws ArgumentError, on every rank, if there is only one value per channel on all ranks.
void require_several_values(std::string_view function, std::string_view field,
                            const Geometry& geometry);

}  // namespace shard::impl

#endif
