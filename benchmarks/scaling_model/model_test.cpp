// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the model says of problems whose answer is known.
#include "model.hpp"
#include "steps.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace {

using scaling::Machine;
using scaling::Problem;
using scaling::Traffic;

Machine node_of(int ranks) {
  Machine machine;
  machine.ranks_per_node = ranks;
  return machine;
}

TEST(ScalingModel, counts_what_goes_to_all_neighbours) {
  Problem p;
  p.cells         = {10, 20, 30};
  p.mesh          = {2, 2, 2};
  p.fields        = 3;
  const Traffic t = scaling::traffic_of(p, node_of(8), 5);
  EXPECT_EQ(t.near_messages, 7);
  EXPECT_EQ(t.far_messages, 0);
  EXPECT_EQ(t.near_bytes, (12 * 22 * 32 - 10 * 20 * 30) * 8 * 3);
  p.messages          = shard::MessageLayout::one_per_field;
  const Traffic apart = scaling::traffic_of(p, node_of(4), 5);
  EXPECT_EQ(apart.near_messages, 3 * 3);
  EXPECT_EQ(apart.far_messages, 4 * 3);
  EXPECT_EQ(apart.near_bytes + apart.far_bytes, t.near_bytes);
}

TEST(ScalingModel, knows_the_faces_of_one_sharded_dimension) {
  Problem p{.cells = {4, 6, 8}, .mesh = {1, 2, 1}, .width = {0, 1, 0}};
  const Traffic t = scaling::traffic_of(p, node_of(2), 0);
  EXPECT_EQ(t.near_messages, 1);
  EXPECT_EQ(t.near_bytes, 2 * 4 * 8 * 8);
  p.left             = true;
  p.messages         = shard::MessageLayout::one_per_box;
  p.value_bytes      = 4;
  const Traffic left = scaling::traffic_of(p, node_of(2), 1);
  EXPECT_EQ(left.near_messages, 2);
  EXPECT_EQ(left.near_bytes, 2 * 4 * 8 * 4);
}

TEST(ScalingModel, sends_nothing_along_an_axis_of_one_rank) {
  const Problem p{.cells = {1, 8, 4}, .mesh = {1, 2, 1}, .width = {0, 1, 1}};
  const Traffic t = scaling::traffic_of(p, node_of(2), 0);
  EXPECT_EQ(t.near_bytes, 2 * (4 + 2) * 8);
}

TEST(ScalingModel, fills_messages_by_size) {
  Problem p;
  p.cells    = {1, 64, 64};
  p.mesh     = {1, 2, 1};
  p.width    = {0, 1, 0};
  p.fields   = 8;
  p.messages = shard::MessageLayout::by_size;
  // 16 boxes of 512 bytes, seven to a message of 4000
  EXPECT_EQ(scaling::traffic_of(p, node_of(2), 0).near_messages, 3);
}

TEST(ScalingModel, adds_up_latency_and_bandwidth) {
  Problem p;
  p.cells                 = {1, 1000, 1000};
  p.mesh                  = {1, 2, 1};
  p.width                 = {0, 1, 0};
  p.messages              = shard::MessageLayout::one_per_box;
  Machine machine         = node_of(2);
  machine.near_latency_us = 2;
  machine.message_us      = 1;
  machine.near_GBs        = 10;
  machine.memory_GBs      = 4;
  machine.kernel_us       = 3;
  const auto t            = scaling::predict(p, machine);
  EXPECT_DOUBLE_EQ(t.messages * 1e6, 2 + 1 + 16000 / 10e3);
  EXPECT_DOUBLE_EQ(t.pack * 1e6, 2 * (3 + 2 * 16000 / 4e3));
}

