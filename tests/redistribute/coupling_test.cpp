// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings between two meshes: of the same ranks, of other ranks, of some in common; random
// shapes, partitions and layouts, against the values of the global indices.
#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../../src/redistribute/coupling_route.hpp"
#include "coupling_support.hpp"
#include "shard/autodiff/couple.hpp"
#include "support/counting.hpp"

namespace coupling_test {

using From       = Field<Kokkos::LayoutLeft, ShardDim<0, A, Halo<1>>, ShardDim<1, B>>;
using To         = Field<Kokkos::LayoutRight, ShardDim<1, C, Halo<2, 1>>, ShardDim<0, D>>;
using Replicated = Field<Kokkos::LayoutRight, ShardDim<0, A>>;
using Parts      = Field<Kokkos::LayoutRight, ShardDim<1, A>, Partial<B, Sum>>;
using Short      = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, C, Halo<1>>, ShardDim<1, D>,
                          Kokkos::HostSpace>;
using ShortFrom =
    ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, B>, ShardDim<1, A>, Kokkos::HostSpace>;

/// The same on all ranks.
Partition random_partition(std::mt19937_64& random, index_t n, int parts) {
  std::vector<index_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(static_cast<index_t>(random() % static_cast<std::uint64_t>(n + 1)));
  begins.push_back(n);
  std::sort(begins.begin(), begins.end());
  return Partition::explicit_begins(begins);
}

/// A field of this extent on a mesh of the group's ranks, with random partitions; none on other
/// ranks.
template <class F, class X, class Y>
std::optional<F> field_of(std::mt19937_64& random, const Group& group, index_t rows,
                          index_t columns, const std::vector<int>& shape = {0, 0}) {
  const std::uint64_t seed = random();
  if (group.comm() == MPI_COMM_NULL) return std::nullopt;
  std::mt19937_64 same(seed);
  const Mesh<X, Y> mesh(group.comm(), shape);
  const index_t extents[] = {rows, columns};
  std::array<Partition, 2> partitions;
  for (int d = 0; d < 2; ++d) {
    int parts = 1;
    if (d == 0)
      parts = std::is_same_v<typename F::template axis<0>, X>   ? mesh.template size<X>()
              : std::is_same_v<typename F::template axis<0>, Y> ? mesh.template size<Y>()
                                                                : 1;
    else
      parts = std::is_same_v<typename F::template axis<1>, X>   ? mesh.template size<X>()
              : std::is_same_v<typename F::template axis<1>, Y> ? mesh.template size<Y>()
                                                                : 1;
    partitions[static_cast<std::size_t>(d)] = random_partition(same, extents[d], parts);
  }
  return F("field", mesh, partitions);
}

/// Couples fields of these groups and checks values and transpose; `transposed`: the dimensions of
/// one side are in the other order.
template <class ToType, class FromType>
void check(std::mt19937_64& random, const Group& to_ranks, const Group& from_ranks,
           const char* what, bool transposed = false) {
  using ToValue      = typename ToType::value_type;
  using FromValue    = typename FromType::value_type;
  const auto n       = [&] { return static_cast<index_t>(random() % 9); };
  const index_t rows = n(), columns = n();
  const auto from = field_of<FromType, A, B>(random, from_ranks, rows, columns);
  const auto to   = field_of<ToType, C, D>(random, to_ranks, transposed ? columns : rows,
                                         transposed ? rows : columns);
  Coupling<ToType, FromType> coupling(
      MPI_COMM_WORLD, pointer(to), pointer(from),
      {.permute = transposed ? std::vector<int>{1, 0} : std::vector<int>{}});
  for (int step = 0; step < 3; ++step) {
    if (from) {
      each(*from, [&](FromValue& v, index_t i, index_t j) {
        v = static_cast<FromValue>(value_of(i, j, step));
      });
      coupling.send(Space());
      if (!to) each(*from, [](FromValue& v, index_t, index_t) { v = -1; });  // it has been packed
    }
    if (to) {
      coupling.receive(Space());
      each(*to, [&](ToValue v, index_t i, index_t j) {
        EXPECT_EQ(v, transposed ? value_of(j, i, step) : value_of(i, j, step)) << what;
      });
    }
    coupling.finish(Space());
  }
  expect_transpose(random, coupling, to, from, what);
}

TEST(Coupling, AnyRanksOnEitherSide) {
  std::mt19937_64 random(shard::testing::seed());
  for (int trial = 0; trial < 9; ++trial) {
    // the same ranks in another order; some in common; none
    const auto bits = random();
    const auto in   = [&](unsigned side) {
      if (trial % 3 == 0) return true;
      if (trial % 3 == 1)
        return ranks() == 1 || rank() == 0 ||
               (bits >> (2U * static_cast<unsigned>(rank()) + side) & 1U) != 0;
      const int first =
          1 + static_cast<int>(bits % static_cast<unsigned>(std::max(ranks() - 1, 1)));
      return ranks() == 1 || (rank() < first) == (side == 0);
    };
    const Group to(in(0), ranks() - rank()), from(in(1), rank());
    check<To, From>(random, to, from, "sharded");
    check<To, Replicated>(random, to, from, "replicated");
    check<Short, From>(random, to, from, "double to float");
    check<To, ShortFrom>(random, to, from, "float to double, permuted", true);
  }
}

/// A contribution to a Partial sum: sums of them depend on the order.
double part_of(index_t i, index_t j, int part) {
  return 1.0 / static_cast<double>(1 + 3 * i + 7 * j + 13 * part);
}

TEST(Coupling, PartialSumsAreAddedInTheOrderOfRanks) {
  std::mt19937_64 random(shard::testing::seed() + 2);
  for (int trial = 0; trial < 4; ++trial) {
    const bool apart = trial % 2 == 1 && ranks() > 1;
    const Group to_ranks(!apart || rank() == 0, ranks() - rank());
    const Group from_ranks(!apart || rank() > 0, rank());
    const auto from = field_of<Parts, A, B>(random, from_ranks, 7, 6, {1, 0});
    const auto to   = field_of<To, C, D>(random, to_ranks, 7, 6);
    Coupling<To, Parts> coupling(MPI_COMM_WORLD, pointer(to), pointer(from));
    int parts = 0;
    if (from) {
      const auto& mesh = *from->any_geometry().mesh;
      each(*from, [&](double& v, index_t i, index_t j) { v = part_of(i, j, mesh.coordinate(1)); });
      parts = mesh.extent(1);
    }
    MPI_Allreduce(MPI_IN_PLACE, &parts, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int step = 0; step < 2; ++step) {
      coupling(Space());
      if (to)
        each(*to, [&](double v, index_t i, index_t j) {
          double sum = 0;
          for (int p = 0; p < parts; ++p) sum += part_of(i, j, p);
          EXPECT_EQ(v, sum);
        });
    }
    expect_transpose(random, coupling, to, from, "of a Partial sum");
    const auto parts_to = field_of<ToParts, C, D>(random, to_ranks, 7, 6);
    Coupling<ToParts, Parts> both(MPI_COMM_WORLD, pointer(parts_to), pointer(from));
    expect_transpose(random, both, parts_to, from, "between Partial sums");
  }
}

/// redistribute between two meshes of the same ranks, and its transpose.
template <class ToType, class FromType>
void check_redistribute(std::mt19937_64& random) {
  const Group forwards(true, rank()), backwards(true, -rank());
  const auto from = *field_of<FromType, A, B>(random, forwards, 7, 6);
  const auto to   = *field_of<ToType, C, D>(random, backwards, 7, 6);
  const auto& a   = *from.any_geometry().mesh;
  const auto& b   = *to.any_geometry().mesh;
  const bool adds = FromType::partial_axes::count > 0, pads = ToType::partial_axes::count > 0;
  for (int step = 0; step < 2; ++step) {
    each(from, [&](double& v, index_t i, index_t j) {
      v = value_of(i, j, step) * (adds ? a.coordinate(1) + 1 : 1);
    });
    Kokkos::deep_copy(to.view(), -1);
    const auto counts = shard::testing::count([&] { redistribute(Space(), to, from); });
    EXPECT_EQ(counts.collectives == 0, step > 0);  // the mesh kept the plan
    const int times = adds ? a.extent(1) * (a.extent(1) + 1) / 2 : 1;
    each(to, [&](double v, index_t i, index_t j) {
      EXPECT_EQ(v, pads && b.coordinate(1) > 0 ? 0 : times * value_of(i, j, step));
    });
  }
  if constexpr (FromType::partial_axes::count == 0 && ToType::partial_axes::count == 0 &&
                !std::is_same_v<FromType, Replicated>) {
    const auto dx = from.like("dx");
    double sums[] = {0, 0};
    each(to, [&](double& v, index_t i, index_t j) {
      const auto dy = static_cast<double>((i + 5 * j) % 7);
      sums[0] += v * dy;
      v = dy;
    });
    redistribute_adjoint(Space(), dx, to);
    redistribute_adjoint(Space(), dx, to);  // adds
    each(dx, [&](double v, index_t i, index_t j) { sums[1] += v / 2 * value_of(i, j, 1); });
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(sums[0], sums[1]);
  }
}

TEST(Coupling, RedistributeBetweenMeshesOfTheSameRanks) {
  std::mt19937_64 random(shard::testing::seed() + 3);
  check_redistribute<To, From>(random);
  check_redistribute<To, Replicated>(random);
  check_redistribute<To, Parts>(random);
  check_redistribute<ToParts, From>(random);
  check_redistribute<ToParts, Parts>(random);
  if (ranks() == 1) return;
  const Mesh<C, D> world(MPI_COMM_WORLD, {0, 0});
  const Group first(rank() == 0, 0);
  const To to("to", world, {4, 4});
  if (first.comm() == MPI_COMM_NULL) return;
  const From from("from", Mesh<A, B>(first.comm(), {1, 1}), {4, 4});
  expect_parts(message_thrown_by<ArgumentError>([&] { redistribute(Space(), to, from); }),
               {"\"from\"", "other ranks", "Coupling"});
}

TEST(Coupling, RedistributeOfSets) {
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {1, ranks()});
  using Rows = Field<Kokkos::LayoutRight, ShardDim<0, A, Halo<1>>>;
  for (const std::size_t count : {0U, 1U, 5U}) {
    std::vector<From> from;
    std::vector<To> to;
    std::vector<Rows> rows;  // on the mesh of `from`
    for (std::size_t f = 0; f < count; ++f) {
      const std::array<index_t, 2> extents{8, 6 + static_cast<index_t>(f)};
      from.emplace_back("from", here, extents);
      to.emplace_back("to", there, extents);
      rows.emplace_back("rows", here, extents);
      each(from.back(),
           [&](double& v, index_t i, index_t j) { v = value_of(i, j, static_cast<int>(f)); });
    }
    redistribute(Space(), to, from);
    redistribute(Space(), rows, to);
    for (std::size_t f = 0; f < count; ++f)
      each(rows[f], [&](double v, index_t i, index_t j) {
        EXPECT_EQ(v, value_of(i, j, static_cast<int>(f)));
      });
    to.resize(count / 2);
    if (count == 5)
      expect_parts(message_thrown_by<ArgumentError>([&] { redistribute(Space(), to, from); }),
                   {"redistribute", "5 fields are given", "2"});
  }
}

