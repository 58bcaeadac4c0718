// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "shard/collectives/collectives.hpp"
#include "zigzag_support.hpp"

namespace zigzag_test {

using namespace shard;

static_assert(shard::zigzag_order<4>() == std::array{0, 3, 1, 2});
static_assert(shard::zigzag_inverse<4>() == std::array{0, 2, 3, 1});
static_assert(shard::zigzag_order<6>() == std::array{0, 5, 1, 4, 2, 3});
static_assert(shard::zigzag_inverse<6>() == std::array{0, 2, 4, 5, 3, 1});
static_assert(shard::zigzag_order<5>() == std::array{0, 4, 1, 3, 2});
static_assert(ZigzagPartition(8, 2).ranges(1) ==
              std::array{ZigzagPartition::Range{2, 4}, ZigzagPartition::Range{4, 6}});

TEST(zigzag, order_and_inverse) {
  EXPECT_EQ(shard::zigzag_order(2), (std::vector{0, 1}));
  for (const int n : {0, 2, 4, 12, 40}) {
    const auto order = shard::zigzag_order(n), inverse = shard::zigzag_inverse(n);
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(order[static_cast<std::size_t>(inverse[at])], i);
      EXPECT_EQ(shard::zigzag_place(order[at], n), i);
    }
  }
  EXPECT_EQ(shard::zigzag_order(5), (std::vector{0, 4, 1, 3, 2}));
  expect_parts(message_thrown_by<shard::ArgumentError>([] { (void)shard::zigzag_inverse(5); }),
               {"zigzag_inverse", "5"});
  expect_parts(message_thrown_by<shard::ArgumentError>([] { (void)shard::zigzag_order(-2); }),
               {"zigzag_order", "-2"});
}

/// The chunks of torch.chunk(range(n), 2 * ranks), those that a rank has one after the other; none
/// if there are fewer chunks.
std::vector<std::vector<index_t>> chunked(index_t n, int ranks) {
  const index_t pieces = 2 * index_t{ranks}, length = (n + pieces - 1) / pieces;
  std::vector<std::vector<index_t>> chunks;
  for (index_t begin = 0; begin < n; begin += length) {
    chunks.emplace_back(static_cast<std::size_t>(std::min(length, n - begin)));
    std::iota(chunks.back().begin(), chunks.back().end(), begin);
  }
  if (static_cast<index_t>(chunks.size()) != pieces) return {};
  std::vector<std::vector<index_t>> shares;
  for (int r = 0; r < ranks; ++r) {
    shares.push_back(chunks[static_cast<std::size_t>(r)]);
    const auto& other = chunks[static_cast<std::size_t>(pieces - 1 - r)];
    shares.back().insert(shares.back().end(), other.begin(), other.end());
  }
  return shares;
}

TEST(zigzag, partition) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (index_t n = 0; n < 70; ++n) {
      const auto shares = chunked(n, ranks);
      EXPECT_EQ(ZigzagPartition::exists(n, ranks), n == 0 || !shares.empty());
      if (n > 0 && shares.empty()) {
        expect_parts(message_thrown_by<shard::ArgumentError>([&] { ZigzagPartition(n, ranks); }),
                     {"ZigzagPartition", std::to_string(n).c_str()});
        continue;
      }
      const ZigzagPartition part(n, ranks);
      EXPECT_EQ(part.even(), n % (2 * ranks) == 0);
      for (int r = 0; r < ranks && n > 0; ++r) {
        const auto& mine = shares[static_cast<std::size_t>(r)];
        ASSERT_EQ(part.count(r), static_cast<index_t>(mine.size()));
        EXPECT_EQ(part.ranges(r)[0].size() + part.ranges(r)[1].size(), part.count(r));
        for (index_t i = 0; i < part.count(r); ++i) {
          const index_t g = mine[static_cast<std::size_t>(i)];
          EXPECT_EQ(part.global_index(r, i), g);
          EXPECT_EQ(part.owner(g), r);
          EXPECT_EQ(part.local_index(g), i);
        }
      }
    }
  EXPECT_THROW(ZigzagPartition(4, 0), shard::ArgumentError);
  EXPECT_THROW(ZigzagPartition(-4, 1), shard::ArgumentError);
}

