// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans in memory that plays a device's: made from the library's own sources.
#include "exchange/device_support.hpp"

#include "../../src/exchange/field_plan.cpp"
#include "../../src/exchange/plan.cpp"
#include "../../src/exchange/plan_build.cpp"
#include "../../src/exchange/plan_messages.cpp"

namespace shard::impl {

using namespace shard::testing;

template struct BufferSet<PlayedMemory>;
template class PlanMessages<PlayedMemory>;
template class Plan<PlayedMemory>;
template StartedExchange Plan<PlayedMemory>::start(const PlayedSpace&, const FieldAddresses&,
                                                   Direction);
template unsigned Plan<PlayedMemory>::fill_local(const PlayedSpace&, const StartedExchange&);
template Progress Plan<PlayedMemory>::advance(const PlayedSpace&, const StartedExchange&);
template void Plan<PlayedMemory>::finish(const PlayedSpace&, const StartedExchange&);
template class FieldPlan<PlayedMemory>;
template StartedExchange FieldPlan<PlayedMemory>::start(const PlayedSpace&, const FieldAddresses&,
                                                        Direction);
template void FieldPlan<PlayedMemory>::finish(const PlayedSpace&, const StartedExchange&);

}  // namespace shard::impl