TEST(Coupling, ComponentsGoOnAtTheirOwnPace) {
  const bool both = ranks() == 1, is_atmosphere = both || rank() > 0,
             is_ocean = both || rank() == 0;
  std::mt19937_64 random(shard::testing::seed() + 4);
  const Group atmosphere(is_atmosphere, rank()), ocean(is_ocean, rank());
  const auto wind = field_of<From, A, B>(random, atmosphere, 8, 6);
  const auto sst  = field_of<To, C, D>(random, ocean, 8, 6);
  const auto drag = sst ? std::optional<To>(sst->like("drag")) : std::nullopt;
  const auto heat = wind ? std::optional<From>(wind->like("heat")) : std::nullopt;
  Coupling<To, From> down(MPI_COMM_WORLD, pointer(drag), pointer(wind));
  Coupling<From, To> up(MPI_COMM_WORLD, pointer(heat), pointer(sst));
  for (int hour = 1; hour <= 4; ++hour) {
    // three steps and two, then each sends and receives in an order of its own
    for (int step = 0; step < 3 && is_atmosphere; ++step)
      each(*wind, [](double& v, index_t, index_t) { v += 1; });
    if (is_atmosphere) down.send(Space());
    for (int step = 0; step < 2 && is_ocean; ++step)
      each(*sst, [](double& v, index_t, index_t) { v += 1; });
    if (is_ocean && !is_atmosphere) {
      down.start_receive(Space());
      expect_parts(message_thrown_by<ArgumentError>([&] { down.start_receive(Space()); }),
                   {"start_receive", "\"drag\"", "call receive first"});
    }
    if (is_ocean) down.receive(Space());
    if (is_ocean) up.send(Space());
    if (is_atmosphere) up.receive(Space());
    if (is_atmosphere && !is_ocean) {
      expect_parts(message_thrown_by<ArgumentError>([&] { down.send(Space()); }),
                   {"Coupling::send", "\"field\"", "ranks", "call finish between two sends"});
      down.finish(Space());
    }
    if (is_ocean) up.finish(Space());
    if (is_ocean) each(*drag, [&](double v, index_t, index_t) { EXPECT_EQ(v, 3 * hour); });
    if (is_atmosphere) each(*heat, [&](double v, index_t, index_t) { EXPECT_EQ(v, 2 * hour); });
  }
}

