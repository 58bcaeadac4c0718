// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When fewer or larger messages pay on the network that this runs on (tools/hosts makes some).
//
// messages [--joined] [TURNS]; --joined: the last table alone
//
// Eight fields of a rank's cells (halo 1, corners too, two dimensions cut) are exchanged in each
// layout of messages, and as Tuning::measure chooses; then a step of diffusion of one field with an
// exchange before each step, each second and each fourth; then one field's exchange with and
// without a message for each pair of hosts. Prints tables of microseconds, medians of the slowest
// rank. The layouts are measured alternately.
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/steps_per_exchange.hpp"
#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace {

struct Y;
struct X;
using shard::index_t;
using Space = Kokkos::DefaultHostExecutionSpace;
using Mesh  = shard::Mesh<Y, X>;

constexpr index_t levels = 32;

template <int Width>
using Field = shard::ShardedView<
    double***, Kokkos::LayoutRight, shard::ShardDim<0, Y, shard::Halo<Width>, shard::Periodic>,
    shard::ShardDim<1, X, shard::Halo<Width>, shard::Periodic>, Kokkos::HostSpace>;

template <int Width>
Field<Width> field(const Mesh& mesh, index_t cells, index_t of_levels = levels) {
  const Field<Width> made("t", mesh, {cells * mesh.size<Y>(), cells * mesh.size<X>(), of_levels});
  Kokkos::deep_copy(made.view(), 1.0);
  return made;
}

/// A rank's exchanges of eight fields.
void exchanges(const Mesh& mesh, index_t cells, int turns, bool prints) {
  using Fields   = std::vector<Field<1>>;
  using Exchange = shard::Exchange<Fields>;
  using shard::MessageLayout;
  Fields fields;
  for (int f = 0; f < 8; ++f) fields.push_back(field<1>(mesh, cells));
  const std::vector<std::pair<const char*, shard::Tuning>> tunings = {
      {"one_per_peer", {.message_part = std::numeric_limits<std::size_t>::max()}},
      {"in parts by default", {}},
      {"by_size", {.messages = MessageLayout::by_size}},
      {"one_per_field", {.messages = MessageLayout::one_per_field}},
      {"one_per_box", {.messages = MessageLayout::one_per_box}},
      {"by_dimension", {.messages = MessageLayout::by_dimension}},
      {"measured", shard::Tuning::measure}};
  const Space space;
  std::vector<Exchange> plans;
  std::vector<std::function<void()>> ways;
  for (const auto& tuning : tunings) plans.emplace_back(tuning.second, fields);
  for (const Exchange& plan : plans) ways.emplace_back([&plan, &space] { plan(space); });
  const auto times = support::in_turns(mesh.communicator(), turns, 4, ways);
  if (!prints) return;
  std::printf("| %ld x %ld x %ld |", static_cast<long>(cells), static_cast<long>(cells),
              static_cast<long>(levels));
  for (const double time : times) std::printf(" %.0f |", time);
  const std::string chosen = shard::to_text(plans.back().tuning());
  std::printf(" %s |\n", chosen.c_str());
  std::fflush(stdout);
}

/// An exchange of one field, a message for each rank or for each pair of hosts.
void joined(const Mesh& mesh, index_t of_levels, int turns, bool prints) {
  const Field<1> t = field<1>(mesh, 4, of_levels);
  const shard::Exchange usual(t),
      by_host(shard::Tuning{.messages = shard::MessageLayout::one_per_host}, t),
      measured(shard::Tuning::measure, t);
  const Space space;
  const auto times =
      support::in_turns(mesh.communicator(), turns, 10,
                        {[&] { usual(space); }, [&] { by_host(space); }, [&] { measured(space); }});
  if (!prints) return;
  const std::string chosen = shard::to_text(measured.tuning());
  std::printf("| %ld | %.1f | %.1f | %.2f | %.1f, %s |\n", static_cast<long>(4 * of_levels * 8),
              times[0], times[1], times[0] / times[1], times[2], chosen.c_str());
  std::fflush(stdout);
}

struct DiffuseKernel {
  Field<4> from, to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    to(i, j, k) = from(i, j, k) + 0.1 * (from(i - 1, j, k) + from(i + 1, j, k) + from(i, j - 1, k) +
                                         from(i, j + 1, k) - 4 * from(i, j, k));
  }
};

/// Four steps with an exchange before each Nth.
template <int N>
std::function<void()> steps(const Field<4>& a, const Field<4>& b) {
  using Loop =
      decltype(shard::steps_per_exchange<N>(shard::Reach<shard::Halo<1>, shard::Halo<1>>{}, a));
  const auto loop = std::make_shared<Loop>(
      shard::steps_per_exchange<N>(shard::Reach<shard::Halo<1>, shard::Halo<1>>{}, a));
  return [loop, a, b] {
    const Space space;
    for (int s = 0; s < 2; ++s) {
      loop->step("diffuse", space, DiffuseKernel{a, b}, a, b);
      loop->step("diffuse", space, DiffuseKernel{b, a}, b, a);
    }
  };
}

void deep_halos(const Mesh& mesh, index_t cells, int turns, bool prints) {
  const Field<4> a = field<4>(mesh, cells), b = a.like("b");
  const auto times = support::in_turns(mesh.communicator(), turns, 1,
                                       {steps<1>(a, b), steps<2>(a, b), steps<4>(a, b)});
  if (!prints) return;
  std::printf("| %ld x %ld x %ld |", static_cast<long>(cells), static_cast<long>(cells),
              static_cast<long>(levels));
  for (const double time : times) std::printf(" %.0f |", time / 4);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  int turns = 15;
  support::Arguments given(argc, argv, "[--joined] [TURNS]");
  const bool only_joined = given.flag("--joined");
  given.next("TURNS", turns, 1);
  if (!given.understood()) return 2;
  const Mesh mesh(environment.world(), {0, 0});
  const bool prints = environment.rank() == 0;
  if (!only_joined) {
    if (prints)
      std::printf(
          "| cells of a rank, 8 fields | one_per_peer, whole | in parts by default | by_size | "
          "one_per_field | one_per_box | by_dimension | measured | chosen "
          "|\n|---|---|---|---|---|---|---|---|---|\n");
    for (const index_t cells : {4, 16, 64}) exchanges(mesh, cells, turns, prints);
    if (prints)
      std::printf(
          "\n| cells of a rank, 1 field | a step, exchange before each | each second | each fourth "
          "|\n|---|---|---|---|\n");
    for (const index_t cells : {4, 16, 64}) deep_halos(mesh, cells, turns, prints);
  }
  if (prints)
    std::printf(
        "\n| bytes of a face, 1 field | a message for each rank | for each pair of hosts | ratio | "
        "measured, chosen |\n|---|---|---|---|---|\n");
  for (const index_t of_levels : {2, 16, 32, 64}) joined(mesh, of_levels, turns, prints);
}
