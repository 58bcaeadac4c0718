// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ATTENTION_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ATTENTION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <limits>
#include <memory>
#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/source_ranges.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// The tokens of groups along one dimension of a block: token t of group g is point g *
/// group_stride + t * token_stride - before, if there is such a point.
struct TokenDim {
  index_t groups = 1, tokens = 1;
  index_t group_stride = 1, token_stride = 1;
  index_t cells = 1;
  /// Excludes pairs of a token from this point on and one before it.
  index_t first_apart  = std::numeric_limits<index_t>::max();
  index_t second_apart = std::numeric_limits<index_t>::max();  ///< the same
  index_t before       = 0;  ///< tokens of the first group before the first point
};

/// The tokens of a block, the last dimension fastest.
struct Tokens {
  TokenDim dims[3];

  KOKKOS_FUNCTION index_t groups() const {
    return dims[0].groups * dims[1].groups * dims[2].groups;
  }
  KOKKOS_FUNCTION index_t tokens() const {
    return dims[0].tokens * dims[1].tokens * dims[2].tokens;
  }
};

/// The structure of an attention. Heads are equal ranges of channels. Keys and values may have
/// fewer heads than queries: each is shared by as many neighbouring heads of queries (Ainslie et
/// al. 2023).
struct AttentionShape {
  index_t heads         = 1;  ///< of queries
  index_t heads_per_key = 1;  ///< heads of queries that share one of keys and values
  double scale          = 1.0;
  Tokens queries, keys;
  bool causal         = false;             ///< excludes keys after the query's position
  index_t first_query = 0, first_key = 0;  ///< positions along the last dimension

  KOKKOS_FUNCTION index_t key_heads() const { return heads / heads_per_key; }
};

/// Numbers that are added to the scaled scores, [type][head][query][key]: one for each pair of
/// tokens of a group. Groups that follow each other may share a type.
template <class T>
struct PairTable {
  T* values          = nullptr;  ///< null: nothing is added
  index_t heads      = 1;        ///< 1: all heads have the same
  index_t of_a_type  = 1;        ///< groups of a type
  index_t per_tokens = 0;        ///< tokens of a group

  /// Those of a query, one for each key; null if there are none.
  KOKKOS_FUNCTION T* row(index_t h, index_t group, index_t query) const {
    if (values == nullptr) return nullptr;
    const index_t type = group < of_a_type ? 0 : group / of_a_type;
    return values + ((type * heads + (heads > 1 ? h : 0)) * per_tokens + query) * per_tokens;
  }
};

/// What is added to the scaled scores: a learned bias and a given mask, each of which may be
/// missing. A mask may be -infinity, which excludes the pair.
template <class T>
struct ScoreBias {
  PairTable<T> learned, mask;

  KOKKOS_FUNCTION bool empty() const { return learned.values == nullptr && mask.values == nullptr; }

  /// The sum of both for a query.
  struct Row {
    T *learned, *mask;

    KOKKOS_FUNCTION std::remove_const_t<T> operator[](index_t key) const {
      std::remove_const_t<T> sum = 0;
      if (learned != nullptr) sum += learned[key];
      if (mask != nullptr) sum += mask[key];
      return sum;
    }
  };
  KOKKOS_FUNCTION Row row(index_t h, index_t group, index_t query) const {
    return {learned.row(h, group, query), mask.row(h, group, query)};
  }
};

/// Sums of the gradients of the scores, [chunk][type][head][query][key], over batch entries and
/// groups of the type. The number of chunks doesn't depend on the threads.
template <class T>
struct BiasSums {
  T* values         = nullptr;  ///< null: not wanted
  index_t chunks    = 0;
  index_t of_a_type = 1, per_tokens = 0;  ///< as in PairTable
};

