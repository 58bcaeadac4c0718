// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rest of device_plan.cpp, apart from it as in the library: a class is instantiated there, and
// some of its members here.
#include "exchange/device_support.hpp"

#include "../../src/exchange/plan_find.cpp"

namespace shard::impl {

using Played = shard::testing::PlayedMemory;
/// Measuring runs on the default execution space, which isn't the one that is played.
template <>
std::shared_ptr<Plan<Played>> Plan<Played>::make_measured(MeshState&, const std::vector<FieldSpec>&,
                                                          const Tuning&, const FieldAddresses&) {
  throw ArgumentError("plans in played memory can't be measured");
}
template std::shared_ptr<Plan<Played>> Plan<Played>::make_exchange(const FieldArgs*, int,
                                                                   const Tuning&,
                                                                   const FieldAddresses&);

}  // namespace shard::impl
