// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: both contexts are Views of one rank and value type
#include <shard/shard.hpp>

struct X;

void use(const Kokkos::View<float***>& x, const Kokkos::View<double***>& y,
         const shard::Mesh<X>& mesh) {
  shard::zigzag_contexts<X>(Kokkos::DefaultExecutionSpace(), x, y, x, mesh);
}
