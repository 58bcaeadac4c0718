// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sets of fields, whose number is known at run time: the same values and messages as the fields one
// by one.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sets_test {

struct Y;
struct X;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultExecutionSpace;

using Tracer  = ShardedView<double***, Kokkos::LayoutRight,
                           ShardDim<1, Y, Halo<2, 1>, PoleFold<2, Pole::on_row, Parity::odd>>,
                           ShardDim<2, X, Halo<1, 2>, Periodic>>;
using Surface = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, Y, Halo<1>, Constant<3>>,
                            ShardDim<1, X, Halo<1>, Periodic>>;
static_assert(FieldSet<std::vector<Tracer>> && FieldSet<std::span<const Tracer>> &&
              !FieldSet<Tracer> && !FieldSet<std::vector<double>>);

/// All elements, halos included, from the label and the rank.
template <class Field>
void fill(const Field& field, unsigned salt) {
  const auto host = create_mirror_view(field);
  int rank        = 0;
  MPI_Comm_rank(field.communicator(), &rank);
  std::mt19937 random(static_cast<unsigned>(shard::testing::seed()) + 7919 * salt +
                      104729 * static_cast<unsigned>(rank));
  std::uniform_real_distribution<double> real(-1, 1);
  auto* values = host.view().data();
  for (std::size_t i = 0; i < host.view().span(); ++i)
    values[i] = static_cast<typename Field::value_type>(real(random));
  Kokkos::deep_copy(field.view(), host.view());
}

template <class Field>
bool same_bits(const Field& a, const Field& b) {
  const auto x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.view());
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b.view());
  return x.span() == y.span() &&
         (x.span() == 0 || std::memcmp(x.data(), y.data(), x.span() * sizeof(*x.data())) == 0);
}

/// Tracers of 1, 2, 3, 1, 2, ... levels, a copy of each, and a surface field.
struct Fields {
  Mesh<Y, X> mesh{MPI_COMM_WORLD, {0, 0}};
  Surface p{"p", mesh, {12, 24}}, p_alone{"p", mesh, {12, 24}};
  std::vector<Tracer> tracers, alone;

  explicit Fields(int count) {
    fill(p, 1000);
    fill(p_alone, 1000);
    for (int t = 0; t < count; ++t)
      for (auto* set : {&tracers, &alone}) {
        set->emplace_back("tracer " + std::to_string(t), mesh,
                          std::array<index_t, 3>{1 + t % 3, 12, 24});
        fill(set->back(), static_cast<unsigned>(t));
      }
    Kokkos::fence("sets_test: fields are filled");
  }
  /// Whether the set has the values of the fields that were exchanged one by one.
  void check(const char* what) const {
    EXPECT_TRUE(same_bits(p, p_alone)) << what;
    for (std::size_t t = 0; t < tracers.size(); ++t)
      EXPECT_TRUE(same_bits(tracers[t], alone[t])) << what << ", tracer " << t;
  }
};

TEST(Sets, FieldsOfASetGetTheValuesOfTheirOwnExchanges) {
  const Space space;
  for (const int n : {0, 1, 7, 40}) {
    Fields f(n);
    const Exchange halos(f.tracers, f.p);
    const auto one_by_one = [&](bool adjoint) {
      adjoint ? exchange_adjoint(space, f.p_alone) : exchange(space, f.p_alone);
      for (const Tracer& t : f.alone) adjoint ? exchange_adjoint(space, t) : exchange(space, t);
      space.fence("sets_test: exchanged");
    };
    halos(space);
    one_by_one(false);
    f.check("exchange");
    halos.adjoint(space);
    one_by_one(true);
    f.check("adjoint");
    exchange(space, f.p, f.tracers);
    one_by_one(false);
    f.check("short form");
    exchange(space, f.p, std::span<const Tracer>(f.tracers));
    start_exchange(space, f.tracers, f.p).finish();
    exchange_adjoint(space, f.p, std::span<const Tracer>(f.tracers));
    one_by_one(true);
    f.check("short form of the adjoint, spans");
    halos.start(space, f.tracers, f.p).finish();
    one_by_one(false);
    f.check("start");
    exchange_tangent(space, f.p, f.tracers);
    exchange_tangent(space, f.p_alone);
    f.check("tangent");
  }
}

