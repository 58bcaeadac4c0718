// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/window_checks.hpp"

#include <algorithm>

namespace shard::impl {

bool is_coarsened(const Partition& coarse, const Partition& fine, index_t stride) {
  if (coarse.parts() != fine.parts()) return false;
  for (int r = 1; r < coarse.parts(); ++r)
    if (coarse.begin(r) != std::min(coarse.size(), ceil_div(fine.begin(r), stride))) return false;
  return true;
}

bool is_refined(const Partition& fine, const Partition& coarse, index_t factor) {
  if (fine.parts() != coarse.parts()) return false;
  for (int r = 1; r < fine.parts(); ++r)
    if (fine.begin(r) != std::min(fine.size(), coarse.begin(r) * factor)) return false;
  return true;
}

bool reads_beyond(const Partition& inputs, const Partition& outputs, bool outside_domain,
                  Reads reads, const void* context) {
  for (int r = 0; r < inputs.parts(); ++r) {
    const IndexRange out{outputs.begin(r), outputs.end(r)};
    if (out.empty()) continue;
    IndexRange in = reads(context, out);
    if (!outside_domain) in = {std::max<index_t>(in.begin, 0), std::min(in.end, inputs.size())};
    if (!in.empty() && (in.begin < inputs.begin(r) || in.end > inputs.end(r))) return true;
  }
  return false;
}

}  // namespace shard::impl
