// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_RESAMPLING_PIXEL_SHUFFLE_HPP
#define SHARD_LAYERS_RESAMPLING_PIXEL_SHUFFLE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/impl/pool_kernels.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/impl/window_checks.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// The order of the coarse channels of a pixel shuffle: of C channels and the points j of a patch.
enum class PixelOrder : std::uint8_t {
  channels_first,  ///< channel c R^Dims + j, PyTorch's PixelShuffle
  points_first,    ///< channel j C + c: patches of transformers, rearranged to (p1 p2 c)
};

namespace impl {

/// Checks and kernels that map the channels of a patch of the coarse field to the points of one
/// channel of the fine field. The first `Kept` spatial dimensions are the same in both.
template <int R, int Dims, PixelOrder Order, int Kept>
struct Pixels {
  static_assert(R >= 1 && Dims >= 1 && Dims <= 3,
                "pixels are shuffled by a factor of at least one, in one to three dimensions");
  static_assert(Kept >= 0 && Kept < Dims, "pixels are shuffled in at least one dimension");
  static constexpr int shuffled      = Dims - Kept;
  static constexpr index_t cells     = R * (shuffled > 1 ? R : 1) * (shuffled > 2 ? R : 1);
  static constexpr int factor[3]     = {shuffled > 2 ? R : 1, shuffled > 1 ? R : 1, R};
  static constexpr bool points_first = Order == PixelOrder::points_first;

  /// Throws ArgumentError, on every rank, unless the fine field is the coarse one refined.
  template <class Fine, class Coarse>
  static void require(const char* name, const Fine& fine, const Coarse& coarse) {
    static_assert(Fine::rank == Dims + 2,
                  "a field of pixels is [batch, channel, as many dimensions as are shuffled]");
    static_assert(!points_first || !is_cut_v<Fine, 1>,
                  "channels of points first can't be sharded: redistribute before it");
    require_same_rank_and_value<Fine, Coarse>();
    require_same_cut(name, fine.geometry(), coarse.geometry());
    require_extent(name, coarse.label(), "channels", coarse.global_extent(1),
                   fine.global_extent(1) * cells);
    require_same_partition(name, fine.label(), 0, fine.partition(0), coarse.partition(0));
    if (!is_regrouped(fine.partition(1), coarse.partition(1), 1, cells))  // throws
      require_same_partition(name, coarse.label(), 1, coarse.partition(1),
                             regrouped(fine.partition(1), 1, cells));
    for (int d = 2; d < Dims + 2; ++d) {
      const int by = d < Kept + 2 ? 1 : R;
      require_extent(name, fine.label(), "cells along a dimension", fine.global_extent(d),
                     coarse.global_extent(d) * by);
      if (!is_refined(fine.partition(d), coarse.partition(d), by))  // throws
        require_same_partition(name, fine.label(), d, fine.partition(d),
                               coarse.partition(d).refined(by, coarse.global_extent(d) * by));
    }
  }

  template <class Space, class Fine, class Coarse>
  static void to_fine(const Space& space, const Fine& fine, const Coarse& coarse) {
    PixelKernels<Space, typename Fine::non_const_value_type>::to_fine(
        space, owned_block(local(fine)), owned_input(coarse), factor, points_first);
  }
  template <class Space, class Coarse, class Fine>
  static void to_coarse(const Space& space, const Coarse& coarse, const Fine& fine) {
    PixelKernels<Space, typename Coarse::non_const_value_type>::to_coarse(
        space, owned_block(local(coarse)), owned_input(fine), factor, points_first);
  }
};

/// What PixelShuffle (`ToFine`) and its inverse have in common.
template <class Layer, int R, int Dims, PixelOrder Order, int Kept, bool ToFine>
struct PixelLayer {
  static constexpr int dims               = Dims;                  ///< spatial dimensions
  static constexpr int factor             = R;                     ///< in each but the first `Kept`
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< local

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Sets y's owned points. Local. Throws ArgumentError, on every rank, unless y has
  /// output_partitions.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    run<ToFine>(space, y, x);
    mark_written(space, y);
  }
  /// ty = the tangent of y for the tangent tx of x. Local.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  /// Sets the owned points of dx = dJ/dx from dy = dJ/dy. Local. dx may be not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) run<!ToFine>(space, dx, dy);
  }

 private:
  template <bool Refines, class Space, class To, class From>
  static void run(const Space& space, const To& to, const From& from) {
    if constexpr (Refines) {
      Pixels<R, Dims, Order, Kept>::require(Layer::name, to, from);
      Pixels<R, Dims, Order, Kept>::to_fine(space, to, from);
    } else {
      Pixels<R, Dims, Order, Kept>::require(Layer::name, from, to);
      Pixels<R, Dims, Order, Kept>::to_coarse(space, to, from);
    }
  }
};

}  // namespace impl

