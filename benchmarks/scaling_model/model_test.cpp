// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the model says of problems whose answer is known.
#include "model.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

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
  EXPECT_TRUE(t.copied.empty());
  p.messages          = shard::MessageLayout::one_per_field;
  const Traffic apart = scaling::traffic_of(p, node_of(4), 5);
  EXPECT_EQ(apart.near_messages, 3 * 3);
  EXPECT_EQ(apart.far_messages, 4 * 3);
  EXPECT_EQ(apart.near_bytes + apart.far_bytes, t.near_bytes);
}

TEST(ScalingModel, knows_the_runs_of_one_cut) {
  Problem p;
  p.cells         = {4, 6, 8};
  p.mesh          = {1, 2, 1};
  p.width         = {0, 1, 0};
  const Traffic t = scaling::traffic_of(p, node_of(2), 0);
  EXPECT_EQ(t.near_messages, 1);
  ASSERT_EQ(t.sent.size(), 1U);
  EXPECT_EQ(t.sent[0].run, 8 * 8);
  EXPECT_EQ(t.sent[0].pitch, 8 * 8 * 8);
  EXPECT_EQ(t.sent[0].bytes, 2 * 4 * 8 * 8);
  EXPECT_TRUE(t.copied.empty());
  p.left             = true;
  p.messages         = shard::MessageLayout::one_per_box;
  p.value_bytes      = 4;
  const Traffic left = scaling::traffic_of(p, node_of(2), 1);
  EXPECT_EQ(left.near_messages, 2);
  ASSERT_EQ(left.sent.size(), 1U);
  EXPECT_EQ(left.sent[0].run, 4 * 4);
  EXPECT_EQ(left.sent[0].pitch, 4 * 8 * 4);
  EXPECT_EQ(left.sent[0].bytes, 2 * 4 * 8 * 4);
}

TEST(ScalingModel, copies_along_an_axis_of_one_rank) {
  Problem p;
  p.cells         = {1, 8, 4};
  p.mesh          = {1, 2, 1};
  p.width         = {0, 1, 1};
  const Traffic t = scaling::traffic_of(p, node_of(2), 0);
  EXPECT_EQ(t.near_bytes, 2 * (4 + 2) * 8);
  ASSERT_EQ(t.copied.size(), 1U);
  EXPECT_EQ(t.copied[0].run, 8);
  EXPECT_EQ(t.copied[0].pitch, (4 + 2) * 8);
  EXPECT_EQ(t.copied[0].bytes, 2 * 8 * 8);
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

TEST(ScalingModel, adds_up_curves) {
  Problem p;
  p.cells           = {1, 100, 100};
  p.mesh            = {1, 2, 1};
  p.width           = {0, 1, 1};
  Machine machine   = node_of(2);
  machine.kernel_us = 0.5;
  machine.curves.messages.add(1.0, 1000.0, 7.0);
  machine.curves.boxes.add(1.0, 8.0, 100.0, 1000.0, 5.0);
  machine.curves.copies.add(1.0, 8.0, 100.0, 1000.0, 3.0);
  const auto t = scaling::predict(p, machine);
  EXPECT_DOUBLE_EQ(t.messages * 1e6, 7 * (2 * 102 * 8) / 1000.0);
  EXPECT_DOUBLE_EQ(t.pack * 1e6, 2 * 0.5 + 5 * 2 * 102 * 8 / 1000.0 + 3 * 2 * 100 * 8 / 1000.0);
  // over shared memory: straight from the neighbour, or by a window; rows are runs of 800 bytes,
  // corners of eight
  machine.shared_us = 0.25;
  machine.box_us    = 0.125;  // two rows and four corners, of which two take nothing more
  machine.curves.direct.add(1.0, 8.0, 100.0, 1000.0, 2.0);
  machine.curves.window.add(1.0, 8.0, 100.0, 1000.0, 4.0);
  p.shared = true;
  struct Case {
    double direct_run, rows, corners;
  };
  for (const auto& [direct_run, rows, corners] : {Case{8, 2, 2}, Case{9, 2, 4}, Case{801, 4, 4}}) {
    p.direct_run   = direct_run;
    const auto own = scaling::predict(p, machine);
    EXPECT_EQ(own.messages, 0);
    EXPECT_DOUBLE_EQ(own.pack * 1e6,
                     0.25 + 4 * 0.125 + (rows * 2 * 100 + corners * 4 + 3 * 2 * 100) * 8 / 1000);
  }
  machine.ranks_per_node = 1;
  EXPECT_THROW(scaling::predict(p, machine), std::runtime_error);
}

TEST(ScalingModel, tells_fields_with_short_runs_from_one_with_as_many) {
  Problem p;
  p.cells           = {1, 100, 100};
  p.mesh            = {1, 1, 2};
  p.width           = {0, 0, 1};
  p.fields          = 4;
  Machine machine   = node_of(2);
  constexpr int all = 4 * 2 * 100 * 8;  // bytes
  machine.curves.messages.add(1.0, 1000.0, 7.0);
  machine.curves.boxes.add(1.0, 8.0, 100.0, double(all), 9.0);
  machine.curves.boxes.add(16.0, 8.0, 100.0, double(all), 4.0);
  EXPECT_DOUBLE_EQ(scaling::predict(p, machine).pack * 1e6, 6);
  p.mesh  = {1, 2, 1};  // and rows
  p.width = {0, 1, 0};
  EXPECT_DOUBLE_EQ(scaling::predict(p, machine).pack * 1e6, 9);
}

TEST(ScalingModel, reads_between_the_points_of_curves) {
  scaling::Family<scaling::Curve> family;
  family.add(1.0, 100.0, 1.0);
  family.add(1.0, 400.0, 4.0);
  family.add(1.0, 400.0, 9.0);  // the least counts
  family.add(4.0, 100.0, 4.0);
  EXPECT_DOUBLE_EQ(family(1.0, 200.0), 2);
  EXPECT_DOUBLE_EQ(family(1.0, 50.0), 0.5);
  EXPECT_DOUBLE_EQ(family(0.5, 800.0), 8);
  EXPECT_DOUBLE_EQ(family(2.0, 100.0), 2);
  EXPECT_DOUBLE_EQ(family(9.0, 100.0), 4);
}

}  // namespace
