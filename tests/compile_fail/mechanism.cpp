// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this sentence is found
#include <Kokkos_Core.hpp>

static_assert(KOKKOS_VERSION < 0, "this sentence is found");
