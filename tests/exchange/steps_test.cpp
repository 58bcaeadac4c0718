// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several steps per exchange: the same bits as one exchange per step, and fewer messages.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "shard/shard.hpp"
#include "support/counting.hpp"
#include "support/on_host.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace steps_test {

struct Y;
struct X;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultExecutionSpace;

template <class B0, class B1>
using FieldOf = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<6, 3>, B0>,
                            ShardDim<1, X, Halo<3, 6>, B1>>;
/// Periodic where `B` is, else `End`.
template <class B, class End>
using Like = std::conditional_t<std::is_same_v<B, Periodic>, Periodic, End>;

using Local = impl::LocalField<double, 2>;

KOKKOS_INLINE_FUNCTION double& at(const Local& f, int i, int j) {
  return f.origin[i * f.stride[0] + j * f.stride[1]];
}

/// Two fields that depend on each other over the whole box of the reach, and on a coefficient.
struct CoupledStep {
  Local t, q, c, t_next, q_next;
  int lo0, hi0, lo1, hi1;

  KOKKOS_FUNCTION void operator()(int i, int j) const {
    double t_sum = 0, q_sum = 0;
    for (int a = -lo0; a <= hi0; ++a)
      for (int b = -lo1; b <= hi1; ++b) {
        const double weight = 1.0 / (10 + 3 * (a + lo0) + 7 * (b + lo1));
        t_sum += weight * at(c, i + a, j + b) * at(t, i + a, j + b);
        q_sum += weight * at(q, i + a, j + b);
      }
    at(t_next, i, j) = t_sum + 0.25 * at(q, i, j) + 0.01;
    at(q_next, i, j) = q_sum - 0.5 * at(t, i, j) * at(c, i, j);
  }
};

template <class StepReach>
struct ReachNumbers;
template <class A, class B>
struct ReachNumbers<Reach<A, B>> {
  static constexpr int lo0 = A::lo, hi0 = A::hi, lo1 = B::lo, hi1 = B::hi;
};

/// Owned cells from their global index, everything else not a number.
template <class Field>
void fill(const Field& f, unsigned salt) {
  const auto host = create_mirror_view(f);
  Kokkos::deep_copy(host.view(), std::numeric_limits<double>::quiet_NaN());
  for (int i = 0; i < f.extent(0); ++i)
    for (int j = 0; j < f.extent(1); ++j) {
      std::mt19937 random(static_cast<unsigned>(shard::testing::seed()) + 7919 * salt +
                          static_cast<unsigned>(1000 * f.to_global(0, i) + f.to_global(1, j)));
      host(i, j) = std::uniform_real_distribution<double>(-1, 1)(random);
    }
  shard::deep_copy(Space(), f, host);
}

template <class Field>
int differences(const Field& first, const Field& second) {
  const auto a = on_host(first), b = on_host(second);
  int wrong = 0;
  for (int i = 0; i < a.extent(0); ++i)
    for (int j = 0; j < a.extent(1); ++j)
      wrong += std::memcmp(&a(i, j), &b(i, j), sizeof(double)) != 0 || std::isnan(a(i, j)) ? 1 : 0;
  return wrong;
}

template <class Field, class Other>
struct Levels {
  Field t;
  Other q;
  Field t_next = t.like("t next");
  Other q_next = q.like("q next");

  Levels(const Field& like_t, const Other& like_q) : t(like_t.like("t")), q(like_q.like("q")) {
    fill(t, 1);
    fill(q, 2);
    Kokkos::deep_copy(t_next.view(), std::numeric_limits<double>::quiet_NaN());
    Kokkos::deep_copy(q_next.view(), std::numeric_limits<double>::quiet_NaN());
  }
  void swap_levels() {
    swap(t, t_next);
    swap(q, q_next);
  }
  template <class Coefficient, class StepReach>
  CoupledStep step(const Coefficient& c, StepReach) const {
    using R = ReachNumbers<StepReach>;
    return {impl::local(t),
            impl::local(q),
            impl::local(c),
            impl::local(t_next),
            impl::local(q_next),
            R::lo0,
            R::hi0,
            R::lo1,
            R::hi1};
  }
};

constexpr int steps = 7;

