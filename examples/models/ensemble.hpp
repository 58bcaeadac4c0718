// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_ENSEMBLE_HPP
#define SHARD_EXAMPLES_MODELS_ENSEMBLE_HPP

#include "shard/shard.hpp"

/// \file
/// One network for all members of an ensemble, which differ by their noise [B, 3, 1, 1], a
/// replicated value. Members are the batch, sharded over a mesh axis of their own; trained with the
/// CRPS over that axis.

namespace ensemble {

using Conv3  = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Linear = shard::Conv<shard::Kernel<1, 1>>;

struct Network {
  Conv3 enter{2, 8};
  Linear noise{3, 16};
  shard::Modulated<shard::GroupNorm> norm{{2, 8, 1e-5, false}};
  Conv3 conv1{8, 8}, conv2{8, 2};
  shard::GELU act{};
  auto operator()(auto& m, const auto& x, const auto& z) const {
    const auto h     = m.run(enter, x);
    const auto moves = m.run(shard::Split{1, {8, 8}}, m.run(noise, z));
    const auto g     = m.run(conv1, m.run(act, m.run(norm, h, moves[0], moves[1])));
    const auto dx    = m.run(conv2, m.run(act, m.run(shard::Add{}, g, h)));
    return m.run(shard::Add{}, dx, x);
  }
};

}  // namespace ensemble

#endif