/// Where a rank's shard of a sequence in either order has its indices: the chunks of the permuted
/// list, two a rank.
index_t global_index(bool zigzag, index_t n, int ranks, int rank, index_t local) {
  if (!zigzag) return rank * (n / ranks) + local;
  const index_t chunk = n / (2 * ranks);
  const auto place    = static_cast<std::size_t>(2 * rank + local / chunk);
  return shard::zigzag_order(2 * ranks)[place] * chunk + local % chunk;
}

/// Both directions against the permutation, the transposes, and the run-time form.
template <class Order, class T, int Rank, class FullLayout, class ShardLayout>
void check_all_to_all(const Grid& mesh, index_t channels, index_t chunk) {
  const Space space;
  constexpr bool zigzag = std::is_same_v<Order, Zigzag>;
  const int p = mesh.size<Line>(), me = mesh.coordinate<Line>(), row = mesh.coordinate<Row>();
  const index_t n   = 2 * p * chunk;
  const auto split  = make_view<T, Rank, ShardLayout>({2, channels * p, n / p, 3, 2});
  const auto full   = make_view<T, Rank, FullLayout>({2, channels, n, 3, 2});
  const auto whole  = [&](Index i) { return i[1] += me * channels, value<T>(i, row); };
  const auto shards = [&](Index i) {
    i[2] = global_index(zigzag, n, p, me, i[2]);
    return value<T>(i, row);
  };
  const shard::ContextAllToAll<SplitToFull, Line, Order> to_full;
  const shard::ContextAllToAll<FullToSplit, Line, Order> to_split;
  const shard::NamedContextAllToAll<Line> named{"full_to_split", zigzag};
  const auto check = [&](const auto& to, const auto& expected, const auto& move) {
    fill(to, [](const Index&) { return T{}; });
    move();
    expect_values(to, expected);
  };
  const auto joins  = [&](const auto& move) { check(full, whole, move); };
  const auto splits = [&](const auto& move) { check(split, shards, move); };

  fill(split, shards);
  joins([&] { shard::all_to_all<SplitToFull, Line, Order>(space, full, split, mesh); });
  splits([&] { shard::all_to_all<FullToSplit, Line, Order>(space, split, full, mesh); });
  joins([&] { to_split.pullback(space, full, split, mesh); });
  splits([&] { to_full.pullback(space, split, full, mesh); });
  joins([&] { to_full.pushforward(space, full, split, mesh); });
  splits([&] { to_split.pushforward(space, split, full, mesh); });
  joins([&] { shard::all_to_all<Line>(space, full, split, mesh, "split_to_full", zigzag); });
  splits([&] {
    shard::all_to_all<Line>(space, split, full, mesh, std::string("full_to_split"), zigzag);
  });
  joins([&] { named.pullback(space, full, split, mesh); });
  splits([&] { named.pushforward(space, split, full, mesh); });
}

TEST(zigzag, all_to_all_against_the_permutation) {
  using Kokkos::LayoutLeft;
  using Kokkos::LayoutRight;
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    check_all_to_all<Zigzag, double, 3, LayoutRight, LayoutRight>(mesh, 3, 5);
    check_all_to_all<Contiguous, double, 3, LayoutRight, LayoutRight>(mesh, 3, 5);
  }
  const Grid mesh = make_mesh();
  check_all_to_all<Zigzag, double, 3, LayoutRight, LayoutRight>(mesh, 1, 1);
  check_all_to_all<Zigzag, double, 3, LayoutRight, LayoutRight>(mesh, 0, 2);
  check_all_to_all<Zigzag, double, 3, LayoutRight, LayoutRight>(mesh, 2, 0);
  check_all_to_all<Zigzag, float, 4, LayoutLeft, LayoutLeft>(mesh, 2, 3);
  check_all_to_all<Contiguous, float, 4, LayoutRight, LayoutLeft>(mesh, 2, 19);
  check_all_to_all<Zigzag, Odd, 4, LayoutRight, LayoutRight>(mesh, 2, 3);
  check_all_to_all<Zigzag, Kokkos::complex<double>, 5, LayoutLeft, LayoutRight>(mesh, 2, 3);
}

