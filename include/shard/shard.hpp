// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SHARD_HPP
#define SHARD_SHARD_HPP

/// \file
/// The whole library but solve/, io/ and adapters, which have headers of their own.

/// Sharded-tensor types on Kokkos.
namespace shard {}

#include "shard/autodiff/checks.hpp"
#include "shard/autodiff/halo_exchange.hpp"
#include "shard/autodiff/tape.hpp"
#include "shard/autodiff/wanted.hpp"
#include "shard/base/environment.hpp"
#include "shard/base/error.hpp"
#include "shard/comm/allocate_shared.hpp"
#include "shard/exchange/determinism.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/exchange/steps_per_exchange.hpp"
#include "shard/layers/backward_barrier.hpp"
#include "shard/layers/conv.hpp"
#include "shard/layers/conv_transpose.hpp"
#include "shard/layers/cross_embed.hpp"
#include "shard/layers/group_norm.hpp"
#include "shard/layers/interpolate.hpp"
#include "shard/layers/linear.hpp"
#include "shard/layers/mean_square.hpp"
#include "shard/layers/periodic_conv.hpp"
#include "shard/layers/pixel_shuffle.hpp"
#include "shard/layers/pointwise.hpp"
#include "shard/layers/pool.hpp"
#include "shard/layers/stencil.hpp"
#include "shard/mesh/hybrid_mesh.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/mesh/static_mesh.hpp"
#include "shard/model/adam.hpp"
#include "shard/model/parameters.hpp"
#include "shard/model/unet.hpp"
#include "shard/redistribute/annotated_view.hpp"
#include "shard/redistribute/as_sharded.hpp"
#include "shard/redistribute/axis_placements.hpp"
#include "shard/redistribute/collectives.hpp"
#include "shard/redistribute/distribute.hpp"
#include "shard/redistribute/manual.hpp"
#include "shard/redistribute/operations.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/redistribute/reduction_operations.hpp"
#include "shard/redistribute/reductions.hpp"
#include "shard/redistribute/shard_inputs.hpp"
#include "shard/redistribute/zigzag.hpp"
#include "shard/redistribute/zigzag_contexts.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/describe.hpp"
#include "shard/view/placements.hpp"
#include "shard/view/region.hpp"
#include "shard/view/sharded_view.hpp"
#include "shard/view/sharding_spec.hpp"
#include "shard/view/subview.hpp"

#endif
