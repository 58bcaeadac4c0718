// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_NEIGHBOURHOOD_KERNELS_HPP
#define SHARD_LAYERS_IMPL_NEIGHBOURHOOD_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/base/types.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// A range of steps, the last one included.
struct StepRange {
  index_t first, last;
};

/// The neighbourhoods along one dimension. A point sees `kernel` points of its residue class modulo
/// the dilation: kernel / 2 on both sides; near an end that isn't periodic the window is shifted
/// inwards. Steps are distances divided by the dilation.
struct NeighbourhoodDim {
  index_t kernel = 1, dilation = 1;
  index_t extent = 1, begin = 0, owned = 1;  ///< of the domain, and this rank's
  index_t first_key = 0, end_key = 1;        ///< what this rank's points see, local indices
  bool periodic = true;

  KOKKOS_FUNCTION index_t radius() const { return kernel / 2; }

  /// The step from an owned point to the first one that it sees.
  KOKKOS_FUNCTION index_t first_step(index_t local) const {
    if (periodic) return -radius();
    const index_t i = begin + local, place = i / dilation, last = last_place(i) - kernel + 1,
                  first = place - radius();
    return (first < 0 ? 0 : first > last ? last : first) - place;
  }
  /// The steps to a point, which may be in the halo, from the owned ones that see it.
  KOKKOS_FUNCTION StepRange steps_to(index_t local) const {
    StepRange steps{-radius(), radius()};
    if (!periodic) {
      const index_t j = begin + local;
      if (j < 0 || j >= extent) return {0, -1};
      const index_t place = j / dilation, last = last_place(j);
      if (place < kernel) steps.last = place;
      if (place > last - kernel) steps.first = place - last;
    }
    // from an owned point: 0 <= local - step dilation < owned
    const index_t most = rounded_down(local), least = -rounded_down(owned - 1 - local);
    if (steps.first < least) steps.first = least;
    if (steps.last > most) steps.last = most;
    return steps;
  }

 private:
  KOKKOS_FUNCTION index_t rounded_down(index_t distance) const {
    return distance >= 0 ? distance / dilation : -((dilation - 1 - distance) / dilation);
  }
  /// The last place in the class of a point.
  KOKKOS_FUNCTION index_t last_place(index_t i) const {
    return (extent - 1 - i % dilation) / dilation;
  }
};

/// The structure of neighbourhood attention. Heads are as in AttentionShape.
struct NeighbourhoodShape {
  index_t heads = 1, heads_per_key = 1;
  double scale = 1.0;
  NeighbourhoodDim dims[3];

  KOKKOS_FUNCTION index_t key_heads() const { return heads / heads_per_key; }
  /// The entries of a head's bias: one for each step between two points.
  KOKKOS_FUNCTION index_t biases() const {
    return (2 * dims[0].kernel - 1) * (2 * dims[1].kernel - 1) * (2 * dims[2].kernel - 1);
  }
  KOKKOS_FUNCTION index_t bias(index_t z, index_t y, index_t x) const {
    const index_t ky = dims[1].kernel, kx = dims[2].kernel;
    return ((z + dims[0].kernel - 1) * (2 * ky - 1) + y + ky - 1) * (2 * kx - 1) + x + kx - 1;
  }
};

/// Kernels of neighbourhood attention (Hassani et al. 2023), compiled in src/layers for float and
/// double. k and v are blocks with their halos; keys are in ascending order. They are asynchronous
/// on `space`, and store no matrix of scores. `sums` has 2 numbers for each query and head, as in
/// AttentionKernels. A bias is [head][step], null for none.
template <class Space, class T>
struct NeighbourhoodKernels : RequireLayerKernels<Space> {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "the layers' kernels are compiled for float and double");

  /// out = softmax(...) v, and the logarithm of the sum of exp(score).
  static void attend(const Space& space, const Block<T>& out, double* sums, const Block<const T>& q,
                     const Block<const T>& k, const Block<const T>& v,
                     const NeighbourhoodShape& shape, const T* bias);
  /// ty = the tangent of out for those of q, k, v and the bias; a block or bias without memory is
  /// zero.
  static void tangent(const Space& space, const Block<T>& ty, const double* sums,
                      const Block<const T>& out, const Block<const T> (&qkv)[3],
                      const Block<const T> (&tangents)[3], const NeighbourhoodShape& shape,
                      const T* bias, const T* bias_tangent);
  /// Sets dq. The second half of `sums` is the product of dy and out.
  static void pullback_queries(const Space& space, const Block<T>& dq, const double* sums,
                               const Block<const T>& dy, const Block<const T> (&qkv)[3],
                               const NeighbourhoodShape& shape, const T* bias);
  /// dk and dv += the sums over this rank's queries, the heads and then the queries in ascending
  /// order, at the points [first_key, end_key), all of which these see. A block without memory
  /// isn't wanted.
  static void pullback_keys(const Space& space, const Block<T>& dk, const Block<T>& dv,
                            const double* sums, const Block<const T>& dy,
                            const Block<const T> (&qkv)[3], const NeighbourhoodShape& shape,
                            const T* bias);
  /// bias_gradient += the sums of the scores' gradients over this rank's queries, in double.
  static void pullback_bias(const Space& space, T* bias_gradient, const double* sums,
                            const Block<const T>& dy, const Block<const T> (&qkv)[3],
                            const NeighbourhoodShape& shape, const T* bias);
};

}  // namespace shard::impl

#endif