/// Two couplings that end on the sender with a message each, of which the other side receives the
/// first one later, or neither.
void check_last_messages(const char* transport, const char* check, index_t rows, bool receives) {
  SCOPED_TRACE(std::string(transport) + ", SHARD_CHECK=" + check + ", " + std::to_string(rows) +
               " rows, " + (receives ? "one received" : "none received"));
  const shard::testing::ScopedVariable chosen("SHARD_TRANSPORT", transport),
      checks("SHARD_CHECK", check);
  const bool is_atmosphere = rank() > 0;
  std::mt19937_64 random(shard::testing::seed() + 5);
  const Group atmosphere(is_atmosphere, rank()), ocean(!is_atmosphere, rank());
  const auto wind = field_of<From, A, B>(random, atmosphere, rows, 300);
  const auto drag = field_of<To, C, D>(random, ocean, rows, 300);
  if (wind) each(*wind, [](double& v, index_t, index_t) { v = 7; });
  if (drag) each(*drag, [](double& v, index_t, index_t) { v = 0; });
  {
    using Down = Coupling<To, From>;
    std::optional<Down> down(std::in_place, MPI_COMM_WORLD, pointer(drag), pointer(wind)),
        unread(std::in_place, MPI_COMM_WORLD, pointer(drag), pointer(wind));
    if (is_atmosphere) {
      for (auto* coupling : {&down, &unread}) {
        (*coupling)->send(Space());
        coupling->reset();
      }
      each(*wind, [](double& v, index_t, index_t) { v = 8; });
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (drag && receives) down->receive(Space());
  }
  if (drag) each(*drag, [&](double v, index_t, index_t) { ASSERT_EQ(v, receives ? 7 : 0); });
  // another coupling looks for what was received
  Coupling<To, From> next(MPI_COMM_WORLD, pointer(drag), pointer(wind));
  next(Space());
  if (drag) each(*drag, [](double v, index_t, index_t) { ASSERT_EQ(v, 8); });
}

TEST(Coupling, ALastMessageThatNobodyReceivesKeepsNobody) {
  if (ranks() == 1) return;  // a rank on both sides receives what it sends
  for (const char* transport : {"automatic", "mpi"})
    for (const char* check : {"0", "1"})
      for (const index_t rows : {2, 512})  // MPI waits for the receiver of the large message
        for (const bool receives : {true, false})
          check_last_messages(transport, check, rows, receives);
}

TEST(Coupling, TimeLevelsSwap) {
  std::mt19937_64 random(shard::testing::seed() + 31);
  const bool both = ranks() == 1, sends = both || rank() > 0, receives = both || rank() == 0;
  const Group to_ranks(receives, ranks() - rank()), from_ranks(sends, rank());
  auto from = field_of<ShortFrom, A, B>(random, from_ranks, 7, 6);  // float to double
  auto to   = field_of<To, C, D>(random, to_ranks, 7, 6);
  Coupling<To, ShortFrom> coupling(MPI_COMM_WORLD, pointer(to), pointer(from));
  auto next  = from ? std::optional(from->like("next")) : std::nullopt;
  auto there = to ? std::optional(to->like("there")) : std::nullopt;
  for (int step = 0; step < 4; ++step) {
    if (to) swap(*to, *there);
    if (from) {
      swap(*from, *next);
      each(*next, [](float& v, index_t, index_t) { v = -1; });
      each(*from,
           [&](float& v, index_t i, index_t j) { v = static_cast<float>(value_of(i, j, step)); });
    }
    if (both) {
      coupling.set_fields(&*to, &*from);
      coupling.send(Space());
      expect_parts(message_thrown_by<ArgumentError>([&] { coupling.receive(Space(), *there); }),
                   {"set_fields", "under way"});
      coupling.receive(Space(), *to);
    } else if (sends) {
      coupling.send(Space(), *from);
    } else {
      coupling.receive(Space(), *to);
    }
    coupling.finish(Space());
    if (to) each(*to, [&](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j, step)); });
  }
  if (!to) return;
  const Mesh<C, D> alone(MPI_COMM_SELF, {1, 1});
  const To other("other", alone, {7, 6});
  expect_parts(message_thrown_by<ArgumentError>([&] { coupling.set_fields(&other, nullptr); }),
               {"\"other\" is on another mesh than", "make another Coupling"});
  if (sends) return;
  const ShortFrom none("none", Mesh<A, B>(MPI_COMM_SELF, {1, 1}), {7, 6});
  expect_parts(message_thrown_by<ArgumentError>([&] { coupling.send(Space(), none); }),
               {"1 fields are given, and the plan was made for 0", "Coupling"});
}

