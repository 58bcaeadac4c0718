// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <shard/base/version.hpp>

#include <Kokkos_Core.hpp>
#include <mpi.h>

static_assert(SHARD_VERSION_MAJOR >= 0, "this unit compiles");
