// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of a device: what is captured does what the calls do. Wants a GPU for each rank.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>

#include "device/capture.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "support/support.hpp"

namespace {

using captured::Loop;
using shard::testing::ScopedVariable;
using Mesh = shard::Mesh<captured::Y, captured::X>;

bool messages_are_stream_ordered(const Mesh& mesh) {
  if (mesh.size() == 1) return true;  // there are none
  try {
    const shard::impl::NcclGroup group(mesh.communicator());
    return true;
  } catch (const shard::NcclError&) {
    return false;
  }
}

void expect_same(const Loop& a, const Loop& b) {
  const auto x = a.values(), y = b.values();
  EXPECT_EQ(std::memcmp(x.data(), y.data(), x.span() * sizeof(double)), 0);
}

TEST(Graph, DoesWhatTheCallsDo) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh mesh(MPI_COMM_WORLD, {0, 0});
  const Loop::Space space;
  const Loop plain(mesh), native(mesh), kokkos(mesh);
  for (const Loop* loop : {&plain, &native, &kokkos}) loop->step(space);
  if (!messages_are_stream_ordered(mesh)) {
    EXPECT_THROW(native.run_graph(space, 3), shard::Error);
    native.step(space);  // as if nothing had been
    plain.step(space);
    expect_same(plain, native);
    return;
  }
  for (int i = 0; i < 3; ++i) plain.step(space);
  native.run_graph(space, 3);
  expect_same(plain, native);
  native.step(space);
  plain.step(space);
  expect_same(plain, native);
  if (kokkos.run_kokkos_graph(space, 4)) expect_same(plain, kokkos);  // from Kokkos 5 on
}

}  // namespace
