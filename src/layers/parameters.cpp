// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/parameters.hpp"

namespace shard::impl {

template void fill_parameter(const Kokkos::DefaultExecutionSpace&, const ParameterShape&, float*,
                             std::uint64_t, std::uint64_t);
template void fill_parameter(const Kokkos::DefaultExecutionSpace&, const ParameterShape&, double*,
                             std::uint64_t, std::uint64_t);

}  // namespace shard::impl
