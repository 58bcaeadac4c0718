// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a redistribution costs, its transposes, arrays on one rank, and errors.
#include <cstdint>
#include <string>

#include "placed.hpp"
#include "support/counting.hpp"
#include "support/on_host.hpp"
#include "support/thrown.hpp"

namespace placed_test {

using shard::RedistributionKind;
using namespace shard::testing;

struct Elsewhere;
using Whole   = Plane<>;
using Rows    = Plane<ShardDim<0, A>>;
using Columns = Plane<ShardDim<1, A>>;
using Tiles   = Plane<ShardDim<0, A>, ShardDim<1, B>>;
using Turned  = Plane<ShardDim<0, B>, ShardDim<1, A>>;
using Summed  = Plane<Partial<A, Sum>>;

Grid line() { return Grid(MPI_COMM_WORLD, {shard::testing::ranks(), 1}); }
Grid square() { return Grid(MPI_COMM_WORLD, {0, 0}); }

template <class To, class From>
shard::RedistributionReport report_of(const Grid& mesh, std::array<index_t, 2> n,
                                      Cut how = Cut::balanced) {
  std::mt19937_64 engine(shard::testing::seed());
  const auto from = make<From>("from", mesh, n, how, engine);
  const auto to   = make<To>("to", mesh, n, how, engine);
  fill(from, mesh);
  shard::redistribute(Space(), to, from);
  EXPECT_EQ(wrong_cells(to, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  const auto report = shard::redistribution_report(Space(), to, from);
  EXPECT_LE(report.buffer, report.buffer_limit) << report.text();
  EXPECT_EQ(report.source, from.extent(0) * from.extent(1) * 8);
  EXPECT_EQ(report.target, to.extent(0) * to.extent(1) * 8);
  return report;
}

TEST(redistribution_report, names_the_collective) {
  const Grid mesh  = line();
  const bool alone = mesh.size() == 1;
  const auto is = [&](RedistributionKind kind) { return alone ? RedistributionKind::local : kind; };
  EXPECT_EQ((report_of<Rows, Whole>(mesh, {24, 24}).kind), RedistributionKind::local);
  EXPECT_EQ((report_of<Summed, Whole>(mesh, {24, 24}).kind), RedistributionKind::local);
  EXPECT_EQ((report_of<Columns, Rows>(mesh, {24, 24}).kind), is(RedistributionKind::all_to_all));
  EXPECT_EQ((report_of<Whole, Rows>(mesh, {24, 24}).kind), is(RedistributionKind::all_gather));
  EXPECT_EQ((report_of<Rows, Summed>(mesh, {24, 24}).kind), is(RedistributionKind::reduce_scatter));
  EXPECT_EQ((report_of<Whole, Summed>(mesh, {24, 24}).kind), is(RedistributionKind::all_reduce));
  EXPECT_EQ((report_of<Rows, Rows>(mesh, {24, 24}).kind), RedistributionKind::local);
  EXPECT_NE((report_of<Columns, Rows>(mesh, {24, 24}).text().find("bytes")), std::string::npos);
}

TEST(redistribution_report, nothing_is_sent_that_is_there_or_not_wanted) {
  const Grid mesh = line();
  const index_t p = mesh.size(), n = 24, share = n / p;
  const auto turned = report_of<Columns, Rows>(mesh, {n, n});
  EXPECT_EQ(turned.messages, p - 1);
  EXPECT_EQ(turned.sent, (n * share - share * share) * 8);
  EXPECT_EQ(turned.received, turned.sent);
  const auto gathered = report_of<Whole, Rows>(mesh, {n, n});
  EXPECT_EQ(gathered.messages, p - 1);
  EXPECT_EQ(gathered.received, (n * n - n * share) * 8);
  EXPECT_LE(gathered.buffer, n * n * 8 + 16 * p);  // what goes to all is packed once
  const auto reduced = report_of<Whole, Summed>(mesh, {n, n});
  EXPECT_EQ(reduced.received, 2 * (p - 1) * n * share * 8);  // a scatter of sums and a gathering
}

TEST(redistribution_report, several_axes_in_one_step_without_a_full_copy) {
  const Grid mesh   = square();
  const auto turned = report_of<Turned, Tiles>(mesh, {48, 48});
  EXPECT_LE(turned.received, turned.target);
  EXPECT_LE(turned.sent, turned.source);
  const auto replicas = report_of<Plane<ShardDim<0, B>>, Rows>(mesh, {48, 48});
  EXPECT_LE(replicas.received, replicas.target);
}

TEST(redistribution_report, the_buffer_is_bounded) {
  const Grid mesh = line(), tiles = square();
  int rounds                       = 0;
  const std::array<index_t, 2> big = {611, 509};  // 2.5 MB
  for (const Cut how : {Cut::balanced, Cut::random}) {
    rounds = std::max(rounds, report_of<Columns, Rows>(mesh, big, how).rounds);
    rounds = std::max(rounds, report_of<Rows, Summed>(mesh, big, how).rounds);
    rounds = std::max(rounds, report_of<Whole, Summed>(mesh, big, how).rounds);
    rounds = std::max(rounds, report_of<Whole, Rows>(mesh, big, how).rounds);
    rounds = std::max(rounds, report_of<Turned, Tiles>(tiles, big, how).rounds);
  }
  EXPECT_TRUE(mesh.size() <= 2 || rounds > 2) << rounds;
}

/// Allocates both fields, moves, and moves back as a transpose: Kokkos memory at its peak, and all
/// that operator new gave, against what the report promises. Returns the rounds.
template <class To, class From>
int check_memory(const shard::Extents<2>& shape, std::array<index_t, 2> n, Cut from_cut,
                 Cut to_cut) {
  const Grid mesh(MPI_COMM_WORLD, shape);  // one of its own: its buffer is made here
  std::mt19937_64 engine(shard::testing::seed());
  const Space space;
  int rounds           = 0;
  index_t allowed      = 0;
  constexpr auto aside = index_t{1} << 16U;  // extents, plans, labels
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const auto counts = shard::testing::count([&] {
    const auto from = make<From>("from", mesh, n, from_cut, engine);
    const auto to   = make<To>("to", mesh, n, to_cut, engine);
    shard::redistribute(space, to, from);
    shard::redistribute_adjoint(space, from, to);
    const auto report = shard::redistribution_report(space, to, from);
    EXPECT_LE(report.buffer, report.buffer_limit) << report.text();
    EXPECT_LE(report.buffer_limit, std::max({report.source, report.target, index_t{1} << 20U}))
        << report.text();
    // on a device the buffer has a copy on the host, where MPI takes no device memory
    const index_t buffers = shard::impl::is_host_space_v<Space> ? 1 : 2;
    allowed               = report.source + report.target + buffers * report.buffer_limit + aside;
    rounds                = report.rounds;
  });
  EXPECT_LE(counts.peak_bytes, allowed);
  EXPECT_LE(counts.new_bytes - counts.allocated_bytes, 4 * aside) << "in all, not at once";
  return rounds;
}

TEST(redistribution, takes_no_more_than_source_and_target_and_one_buffer) {
  const int p = shard::testing::ranks();
  const shard::Extents<2> line{p, 1}, square{0, 0};
  const std::array<index_t, 2> big = {1024, 512};  // 4 MB
  for (const Cut how : {Cut::balanced, Cut::random, Cut::at_one_rank}) {
    check_memory<Rows, Rows>(line, big, Cut::balanced, how);
    check_memory<Columns, Columns>(line, big, how, Cut::random);
    check_memory<Tiles, Tiles>(square, big, how, Cut::random);
    check_memory<Columns, Rows>(line, big, how, how);
    check_memory<Rows, Whole>(line, big, how, how);
    check_memory<Whole, Rows>(line, big, how, how);
    check_memory<Turned, Tiles>(square, big, how, how);
  }
  check_memory<Whole, Summed>(line, big, Cut::balanced, Cut::balanced);
  check_memory<Rows, Summed>(line, big, Cut::balanced, Cut::balanced);
}

/// The same axes before and after: a rank in the middle sends all that it has and receives all that
/// it gets, which is twice the buffer's limit, so the cells go in rounds.
TEST(redistribution, goes_in_rounds_between_partitions_over_the_same_axes) {
  const Grid mesh = line();
  const int p     = mesh.size();
  if (p < 3) GTEST_SKIP() << "needs a rank between two others";
  constexpr index_t n = 1024, columns = 512;  // 4 MB in all, 2 MB on a rank
  std::vector<index_t> before(static_cast<std::size_t>(p) + 1, n), after(before);
  before[0] = 0;  // rank 0 and rank 1 have halves; then rank 1 and rank 2
  before[1] = n / 2;
  after[0] = after[1] = 0;
  after[2]            = n / 2;
  const auto cut_at   = [&](const std::vector<index_t>& begins) {
    return std::array<shard::Partition, 2>{shard::Partition::explicit_begins(begins),
                                           shard::Partition::balanced(columns, 1)};
  };
  const Rows from("from", mesh, cut_at(before)), to("to", mesh, cut_at(after));
  fill(from, mesh);
  const auto report = shard::redistribution_report(Space(), to, from);
  EXPECT_LE(report.buffer, report.buffer_limit) << report.text();
  EXPECT_EQ(report.buffer_limit, std::max({report.source, report.target, index_t{1} << 20U}));
  EXPECT_GE(report.rounds, 2) << report.text();
  const auto counts = shard::testing::count([&] { shard::redistribute(Space(), to, from); });
  EXPECT_EQ(counts.messages, report.messages);
  EXPECT_EQ(wrong_cells(to, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  shard::redistribute_adjoint(Space(), from, to);  // adds what is there already
  EXPECT_EQ(wrong_cells(from, mesh, [](index_t i, index_t j) { return 2 * value(i, j); }), 0);
}

struct ValueAt {
  KOKKOS_FUNCTION double operator()(index_t i, index_t j) const {
    return static_cast<double>((i * 31 + j * 7) % 23 - 11);
  }
};

struct ShiftKernel {
  Plane<ShardDim<0, A, Halo<1>, shard::Periodic>> from, to;
  KOKKOS_FUNCTION void operator()(index_t i, index_t j) const { to(i, j) = from(i + 1, j); }
};

/// Under SHARD_CHECK=1 the halo of what was moved to is out of date, and a kernel that reads it is
/// found; after an exchange it isn't.
TEST(redistribution, leaves_halos_marked) {
  using Haloed = Plane<ShardDim<0, A, Halo<1>, shard::Periodic>>;
  const ScopedVariable checked("SHARD_CHECK", "1");
  const Grid mesh = square();
  const Space space;
  const index_t n = 4 * mesh.size<A>();
  const Haloed from("from", mesh, {n, 5}), to("to", mesh, {n, 5}), shifted("shifted", mesh, {n, 5});
  const Rows rows("rows", mesh, {n, 5});
  const Kokkos::View<double**, Right> array("array", mesh.rank() == 0 ? 4 * mesh.size<A>() : 0,
                                            mesh.rank() == 0 ? 5 : 0);
  const auto is_found = [&] {
    parallel_for("shift", space, owned_region(shifted), ShiftKernel{to, shifted});
    expect_parts(message_thrown_by<shard::StaleHaloError>([&] { exchange(space, shifted); }),
                 {"\"shifted\"", "that of \"to\""});
    exchange(space, to);
    parallel_for("shift", space, owned_region(shifted), ShiftKernel{to, shifted});
    EXPECT_NO_THROW(exchange(space, shifted));
  };
  shard::redistribute(space, to, from);  // over the same axes
  is_found();
  shard::redistribute(space, to, rows);
  is_found();
  shard::distribute(space, to, array);
  is_found();
  shard::distribute(space, to, ValueAt());
  is_found();
  shard::broadcast<B>(space, to);
  is_found();
  // a gradient's halo waits for exchange_adjoint: the transpose leaves it
  Kokkos::deep_copy(space, to.view(), 1.0);
  shard::redistribute_adjoint(space, to, rows);
  exchange_adjoint(space, to);
  double sum = 0;
  on_cells(to, [&](double& cell, index_t, index_t) { sum += cell; });
  EXPECT_EQ(sum, static_cast<double>((to.extent(0) + 2) * 5));
}

TEST(redistribution, is_cut_to_steps_of_the_message_limit) {
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", "100");
  const Grid mesh = square();
  report_of<Turned, Tiles>(mesh, {31, 37}, Cut::random);
  report_of<Whole, Plane<ShardDim<0, B>, Partial<A, Sum>>>(mesh, {31, 37}, Cut::random);
  const Tiles from("from", mesh, {30, 30});
  const Whole to("to", mesh, {30, 30});
  shard::redistribute(Space(), to, from);
  const auto counts   = shard::testing::count([&] { shard::redistribute(Space(), to, from); });
  const index_t bytes = from.extent(0) * from.extent(1) * 8;
  if constexpr (shard::testing::computes_on_host) {  // NCCL has no such limit
    EXPECT_EQ(counts.messages, (mesh.size() - 1) * ((bytes + 99) / 100));
  }
}

TEST(redistribution, needs_no_memory_the_second_time) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");
  const Grid mesh = square();
  std::mt19937_64 engine(shard::testing::seed());
  const auto from = make<Tiles>("from", mesh, {30, 20}, Cut::random, engine);
  const auto part =
      make<Plane<ShardDim<0, B>, Partial<A, Sum>>>("part", mesh, {30, 20}, Cut::random, engine);
  const auto to = make<Whole>("to", mesh, {30, 20}, Cut::random, engine);
  const Space space;
  const auto run = [&] {
    shard::redistribute(space, to, from);
    shard::redistribute(space, to, part);
    shard::redistribute_adjoint(space, from, to);
  };
  run();
  const auto counts = shard::testing::count(run);
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.collectives, 0);
  // a tool looks on here, for which Kokkos makes strings of labels
  EXPECT_LE(counts.news, 6 * (counts.kernels + counts.fences)) << counts;
}

TEST(redistribution, into_a_new_field) {
  const Grid mesh = square();
  std::mt19937_64 engine(shard::testing::seed());
  const auto from = make<Tiles>("t", mesh, {13, 9}, Cut::random, engine);
  fill(from, mesh);
  const Space space;
  const auto is_value = [](index_t i, index_t j) { return value(i, j); };
  const auto turned   = shard::redistribute<Turned>(space, from);
  EXPECT_EQ(wrong_cells(turned, mesh, is_value), 0);
  EXPECT_EQ(turned.label(), "t");
  EXPECT_EQ(turned.partition(0), shard::Partition::balanced(13, mesh.size<B>()));
  using Haloed      = Plane<ShardDim<0, A, Halo<1>>, Partial<B, Max>>;
  const auto haloed = shard::redistribute<Haloed>(space, from);
  EXPECT_EQ(wrong_cells(haloed, mesh, is_value), 0);
  EXPECT_EQ(haloed.partition(0), from.partition(0));
  EXPECT_EQ(haloed.any_geometry().partials.count, 1);
  EXPECT_EQ(haloed.any_geometry().partials.axes[0], 1);
  const auto whole = shard::redistribute<Whole>(space, haloed);
  EXPECT_EQ(wrong_cells(whole, mesh, is_value), 0);
  const auto rows = cut(13, mesh.size<A>(), Cut::random, engine);
  const auto back = shard::redistribute<Tiles>(space, whole, {rows, shard::Partition()});
  EXPECT_EQ(wrong_cells(back, mesh, is_value), 0);
  EXPECT_EQ(back.partition(0), rows);
  EXPECT_EQ(back.partition(1), shard::Partition::balanced(9, mesh.size<B>()));
}

/// A field of another type; dimensions that the same axes cut have the same partition.
template <class D, class Field>
D placed_like(const Field& field) {
  return shard::impl::placed_anew<D>(field.any_geometry(), {});
}

/// <R x, dy> = <x, R' dy> in whole numbers.
template <class Y, class X, class DY, class DX>
void check_transpose(const Grid& mesh) {
  std::mt19937_64 engine(shard::testing::seed());
  const auto x  = make<X>("x", mesh, {11, 10}, Cut::random, engine);
  const auto y  = make<Y>("y", mesh, {11, 10}, Cut::random, engine);
  const auto dx = placed_like<DX>(x);
  const auto dy = placed_like<DY>(y);
  fill(x, mesh);
  fill(dy, mesh, 1);
  shard::deep_copy(Space(), dx, 0.0);
  shard::redistribute(Space(), y, x);
  shard::redistribute_adjoint(Space(), dx, dy);
  Space().fence();
  EXPECT_EQ(inner_product(y, dy, mesh), inner_product(x, dx, mesh));
}

TEST(redistribution, has_the_transposes_of_each_pair) {
  for (const Grid& mesh : {line(), square()}) {
    // all-gather: reduce-scatter, or a slice where all share dy
    check_transpose<Whole, Rows, Summed, Rows>(mesh);
    check_transpose<Whole, Rows, Whole, Rows>(mesh);
    // a slice: zeros around it, or a gathering where all share dx
    check_transpose<Rows, Whole, Rows, Summed>(mesh);
    check_transpose<Rows, Whole, Rows, Whole>(mesh);
    // all-reduce: the identity, or an all-reduce of what each rank adds
    check_transpose<Whole, Summed, Whole, Whole>(mesh);
    check_transpose<Whole, Summed, Summed, Whole>(mesh);
    // copies of what is replicated: an all-reduce
    check_transpose<Whole, Whole, Summed, Whole>(mesh);
    check_transpose<Whole, Whole, Whole, Summed>(mesh);
    // reduce-scatter: all-gather
    check_transpose<Rows, Summed, Rows, Whole>(mesh);
    // the value to one rank and zeros to others: the value from there
    check_transpose<Summed, Rows, Whole, Rows>(mesh);
    check_transpose<Summed, Whole, Whole, Whole>(mesh);
    check_transpose<Summed, Whole, Whole, Summed>(mesh);
    // all-to-all: the same back
    check_transpose<Columns, Rows, Columns, Rows>(mesh);
    check_transpose<Turned, Tiles, Turned, Tiles>(mesh);
    check_transpose<Plane<ShardDim<0, B>, Partial<A, Sum>>, Tiles, Plane<ShardDim<0, B>>, Tiles>(
        mesh);
    check_transpose<Rows, Tiles, Plane<ShardDim<0, A>, Partial<B, Sum>>, Tiles>(mesh);
  }
}

template <class View>
void number(const View& view) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.extent(0); ++i)
    for (std::size_t j = 0; j < host.extent(1); ++j)
      host(i, j) = value(static_cast<index_t>(i), static_cast<index_t>(j));
  Kokkos::deep_copy(view, host);
}

template <class Field, class Layout>
void check_array(const Grid& mesh, std::mt19937_64& engine) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // which would mark the halo
  using Array     = Kokkos::View<double**, Layout>;
  const int root  = mesh.size() - 1;
  const bool here = mesh.rank() == root;
  const Space space;
  const auto field = make<Field>("field", mesh, {9, 8}, Cut::random, engine);
  const Array array("array", here ? 9 : 0, here ? 8 : 0);
  number(array);
  shard::distribute(space, field, array, root);
  EXPECT_EQ(wrong_cells(field, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  EXPECT_EQ(touched(field), 0);

  fill(field, mesh, 1);
  shard::gather(space, array, field, root);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), array);
  int wrong       = 0;
  for (index_t i = 0; here && i < 9; ++i)
    for (index_t j = 0; j < 8; ++j) wrong += host(i, j) == value(i, j, 1) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

TEST(distribute, an_array_on_one_rank_and_back) {
  std::mt19937_64 engine(shard::testing::seed());
  const Grid mesh = square();
  check_array<Tiles, Right>(mesh, engine);
  check_array<Whole, Right>(mesh, engine);
  check_array<Plane<ShardDim<1, B, Halo<1>>>, Kokkos::LayoutLeft>(mesh, engine);
  check_array<Plane<ShardDim<0, B>, Partial<A, Sum>>, Right>(mesh, engine);
  check_array<Plane<Partial<A, Min>>, Right>(mesh, engine);
}

TEST(distribute, a_function_of_global_indices) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // which would mark the halo
  std::mt19937_64 engine(shard::testing::seed());
  const Grid mesh     = square();
  const auto is_value = [](index_t i, index_t j) { return value(i, j); };
  const Space space;
  const auto tiles = make<Plane<ShardDim<0, A>, ShardDim<1, B, Halo<1>>>>("tiles", mesh, {9, 8},
                                                                          Cut::random, engine);
  const auto sums =
      make<Plane<ShardDim<0, B>, Partial<A, Sum>>>("sums", mesh, {9, 8}, Cut::random, engine);
  const auto least = make<Plane<Partial<A, Min>>>("least", mesh, {9, 8}, Cut::random, engine);
  shard::distribute(space, tiles, ValueAt());
  shard::distribute(space, sums, ValueAt());
  shard::distribute(space, least, ValueAt());
  space.fence();
  EXPECT_EQ(wrong_cells(tiles, mesh, is_value), 0);
  EXPECT_EQ(touched(tiles), 0);
  EXPECT_EQ(wrong_cells(sums, mesh, is_value), 0);
  EXPECT_EQ(wrong_cells(least, mesh, is_value), 0);
}

