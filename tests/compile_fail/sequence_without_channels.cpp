// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: an all-to-all of sequences needs [batch, channel, 1 to 3 spatial dimensions]
#include <shard/shard.hpp>

struct X;

void use(const Kokkos::View<float**>& x, const shard::Mesh<X>& mesh) {
  shard::all_to_all<shard::SplitToFull, X>(Kokkos::DefaultExecutionSpace(), x, x, mesh);
}
