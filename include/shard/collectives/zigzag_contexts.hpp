// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_ZIGZAG_CONTEXTS_HPP
#define SHARD_COLLECTIVES_ZIGZAG_CONTEXTS_HPP

#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/collectives/impl/zigzag_call.hpp"
#include "shard/collectives/zigzag_partition.hpp"

/// \file
/// The causal halo of a sequence in zigzag order: the values just before each of a rank's two
/// chunks.

namespace shard {

/// first and second are the values of the sequence just before the first and the second chunk of x
/// along a dimension, zeros before the sequence begins. They have x's extents except along that
/// dimension, where both have extent o. A causal convolution of K taps needs o = K - 1; two
/// successive ones need (K1 - 1) + (K2 - 1). o may be longer than a chunk, or than the sequence.
///
/// Collective over the ranks along `Axis`; blocking. Sends one message to each rank that needs
/// values of this one. Errors as in zigzag.hpp.
template <class Axis>
struct ZigzagContexts {
  int dim       = 2;  ///< the dimension of the sequence, from 0, or from -1 for the last
  index_t size  = 0;  ///< the sequence's length; 0: x has the same even extent on every rank
  index_t width = 0;  ///< o of contexts that a tape allocates (on_mesh); else their extents are o
  static constexpr bool has_two_results = true;  ///< the contexts of both chunks

  /// Changes x's extents to those of a context.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>&) const {
    const int d = dim < 0 ? dim + rank : dim;
    if (d >= 0 && d < rank) n[d] = width;
  }

  /// first, second = contexts of x
  template <class Space, class First, class Second, class X, class... MeshAxes>
  void apply(const Space& space, const First& first, const Second& second, const X& x,
             const Mesh<MeshAxes...>& mesh) const {
    static_assert(!std::is_const_v<typename Second::value_type>, "contexts are written");
    impl::Sequences<Space>::contexts(
        space, with<First>(second,
                           impl::zigzag_call<Axis>("zigzag_contexts", space, first, x, mesh, dim)));
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class Second, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_first, const Second& d_second, const From& dx,
                   const Mesh<MeshAxes...>& mesh) const {
    apply(space, d_first, d_second, dx, mesh);
  }
  /// dx = for each value the sum of its copies in d_first and d_second of all ranks, in the order
  /// of the chunks. Overwrites dx; values are arithmetic.
  template <class Space, class DX, class DFirst, class DSecond, class... MeshAxes>
  void pullback(const Space& space, const DX& dx, const DFirst& d_first, const DSecond& d_second,
                const Mesh<MeshAxes...>& mesh) const {
    impl::require_arithmetic<typename DX::value_type>();
    impl::Sequences<Space>::sum_contexts(
        space, with<DFirst>(d_second, impl::zigzag_call<Axis>("zigzag_contexts' pullback", space,
                                                              dx, d_first, mesh, dim)));
  }

 private:
  template <class First, class Second>
  impl::ZigzagCall with(const Second& second, impl::ZigzagCall call) const {
    static_assert(
        First::rank() == Second::rank() && std::is_same_v<typename First::non_const_value_type,
                                                          typename Second::non_const_value_type>,
        "both contexts are Views of one rank and value type");
    call.second = impl::plain_view(second);
    call.size   = size;
    return call;
  }
};

/// ZigzagContexts as a function: `zigzag_contexts<Seq>(space, first, second, x, mesh)`.
template <class Axis, class Space, class To, class Second, class From, class... MeshAxes>
void zigzag_contexts(const Space& space, const To& first, const Second& second, const From& x,
                     const Mesh<MeshAxes...>& mesh, int dim = 2) {
  ZigzagContexts<Axis>{dim}.apply(space, first, second, x, mesh);
}

}  // namespace shard

#endif
