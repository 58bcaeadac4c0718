// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_CROSS_EMBED_HPP
#define SHARD_LAYERS_WINDOW_CROSS_EMBED_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shard/layers/window/conv.hpp"

namespace shard {

/// Embedding of patches: a Conv whose stride is its kernel, for shards that begin at multiples of
/// it. Local, without a halo. `PatchEmbedding<4, 4>{in, out}`.
template <int... K>
using PatchEmbedding = Conv<Kernel<K...>, Stride<K...>, Aligned>;

/// One branch of a cross-scale embedding (Wang et al. 2021, CrossFormer): padding k - s in each
/// dimension, the smaller half at the low end, so that N points give floor(N / s).
template <class KernelSize, class StrideSize, class... Options>
struct CrossEmbedBranch;
template <int... K, int... S, class... Options>
struct CrossEmbedBranch<Kernel<K...>, Stride<S...>, Options...>
    : Conv<Kernel<K...>, Stride<S...>, Padding<low_high<(K - S) / 2, K - S - (K - S) / 2>...>,
           Options...> {
  static_assert(sizeof...(K) == sizeof...(S) && ((K >= S) && ...),
                "a CrossEmbed's kernels are at least as wide as its stride");
};

/// Parameters of several branches, in their order; gradients and tangents have the same type.
template <class T, int Rank, class Memory, std::size_t Count>
struct CrossEmbedParameters {
  using value_type                                                 = T;   ///< of all of them
  std::array<impl::WeightAndBias<T, Rank, Memory>, Count> branches = {};  ///< of each branch
};

/// Cross-scale embedding: branches of one stride and several kernels over the same input, with
/// their outputs concatenated along the channels.
/// `CrossEmbed<Stride<2, 2>, Kernel<4, 4>, Kernel<8, 8>>{in, {out of each}}`. One exchange, with
/// the widest branch's halo, is enough for all. Pullback, tangent and sums are those of Conv.
template <class StrideSize, class... Kernels>
struct CrossEmbed {
  static constexpr std::size_t count = sizeof...(Kernels);  ///< branches
  static_assert(count >= 1, "a CrossEmbed has at least one kernel");

  index_t in = 1;                      ///< input channels
  std::array<index_t, count> outs{1};  ///< output channels of each branch
  bool bias = true;                    ///< whether there are biases

  /// The branch number `I`.
  template <std::size_t I>
  using Branch = CrossEmbedBranch<std::tuple_element_t<I, std::tuple<Kernels...>>, StrideSize>;

  static constexpr int dims = Branch<0>::dims;  ///< spatial dimensions
  /// Needs points of neighbours.
  static constexpr LayerSharding sharding = LayerSharding::window;
  /// The boundary: Zero.
  template <int D>
  using boundary = Zero;
  /// Whether an unsharded dimension with a Zero boundary needs no halo.
  static constexpr bool zero_needs_no_halo = false;
  /// Weights and biases of the branches.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = CrossEmbedParameters<T, dims + 2, Memory, count>;

  /// The widest branch's window of spatial dimension `d`.
  static constexpr Window window(int d) {
    Window widest = Branch<0>::window(d);
    for (const Window& w : {CrossEmbedBranch<Kernels, StrideSize>::window(d)...})
      if (w.kernel > widest.kernel) widest = w;
    return widest;
  }
  /// The widest branch's halo over all partitions (see required_halo_t).
  static constexpr LowHigh halo_bound(int d) {
    return widest({CrossEmbedBranch<Kernels, StrideSize>::halo_bound(d)...});
  }
  /// The same for shards that begin and end at multiples of the stride (see aligned_halo_t).
  static constexpr LowHigh aligned_halo_bound(int d) {
    return widest({CrossEmbedBranch<Kernels, StrideSize>::aligned_halo_bound(d)...});
  }
  /// The halo in an unsharded dimension (see unsharded_halo_t).
  static constexpr LowHigh unsharded_halo_bound(int d) {
    return widest({CrossEmbedBranch<Kernels, StrideSize>::unsharded_halo_bound(d)...});
  }
  /// The halo of the output's gradient for an ordered pullback (see ordered_halo_t).
  static constexpr LowHigh ordered_halo_bound(int d) {
    return widest({CrossEmbedBranch<Kernels, StrideSize>::ordered_halo_bound(d)...});
  }
  /// Output extent in spatial dimension `d` of n points: floor(n / s).
  static constexpr index_t output_extent(int d, index_t n) {
    return Branch<0>::output_extent(d, n);
  }