TEST(Coupling, NcclIsForDeviceMemory) {
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {0, 0});
  const From from("from", here, {8, 6});
  const To to("to", there, {8, 6});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Coupling<To, From> coupling(MPI_COMM_WORLD, &to, &from,
                                                   {.tuning = {.transport = TransportKind::nccl}});
               }),
               {"shard::Coupling", "NCCL", "host memory", "automatic"});
}

TEST(Coupling, GradientsCross) {
  using Air = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<0, A, Halo<1>, Clamp>,
                          ShardDim<1, B, Halo<2>, Periodic>, Kokkos::HostSpace>;
  std::mt19937_64 random(shard::testing::seed() + 5);
  const bool is_air = ranks() == 1 || rank() > 0, is_sea = rank() == 0;
  const Group air_ranks(is_air, -rank()), sea_ranks(is_sea, 0);
  const auto air = field_of<Air, A, B>(random, air_ranks, 7, 6);
  const auto sea = field_of<To, C, D>(random, sea_ranks, 7, 6);
  const Air no_air("no air", Mesh<A, B>(MPI_COMM_SELF, {1, 1}), {0, 0});
  const To no_sea("no sea", Mesh<C, D>(MPI_COMM_SELF, {1, 1}), {0, 0});
  const Couple<To, Air> couple(MPI_COMM_WORLD, sea.value_or(no_sea), air.value_or(no_air));
  const Air x  = air ? air->like("x") : no_air;
  const To dy1 = sea ? sea->like("dy") : no_sea, dy2 = dy1.like("dy");
  each(x, [](double& v, index_t i, index_t j) { v = value_of(i, j); });
  each(dy1, [](double& v, index_t i, index_t j) { v = value_of(j, i); });
  each(dy2, [](double& v, index_t i, index_t j) { v = value_of(j, i, 1); });
  Tape<Space> tape;
  const auto first = tape.run(couple, x), second = tape.run(couple, x);
  for (const To& y : {first, second})
    each(y, [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j)); });
  each(tape.pullback(first, dy1, x),
       [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(j, i)); });
  each(tape.pullback(second, dy2, x),
       [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(j, i, 1)); });
  if (ranks() == 1) return;
  const Mesh<A, B> mesh(MPI_COMM_WORLD, {1, ranks()});
  const Replicated copies("copies", mesh, {7, 6});
  // a replicated x counts once, and each replica has the whole gradient
  const Couple<To, Replicated> one(MPI_COMM_WORLD, sea.value_or(no_sea), copies);
  Tape<Space> second_tape;
  const auto y = second_tape.run(one, copies);
  each(second_tape.pullback(y, dy1, copies),
       [](double v, index_t i, index_t j) { EXPECT_EQ(v, value_of(j, i)); });
  const Replicated everywhere("y", mesh, {7, 6});
  const Couple<Replicated, Replicated> many(MPI_COMM_WORLD, everywhere, copies);
  const auto all_y = second_tape.run(many, copies);
  each(everywhere, [](double& v, index_t i, index_t j) { v = value_of(j, i) * (rank() + 1); });
  each(second_tape.pullback(all_y, everywhere, copies), [](double v, index_t i, index_t j) {
    EXPECT_EQ(v, value_of(j, i) * (ranks() * (ranks() + 1) / 2));
  });
}

