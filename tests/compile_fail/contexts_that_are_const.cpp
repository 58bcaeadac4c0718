// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: contexts are written
#include <shard/shard.hpp>

struct X;

void use(const Kokkos::View<float***>& x, const Kokkos::View<const float***>& y,
         const shard::Mesh<X>& mesh) {
  shard::zigzag_contexts<X>(Kokkos::DefaultExecutionSpace(), x, y, x, mesh);
}