// Blocks with a leading batch of one go to MPI from where they stand, and come to where they
// belong.
TEST(zigzag, all_to_all_of_one_batch) {
  const Grid mesh = make_mesh();
  const int p = mesh.size(), me = mesh.rank();
  const index_t n  = 8 * p;
  const auto split = make_view<double, 3>({1, 2 * p, n / p});
  const auto full  = make_view<double, 3>({1, 2, n});
  fill(split, [&](Index i) {
    i[2] = global_index(true, n, p, me, i[2]);
    return value<double>(i, 0);
  });
  shard::all_to_all<SplitToFull, Line>(Space(), full, split, mesh);
  expect_values(full, [&](Index i) { return i[1] += 2 * me, value<double>(i, 0); });
  fill(split, [](const Index&) { return 0.0; });
  shard::all_to_all<FullToSplit, Line>(Space(), split, full, mesh);
  expect_values(split, [&](Index i) {
    i[2] = global_index(true, n, p, me, i[2]);
    return value<double>(i, 0);
  });
}

// The original's values: P = 2, B = 1, C = 4, L = 8, 100 c + l.
TEST(zigzag, all_to_all_of_the_golden_vector) {
  const Grid mesh = make_mesh();
  if (mesh.size() != 2) GTEST_SKIP() << "the golden vector is that of 2 ranks";
  const int me     = mesh.rank();
  const auto split = make_view<double, 3>({1, 4, 4});
  const auto full  = make_view<double, 3>({1, 2, 8});
  const std::vector<std::vector<index_t>> held{{0, 1, 6, 7}, {2, 3, 4, 5}};
  for (const bool zigzag : {true, false}) {
    fill(split, [&](const Index& i) {
      const auto l = zigzag ? held[static_cast<std::size_t>(me)][static_cast<std::size_t>(i[2])]
                            : 4 * me + i[2];
      return static_cast<double>(100 * i[1] + l);
    });
    shard::all_to_all<Line>(Space(), full, split, mesh, "split_to_full", zigzag);
    expect_values(
        full, [&](const Index& i) { return static_cast<double>(100 * (2 * me + i[1]) + i[2]); });
  }
  // contiguous shards taken for zigzag ones are scrambled as there
  const std::vector<double> scrambled{0, 1, 4, 5, 6, 7, 2, 3};
  shard::all_to_all<SplitToFull, Line, Zigzag>(Space(), full, split, mesh);
  expect_values(full, [&](const Index& i) {
    return 100.0 * static_cast<double>(2 * me + i[1]) + scrambled[static_cast<std::size_t>(i[2])];
  });
}

TEST(zigzag, transposes) {
  for (const bool square : {false, true}) {
    const Grid mesh  = make_mesh(square);
    const int p      = mesh.size<Line>();
    const auto split = make_view<double, 3>({2, 3 * p, 8});
    const auto full  = make_view<double, 3>({2, 3, 8 * p});
    expect_transpose(shard::ContextAllToAll<SplitToFull, Line>{}, full, split, mesh);
    expect_transpose(shard::ContextAllToAll<FullToSplit, Line>{}, split, full, mesh);
    expect_transpose(shard::ContextAllToAll<SplitToFull, Line, Contiguous>{}, full, split, mesh);
    expect_transpose(shard::NamedContextAllToAll<Line>{"full_to_split", false}, split, full, mesh);
    for (int dim = 0; dim < 3; ++dim)
      for (const index_t less : {0, 1}) {  // equal chunks, and one that is shorter
        const index_t n = 6 * p - less;
        const auto at   = static_cast<std::size_t>(dim);
        Index all{2, 3, 4}, mine{2, 3, 4};
        all[at]          = n;
        mine[at]         = ZigzagPartition(n, p).count(mesh.coordinate<Line>());
        const auto shard = make_view<double, 3>(mine), whole = make_view<double, 3>(all);
        expect_transpose(shard::ZigzagSplit<Line>{dim}, shard, whole, mesh);
        expect_transpose(shard::ZigzagGather<Line>{dim}, whole, shard, mesh);
      }
  }
}

