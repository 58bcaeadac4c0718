// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a pullback that adds needs an arithmetic value type
#include <shard/shard.hpp>

struct X;

void use(const Kokkos::View<bool***>& x, const shard::Mesh<X>& mesh) {
  shard::ZigzagGather<X>{}.pullback(Kokkos::DefaultExecutionSpace(), x, x, mesh);
}