  /// Output channels of all branches.
  index_t out() const {
    index_t sum = 0;
    for (index_t o : outs) sum += o;
    return sum;
  }
  /// The layer of branch number `I`.
  template <std::size_t I>
  Branch<I> branch() const {
    Branch<I> b;
    b.in   = in;
    b.out  = outs[I];
    b.bias = bias;
    return b;
  }

  /// Weight and bias of each branch, "convs.0.weight" and so on.
  std::vector<ParameterShape> parameter_shapes() const {
    std::vector<ParameterShape> all;
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice&) {
      for (ParameterShape& shape : b.parameter_shapes()) {
        shape.name = "convs." + std::to_string(I) + "." + shape.name;
        all.push_back(std::move(shape));
      }
    });
    return all;
  }

  /// The natural partitions of the output for an input with these.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    auto p = branch<0>().output_partitions(input);
    p[1]   = Partition::balanced(out(), 1);
    return p;
  }

  /// Fills x's halo, then computes y's owned points, as Conv's.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(y, x);
    if (reads_halo(y, x)) exchange(space, x);
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice& channels) {
      b.compute(space, parameters.branches[I], y, channels, x);
    });
    mark_written(space, y);
  }

  /// ty = the tangent of y for the tangents tx of x and `tangents` of the parameters, as Conv's.
  template <class Space, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, const P& parameters, const TP& tangents, const TY& ty,
                   const TX& tx, const X& x) const {
    static_assert(is_wanted_v<TX> || is_wanted_v<TP>,
                  "a tangent is that of the input, of the parameters or of both");
    require(ty, x);
    if constexpr (is_wanted_v<TX>) {
      require(ty, tx);
      if (reads_halo(ty, tx)) exchange_tangent(space, tx);
    }
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice& channels) {
      if constexpr (is_wanted_v<TP>)
        b.compute_tangent(space, parameters.branches[I], tangents.branches[I], ty, channels, tx, x);
      else
        b.compute_tangent(space, parameters.branches[I], not_wanted, ty, channels, tx, x);
    });
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx, as
  /// Conv's: each point of dx is the sum over the branches in their order. Either may be
  /// not_wanted. `pullback<Determinism::ordered>(...)`: dx is bitwise the same for every number of
  /// ranks, mesh and partition, as Conv's; dy needs the halo ordered_halo_t of this layer.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class P, class G, class DX,
            class DY, class X>
  void pullback(const Space& space, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<G>) pullback_parameters(space, gradients, dy, x);
    if constexpr (is_wanted_v<DX>) pullback_input<Order>(space, parameters, dx, dy);
  }
  /// Only the parameters' part. Local.
  template <class Space, class G, class DY, class X>
  void pullback_parameters(const Space& space, const G& gradients, const DY& dy, const X& x) const {
    require(dy, x);
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice& channels) {
      b.add_gradients(space, gradients.branches[I], dy, channels, x);
    });
  }
  /// Only the input's part; afterwards dx's halo is zero.
  template <Determinism Order = Determinism::on_one_mesh, class Space, class P, class DX, class DY>
  void pullback_input(const Space& space, const P& parameters, const DX& dx, const DY& dy) const {
    require(dy, dx);
    if constexpr (Order == Determinism::ordered) {
      each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice&) {
        b.require_gatherable(dy, dx);
      });
      impl::exchange_inside(space, dy);
      gather(space, parameters, dx, dy,
             impl::block_of(impl::owned_block(impl::local(dx)), impl::edge_cells(dx)),
             impl::block_of(impl::owned_input(dy), impl::inner_cells(dy)));
      impl::add_edges(space, dx);
    } else {
      gather(space, parameters, dx, dy, impl::haloed_block(impl::local(dx)), impl::owned_input(dy));
      if (reads_halo(dy, dx)) exchange_adjoint(space, dx);
    }
  }

 private:
  static constexpr LowHigh widest(std::initializer_list<LowHigh> all) {
    LowHigh w{0, 0};
    for (const LowHigh& s : all) w = {impl::larger(w.lo, s.lo), impl::larger(w.hi, s.hi)};
    return w;
  }

  /// Computes the points of `to`, a part of dx, from those of `from`, a part of dy.
  template <class Space, class P, class DX, class DY, class T>
  void gather(const Space& space, const P& parameters, const DX& dx, const DY& dy,
              const impl::Block<T>& to, const impl::Block<const T>& from) const {
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice& channels) {
      constexpr bool adds = I != 0;  // nvcc rejects a comparison in the argument list
      b.template gather<adds>(space, parameters.branches[I], dx, dy, to,
                              impl::channels_of(from, channels, b.out));
    });
  }

  template <class Visit>
  void each(const Visit& visit) const {
    impl::ChannelSlice channels{0, out()};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((visit.template operator()<I>(branch<I>(), channels), channels.first += outs[I]), ...);
    }
    (std::make_index_sequence<count>{});
  }

  template <class Y, class X>
  void require(const Y& y, const X& x) const {
    static_assert(
        !impl::is_cut_v<X, 1>,
        "a CrossEmbed sums over all channels: they can't be sharded; redistribute before it");
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice& channels) {
      b.require(y, channels, x);
    });
  }
  template <class Y, class X>
  bool reads_halo(const Y& y, const X& x) const {
    bool reads = false;
    each([&]<std::size_t I>(const Branch<I>& b, const impl::ChannelSlice&) {
      reads = reads || b.reads_halo(y, x);
    });
    return reads;
  }
};