template <class T, int Rank, class Layout>
void check_split_and_gather(const Grid& mesh, int dim, index_t n) {
  SCOPED_TRACE("dimension " + std::to_string(dim) + ", length " + std::to_string(n));
  const Space space;
  const auto at = static_cast<std::size_t>(dim);
  const int p = mesh.size<Line>(), me = mesh.coordinate<Line>();
  const auto shares = chunked(n, p);
  Index all{2, 3, 4}, mine{2, 3, 4};
  all[at]          = n;
  mine[at]         = n == 0 ? 0 : static_cast<index_t>(shares[static_cast<std::size_t>(me)].size());
  const auto whole = make_view<T, Rank, Layout>(all), back = make_view<T, Rank, Layout>(all);
  const auto shard     = make_view<T, Rank, Layout>(mine);
  const auto shares_of = [&](int which) {
    return [&, which](Index i) {
      i[at] = shares[static_cast<std::size_t>(me)][static_cast<std::size_t>(i[at])];
      return value<T>(i, which);
    };
  };
  fill(whole, [](const Index& i) { return value<T>(i, 1); });
  shard::zigzag_split<Line>(space, shard, whole, mesh, dim);
  expect_values(shard, shares_of(1));
  fill(shard, shares_of(1));
  shard::zigzag_gather<Line>(space, back, shard, mesh, dim - Rank);  // counted from the last
  expect_values(back, [](const Index& i) { return value<T>(i, 1); });

  // one variable that all ranks hold; one loss that all ranks compute
  fill(shard, shares_of(2));
  shard::ZigzagSplit<Line>{dim}.pullback_replicated(space, back, shard, mesh);
  expect_values(back, [](const Index& i) { return value<T>(i, 2); });
  fill(shard, [](const Index&) { return T{}; });
  shard::ZigzagGather<Line>{dim}.pullback_replicated(space, shard, back, mesh);
  expect_values(shard, shares_of(2));
}

TEST(zigzag, split_and_gather) {
  for (const bool square : {false, true}) {
    const Grid mesh = make_mesh(square);
    const int p     = mesh.size<Line>();
    for (int dim = 0; dim < 3; ++dim)
      for (const index_t n : {2 * p, 6 * p, 4 * p - 1, 10 * p - 3, 0})
        if (ZigzagPartition::exists(n, p))
          check_split_and_gather<double, 3, Kokkos::LayoutRight>(mesh, dim, n);
    check_split_and_gather<float, 2, Kokkos::LayoutLeft>(mesh, 0, 4 * p - 1);
    check_split_and_gather<Odd, 1, Kokkos::LayoutRight>(mesh, 0, 4 * p - 1);
  }
}

// Each rank's loss adds: the gradient of what was gathered is the sum of all.
TEST(zigzag, pullback_of_gather_sums) {
  const Grid mesh = make_mesh();
  const int p = mesh.size(), me = mesh.rank();
  const auto d_whole = make_view<double, 1>({4 * p});
  const auto d_shard = make_view<double, 1>({4});
  fill(d_whole, [&](const Index& i) { return static_cast<double>((me + 1) * i[0]); });
  shard::ZigzagGather<Line>{}.pullback(Space(), d_shard, d_whole, mesh);
  expect_values(d_shard, [&](const Index& i) {
    return static_cast<double>(p * (p + 1) / 2 * global_index(true, 4 * p, p, me, i[0]));
  });
}

std::string thrown(const auto& call) { return message_thrown_by<shard::ArgumentError>(call); }