TEST(broadcast, replicas_become_those_of_one_coordinate) {
  const ScopedVariable unchecked("SHARD_CHECK", "0");  // which would mark the halo
  std::mt19937_64 engine(shard::testing::seed());
  const Grid mesh = square();
  const int root  = mesh.size<B>() - 1;
  const auto field =
      make<Plane<ShardDim<0, A, Halo<1>>>>("field", mesh, {9, 8}, Cut::random, engine);
  on_cells(field, [&](double& cell, index_t i, index_t j) {
    cell = value(i, j) + (mesh.coordinate<B>() == root ? 0 : 100);
  });
  shard::broadcast<B>(Space(), field, root);
  EXPECT_EQ(wrong_cells(field, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  EXPECT_EQ(touched(field), 0);
}

struct Pair {
  float a;
  std::int16_t b;
};

TEST(redistribution, of_other_value_types) {
  const Grid mesh = line();
  const Space space;
  const shard::ShardedView<Pair**, Right, ShardDim<0, A>> pairs("pairs", mesh, {9, 5});
  const auto near = create_mirror_view(pairs);
  for (index_t i = 0; i < near.extent(0); ++i)
    for (index_t j = 0; j < 5; ++j)
      near(i, j) = {static_cast<float>(near.to_global(0, i)), static_cast<std::int16_t>(j)};
  shard::deep_copy(space, pairs, near);
  const auto whole =
      create_mirror_view(shard::redistribute<shard::ShardedView<Pair**, Right>>(space, pairs));
  const auto all = shard::redistribute<shard::ShardedView<Pair**, Right>>(space, pairs);
  shard::deep_copy(space, whole, all);
  space.fence();
  for (index_t i = 0; i < 9; ++i)
    for (index_t j = 0; j < 5; ++j) {
      EXPECT_EQ(whole(i, j).a, static_cast<float>(i));
      EXPECT_EQ(whole(i, j).b, j);
    }

  // short floats are added in 32 bits: 2048 + 1 in 16 bits is 2048
  using Half   = Kokkos::Experimental::half_t;
  using Halves = shard::ShardedView<Half*, Right, Partial<A, Sum>>;
  const Halves halves("halves", mesh, {3});
  const int p = mesh.size<A>();
  shard::deep_copy(space, halves, Half(mesh.coordinate<A>() == 0 ? 2048.0F : 1.0F));
  const auto sums      = shard::redistribute<shard::ShardedView<Half*, Right>>(space, halves);
  const auto sums_near = create_mirror_view(sums);
  shard::deep_copy(space, sums_near, sums);
  space.fence();
  EXPECT_EQ(static_cast<float>(sums_near(2)),
            static_cast<float>(Half(2048.0F + static_cast<float>(p - 1))));
}

TEST(redistribution, adds_in_the_order_of_ranks) {
  const Grid mesh = line();
  const Space space;
  const auto part = [](int rank) {
    return rank == 0 ? 1.0 : rank == 1 ? 1e16 : rank == 2 ? -1e16 : 0.0;
  };
  double in_order = part(0);
  for (int r = 1; r < mesh.size(); ++r) in_order += part(r);
  const Summed summed("summed", mesh, {5, 4});
  shard::deep_copy(space, summed, part(mesh.rank()));
  const auto is_sum = [&](index_t, index_t) { return in_order; };
  EXPECT_EQ(wrong_cells(shard::redistribute<Rows>(space, summed), mesh, is_sum), 0);
  int wrong = 0;
  on_cells(shard::redistribute<Whole>(space, summed),
           [&](double& cell, index_t, index_t) { wrong += cell == in_order ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

TEST(redistribution, refuses_what_cannot_be_done_on_every_rank) {
  const Grid mesh = square();
  const Space space;
  const Tiles a("a", mesh, {9, 10});
  const Turned b("b", mesh, {9, 11});
  expect_parts(message_thrown_by<shard::ArgumentError>([&] { shard::redistribute(space, b, a); }),
               {"dimension 1", "10", "11", "\"a\"", "\"b\""});
  expect_parts(message_thrown_by<shard::ArgumentError>(
                   [&] { shard::redistribute<Plane<ShardDim<0, Elsewhere>>>(space, a); }),
               {"names the axis", "Elsewhere"});
  const Kokkos::View<double**, Right> array("array", 9, 11);
  expect_parts(message_thrown_by<shard::ArgumentError>([&] { shard::distribute(space, a, array); }),
               {"dimension 1", "11", "10"});
  expect_parts(
      message_thrown_by<shard::ArgumentError>([&] { shard::gather(space, array, a, mesh.size()); }),
      {"root", std::to_string(mesh.size()).c_str()});
  const Rows rows("rows", mesh, {9, 10});
  expect_parts(
      message_thrown_by<shard::ArgumentError>([&] { shard::broadcast<B>(space, rows, -1); }),
      {"root", "-1"});
  const ScopedVariable limit("SHARD_MESSAGE_LIMIT", "much");
  expect_parts(message_thrown_by<shard::ArgumentError>([&] {
                 shard::redistribute(space, Whole("d", mesh, {9, 10}), a);
               }),
               {"SHARD_MESSAGE_LIMIT", "much"});
}

TEST(redistribution, finds_ranks_that_move_other_fields) {
  const Grid mesh = square();
  if (mesh.size() == 1) return;
  const Tiles a("a", mesh, {9, 10}), b("b", mesh, {10, 9});
  const Whole x("x", mesh, {9, 10}), y("y", mesh, {10, 9});
  const Space space;
  for (const char* checked : {"0", "1"}) {
    const ScopedVariable check("SHARD_CHECK", checked);
    expect_parts(message_thrown_by<shard::AgreementError>([&] {
                   if (mesh.rank() == 0)
                     shard::redistribute(space, x, a);
                   else
                     shard::redistribute(space, y, b);
                 }),
                 {"redistribute", "balanced 9", "balanced 10"});
  }
}

}  // namespace placed_test
