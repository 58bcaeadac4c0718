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

// Forward, loss gradient, backward and an optimiser's step. Several ranks would add gradients by
// MPI.
TEST(Graph, OfATrainingStep) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh mesh(MPI_COMM_SELF, {1, 1});
  const Loop::Space space;
  using Window   = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
  const auto run = [&](bool by_graph) {
    // layers whose inputs have the same extents: their exchanges share a plan
    const auto net = shard::sequential<float>(
        Window{3, 40}, shard::GroupNorm{4, 40}, shard::SiLU{}, Window{40, 40}, shard::GELU{},
        Window{40, 40}, shard::SiLU{}, shard::Conv<shard::Kernel<1, 1>>{40, 3});
    const auto model = shard::domain_parallel<captured::Y, captured::X>(net, mesh);
    const auto input = model.input("input", {1, 3, 33, 47});
    Kokkos::deep_copy(input.view(), 0.5F);
    const auto d_input = input.like("d input");
    const auto target  = model(space, input).like("target");
    const auto dy      = target.like("dy");
    Kokkos::deep_copy(target.view(), 0.25F);
    shard::MeanSquare loss(target, {});
    const auto count = static_cast<shard::index_t>(model.parameters().values().extent(0));
    shard::SGD<float> sgd(count, {.learning_rate = 0.1});
    const auto step = [&] {
      auto& y = model(space, input);
      loss.pullback(space, dy, y, target);
      Kokkos::deep_copy(space, model.gradients().values(), 0.0F);
      model.pullback(space, d_input, dy, input);
      sgd(space, model.parameters().values(), model.gradients().values());
    };
    step();  // plans and memory are made
    step();
    if (by_graph)
      captured::run_graph(space, 5, step);
    else
      for (int i = 0; i < 5; ++i) step();
    space.fence();
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), model.parameters().values());
  };
  const auto plain = run(false), graph = run(true);
  ASSERT_EQ(plain.span(), graph.span());
  EXPECT_EQ(std::memcmp(plain.data(), graph.data(), plain.span() * sizeof(float)), 0);
}

}  // namespace