template <class Field, class Other, class Coefficient, class StepReach>
Levels<Field, Other> one_exchange_a_step(const Field& like_t, const Other& like_q,
                                         const Coefficient& c, StepReach reach) {
  const Space space;
  Levels<Field, Other> levels(like_t, like_q);
  for (int s = 0; s < steps; ++s) {
    exchange(space, levels.t, levels.q);
    parallel_for("step", space, owned_region(levels.t), levels.step(c, reach));
    space.fence();
    levels.swap_levels();
  }
  return levels;
}

template <int N, class Field, class Other, class Coefficient, class StepReach>
void expect_the_same(const Field& like_t, const Other& like_q, const Coefficient& c,
                     StepReach reach, const Levels<Field, Other>& expected,
                     const std::string& what) {
  const Space space;
  // once the halo that is deepest goes dimension by dimension
  const Tuning tuning{.messages =
                          N == 3 ? MessageLayout::by_dimension : MessageLayout::one_per_peer};
  auto loop = steps_per_exchange<N>(tuning, reach, like_t, like_q);
  loop.fill(space, c);
  for (const bool by_hand : {false, true}) {
    Levels<Field, Other> levels(like_t, like_q);
    loop.restart();
    for (int s = 0; s < steps; ++s) {
      EXPECT_EQ(loop.substep(), s % N);
      if (by_hand) {
        const auto cells = loop.prepare(space, levels.t, levels.q);
        parallel_for("step", space, cells, levels.step(c, reach));
        loop.complete(space, levels.t_next, levels.q_next);
      } else {
        loop.step("step", space, levels.step(c, reach), std::tie(levels.t, levels.q),
                  std::tie(levels.t_next, levels.q_next));
      }
      levels.swap_levels();
    }
    space.fence();
    EXPECT_EQ(differences(expected.t, levels.t), 0) << what << ", N = " << N << ", t";
    EXPECT_EQ(differences(expected.q, levels.q), 0) << what << ", N = " << N << ", q";
  }
}

/// Counts that sum to n: of `parts`, some empty, some of one cell.
Partition uneven(index_t n, int parts) {
  std::vector<index_t> counts(static_cast<std::size_t>(parts), 0);
  index_t left = n;
  for (int p = 0; p < parts && left > 0; ++p) {
    const index_t some = p + 1 == parts ? left : p % 3 == 0 ? 1 : p % 3 == 1 ? 0 : 4;
    counts[static_cast<std::size_t>(p)] = some < left ? some : left;
    left -= counts[static_cast<std::size_t>(p)];
  }
  return Partition::explicit_counts(counts);
}

template <class Field, class Other, class Coefficient>
void check_fields(const Mesh<Y, X>& mesh, int shape, const std::string& name) {
  const std::array<std::array<index_t, 2>, 4> extents{{{13, 16}, {5, 6}, {11, 10}, {2, 4}}};
  const auto n = extents[static_cast<std::size_t>(shape)];
  std::array<Partition, 2> partitions{
      Partition::balanced(n[0], static_cast<int>(mesh.template size<Y>())),
      Partition::balanced(n[1], static_cast<int>(mesh.template size<X>()))};
  if (shape == 2)
    partitions = {uneven(n[0], static_cast<int>(mesh.template size<Y>())),
                  uneven(n[1], static_cast<int>(mesh.template size<X>()))};
  const Field t("t", mesh, partitions);
  const Other q("q", mesh, partitions);
  const Coefficient c("c", mesh, partitions);
  fill(c, 3);
  exchange(Space(), c);
  const std::string what =
      name + ", extents " + std::to_string(n[0]) + " x " + std::to_string(n[1]) + ", mesh " +
      std::to_string(mesh.template size<Y>()) + " x " + std::to_string(mesh.template size<X>());
  {
    const Reach<Halo<1>, Halo<1>> reach;
    const auto expected = one_exchange_a_step(t, q, c, reach);
    expect_the_same<2>(t, q, c, reach, expected, what + ", reach 1");
    expect_the_same<3>(t, q, c, reach, expected, what + ", reach 1");
  }
  {
    const Reach<Halo<2, 1>, Halo<1, 2>> reach;
    const auto expected = one_exchange_a_step(t, q, c, reach);
    expect_the_same<2>(t, q, c, reach, expected, what + ", reach 2+1, 1+2");
    expect_the_same<3>(t, q, c, reach, expected, what + ", reach 2+1, 1+2");
  }
}

