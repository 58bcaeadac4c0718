// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings of fields in device memory, in a memory that plays one: which transport carries them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "coupling_support.hpp"
#include "exchange/device_support.hpp"

namespace coupling_test {

using namespace shard::testing;
using Plan  = impl::CouplingPlan<PlayedMemory>;
using Air   = Field<Kokkos::LayoutRight, ShardDim<0, A>>;
using Water = Field<Kokkos::LayoutRight, ShardDim<1, C>>;

template <class F>
void* address_of(const F& field) {
  return const_cast<void*>(static_cast<const void*>(field.origin()));
}

/// All ranks have both components, on two meshes.
class CouplingOnDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shard::testing::play_device(); }

  CouplingOnDevice() {
    played_nccl() = {.built_in = true};
    each(wind_, [](double& v, index_t i, index_t j) { v = value_of(i, j); });
    each(heat_, [](double& v, index_t i, index_t j) { v = value_of(i, j, 1); });
  }

  template <class To, class From>
  static impl::CouplingRequest request(const To& to, const From& from, const Tuning& tuning = {}) {
    impl::CouplingRequest all{.is_to = true, .is_from = true};
    all.to     = {impl::any_field_args(to)};
    all.from   = {impl::any_field_args(from)};
    all.tuning = tuning;
    return all;
  }
  /// To the water, and to the air.
  std::unique_ptr<Plan> down(const Tuning& tuning = {}) const {
    return Plan::make(MPI_COMM_WORLD, request(drag_, wind_, tuning));
  }
  std::unique_ptr<Plan> up() const { return Plan::make(MPI_COMM_WORLD, request(warmth_, heat_)); }

  Mesh<A> in_rows_{MPI_COMM_WORLD, {0}};
  Mesh<C> in_columns_{MPI_COMM_WORLD, {0}};
  Air wind_{"device wind", in_rows_, {8, 6}}, warmth_{"device warmth", in_rows_, {8, 6}};
  Water drag_{"device drag", in_columns_, {8, 6}}, heat_{"device heat", in_columns_, {8, 6}};
  void* const wind_at_   = address_of(wind_);
  void* const warmth_at_ = address_of(warmth_);
  void* const drag_at_   = address_of(drag_);
  void* const heat_at_   = address_of(heat_);
};

// NCCL's sends would wait on their streams for the receives of the other coupling.
TEST_F(CouplingOnDevice, OppositeCouplingsGoByMpi) {
  const auto to_water = down(), to_air = up();
  EXPECT_EQ(played_nccl().made, 0);
  {
    const DeviceScope scope;
    to_water->send(PlayedSpace(), &drag_at_, &wind_at_);
    to_air->send(PlayedSpace(), &warmth_at_, &heat_at_);
    to_air->receive(PlayedSpace(), &warmth_at_, &heat_at_);
    to_water->receive(PlayedSpace(), &drag_at_, &wind_at_);
    EXPECT_EQ(scope.counts().nccl_runs, 0);
    EXPECT_EQ(scope.counts().messages > 0, ranks() > 1);
    EXPECT_EQ(scope.counts().host_writes, 0);
  }
  each(drag_, [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j)); });
  each(warmth_, [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j, 1)); });
}

TEST_F(CouplingOnDevice, ARequestForNcclIsLogged) {
  ::testing::internal::CaptureStderr();
  const auto by_option  = down({.transport = TransportKind::nccl});
  const std::string log = ::testing::internal::GetCapturedStderr();
  const ScopedVariable nccl("SHARD_TRANSPORT", "nccl");
  const auto by_variable = down();
  EXPECT_EQ(played_nccl().made, 0);
  if (rank() == 0) expect_parts(log, {"shard: messages of a Coupling go by MPI: NCCL"});
}

// One call runs both sides, so nothing waits for another call.
TEST_F(CouplingOnDevice, BothSidesTogetherGoByNccl) {
  const auto plan = Plan::find(request(drag_, wind_));
  EXPECT_EQ(played_nccl().made, ranks() > 1 ? 1 : 0);
  {
    const DeviceScope scope;
    plan->run(PlayedSpace(), &drag_at_, &wind_at_);
    EXPECT_EQ(scope.counts().nccl_runs, ranks() > 1 ? 1 : 0);
  }
  each(drag_, [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j)); });
}

// Its message is finished on another instance than the caller's.
TEST_F(CouplingOnDevice, AnEndBeforeTheReceiveFences) {
  auto plan = down();
  plan->send(PlayedSpace(), &drag_at_, &wind_at_);
  std::vector<std::string> fences;
  {
    const DeviceScope scope;
    plan.reset();
    fences = scope.counts().fence_names;
  }
  for (const char* name : {"shard::Coupling: before its last message is finished",
                           "shard::Coupling: its last message is finished"})
    EXPECT_EQ(std::count(fences.begin(), fences.end(), name), 1) << name;
  each(drag_, [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j)); });
}

}  // namespace coupling_test