/// Kernels of attention: softmax(scale q k') v within groups. They are asynchronous on `space`.
/// Keys come in one block or several, one call each: `first` zeroes the sums, `last` completes
/// them. `sums` has 2 numbers for each query and head: during the blocks the largest score and the
/// sum of exp(score - largest), at the end the logarithm of the sum of exp(score), and the second
/// number as documented below. A query whose scores are all -infinity has the output and the
/// gradients 0, and 0 in place of the logarithm.
template <class Space, class T>
struct AttentionKernels : RequireLayerKernels<Space> {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "the layers' kernels are compiled for float and double");

  /// out += softmax(...) v, by running sums over the keys in ascending order (Milakov and
  /// Gimelshein 2018).
  static void attend(const Space& space, const Block<T>& out, double* sums, const Block<const T>& q,
                     const Block<const T>& k, const Block<const T>& v, const AttentionShape& shape,
                     const ScoreBias<const T>& bias, bool first, bool last);
  /// ty = the tangent of out for those of q, k and v; a block without memory is zero. The second
  /// half of `sums` is scratch memory.
  static void tangent(const Space& space, const Block<T>& ty, double* sums,
                      const Block<const T>& out, const Block<const T> (&qkv)[3],
                      const Block<const T> (&tangents)[3], const AttentionShape& shape,
                      const ScoreBias<const T>& bias, const ScoreBias<const T>& bias_tangent,
                      bool first, bool last);
  /// Sets the second half of `sums`: for each query and head the product of dy and out.
  static void products(const Space& space, double* sums, const Block<const T>& dy,
                       const Block<const T>& out, const AttentionShape& shape);
  /// Sets dq, dk, dv and the sums of the scores' gradients, where all keys are in one block; needs
  /// `products`. A block or sums without memory aren't wanted.
  static void pullback(const Space& space, const Block<T>& dq, const Block<T>& dk,
                       const Block<T>& dv, const BiasSums<T>& bias_sums, const double* sums,
                       const Block<const T>& dy, const Block<const T> (&qkv)[3],
                       const AttentionShape& shape, const ScoreBias<const T>& bias);
  /// dq += ..., the keys in ascending order, and sets the sums of the scores' gradients; needs
  /// `products`. A block or sums without memory aren't wanted.
  static void pullback_queries(const Space& space, const Block<T>& dq, const BiasSums<T>& bias_sums,
                               const double* sums, const Block<const T>& dy,
                               const Block<const T> (&qkv)[3], const AttentionShape& shape,
                               const ScoreBias<const T>& bias, bool first);
  /// dk += ... and dv += ..., the heads and then the queries in ascending order; needs `products`.
  /// A block without memory isn't wanted.
  static void pullback_keys(const Space& space, const Block<T>& dk, const Block<T>& dv,
                            const double* sums, const Block<const T>& dy,
                            const Block<const T> (&qkv)[3], const AttentionShape& shape,
                            const ScoreBias<const T>& bias, bool first);
};

/// Whether each part of n points begins and ends with a window of w points, the first of which has
/// `before` of them before point 0.
bool fits_windows(const Partition& cells, index_t w, index_t before);
/// Begins rounded to the nearest such windows of points rotated by `shift`: point i was point i +
/// shift.
Partition window_partition(const Partition& cells, index_t w, index_t shift, index_t before);
/// Begins rounded down to multiples of w, so that a part has whole groups of w points, N / w apart.
Partition comb_partition(const Partition& cells, index_t w);
/// The points of those groups: of each part of `groups`, a comb_partition, the points of each
/// stretch of N / w one after the other.
std::shared_ptr<const SourceRanges> comb_ranges(const Partition& groups, index_t w);
/// Whether one part owns all points.
bool is_whole(const Partition& cells);

/// Throws ArgumentError, on every rank, unless the heads divide the channels and each part has
/// whole heads.
void require_heads(const char* function, const char* field, const Partition& channels,
                   index_t heads);

/// Heads of queries that share one of `key_heads` heads of keys (0: each has its own).
inline index_t heads_per_key(index_t heads, index_t key_heads) {
  return key_heads > 0 ? heads / key_heads : 1;
}
/// Throws ArgumentError, on every rank, unless key_heads (0: as many) divides the heads of queries
/// and each part has whole groups of heads that share a head of keys.
void require_grouped_heads(const char* function, const char* field, const Partition& channels,
                           index_t heads, index_t key_heads);
/// The partition of the keys' channels for one of the queries'.
Partition key_channels(const Partition& channels, index_t heads, index_t key_heads);

}  // namespace shard::impl

#endif