template <class B0, class B1>
void check_on(const Mesh<Y, X>& mesh, int shape, const std::string& name) {
  check_fields<FieldOf<B0, B1>, FieldOf<Like<B0, Clamp>, Like<B1, Clamp>>,
               FieldOf<Like<B0, Symmetric>, Like<B1, Symmetric>>>(mesh, shape, name);
}

struct Meshes {
  Mesh<Y, X> all[3] = {
      {MPI_COMM_WORLD, {0, 0}}, {MPI_COMM_WORLD, {0, 1}}, {MPI_COMM_WORLD, {1, 0}}};
};

/// On each mesh; one shape of the world for each, another for the next pair.
template <class B0, class B1>
void check_pair(const Meshes& meshes, int& shape, const std::string& name) {
  for (const auto& mesh : meshes.all) {
    check_on<B0, B1>(mesh, shape % 4, name);
    ++shape;
  }
}

template <class B0, class... B1>
void check_row(const char* name) {
  const Meshes meshes;
  int shape = static_cast<int>(std::strlen(name)), column = 0;
  (check_pair<B0, B1>(meshes, shape, std::string(name) + " with " + std::to_string(column++)), ...);
}

// Each boundary meets three in either dimension, itself among them: all pairs take a minute to
// compile.
TEST(Steps, ZeroWithOthers) { check_row<Zero, Zero, Constant<3>, Reflect>("zero"); }
TEST(Steps, ConstantWithOthers) {
  check_row<Constant<-2>, Constant<3>, Periodic, Symmetric>("constant");
}
TEST(Steps, PeriodicWithOthers) { check_row<Periodic, Periodic, Reflect, Clamp>("periodic"); }
TEST(Steps, ReflectWithOthers) { check_row<Reflect, Reflect, Symmetric, Zero>("reflect"); }
TEST(Steps, SymmetricWithOthers) {
  check_row<Symmetric, Symmetric, Clamp, Constant<3>>("symmetric");
}
TEST(Steps, ClampWithOthers) { check_row<Clamp, Clamp, Zero, Periodic>("clamp"); }
TEST(Steps, TwoSides) {
  check_row<Odd<Reflect>, Odd<Symmetric>, Constant<3>>("odd");
  check_row<Sides<Reflect, Constant<1>>, Periodic, Sides<Clamp, Symmetric>>("two sides");
}

TEST(Steps, OneFieldEndsWhereAnotherWraps) {
  const Meshes meshes;
  for (int shape = 0; shape < 4; ++shape)
    for (const auto& mesh : meshes.all)
      check_fields<FieldOf<Zero, Reflect>, FieldOf<Periodic, Periodic>,
                   FieldOf<Symmetric, Symmetric>>(mesh, shape, "mixed");
}

TEST(Steps, Folds) {
  const Meshes meshes;
  for (int shape = 0; shape < 4; ++shape)
    for (const auto& mesh : meshes.all) {
      check_on<PoleFold<1, Pole::on_row>, Periodic>(mesh, shape, "fold on a row");
      check_on<PoleFold<1, Pole::between_rows>, Periodic>(mesh, shape, "fold between rows");
      check_on<PoleFold<1, Pole::on_row, Parity::odd>, Periodic>(mesh, shape, "odd fold");
      check_on<PoleFold<1, Pole::between_rows, Parity::odd>, Clamp>(mesh, shape, "odd, clamp");
      check_on<Sides<PoleFold<1, Pole::between_rows>, Constant<2>>, Periodic>(mesh, shape,
                                                                              "one pole");
    }
}

using Levelled = ShardedView<float***, Kokkos::LayoutLeft, ShardDim<0, X, Halo<3>, Periodic>,
                             ShardDim<1, Y, Halo<4, 3>, PoleFold<0, Pole::between_rows>>>;
using Surface  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, X, Halo<3>, Periodic>,
                            ShardDim<1, Y, Halo<3>, Symmetric>>;

struct LevelledStep {
  Levelled t;
  Surface p;
  Levelled t_next;
  KOKKOS_FUNCTION void operator()(int i, int j, int l) const {
    t_next(i, j, l) = 0.3F * t(i, j - 1, l) + 0.4F * t(i + 1, j + 1, l) +
                      0.2F * t(i, j, 1 - l) * static_cast<float>(p(i - 1, j));
  }
};
struct SurfaceStep {
  Levelled t;
  Surface p, p_next;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    p_next(i, j) = 0.5 * p(i, j + 1) - 0.1 * p(i + 1, j - 1) + static_cast<double>(t(i - 1, j, 1));
  }
};

