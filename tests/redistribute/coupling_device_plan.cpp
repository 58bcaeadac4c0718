// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of couplings in memory that plays a device's: made from the library's own sources.
#include "exchange/device_support.hpp"

#include "../../src/redistribute/coupling.cpp"

namespace shard::impl {

using namespace shard::testing;

template class CouplingPlan<PlayedMemory>;
template void CouplingPlan<PlayedMemory>::send(const PlayedSpace&, void* const*, void* const*);
template void CouplingPlan<PlayedMemory>::receive(const PlayedSpace&, void* const*, void* const*);
template void CouplingPlan<PlayedMemory>::finish(const PlayedSpace&);
template void CouplingPlan<PlayedMemory>::run(const PlayedSpace&, void* const*, void* const*);

}  // namespace shard::impl