TEST(Coupling, SetsGoInOneMessage) {
  std::mt19937_64 random(shard::testing::seed() + 1);
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {1, ranks()});
  std::vector<From> from;
  std::vector<To> to;
  for (int f = 0; f < 5; ++f) {
    from.emplace_back("from", here, std::array<index_t, 2>{8, 6 + f});
    to.emplace_back("to", there, std::array<index_t, 2>{8, 6 + f});
    each(from.back(), [&](double& v, index_t i, index_t j) { v = value_of(i, j, f); });
  }
  Coupling<std::vector<To>, std::vector<From>> set(MPI_COMM_WORLD, &to, &from);
  const Coupling<To, From> one(MPI_COMM_WORLD, &to.front(), &from.front());
  EXPECT_EQ(set.sends(), one.sends());
  EXPECT_EQ(set.receives(), one.receives());
  set(Space());
  for (int f = 0; f < 5; ++f)
    each(to[static_cast<std::size_t>(f)],
         [&](double& v, index_t i, index_t j) { EXPECT_EQ(v, value_of(i, j, f)); });
}

/// A field of 1000 x 900 points, randomly cut by this mesh, on ranks from `first` on in random
/// order.
impl::CoupledSide imagined_side(std::mt19937_64& random, std::vector<index_t> shape, int first,
                                int all, std::vector<std::vector<index_t>> axes) {
  impl::CoupledSide side;
  side.shape    = shape;
  index_t ranks = 1;
  for (const index_t n : shape) ranks *= n;
  std::vector<int> rank;
  for (int r = 0; r < ranks; ++r) {
    side.mesh_rank.push_back(r);
    rank.push_back(first + r);
  }
  std::shuffle(side.mesh_rank.begin(), side.mesh_rank.end(), random);
  side.set_ranks(rank, all);
  impl::CoupledField field;
  field.rank = 2;
  for (std::size_t d = 0; d < 2; ++d) {
    int parts = 1;
    for (const index_t a : axes[d]) parts *= static_cast<int>(shape[static_cast<std::size_t>(a)]);
    const Partition cut = random_partition(random, d == 0 ? 1000 : 900, parts);
    impl::CoupledField::Dim dim;
    for (int p = 0; p <= parts; ++p) dim.begin.push_back(cut.begin(p));
    dim.axes = axes[d];
    field.dims.push_back(dim);
  }
  side.fields = {field};
  return side;
}