TEST(Steps, FieldsOfOtherRankLayoutAndType) {
  const Space space;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  constexpr int some = 8;
  const auto run     = [&](auto& loop) {
    Levelled t("t", mesh, {12, 11, 2}), t_next = t.like("t next");
    Surface p("p", mesh, {12, 11}), p_next     = p.like("p next");
    const auto host_t = create_mirror_view(t);
    const auto host_p = create_mirror_view(p);
    for (int i = 0; i < p.extent(0); ++i)
      for (int j = 0; j < p.extent(1); ++j) {
        host_p(i, j) = std::sin(static_cast<double>(p.to_global(0, i) * 5 + p.to_global(1, j)));
        for (int l = 0; l < 2; ++l)
          host_t(i, j, l) = static_cast<float>(host_p(i, j)) + 0.5F * static_cast<float>(l);
      }
    shard::deep_copy(space, t, host_t);
    shard::deep_copy(space, p, host_p);
    for (int s = 0; s < some; ++s) {
      const auto cells = loop.prepare(space, t, p);
      parallel_for("levelled", space, cells, LevelledStep{t, p, t_next});
      parallel_for("surface", space, loop.region(p), SurfaceStep{t, p, p_next});
      loop.complete(space, t_next, p_next);
      swap(t, t_next);
      swap(p, p_next);
    }
    space.fence();
    return std::pair(t, p);
  };
  const Levelled like_t("t", mesh, {12, 11, 2});
  const Surface like_p("p", mesh, {12, 11});
  const Reach<Halo<1>, Halo<1>> reach;
  auto one           = steps_per_exchange<1>(reach, like_t, like_p);
  auto three         = steps_per_exchange<3>(reach, like_t, like_p);
  const auto shallow = run(one), deep = run(three);
  EXPECT_EQ(differences(shallow.second, deep.second), 0);
  const auto t = on_host(shallow.first), deep_t = on_host(deep.first);
  int wrong = 0;
  for (int i = 0; i < t.extent(0); ++i)
    for (int j = 0; j < t.extent(1); ++j)
      for (int l = 0; l < 2; ++l) wrong += t(i, j, l) != deep_t(i, j, l) ? 1 : 0;
  EXPECT_EQ(wrong, 0);
}

/// What `function` writes to stderr on this rank.
template <class Function>
std::string written_by(const Function& function) {
  ::testing::internal::CaptureStderr();
  function();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Steps, WhatIsExchangedAtEachStepIsSaidOnce) {
  using Folded = FieldOf<PoleFold<1, Pole::on_row>, Periodic>;
  const Mesh<Y, X> cut(MPI_COMM_WORLD, {1, 0}), whole(MPI_COMM_WORLD, {0, 1});
  const Reach<Halo<1>, Halo<1>> reach;
  const Folded across("across", cut, {8, 24}), along("along", whole, {24, 8});
  EXPECT_EQ(written_by([&] { steps_per_exchange<3>(reach, along); }), "");
  const std::string said = written_by([&] {
    steps_per_exchange<3>(reach, across);
    steps_per_exchange<3>(reach, across);
  });
  EXPECT_EQ(said,
            cut.rank() == 0 && cut.size() > 1
                ? "shard: steps_per_exchange<3>: elements outside the domain are exchanged at "
                  "each step, because their sources are on other ranks: \"across\" (low end of "
                  "dimension 0, high end of dimension 0)\n"
                : "");
}

/// What N steps do, counted from the second round on.
template <int N, class Field>
Counts count_round(const Field& like, const Tuning& tuning) {
  const Space space;
  const Reach<Halo<1>, Halo<1>> reach;
  Levels<Field, Field> levels(like, like);
  const Field c = like.like("c");
  fill(c, 3);
  auto loop = steps_per_exchange<N>(tuning, reach, levels.t, levels.q);
  loop.fill(space, c);
  const std::string label = "step";
  const auto round        = [&] {
    for (int s = 0; s < N; ++s) {
      loop.step(label, space, levels.step(c, reach), std::tie(levels.t, levels.q),
                       std::tie(levels.t_next, levels.q_next));
      std::swap(levels.t, levels.t_next);
      std::swap(levels.q, levels.q_next);
    }
  };
  for (int warm = 0; warm < 4; ++warm) round();
  return count(round);
}

