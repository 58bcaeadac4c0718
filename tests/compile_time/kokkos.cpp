// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every program with Kokkos compiles.
#include <Kokkos_Core.hpp>

int main() {}