// a part of computation, then messages to these ranks
imagined::Part part(double seconds, std::vector<imagined::Message> sends) {
  return {.seconds = seconds, .kind = imagined::Kind::messages, .sends = std::move(sends)};
}
imagined::Part part(imagined::Kind kind, double bytes, int ranks) {
  return {.kind = kind, .bytes = bytes, .ranks = ranks};
}
/// Two hosts of `ranks` ranks on one core each, 100 us and 1 MB in 1 ms between them.
Machine host_of(int ranks) {
  Machine machine         = node_of(ranks);
  machine.cores_per_node  = 1;
  machine.far_latency_us  = 100;
  machine.near_latency_us = 1;
  machine.node_GBs        = 1;
  machine.near_GBs        = 10;
  return machine;
}

TEST(StepTime, adds_computation_latency_and_bytes) {
  const scaling::Recorded one{part(2e-3, {{1, 1e6}}), {.seconds = 1e-3}},
      other{part(1e-3, {{0, 2e6}}), {.seconds = 1e-3}};
  const auto time = scaling::time_of_step({one, other}, 2, host_of(1));
  EXPECT_NEAR(time.compute, 2e-3 + 1e-3, 1e-12);
  // the other one is ready earlier and sends more
  EXPECT_NEAR(time.total, 1e-3 + 2e-3 + 1e-4 + 1e-3, 1e-12);
}

TEST(StepTime, ranks_take_turns_on_cores_and_on_the_link) {
  const scaling::Recorded a{part(1e-3, {{2, 3e6}})}, b{part(1e-3, {{3, 3e6}})},
      c{part(1e-3, {{0, 3e6}})}, d{part(1e-3, {{1, 3e6}})};
  Machine machine = host_of(2);
  // the second one computes while the first one's message leaves
  EXPECT_NEAR(scaling::time_of_step({a, b, c, d}, 4, machine).total, 1e-3 + 6e-3 + 1e-4, 1e-12);
  // long messages wait until nobody computes, and for an answer
  machine.eager_kB = 64;
  EXPECT_NEAR(scaling::time_of_step({a, b, c, d}, 4, machine).total, 2e-3 + 6e-3 + 3e-4, 1e-12);
  machine.cores_per_node = 2;
  EXPECT_NEAR(scaling::time_of_step({a, b, c, d}, 4, machine).total, 1e-3 + 6e-3 + 3e-4, 1e-12);
  // as if all were like rank 3
  EXPECT_NEAR(scaling::time_of_step({d}, 4, machine, 3).total, 1e-3 + 6e-3 + 3e-4, 1e-12);
}

TEST(StepTime, a_link_lets_bursts_pass) {
  Machine machine  = host_of(1);
  machine.far_GBs  = 10;
  machine.burst_kB = 1000;
  const scaling::Recorded short_step{part(5e-3, {{1, 1e6}})}, back{part(5e-3, {{0, 1e6}})};
  EXPECT_NEAR(scaling::time_of_step({short_step, back}, 2, machine).total, 5e-3 + 1e-4 + 1e-4,
              1e-12);
  // without a pause the bucket stays empty
  const scaling::Recorded busy{part(0, {{1, 1e6}})}, busy_back{part(0, {{0, 1e6}})};
  EXPECT_NEAR(scaling::time_of_step({busy, busy_back}, 2, machine).total, 1e-3, 1e-9);
}

TEST(StepTime, collective_calls_take_their_messages) {
  const Machine machine = host_of(2);
  const auto time_of    = [&](const imagined::Part& p) {
    return scaling::time_of_step({{p}, {p}, {p}, {p}}, 4, machine).total;
  };
  using imagined::Kind;
  EXPECT_NEAR(time_of(part(Kind::sum, 8, 4)), 101e-6 + 16e-9, 1e-12);
  EXPECT_NEAR(time_of(part(Kind::sum, 1e6, 4)), 600e-6 + 1.5e-3, 1e-12);
  EXPECT_NEAR(time_of(part(Kind::gather, 1e6, 4)), 101e-6 + 4e-3, 1e-12);
  EXPECT_NEAR(time_of(part(Kind::all_to_all, 1e6, 4)), 100e-6 + 4e-3, 1e-12);
}

}  // namespace