/// A kernel of no use.
struct Nothing {
  template <class... I>
  KOKKOS_FUNCTION void operator()(I...) const {}
};

TEST(Steps, OneMessagePerNeighbourAndRound) {
  // checks cost messages of their own
  const shard::testing::ScopedVariable unchecked("SHARD_CHECK", "0");
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  using Closed     = FieldOf<Reflect, Clamp>;
  using Torus      = FieldOf<Periodic, Periodic>;
  const auto check = [&](const auto& t) {
    using Field = std::remove_cvref_t<decltype(t)>;
    const Tuning mpi{.transport = TransportKind::mpi};
    const Exchange<Field> one(mpi, t);
    const Counts two = count_round<2>(t, mpi), three = count_round<3>(t, mpi);
    // what Kokkos itself needs for a launch
    const std::int64_t news = shard::testing::count([&] {
                                parallel_for("nothing", Space(), owned_region(t), Nothing{});
                              }).news;
    EXPECT_EQ(two.messages, one.sends()) << two;
    EXPECT_EQ(three.messages, one.sends()) << three;
    for (const TransportKind kind : {TransportKind::mpi, TransportKind::automatic}) {
      const Counts counted = count_round<3>(t, Tuning{.transport = kind});
      EXPECT_EQ(counted.allocations + counted.deallocations, 0) << counted;
      EXPECT_LE(counted.news, std::max<std::int64_t>(news, 1) * counted.kernels)
          << "more than Kokkos itself needs: " << counted;
      EXPECT_EQ(counted.copies + counted.collectives, 0) << counted;
      if (impl::is_host_space_v<Space>) {
        EXPECT_EQ(counted.fences, 0) << counted;
      }
    }
  };
  check(Closed("closed", mesh, {48, 48}));
  check(Torus("torus", mesh, {48, 48}));
}

TEST(Steps, FoldsOverACutLongitudeExchangeTheirRowsAlone) {
  const shard::testing::ScopedVariable unchecked("SHARD_CHECK", "0");
  using Folded = FieldOf<PoleFold<1, Pole::on_row>, Periodic>;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Folded t("t", mesh, {48, 48});
  const Tuning mpi{.transport = TransportKind::mpi};
  const Exchange<Folded> one(mpi, t);
  const Counts three = count_round<3>(t, mpi);
  const bool pole    = mesh.template size<X>() > 1 &&
                    (t.begin(0) == 0 || t.begin(0) + t.extent(0) == t.global_extent(0));
  if (pole) {
    EXPECT_GT(three.messages, one.sends()) << three;
    EXPECT_LE(three.bytes, 3 * static_cast<std::int64_t>(one.bytes_sent())) << three;
  } else {
    EXPECT_EQ(three.messages, one.sends()) << three;
  }
}

TEST(Steps, CellsBeyondAnUncutWorldAreNotStepped) {
  const Mesh<Y, X> alone(MPI_COMM_SELF, {1, 1}), mesh(MPI_COMM_WORLD, {0, 1});
  const FieldOf<Periodic, Periodic> torus("torus", alone, {8, 9});
  const FieldOf<Periodic, Reflect> ring("ring", mesh, {24, 9});
  const Reach<Halo<1>, Halo<1>> reach;
  auto loop   = steps_per_exchange<3>(reach, torus);
  auto around = steps_per_exchange<3>(reach, ring);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(loop.region(torus).cells(), 8 * 9);
    const index_t more = mesh.size() > 1 ? 2 * (2 - k) : 0;
    EXPECT_EQ(around.region(ring).cells(), (ring.extent(0) + more) * 9);
    loop.complete(Space(), torus);
    around.complete(Space(), ring);
  }
}

TEST(Steps, FieldsOfAnotherGeometryAreRefused) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  using Closed = FieldOf<Reflect, Clamp>;
  const Closed t("t", mesh, {24, 24}), longer("longer", mesh, {24, 99});
  auto loop = steps_per_exchange<2>(Reach<Halo<1>, Halo<1>>{}, t);
  shard::testing::expect_parts(
      shard::testing::message_thrown_by<ArgumentError>([&] { loop.prepare(Space(), longer); }),
      {"\"longer\" has", "\"t\"", "make another StepsPerExchange"});
  shard::testing::expect_parts(
      shard::testing::message_thrown_by<ArgumentError>([&] { loop.complete(Space(), longer); }),
      {"longer"});
}

}  // namespace steps_test