TEST(zigzag, B14_all_to_all_checks_everything_before_anything_moves) {
  const Grid mesh = make_mesh();
  const Space space;
  const int p       = mesh.size();
  const auto view   = [](index_t c, index_t n) { return make_view<float, 3>({1, c, n}); };
  const auto number = [](index_t n) { return std::to_string(n); };
  // what is written is left as it was: nothing moves before the checks
  const auto kept = [&](const auto& to, const auto& call) {
    fill(to, [](const Index&) { return -1.0f; });
    const std::string message = thrown(call);
    expect_values(to, [](const Index&) { return -1.0f; });
    return message;
  };
  const auto flat = make_view<float, 2>({4, 4});
  expect_parts(
      kept(flat, [&] { shard::all_to_all<Line>(space, flat, flat, mesh, "split_to_full"); }),
      {"all_to_all", "rank 2", "1 to 3 spatial"});
  const Kokkos::View<float******, Kokkos::LayoutRight, Space> deep("deep", 1, 1, 2, 1, 1, 1);
  expect_parts(thrown([&] { shard::all_to_all<Line>(space, deep, deep, mesh, "split_to_full"); }),
               {"all_to_all", "rank 6"});
  const auto even = view(p, 2 * p), other = view(p, 2 * p);
  for (const char* type : {"full_to_part", "", "SPLIT_TO_FULL"})
    expect_parts(kept(even, [&] { shard::all_to_all<Line>(space, even, other, mesh, type); }),
                 {"the type is \"", type, "split_to_full", "full_to_split"});
  expect_parts(
      kept(even,
           [&] { shard::NamedContextAllToAll<Line>{"back"}.pullback(space, even, other, mesh); }),
      {"all_to_all's pullback", "back"});

  const auto check = [&]<class Type, class Order>(Type, Order, const auto& to, const auto& from,
                                                  std::initializer_list<const char*> parts) {
    SCOPED_TRACE(parts.begin()[0]);
    expect_parts(kept(to, [&] { shard::all_to_all<Type, Line, Order>(space, to, from, mesh); }),
                 parts);
    const char* type = std::is_same_v<Type, SplitToFull> ? "split_to_full" : "full_to_split";
    expect_parts(kept(to,
                      [&] {
                        shard::all_to_all<Line>(space, to, from, mesh, type,
                                                std::is_same_v<Order, Zigzag>);
                      }),
                 parts);
  };
  // an odd length on each rank: also where there is but one
  const std::string odd = "sequence of " + number(3 * p), chunks = number(2 * p) + " chunks";
  check(SplitToFull{}, Zigzag{}, view(1, 3 * p), view(p, 3), {odd.c_str(), chunks.c_str(), "two"});
  check(FullToSplit{}, Zigzag{}, view(p, 3), view(1, 3 * p), {odd.c_str(), chunks.c_str(), "two"});
  shard::all_to_all<SplitToFull, Line, Contiguous>(space, view(1, 3 * p), view(p, 3), mesh);
  if (p > 1) {
    const std::string length = "sequence of " + number(2 * p + 1);
    check(FullToSplit{}, Contiguous{}, view(p, 2), view(1, 2 * p + 1),
          {length.c_str(), number(p).c_str(), "one"});
    check(FullToSplit{}, Zigzag{}, view(p, 2), view(1, 2 * p + 1), {length.c_str()});
    const std::string channels = "extent " + number(p + 1);
    check(SplitToFull{}, Zigzag{}, view(1, 2 * p), view(p + 1, 2),
          {"dimension 1", channels.c_str(), number(p).c_str()});
  }
  if (p > 1) {
    // shares that differ by rank, of a length or of channels that can't be shared equally
    const index_t n = 4 * p - 1;
    const ZigzagPartition part(n, p);
    const std::string whole = "sequence of " + number(n), share = "extent " + number(p + 1);
    const index_t mine = part.count(mesh.coordinate<Line>());
    check(SplitToFull{}, Zigzag{}, view(1, n), view(p, mine), {whole.c_str(), chunks.c_str()});
    check(FullToSplit{}, Zigzag{}, view(p, mine), view(1, n), {whole.c_str(), chunks.c_str()});
    const index_t channels = mesh.coordinate<Line>() == 0 ? 2 : 1;
    check(FullToSplit{}, Zigzag{}, view(p + 1, 2), view(channels, 2 * p),
          {"dimension 1", share.c_str(), "don't divide"});
  }
  check(SplitToFull{}, Zigzag{}, view(1, 2 * p + 2), view(p, 2), {"dimension 2"});
  check(SplitToFull{}, Zigzag{}, view(2, 2 * p), view(p, 2), {"dimension 1", "extent 2"});
  check(FullToSplit{}, Zigzag{}, view(p, 3), view(1, 2 * p), {"dimension 2", "extent 3"});
  check(FullToSplit{}, Zigzag{}, view(2 * p, 2), view(1, 2 * p), {"dimension 1"});
  check(FullToSplit{}, Zigzag{}, make_view<float, 3>({2, p, 2}), view(1, 2 * p), {"dimension 0"});
}

