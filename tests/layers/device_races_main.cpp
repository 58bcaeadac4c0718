// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Without MPI, whose handling of memory ThreadSanitizer doesn't bear.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