/// Allocates the parameters of a CrossEmbed, or their gradients, set to zero.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space, class... Options>
auto make_parameters(const CrossEmbed<Options...>& layer, const std::string& label) {
  typename CrossEmbed<Options...>::template Parameters<T, Memory> p;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((p.branches[I] = make_parameters<T, Memory>(layer.template branch<I>(),
                                                 label + ".convs." + std::to_string(I))),
     ...);
  }
  (std::make_index_sequence<CrossEmbed<Options...>::count>{});
  return p;
}

/// The parameters of a CrossEmbed in memory at `data`: weight and bias, branch by branch.
template <class T, class Memory, class... Options>
auto wrap_parameters(const CrossEmbed<Options...>& layer, T* data) {
  typename CrossEmbed<Options...>::template Parameters<T, Memory> p;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((p.branches[I] = wrap_parameters<T, Memory>(layer.template branch<I>(), data),
      data += parameter_count(layer.template branch<I>())),
     ...);
  }
  (std::make_index_sequence<CrossEmbed<Options...>::count>{});
  return p;
}

/// Initialises a CrossEmbed's parameters as a Conv's; each branch has its own seed.
template <class Space, class Parameters, class... Options>
void initialise(const Space& space, const CrossEmbed<Options...>& layer,
                const Parameters& parameters, std::uint64_t seed, std::uint64_t stream) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (initialise(space, layer.template branch<I>(), parameters.branches[I],
                seed + (std::uint64_t{I} << 32), stream),
     ...);
  }
  (std::make_index_sequence<CrossEmbed<Options...>::count>{});
}

}  // namespace shard

#endif