TEST(zigzag, B14_split_and_gather_refuse_on_every_rank) {
  const Grid mesh = make_mesh();
  const Space space;
  const int p     = mesh.size();
  const auto line = [](index_t n) { return make_view<double, 1>({n}); };
  const auto both = [&](index_t shard, index_t whole, int dim,
                        std::initializer_list<const char*> parts) {
    expect_parts(
        thrown([&] { shard::zigzag_split<Line>(space, line(shard), line(whole), mesh, dim); }),
        parts);
    expect_parts(
        thrown([&] { shard::zigzag_gather<Line>(space, line(whole), line(shard), mesh, dim); }),
        parts);
  };
  // one index more than a chunk each on every rank but the last ones: some have no chunk at all
  const std::string length = std::to_string(2 * p + 1);
  if (p > 1) both(2, 2 * p + 1, 0, {"zigzag_", length.c_str(), "would be empty"});
  both(2, 2 * p, 1, {"zigzag_", "is 1"});
  both(2, 2 * p, -2, {"zigzag_", "is -2"});
  both(5, 4 * p, 0, {"zigzag_", "extent 5"});
  // the shard of one rank alone is wrong, and lengths differ by rank anyway
  if (p > 1) both(4, 4 * p - 1, 0, {"zigzag_", "rank 0 has 3", "extent 4"});
}

TEST(zigzag, ranks_that_disagree) {
  const Grid mesh = make_mesh();
  if (mesh.size() == 1) return;
  const Space space;
  const int p      = mesh.size();
  const bool last  = mesh.rank() == p - 1;
  const auto split = make_view<float, 3>({1, p, 2}), full = make_view<float, 3>({1, 1, 2 * p});
  const auto square = make_view<float, 3>({1, p, p * 2});
  const auto thrown = [](const auto& call) {
    return message_thrown_by<shard::AgreementError>(call);
  };
  expect_parts(
      thrown([&] { shard::all_to_all<Line>(space, full, split, mesh, "split_to_full", last); }),
      {"zigzag", "contiguous", "rank 0"});
  expect_parts(thrown([&] {
                 shard::all_to_all<Line>(space, full, split, mesh,
                                         last ? "split_to_full" : "full_to_split");
               }),
               {"split_to_full", "full_to_split"});
  expect_parts(thrown([&] {
                 shard::all_to_all<Line>(space, full, split, mesh, last ? "?" : "split_to_full");
               }),
               {"split_to_full", "?"});
  expect_parts(
      thrown([&] { shard::zigzag_split<Line>(space, square, square, mesh, last ? 1 : 2); }),
      {"dimension 1", "dimension 2"});
  const auto line = [](index_t n) { return make_view<double, 1>({n}); };
  expect_parts(thrown([&] {
                 shard::zigzag_gather<Line>(space, line(last ? 4 * p - 1 : 4 * p), line(4), mesh);
               }),
               {"sequence of"});
}

}  // namespace zigzag_test
