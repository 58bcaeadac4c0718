// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_DOCS_PREAMBLE_HPP
#define SHARD_TESTS_DOCS_PREAMBLE_HPP

#include <shard/base/version.hpp>
#include <shard/io/checkpoint.hpp>
#include <shard/io/netcdf_output.hpp>
#include <shard/io/read_ahead.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/layers/attention/attention.hpp>
#include <shard/layers/attention/attention_bias.hpp>
#include <shard/layers/attention/attention_bias_network.hpp>
#include <shard/layers/attention/attention_column.hpp>
#include <shard/layers/attention/attention_mask.hpp>
#include <shard/layers/attention/attention_neighbourhood.hpp>
#include <shard/layers/attention/attention_ring.hpp>
#include <shard/layers/attention/head_norm.hpp>
#include <shard/layers/window/conv.hpp>
#include <shard/layers/window/conv_transpose.hpp>
#include <shard/layers/impl/dot.hpp>
#include <shard/layers/norm/group_norm.hpp>
#include <shard/layers/resampling/interpolate.hpp>
#include <shard/layers/loss/mean_square.hpp>
#include <shard/layers/window/pad.hpp>
#include <shard/layers/pointwise/pointwise.hpp>
#include <shard/train/adam.hpp>
#include <shard/train/gradient_buckets.hpp>
#include <shard/train/gradient_norm.hpp>
#include <shard/train/loss_scale.hpp>
#include <shard/model/merge_halos.hpp>
#include <shard/redistribute/coupling.hpp>
#include <shard/train/optimisers.hpp>
#include <shard/model/parameter_arena.hpp>
#include <shard/train/schedules.hpp>
#include <shard/shard.hpp>
#include <limits>
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
