// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/window_checks.hpp"

#include <algorithm>

namespace shard::impl {

bool reads_beyond(const Partition& inputs, const Partition& outputs, bool beyond_world, Reads reads,
                  const void* context) {
  for (int r = 0; r < inputs.parts(); ++r) {
    const IndexRange out{outputs.begin(r), outputs.end(r)};
    if (out.empty()) continue;
    IndexRange in = reads(context, out);
    if (!beyond_world) in = {std::max<index_t>(in.begin, 0), std::min(in.end, inputs.size())};
    if (!in.empty() && (in.begin < inputs.begin(r) || in.end > inputs.end(r))) return true;
  }
  return false;
}

}  // namespace shard::impl