/// Moves channels to space (Shi et al. 2016; PyTorch's PixelShuffle): y[n, c, i R + j] = x[n, c
/// R^Dims + j, i], the j of all dimensions row-major. Local: y's shards are x's, R times as wide.
/// Channels may be sharded if each block of R^Dims channels is on one rank. With
/// PixelOrder::points_first it splits patches of transformers: y[n, c, i R + j] = x[n, j C + c, i];
/// then channels can't be sharded. The first `Kept` of the Dims spatial dimensions are left as they
/// are, and R^Dims becomes R^(Dims - Kept): `PixelShuffle<2, 3, PixelOrder::points_first, 1>`
/// splits patches of each level.
template <int R, int Dims = 2, PixelOrder Order = PixelOrder::channels_first, int Kept = 0>
struct PixelShuffle
    : impl::PixelLayer<PixelShuffle<R, Dims, Order, Kept>, R, Dims, Order, Kept, true> {
  /// Output extent of n points in spatial dimension `d`.
  static constexpr index_t output_extent(int d, index_t n) { return d < Kept ? n : n * R; }

  /// The partitions of the output for an input with these: all begins times R. Throws ArgumentError
  /// if R^Dims doesn't divide the channels, or those of a part.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == Dims + 2, "partitions of [batch, channel, space...]");
    if (input[1].size() % Pixels::cells != 0)
      impl::throw_argument("PixelShuffle",
                           {impl::text(input[1].size()), " channels aren't a multiple of ",
                            impl::text(Pixels::cells)});
    std::array<Partition, Rank> p = input;
    impl::require_whole_groups("PixelShuffle", "x", input[1], Pixels::cells);
    p[1] = impl::regrouped(input[1], Pixels::cells, 1);
    for (std::size_t d = Kept + 2; d < Rank; ++d) p[d] = input[d].refined(R, input[d].size() * R);
    return p;
  }

 private:
  friend impl::PixelLayer<PixelShuffle, R, Dims, Order, Kept, true>;
  static constexpr const char* name = "PixelShuffle";
  using Pixels                      = impl::Pixels<R, Dims, Order, Kept>;
};

/// The inverse of PixelShuffle, in both orders: moves space to channels, or merges patches. Local,
/// so x's shards have to begin at multiples of R, and R has to divide its extents; else
/// ArgumentError on every rank. A Pad before it can see to both: see Pad::multiple.
template <int R, int Dims = 2, PixelOrder Order = PixelOrder::channels_first, int Kept = 0>
struct PixelUnshuffle
    : impl::PixelLayer<PixelUnshuffle<R, Dims, Order, Kept>, R, Dims, Order, Kept, false> {
  /// Output extent of n points in spatial dimension `d`.
  static constexpr index_t output_extent(int d, index_t n) { return d < Kept ? n : n / R; }

  /// The partitions of the output for an input with these: all begins divided by R. Throws
  /// ArgumentError if R doesn't divide them.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    static_assert(Rank == Dims + 2, "partitions of [batch, channel, space...]");
    std::array<Partition, Rank> p = input;
    p[1]                          = impl::regrouped(input[1], 1, Pixels::cells);
    for (std::size_t d = Kept + 2; d < Rank; ++d) {
      const index_t n = input[d].size() / R;
      p[d]            = input[d].coarsened(R, n);
      impl::require_same_partition("PixelUnshuffle", "x", static_cast<int>(d), input[d],
                                   p[d].refined(R, n * R));
    }
    return p;
  }

 private:
  friend impl::PixelLayer<PixelUnshuffle, R, Dims, Order, Kept, false>;
  static constexpr const char* name = "PixelUnshuffle";
  using Pixels                      = impl::Pixels<R, Dims, Order, Kept>;
};

}  // namespace shard

#endif
