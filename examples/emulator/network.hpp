// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>

/// \file
/// The emulator's network, a U-Net of three levels that says by how much a state changes.

namespace emulator {

/// Two convolutions 3x3 a level, each with GroupNorm and SiLU; strided ones lead down, transposed
/// ones up to the extents and partitions of the skip that they meet. Longitude is periodic and the
/// poles fold. `width`, a multiple of 4, is the channels of the finest level.
template <class T, shard::Pole P>
auto network(shard::index_t channels, shard::index_t width) {
  using namespace shard;
  using Beyond = PaddingMode<PoleFold<3, P>, Periodic>;
  using Same3  = Conv<Kernel<3, 3>, Padding<1, 1>, Beyond>;
  using Down   = Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>, Beyond>;
  using Up     = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>, Beyond>;

  const auto unit = [](const auto& conv) {
    return block(named<"conv">(conv), named<"norm">(GroupNorm{4, conv.out}), SiLU{});
  };
  const auto same = [&](index_t in, index_t out) { return unit(Same3{in, out, 1, false}); };
  const auto down = [&](index_t in, index_t out) { return unit(Down{in, out, 1, false}); };
  const index_t w = width;

  const auto level2 =  // concat: x, then what its layers make of x
      concat(named<"down">(down(2 * w, 4 * w)), named<"refine">(same(4 * w, 4 * w)),
             named<"up">(Up{4 * w, 2 * w}));
  const auto level1 = concat(named<"down">(down(w, 2 * w)), named<"refine">(same(2 * w, 2 * w)),
                             named<"level2">(level2), named<"merge">(same(4 * w, 2 * w)),
                             named<"up">(Up{2 * w, w}));
  return sequential<T>(named<"change">(residual(
      named<"enter">(same(channels, w)), named<"refine">(same(w, w)), named<"level1">(level1),
      named<"merge">(same(2 * w, w)), named<"head">(Conv<Kernel<1, 1>>{w, channels}))));
}

}  // namespace emulator