TEST(Coupling, RoutesOfManyRanksMatch) {
  if (ranks() > 1) return;  // no messages
  std::mt19937_64 random(shard::testing::seed() + 6);
  constexpr int all = 12000;
  // 10^4 ranks and 5000, of which 3000 are on both sides; then replicas
  for (const bool replicated : {false, true}) {
    const auto from = imagined_side(random, {100, 100}, 0, all, {{1}, {0}});
    const auto to   = replicated ? imagined_side(random, {50, 4, 25}, 7000, all, {{2}, {0}})
                                 : imagined_side(random, {50, 100}, 7000, all, {{0}, {1}});
    std::vector<std::array<index_t, 4>> sent, received;  // from, to, extents
    index_t points = 0;
    for (int me = 0; me < all; ++me) {
      const impl::Route route = impl::route_between(to, from, me, false, {""});
      for (const impl::Piece& p : route.sends)
        sent.push_back({me, p.peer, p.extent[0], p.extent[1]});
      for (const impl::Piece& p : route.receives)
        received.push_back({p.peer, me, p.extent[0], p.extent[1]});
      for (const auto* list : {&route.receives, &route.locals})
        for (const impl::Piece& p : *list) points += p.extent[0] * p.extent[1];
    }
    std::sort(sent.begin(), sent.end());
    std::sort(received.begin(), received.end());
    EXPECT_TRUE(sent == received);
    EXPECT_GT(sent.size(), 10000U);
    EXPECT_EQ(points, 1000 * 900 * (replicated ? 4 : 1));
  }
}

