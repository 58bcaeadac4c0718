// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_DOCS_PREAMBLE_HPP
#define SHARD_TESTS_DOCS_PREAMBLE_HPP

#include <shard/base/version.hpp>
#include <shard/io/checkpoint.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/layers/attention.hpp>
#include <shard/layers/attention_ring.hpp>
#include <shard/layers/conv.hpp>
#include <shard/layers/conv_transpose.hpp>
#include <shard/layers/dot.hpp>
#include <shard/layers/group_norm.hpp>
#include <shard/layers/interpolate.hpp>
#include <shard/layers/mean_square.hpp>
#include <shard/layers/pad.hpp>
#include <shard/layers/pointwise.hpp>
#include <shard/model/adam.hpp>
#include <shard/model/gradient_buckets.hpp>
#include <shard/model/gradient_norm.hpp>
#include <shard/model/loss_scale.hpp>
#include <shard/model/merge_halos.hpp>
#include <shard/model/optimisers.hpp>
#include <shard/model/parameters.hpp>
#include <shard/model/schedules.hpp>
#include <shard/model/unet.hpp>
#include <shard/shard.hpp>
#include <vector>

// What the pages' snippets take as given.
struct Data;
struct Lat;
struct Lon;

/// [batch, channel, latitude, longitude] with a halo of one cell, and without.
using Field  = shard::ShardedView<float****, Kokkos::LayoutRight,
                                 shard::ShardDim<2, Lat, shard::Halo<1>, shard::Reflect>,
                                 shard::ShardDim<3, Lon, shard::Halo<1>, shard::Periodic>>;
using Output = shard::ShardedView<float****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                                  shard::ShardDim<3, Lon>>;

/// A functor over the cells of Field.
struct Step {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int n, int c, int i, int j) const {
    to(n, c, i, j) = from(n, c, i - 1, j) + from(n, c, i, j + 1);
  }
};

#endif
