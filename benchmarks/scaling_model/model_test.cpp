// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the model says of problems whose answer is known.
#include "model.hpp"

#include <gtest/gtest.h>

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

}  // namespace