TEST(Coupling, SidesThatDontFitAreErrorsOnEveryRank) {
  const Mesh<A, B> here(MPI_COMM_WORLD, {0, 0});
  const Mesh<C, D> there(MPI_COMM_WORLD, {0, 0});
  const From x("x", here, {8, 6});
  const To y("y", there, {8, 7}), z("z", there, {8, 6});
  using Made = Coupling<To, From>;
  expect_parts(message_thrown_by<ArgumentError>([&] { const Made c(MPI_COMM_WORLD, &y, &x); }),
               {"7 points in dimension 1", "`from` 6"});
  expect_parts(message_thrown_by<ArgumentError>([&] { const Made c(MPI_COMM_WORLD, nullptr, &x); }),
               {"no rank is on the side `to`"});
  const std::vector<To> two{z, z};
  const std::vector<From> three{x, x, x};
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Coupling<std::vector<To>, std::vector<From>> c(MPI_COMM_WORLD, &two, &three);
               }),
               {"`to` has 2 fields and `from` 3"});
  if (ranks() > 1) {
    const From other("x", here,
                     {Partition::explicit_begins([&] {
                        std::vector<index_t> begins(static_cast<std::size_t>(here.size<A>()) + 1,
                                                    8);
                        begins[0] = 0;
                        return begins;
                      }()),
                      Partition::balanced(6, here.size<B>())});
    const bool differ = !(other.partition(0) == x.partition(0));
    if (differ)
      expect_parts(message_thrown_by<ArgumentError>(
                       [&] { const Made c(MPI_COMM_WORLD, &z, rank() == 0 ? &x : &other); }),
                   {"the side `from` give different fields"});
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { const Made c(MPI_COMM_WORLD, rank() == 0 ? nullptr : &z, &x); }),
                 {"lacks rank 0 of the mesh"});
    const std::vector<To> some(rank() == 0 ? 2 : 3, z);
    expect_parts(message_thrown_by<ArgumentError>([&] {
                   const Coupling<std::vector<To>, std::vector<From>> c(MPI_COMM_WORLD, &some,
                                                                        &three);
                 }),
                 {"the side `to`", "rank 0 gives 2 fields and rank 1 3"});
  }
  Made none;
  expect_parts(message_thrown_by<ArgumentError>([&] { none(Space()); }), {"made by default"});
  Made good(MPI_COMM_WORLD, &z, &x);
  expect_parts(message_thrown_by<ArgumentError>([&] { good.receive(Space()); }), {"send first"});
}

}  // namespace coupling_test
