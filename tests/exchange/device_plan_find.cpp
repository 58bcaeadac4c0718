// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rest of device_plan.cpp, apart from it as in the library: a class is instantiated there, and
// some of its members here.
#include "exchange/device_support.hpp"

#include "../../src/exchange/plan_find.cpp"
#include "../../src/exchange/plan_measure.cpp"

namespace shard::impl {

using Played = shard::testing::PlayedMemory;
template std::shared_ptr<FieldPlan<Played>> FieldPlan<Played>::make_exchange(const FieldArgs*, int,
                                                                             const Tuning&,
                                                                             const FieldAddresses&);
template std::shared_ptr<FieldPlan<Played>> FieldPlan<Played>::make_measured(
    MeshState&, const std::vector<FieldSpec>&, const Tuning&, const FieldAddresses&);
template std::string FieldPlan<Played>::report() const;

}  // namespace shard::impl