TEST(Sets, OneMessageANeighbourAndNoAllocation) {
  const Fields f(300);
  const Tuning messages{.transport = TransportKind::mpi};
  const Exchange set(messages, f.tracers);
  const Exchange one(messages, f.tracers.front());
  EXPECT_EQ(set.sends(), one.sends());
  EXPECT_EQ(set.receives(), one.receives());
  EXPECT_LE(set.bytes_sent(), 600 * one.bytes_sent());  // 100 fields each of 1, 2 and 3 levels
  const auto run = [&] {
    set(Space());
    set(Space(), f.alone);
    set.adjoint(Space());
  };
  run();
  const Counts counted = count(run);
  EXPECT_EQ(counted.allocations, 0) << counted;
  EXPECT_EQ(counted.collectives, 0) << counted;
  EXPECT_EQ(counted.messages, 2 * set.sends() + set.receives()) << counted;
  const Exchange<std::array<Tracer, 0>> none(std::array<Tracer, 0>{});
  none(Space());
  none.start(Space()).finish();
  none.adjoint(Space());
  exchange(Space(), std::vector<Tracer>());
  EXPECT_EQ(none.sends() + none.receives(), 0);
  EXPECT_THROW((Exchange<std::vector<Tracer>>()(Space())), ArgumentError);
}

TEST(Sets, RanksOrCallsOfAnotherNumberAreErrors) {
  Fields f(3);
  const Exchange halos(f.tracers);
  std::vector<Tracer> fewer(f.tracers.begin(), f.tracers.begin() + 2);
  const std::string wrong = message_thrown_by<ArgumentError>([&] { halos(Space(), fewer); });
  expect_parts(wrong, {"2 fields are given, and the plan was made for 3"});
  if (ranks() == 1) return;
  if (f.mesh.rank() == 0) f.tracers.pop_back();
  expect_parts(message_thrown_by<AgreementError>([&] { const Exchange differ(f.p, f.tracers); }),
               {"3 fields", "4 fields"});
}

using Plain = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2>, Clamp>,
                          ShardDim<1, X, Halo<2>, Periodic>>;

/// An average of four neighbours, for a set of fields in device memory.
struct AverageKernel {
  const Plain* from;
  const Plain* to;
  int count;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    for (int f = 0; f < count; ++f)
      to[f](i, j) =
          0.25 * (from[f](i - 1, j) + from[f](i + 1, j) + from[f](i, j - 1) + from[f](i, j + 1));
  }
};

// Kernels read fields of a set on the host here: a std::vector is no device memory.
TEST(Sets, StepsOverlapsAndMarksTakeSets) {
  if constexpr (impl::is_host_space_v<Space>) {
    const Space space;
    const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
    std::vector<Plain> now, next, expected, other;
    for (unsigned t = 0; t < 5; ++t)
      for (auto* set : {&now, &next, &expected, &other}) {
        set->emplace_back("tracer", mesh, std::array<index_t, 2>{16, 24});
        fill(set->back(), t);
      }
    const auto kernel = [](const std::vector<Plain>& from, const std::vector<Plain>& to) {
      return AverageKernel{from.data(), to.data(), static_cast<int>(from.size())};
    };
    const Exchange halos(expected);
    auto loop = steps_per_exchange<2>(Reach<Halo<1>, Halo<1>>{}, now);
    for (int step = 0; step < 4; ++step) {
      halos(space, expected);
      parallel_for("average", space, owned_region(other.front()), kernel(expected, other),
                   writes(other));
      std::swap(expected, other);
      loop.step("average", space, kernel(now, next), now, next);
      std::swap(now, next);
    }
    const auto same_owned = [](const Plain& a, const Plain& b) {
      for (int i = 0; i < a.extent(0); ++i)
        for (int j = 0; j < a.extent(1); ++j)
          if (a(i, j) != b(i, j)) return false;
      return true;
    };
    for (std::size_t t = 0; t < now.size(); ++t) EXPECT_TRUE(same_owned(now[t], expected[t])) << t;
    overlapped("average", space, halos.of(expected), expected.front(), kernel(expected, other),
               Reach<Halo<1>, Halo<1>>{}, writes(other));
    loop.restart();
    loop.step("average", space, kernel(expected, next), expected, next);
    for (std::size_t t = 0; t < now.size(); ++t) EXPECT_TRUE(same_owned(next[t], other[t])) << t;
    expect_parts(message_thrown_by<ArgumentError>([] {
                   const std::vector<Plain> none;
                   steps_per_exchange<2>(Reach<Halo<1>, Halo<1>>{}, none);
                 }),
                 {"a set without fields"});
  }
}

}  // namespace sets_test
