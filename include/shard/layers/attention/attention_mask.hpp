// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_MASK_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_MASK_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "shard/base/impl/same_options.hpp"
#include "shard/layers/attention/attention.hpp"

namespace shard {

/// Attention with given numbers that are added to the scores: `Masked<WindowAttention<8,
/// 8>>{{.heads = 4}, mask}`. `Attention` is a WindowAttention or a GridAttention. All else is as
/// without a mask; `Biased<Masked<...>, Bias>` has a mask and a learned bias.
///
///   y[i] = sum over j of i's group of softmax over j of (scale q[i] . k[j] + mask[i, j]) v[j]
///
/// The mask is [windows, heads, queries, keys] in the host's memory, the same on every rank.
/// Windows (or groups) are those of the whole domain after the shift, the last dimension fastest;
/// with one, all windows have the same mask, with one head, all heads. A window's points are
/// counted in the same order, also where it ends at the domain's edge. -infinity excludes a pair. A
/// point that sees none has the output and the gradients 0, as in PyTorch's
/// scaled_dot_product_attention (since 2.5; its softmax alone gives NaN).
template <class Attention>
struct Masked : Attention {
  /// The mask.
  Kokkos::View<const double****, Kokkos::LayoutRight, Kokkos::HostSpace> mask;

  /// Collective over the mesh: the state for fields with q's mesh and partitions, with a copy of
  /// the mask for this rank's windows; further inputs don't matter. Throws ArgumentError, on every
  /// rank, if the mask, groups or heads don't fit.
  template <class Q, class... More>
  auto state(const Q& q, const More&...) const {
    std::uint64_t digest = 14695981039346656037ULL;  // FNV-1a of the numbers
    for (std::size_t i = 0; i < mask.size(); ++i)
      digest = (digest ^ Kokkos::bit_cast<std::uint64_t>(mask.data()[i])) * 1099511628211ULL;
    impl::require_same_options(q.communicator(), "Masked", {{"digest of the mask", digest >> 11}});
    auto s = Attention::state(q);
    this->hold_mask(s, mask);
    return s;
  }
};

}  // namespace shard

#endif
