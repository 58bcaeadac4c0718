// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rest of device_plan.cpp, apart from it as in the library: a class is instantiated there, and
// some of its members here.
#include "exchange/device_support.hpp"

#include "../../src/exchange/field_plan.cpp"
#include "../../src/exchange/plan_find.cpp"
#include "../../src/exchange/plan_measure.cpp"

namespace shard::impl {

using Played = shard::testing::PlayedMemory;
using shard::testing::PlayedSpace;
template class FieldPlan<Played>;
template Flight FieldPlan<Played>::start(const PlayedSpace&, const FieldAddresses&, Direction);
template void FieldPlan<Played>::finish(const PlayedSpace&, const Flight&);

}  // namespace shard::impl
