// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layers' kernels for a device, run on the host by teams of one thread, against the host's own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device_teams.hpp"

#include "../../src/layers/device_attend.hpp"
#include "../../src/layers/device_attend_back.hpp"
#include "../../src/layers/device_broadcast.hpp"
#include "../../src/layers/device_channels.hpp"
#include "../../src/layers/device_ensemble.hpp"
#include "../../src/layers/device_error.hpp"
#include "../../src/layers/device_lines.hpp"
#include "../../src/layers/device_norm.hpp"
#include "../../src/layers/device_pool.hpp"
#include "../../src/layers/device_sums.hpp"
#include "../../src/layers/launch.hpp"
#include "shard/layers/impl/error_kernels.hpp"
#include "shard/layers/impl/line_kernels.hpp"
#include "shard/reduce/impl/reduction_kernels.hpp"

namespace {

using namespace shard;
using namespace shard::impl;
using shard::testing::TeamSpace;
using Space = Kokkos::DefaultHostExecutionSpace;

struct Shape {
  index_t batch, channels, z, y, x;
  index_t pad;  ///< cells around each row and plane
};
const Shape shapes[] = {{1, 1, 1, 1, 1, 0},   {2, 3, 1, 7, 13, 2},  {1, 2, 3, 67, 71, 1},
                        {2, 1, 1, 65, 64, 0}, {1, 1, 2, 40, 61, 3}, {2, 3, 0, 5, 5, 0},
                        {0, 3, 1, 2, 2, 1},   {2, 0, 1, 3, 3, 0}};

/// Random cells with memory around them.
template <class T>
struct Cells {
  std::vector<T> memory;
  Block<T> block;

  Cells(const Shape& s, unsigned seed, T mean = T(0)) {
    std::mt19937 random(seed);
    const index_t extent[5] = {s.batch, s.channels, s.z, s.y, s.x};
    index_t size            = 1;
    for (int d = 4; d >= 0; --d) {
      block.stride[d] = size;
      size *= extent[d] + s.pad;
    }
    memory.resize(static_cast<std::size_t>(size + 1));
    for (T& m : memory)
      m = mean + static_cast<T>(static_cast<double>(random() % 4001) / 1000.0 - 2.0);
    block.origin   = memory.data();
    block.batch    = s.batch;
    block.channels = s.channels;
    for (int d = 0; d < 3; ++d) block.end[d] = extent[d + 2];
  }
  Block<const T> input() const { return as_const(block); }
};

std::vector<double> numbers(index_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), -1.0);
}
std::vector<double> row_weights(const Shape& s, int dim) {
  const index_t rows[3] = {s.z, s.y, s.x};
  std::vector<double> w;
  for (index_t r = 0; r < rows[dim]; ++r) w.push_back(0.25 * static_cast<double>(r % 5));
  return w;
}

/// The sums of `count` numbers differ by rounding alone.
void expect_near(const std::vector<double>& a, const std::vector<double>& b, double scale = 1.0) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-12 * std::max(scale, std::abs(b[i]))) << i;
}
template <class T>
void expect_same_cells(const Cells<T>& a, const Cells<T>& b, double times = 1.0) {
  const double tolerance = times * (std::is_same_v<T, double> ? 1e-12 : 3e-6);
  ASSERT_EQ(a.memory.size(), b.memory.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < a.memory.size(); ++i) {
    const double x = a.memory[i], y = b.memory[i];
    const double error = std::abs(x - y) / std::max(1.0, std::abs(y));
    if (!(error <= worst)) worst = error;
  }
  EXPECT_LE(worst, tolerance);
}

template <class T>
void check_norms(const Shape& s) {
  SCOPED_TRACE(::testing::Message()
               << s.batch << " " << s.channels << " " << s.z << " " << s.y << " " << s.x);
  const Space space;
  const TeamSpace teams;
  using Host          = NormKernels<Space, T>;
  const index_t items = s.batch * s.channels, cells = s.z * s.y * s.x;
  const auto scale = static_cast<double>(std::max<index_t>(cells, 1));
  auto parts       = numbers(3 * items * CellPieces::of(cells).count);
  const Cells<T> x(s, 1, T(1000)), a(s, 2);
  for (int dim = -1; dim < 3; ++dim) {
    const auto weights = dim < 0 ? std::vector<double>() : row_weights(s, dim);
    const NormRows rows{weights.empty() ? nullptr : weights.data(), std::max(dim, 0)};
    if (dim >= 0 && weights.empty()) continue;
    auto mine = numbers(3 * items), theirs = mine;
    device_norm_moments(teams, mine.data(), x.input(), rows, parts.data());
    Host::moments(space, theirs.data(), x.input(), rows, nullptr);
    space.fence();
    expect_near(mine, theirs);

    const NormGroups groups{1, std::max<index_t>(s.channels, 1), false};
    auto statistics = numbers(statistics_per_slot * groups.slots(s.batch));
    for (std::size_t i = 0; i < statistics.size(); ++i)
      statistics[i] = i % statistics_per_slot == 0 ? 999.5 : 0.75;
    mine = theirs = numbers(2 * items);
    sum_planes("sums", teams,
               NormPairTerm<T>{a.input(), x.input(), statistics.data(), groups, rows}, x.input(),
               mine.data(), parts.data());
    Host::pair_sums(space, theirs.data(), a.input(), x.input(), statistics.data(), groups, rows,
                    nullptr);
    space.fence();
    expect_near(mine, theirs, scale);

    std::vector<T> weight, bias;
    for (index_t c = 0; c < s.channels; ++c) {
      weight.push_back(static_cast<T>(1 + c));
      bias.push_back(static_cast<T>(2 - c));
    }
    std::vector<double> sums = numbers(2 * groups.slots(s.batch));
    Cells<T> to(s, 3), wanted(s, 3);
    const NormSlope<T> slope{statistics.data(),
                             sums.data(),
                             weight.data(),
                             nullptr,
                             nullptr,
                             false,
                             true,
                             groups,
                             rows,
                             7.0};
    map_planes("derivative", teams, NormDerivativeOp<T>{to.block, a.input(), x.input(), slope},
               to.block);
    Host::pullback(space, wanted.block, a.input(), x.input(), statistics.data(), sums.data(),
                   weight.data(), groups, rows, 7.0);
    space.fence();
    expect_same_cells(to, wanted);
    map_planes(
        "apply", teams,
        NormApplyOp<T>{to.block, x.input(), statistics.data(), weight.data(), bias.data(), groups},
        to.block);
    Host::apply(space, wanted.block, x.input(), statistics.data(), weight.data(), bias.data(),
                groups);
    space.fence();
    expect_same_cells(to, wanted);
  }
}

TEST(DeviceSums, NormsAreTheHosts) {
  for (const Shape& s : shapes) {
    check_norms<float>(s);
    check_norms<double>(s);
  }
}

TEST(DeviceSums, LongPlanesHaveLongerPieces) {
  const Space space;
  const TeamSpace teams;
  const Shape s{1, 1, 2, 400, 701, 3};
  ASSERT_EQ(CellPieces::of(s.z * s.y * s.x).length, 2 * CellPieces::shortest);
  const Cells<float> x(s, 1, 1000.0F);
  auto mine = numbers(3), theirs = mine, parts = numbers(3 * CellPieces::most);
  device_norm_moments(teams, mine.data(), x.input(), NormRows{}, parts.data());
  NormKernels<Space, float>::moments(space, theirs.data(), x.input(), NormRows{}, nullptr);
  space.fence();
  expect_near(mine, theirs);
}

TEST(DeviceSums, StatisticsOfSlotsAreTheHosts) {
  const Space space;
  const TeamSpace teams;
  const index_t batch = 3, channels = 6;
  for (const NormGroups& groups : {NormGroups{2, channels, false}, NormGroups{6, channels, true},
                                   NormGroups{1, channels, false}}) {
    std::vector<double> moments;
    for (index_t i = 0; i < batch * channels; ++i) {
      moments.push_back(i == 4 ? 0.0 : 10.0);
      moments.push_back(i == 4 ? 0.0 : std::sin(static_cast<double>(i)));
      moments.push_back(i == 4 ? 0.0 : 2.0 + std::cos(static_cast<double>(i)));
    }
    auto slots = numbers(3 * groups.slots(batch)), mine = slots, theirs = slots;
    const index_t count    = groups.slots(batch);
    const auto of_channels = NormPlanes{moments.data(), batch, channels, groups};
    device_norm_merge<true>("statistics", teams, mine.data(), count, of_channels, 1e-3, 1.5);
    space.fence();
    merge_channels(moments.data(), batch, channels, groups, slots.data());
    merge_moments(slots.data(), count, 1, 1e-3, 1.5, theirs.data());
    expect_near(mine, theirs);
    device_norm_merge<false>("slots", teams, mine.data(), count, of_channels);
    space.fence();
    expect_near(mine, slots);
    // three ranks, one of which has nothing
    std::vector<double> gathered = slots;
    gathered.insert(gathered.end(), slots.size(), 0.0);
    for (const double value : slots) gathered.push_back(1.5 * value);
    device_norm_merge<true>("ranks", teams, mine.data(), count,
                            NormRanks{gathered.data(), 3, count}, 1e-3, 1.5);
    space.fence();
    merge_moments(gathered.data(), count, 3, 1e-3, 1.5, theirs.data());
    expect_near(mine, theirs);
  }
}

template <class T, class F>
void check_losses(const Shape& s, ErrorFunction function, const F& f) {
  const Space space;
  const TeamSpace teams;
  using Host          = ErrorKernels<Space, T>;
  const index_t items = s.batch * s.channels, cells = s.z * s.y * s.x;
  const auto scale = static_cast<double>(std::max<index_t>(cells, 1));
  auto parts       = numbers(3 * items * CellPieces::of(cells).count);
  const Cells<T> y(s, 1), t(s, 2), ty(s, 3);
  const ErrorTerm term{function, f.delta};
  for (int dims = 1; dims <= 3; ++dims) {
    const auto w = row_weights(s, 3 - dims);
    auto mine = numbers(items), theirs = mine;
    sum_planes("sums", teams, ErrorTerms<T, F>{y.input(), t.input(), w.data(), 3 - dims, f},
               y.input(), mine.data(), parts.data());
    Host::sums(space, term, theirs.data(), y.input(), t.input(), w.data(), dims, nullptr);
    space.fence();
    expect_near(mine, theirs, scale);
    sum_planes("tangent", teams,
               ErrorTangentTerms<T, F>{ty.input(), y.input(), t.input(), w.data(), 3 - dims, f},
               y.input(), mine.data(), parts.data());
    Host::tangent_sums(space, term, theirs.data(), ty.input(), y.input(), t.input(), w.data(), dims,
                       nullptr);
    space.fence();
    expect_near(mine, theirs, scale);
    mine = theirs = numbers(3 * items);
    sum_planes("correlation", teams,
               CorrelationTerms<T>{y.input(), t.input(), ty.input(), w.data(), 3 - dims}, y.input(),
               mine.data(), parts.data());
    Host::correlation_sums(space, theirs.data(), y.input(), t.input(), ty.input(), w.data(), dims,
                           nullptr);
    space.fence();
    expect_near(mine, theirs, scale);
    Cells<T> dy(s, 4), wanted(s, 4);
    map_planes("derivative", teams,
               ErrorDerivativeOp<T, F>{dy.block, y.input(), t.input(), w.data(), 3 - dims, 0.3, f},
               dy.block);
    Host::derivative(space, term, wanted.block, y.input(), t.input(), w.data(), dims, 0.3);
    space.fence();
    expect_same_cells(dy, wanted);
  }
}

TEST(DeviceSums, LossesAreTheHosts) {
  for (const Shape& s : shapes) {
    check_losses<float>(s, ErrorFunction::square, SquareFunction{1.0});
    check_losses<double>(s, ErrorFunction::huber, HuberFunction{0.7});
    check_losses<double>(s, ErrorFunction::absolute, AbsoluteFunction{1.0});
  }
}

/// Sums of products, of those that keep any dimensions.
template <class T>
void check_broadcast(const Shape& s) {
  const Space space;
  const TeamSpace teams;
  using Host          = BroadcastKernels<Space, T>;
  const index_t items = s.batch * s.channels, extent[5] = {s.batch, s.channels, s.z, s.y, s.x};
  const Cells<T> a(s, 1), x(s, 2);
  auto planes = numbers(items), parts = numbers(items * CellPieces::of(s.z * s.y * s.x).count);
  for (unsigned kept = 0; kept < 32; ++kept) {
    SumPlaces places;
    index_t step = 1;
    for (int d = 4; d >= 0; --d) {
      places.keeps[d] = (kept >> d & 1) != 0;
      places.step[d]  = places.keeps[d] ? step : 0;
      if (places.keeps[d]) step *= extent[d];
    }
    places.count = step;
    for (const auto& other : {x.input(), Block<const T>{}}) {
      auto mine = numbers(step), wanted = mine;
      Host::sums(space, wanted.data(), places, a.input(), other, nullptr);
      const SumLoops loops = SumLoops::of(a.input(), places);
      if (kept < 4) {  // batch and channels
        sum_planes("planes", teams, BroadcastTerm<T>{a.input(), other}, a.input(), planes.data(),
                   parts.data());
        launch("folded", space, loops.items(2),
               FoldPlanesKernel{loops, mine.data(), places, planes.data(), s.channels});
      } else {
        launch("sums", space, loops.items(5),
               ProductSumsKernel<T>{loops, mine.data(), places, a.input(), other});
      }
      space.fence();
      expect_near(mine, wanted, static_cast<double>(items * s.z * s.y * s.x + 1));
    }
  }
}

TEST(DeviceSums, BroadcastsAreTheHosts) {
  for (const Shape& s : shapes) {
    check_broadcast<float>(s);
    check_broadcast<double>(s);
  }
}

template <class T>
void check_ensemble(const Shape& s) {
  const Space space;
  const TeamSpace teams;
  const EnsembleScore score{3, 0.15};
  Shape members       = s;
  members.batch       = s.batch * score.members;
  const index_t items = s.batch * s.channels;
  const Cells<T> x(members, 1), tx(members, 2), t(s, 3);
  auto mine = numbers(items), wanted = mine,
       parts       = numbers(items * CellPieces::of(s.z * s.y * s.x).count);
  const auto scale = static_cast<double>(s.z * s.y * s.x + 1);
  for (int dims = 1; dims <= 3; ++dims) {
    const auto w = row_weights(s, 3 - dims);
    for (const auto& tangent : {tx.input(), Block<const T>{}}) {
      sum_planes("ensemble", teams,
                 EnsembleTerm<T>{score, tangent, x.input(), t.input(), w.data(), 3 - dims},
                 t.input(), mine.data(), parts.data());
      EnsembleKernels<Space, T>::tangent_sums(space, score, wanted.data(), tangent, x.input(),
                                              t.input(), w.data(), dims, nullptr);
      space.fence();
      expect_near(mine, wanted, scale);
    }
  }
}

TEST(DeviceSums, EnsemblesAreTheHosts) {
  for (const Shape& s : shapes) {
    check_ensemble<float>(s);
    check_ensemble<double>(s);
  }
}

template <class T>
void check_channels(const Shape& s, bool centred) {
  const Space space;
  const TeamSpace teams;
  using Host          = ChannelKernels<Space, T>;
  const index_t items = s.batch * s.channels, cells = s.batch * s.z * s.y * s.x;
  const Cells<T> x(s, 1, T(3)), a(s, 2);
  std::vector<T> w, b;
  for (index_t c = 0; c < s.channels; ++c) {
    w.push_back(static_cast<T>(1 + c));
    b.push_back(static_cast<T>(2 - c));
  }
  Cells<T> to(s, 3), wanted(s, 3);
  const LineTiles tiles = LineTiles::of(space, x.block, LineTiles::channel_dim);
  auto mine = numbers(2 * cells), theirs = mine;
  launch_tiles("moments", teams, tiles,
               ChannelMomentsTeamKernel<T>{tiles, mine.data(), x.input(), centred});
  Host::norm_moments(space, theirs.data(), x.input(), centred);
  space.fence();
  expect_near(mine, theirs, 10.0);
  if (s.channels == 0) return;
  launch_tiles(
      "norm", teams, tiles,
      ChannelNormTeamKernel<T>{
          tiles, to.block, x.input(), mine.data(), w.data(), b.data(), {1e-2, centred}, false});
  Host::norm(space, wanted.block, x.input(), theirs.data(), w.data(), b.data(), {1e-2, centred});
  space.fence();
  expect_near(mine, theirs, 10.0);
  expect_same_cells(to, wanted);

  const auto statistics = theirs;
  auto parts            = numbers(2 * items * CellPieces::of(s.z * s.y * s.x).count);
  auto sums = numbers(2 * items), sums_wanted = sums;
  sum_planes("sums", teams, ChannelPairTerm<T>{a.input(), x.input(), statistics.data()}, x.input(),
             sums.data(), parts.data());
  Host::norm_sums(space, sums_wanted.data(), a.input(), x.input(), statistics.data(), nullptr);
  space.fence();
  expect_near(sums, sums_wanted, static_cast<double>(cells + 1));

  launch_tiles("cells", teams, tiles,
               ChannelCellSumsTeamKernel<T>{tiles, mine.data(), a.input(), x.input(),
                                            statistics.data(), w.data()});
  Host::norm_cell_sums(space, theirs.data(), a.input(), x.input(), statistics.data(), w.data());
  space.fence();
  expect_near(mine, theirs, 100.0);
  for (const bool adjoint : {false, true}) {
    launch_tiles("derivative", teams, tiles,
                 ChannelNormDerivativeTeamKernel<T>{tiles,
                                                    to.block,
                                                    a.input(),
                                                    x.input(),
                                                    statistics.data(),
                                                    w.data(),
                                                    adjoint ? nullptr : w.data(),
                                                    adjoint ? nullptr : b.data(),
                                                    adjoint,
                                                    true,
                                                    centred,
                                                    {}});
    if (adjoint)
      Host::norm_pullback(space, wanted.block, a.input(), x.input(), statistics.data(), w.data(),
                          centred);
    else
      Host::norm_pushforward(space, wanted.block, a.input(), true, x.input(), statistics.data(),
                             w.data(), w.data(), b.data(), centred);
    space.fence();
    expect_same_cells(to, wanted);
  }
  launch_tiles("softmax", teams, tiles,
               LineSoftmaxTeamKernel<T, false>{tiles, to.block, x.input()});
  Host::softmax(space, wanted.block, x.input());
  space.fence();
  expect_same_cells(to, wanted);
  launch_tiles("softmax", teams, tiles,
               LineSoftmaxDerivativeTeamKernel<T>{tiles, to.block, a.input(), x.input()});
  Host::softmax_derivative(space, wanted.block, a.input(), x.input());
  space.fence();
  expect_same_cells(to, wanted);
}

/// Softmax along a spatial dimension: in one kernel each way, and with statistics in between.
template <class T>
void check_lines(const Shape& s, int dim) {
  const Space space;
  const TeamSpace teams;
  using Host = LineKernels<Space, T>;
  const Cells<T> x(s, 1, T(3)), a(s, 2);
  Cells<T> to(s, 3), wanted(s, 3);
  const LineTiles tiles = LineTiles::of(space, x.block, 2 + dim);
  const auto expect     = [&](const std::vector<double>& mine, const std::vector<double>& theirs) {
    space.fence();
    ASSERT_EQ(mine.size(), theirs.size());
    const double tolerance = std::is_same_v<T, double> ? 1e-12 : 3e-6;
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (!std::isnan(mine[i]) || !std::isnan(theirs[i])) {  // dots of lines without points
        EXPECT_NEAR(mine[i], theirs[i], tolerance * std::max(1.0, std::abs(theirs[i]))) << i;
      }
    expect_same_cells(to, wanted);
  };
  auto mine = numbers(2 * tiles.lines), theirs = mine;
  auto dots = numbers(tiles.lines), dots_wanted = dots;
  launch_tiles("exponentials", teams, tiles,
               LineExponentialsTeamKernel<T>{tiles, mine.data(), x.input()});
  Host::exponentials(space, theirs.data(), x.input(), dim);
  expect(mine, theirs);
  launch_tiles("softmax", teams, tiles,
               LineSoftmaxTeamKernel<T, true>{tiles, to.block, x.input(), theirs.data()});
  Host::softmax(space, wanted.block, x.input(), theirs.data(), dim);
  expect(mine, theirs);
  launch_tiles("dots", teams, tiles,
               LineDotsTeamKernel<T>{tiles, dots.data(), a.input(), x.input(), theirs.data()});
  Host::dots(space, dots_wanted.data(), a.input(), x.input(), theirs.data(), dim);
  expect(dots, dots_wanted);
  launch_tiles("derivative", teams, tiles,
               LineSoftmaxDerivativeTeamKernel<T>{tiles, to.block, a.input(), x.input(),
                                                  theirs.data(), dots_wanted.data()});
  Host::derivative(space, wanted.block, a.input(), x.input(), theirs.data(), dots_wanted.data(),
                   dim);
  expect(dots, dots_wanted);
  mine = theirs = numbers(2 * tiles.lines);
  launch_tiles("softmax", teams, tiles,
               LineSoftmaxTeamKernel<T, false>{tiles, to.block, x.input(), mine.data()});
  Host::softmax_of_lines(space, wanted.block, theirs.data(), x.input(), dim);
  expect(mine, theirs);
  launch_tiles("derivative", teams, tiles,
               LineSoftmaxDerivativeTeamKernel<T>{tiles, to.block, a.input(), x.input(),
                                                  theirs.data(), nullptr});
  Host::derivative_of_lines(space, wanted.block, a.input(), x.input(), theirs.data(), dim);
  expect(mine, theirs);
}

TEST(DeviceSums, LinesAreTheHosts) {
  for (const Shape& s : shapes)
    for (int dim = 0; dim < 3; ++dim) {
      check_lines<float>(s, dim);
      check_lines<double>(s, dim);
    }
}

/// One rank's part of lines: minus infinities, finite values and a NaN, NaN alone, both. The next
/// rank's part is finite. A NaN stays in the merged sum.
TEST(DeviceSums, LinesWithoutFiniteValues) {
  const TeamSpace teams;
  const double infinity = std::numeric_limits<double>::infinity();
  Cells<double> x({1, 1, 1, 4, 40, 0}, 1);
  for (std::size_t i = 0; i < 40; ++i) {
    x.memory[i]       = -infinity;
    x.memory[80 + i]  = std::nan("");
    x.memory[120 + i] = i % 2 == 0 ? -infinity : std::nan("");
  }
  x.memory[50]           = std::nan("");
  const LineTiles tiles  = LineTiles::of(Space(), x.block, LineTiles::last_dim);
  std::vector<double> of = numbers(16), merged = numbers(8);
  launch_tiles("exponentials", teams, tiles,
               LineExponentialsTeamKernel<double>{tiles, of.data(), x.input()});
  EXPECT_EQ(of[0], -infinity);
  EXPECT_EQ(of[1], 0.0);
  for (std::size_t i = 8; i < 16; ++i) of[i] = 2.0;
  LineKernels<Space, double>::merge(Space(), merged.data(), of.data(), 4, 2);
  Space().fence();
  EXPECT_EQ(merged[0], 2.0);
  EXPECT_EQ(merged[1], 2.0);
  for (const std::size_t line : {1, 2, 3}) EXPECT_TRUE(std::isnan(merged[2 * line + 1])) << line;
}

/// Of one shape, for device_races, where several threads share a line.
TEST(DeviceSums, LinesOfSeveralThreads) {
  check_lines<double>({1, 2, 1, 9, 70, 1}, 1);
  check_lines<double>({1, 2, 1, 3, 70, 1}, 2);
}

TEST(DeviceSums, ChannelsAreTheHosts) {
  for (const Shape& s : shapes) {
    for (const bool centred : {true, false}) {
      check_channels<float>(s, centred);
      check_channels<double>(s, centred);
    }
  }
}

/// Windows of 3 x 4 cells, the last ones short, some lines apart; keys in two blocks if `causal`.
template <class T>
void check_attention(index_t features, bool causal, bool biased, index_t key_heads = 2,
                     bool masked = false) {
  const Space space;
  const TeamSpace teams;
  using Host          = AttentionKernels<Space, T>;
  const index_t heads = 2;
  const Shape s{2, heads * features, 1, causal ? 1 : 8, causal ? 53 : 11, 1};
  const Shape of_keys{s.batch, key_heads * features, s.z, s.y, s.x, s.pad};
  const Cells<T> q(s, 1), k(of_keys, 2), v(of_keys, 3), dy(s, 4);
  AttentionShape shape;
  shape.heads         = heads;
  shape.heads_per_key = heads / key_heads;
  shape.scale         = 0.4;
  shape.causal        = causal;
  for (Tokens* tokens : {&shape.queries, &shape.keys}) {
    if (causal) {
      tokens->dims[2] = {1, 53, 0, 1, 53};
    } else {
      tokens->dims[1] = {3, 3, 3, 1, 8, 7};
      tokens->dims[2] = {3, 4, 4, 1, 11};
    }
  }
  Cells<T> out(s, 5), wanted(s, 5), to(s, 5), dk(of_keys, 5), dv(of_keys, 6), dk_wanted(of_keys, 5),
      dv_wanted(of_keys, 6);
  auto sums = numbers(2 * s.batch * heads * s.y * s.x), sums_wanted = sums;
  ScoreBias<const T> bias;
  std::vector<T> added(static_cast<std::size_t>(heads * 12 * 12));
  for (std::size_t i = 0; i < added.size(); ++i) added[i] = static_cast<T>(std::sin(1.0 + i));
  if (biased) bias.learned = {added.data(), heads, 9, 12};
  std::vector<T> mask(static_cast<std::size_t>(9 * 12 * 12));
  for (std::size_t i = 0; i < mask.size(); ++i)
    mask[i] = i % 3 == 0 || i / 12 % 5 == 2 ? -Kokkos::Experimental::infinity_v<T>
                                            : static_cast<T>(std::cos(1.0 + i));
  if (masked) bias.mask = {mask.data(), 1, 1, 12};
  const auto all              = attention_item(shape, bias, q.input());
  const double tolerance      = std::is_same_v<T, double> ? 1.0 : 2e7;
  const Block<const T> qkv[3] = {q.input(), k.input(), v.input()};
  // the same keys twice: as two blocks, whose partial sums are kept between the calls
  for (const bool first : {true, false}) {
    ASSERT_TRUE(device_attend(teams, all, out.block, sums.data(), q.input(), k.input(), v.input(),
                              first, !first));
    Host::attend(space, wanted.block, sums_wanted.data(), q.input(), k.input(), v.input(), shape,
                 bias, first, !first);
  }
  space.fence();
  for (std::size_t i = 0; i < sums.size() / 2; ++i)
    EXPECT_NEAR(sums[i], sums_wanted[i], 1e-12 * tolerance);
  expect_same_cells(out, wanted, 10.0);
  Host::products(space, sums_wanted.data(), dy.input(), wanted.input(), shape);
  space.fence();
  for (const bool first : {true, false}) {
    ASSERT_TRUE(device_attend_back<false>(teams, all, to.block, Block<T>(), sums_wanted.data(),
                                          dy.input(), qkv, first));
    Host::pullback_queries(space, wanted.block, {}, sums_wanted.data(), dy.input(), qkv, shape,
                           bias, first);
  }
  space.fence();
  expect_same_cells(to, wanted, 30.0);
  AttentionShape keyless      = shape;  // of a rank without keys: dq is zero
  keyless.keys.dims[2].tokens = 0;
  ASSERT_TRUE(device_attend_back<false>(teams, attention_item(keyless, bias, q.input()), to.block,
                                        Block<T>(), sums_wanted.data(), dy.input(), qkv, true));
  Host::pullback_queries(space, wanted.block, {}, sums_wanted.data(), dy.input(), qkv, keyless,
                         bias, true);
  space.fence();
  expect_same_cells(to, wanted, 30.0);
  if (!device_attend_back<true>(teams, all, dk.block, dv.block, sums_wanted.data(), dy.input(), qkv,
                                true))
    return;
  Host::pullback_keys(space, dk_wanted.block, dv_wanted.block, sums_wanted.data(), dy.input(), qkv,
                      shape, bias, true);
  space.fence();
  expect_same_cells(dk, dk_wanted, 30.0);
  expect_same_cells(dv, dv_wanted, 30.0);
}

TEST(DeviceSums, AttentionIsTheHosts) {
  for (const bool causal : {false, true}) {
    for (const index_t features : {1, 16, 24}) check_attention<double>(features, causal, false);
    for (const index_t features : {5, 32, 64}) check_attention<float>(features, causal, false);
  }
  for (const bool causal : {false, true}) {
    check_attention<double>(24, causal, false, 1);
    check_attention<float>(32, causal, false, 1);
  }
  check_attention<double>(24, false, false, 2, true);
  check_attention<float>(32, false, true, 1, true);
  for (const index_t features : {1, 24}) check_attention<double>(features, false, true);
  for (const index_t features : {5, 64}) check_attention<float>(features, false, true);
}

TEST(DeviceSums, RunsOfFieldsAreSummedWhole) {
  const Space space;
  const TeamSpace teams;
  for (const Shape& s : shapes) {
    const Cells<double> x(s, 1), y(s, 2);
    CellRuns runs;
    CellValues<const double> a, b;
    a.origin = x.block.origin;
    b.origin = y.block.origin;
    for (int d = 0; d < 5; ++d) {
      const index_t extent[5] = {s.batch, s.channels, s.z, s.y, s.x};
      runs.extent[d + 1]      = extent[d];
      runs.cells *= extent[d];
      a.stride[d + 1] = b.stride[d + 1] = x.block.stride[d];
    }
    if (runs.cells == 0) continue;
    double wanted = 0.0;
    for (index_t n = 0; n < s.batch; ++n)
      for (index_t c = 0; c < s.channels; ++c)
        for (index_t k = 0; k < s.z; ++k)
          for (index_t j = 0; j < s.y; ++j)
            for (index_t i = 0; i < s.x; ++i)
              wanted += x.block.at(n, c, k, j, i) * y.block.at(n, c, k, j, i);
    const auto box = box_of_runs(runs, a, b, 1000);
    int dims       = 0;
    for (const index_t n : {s.batch, s.channels, s.z, s.y, s.x}) dims += n > 1 ? 1 : 0;
    ASSERT_EQ(box.has_value(), s.pad == 0 || dims <= 3);
    if (!box) continue;
    runs.length             = 1000;
    const index_t run_count = runs.runs();
    auto sums               = numbers(run_count + 1);
    constexpr int threads   = team_threads<TeamSpace>;
    launch_teams("sums", teams, run_count, threads, team_bytes(threads),
                 SumRunsTeamKernel<ProductTerm, double, double, double>{
                     runs, BoxCells<2, int>(*box), {}, a.origin, b.origin, sums.data()});
    launch_teams("whole", teams, 1, threads, team_bytes(threads),
                 SumTeamsKernel<double>{sums.data(), run_count, sums.data() + run_count});
    space.fence();
    EXPECT_NEAR(sums.back(), wanted, 1e-12 * static_cast<double>(runs.cells));
  }
}

template <class Index>
void check_box_cells() {
  const BoxStrides<2> box{{3, 7, 5}, {{1000, 100, 3}, {1, -7, 90}}};
  const BoxCells<2, Index> cells(box);
  for (index_t first = 0; first < 105; ++first)
    for (index_t number = first; number < 105; ++number) {
      const auto cell = cells.behind(cells.at(first), static_cast<std::uint32_t>(number - first));
      const index_t at[3] = {number / 35, number / 5 % 7, number % 5};
      for (int f = 0; f < 2; ++f) {
        index_t offset = 0;
        for (int d = 0; d < 3; ++d) offset += at[d] * box.stride[f][d];
        ASSERT_EQ(cell.offset[f], offset) << first << " " << number;
      }
      for (int d = 0; d < 3; ++d) ASSERT_EQ(cell.along(d), at[d]);
    }
}

TEST(DeviceSums, CellsOfABoxAreFoundByNumber) {
  check_box_cells<int>();
  check_box_cells<index_t>();
}

TEST(DeviceSums, MergedBoxesHaveTheSamePoints) {
  for (const index_t z : {1, 4})
    for (const index_t y : {1, 3})
      for (const index_t x : {1, 8})
        for (const index_t row : {x, x + 2})                      // a halo along x
          for (const index_t plane : {y * row, (y + 2) * row}) {  // and along y
            const BoxStrides<2> box{{z, y, x}, {{plane, row, 1}, {y * x, x, 1}}};
            const BoxStrides<2> line = box.merged();
            EXPECT_EQ(line.extent[2] == z * y * x,
                      (y == 1 || row == x) && (z == 1 || plane == y * x));
            const BoxCells<2, int> cells(box), of_line(line);
            for (index_t i = 0; i < z * y * x; ++i)
              for (int f = 0; f < 2; ++f)
                ASSERT_EQ(of_line.at(i).offset[f], cells.at(i).offset[f])
                    << z << " " << y << " " << x << " " << row << " " << plane << ": " << i;
          }
}

TEST(DeviceSums, LongStridesTakeLongIndices) {
  EXPECT_TRUE((BoxStrides<1>{{3, 7, 5}, {{1000, 100, 3}}}.are_short(4096)));
  EXPECT_FALSE((BoxStrides<1>{{3, 7, index_t{1} << 30}, {{1000, 100, 3}}}.are_short(4096)));
  EXPECT_FALSE((BoxStrides<1>{{3, 7, 5}, {{index_t{1} << 20, 100, 3}}}.are_short(4096)));
  // a single line of any length has a box with short strides
  CellRuns runs;
  CellValues<const double> a;
  runs.extent[max_rank - 1] = runs.cells = index_t{3} << 31;
  a.stride[max_rank - 1]                 = 1;
  const auto box                         = box_of_runs(runs, a, a, 4096);
  ASSERT_TRUE(box.has_value());
  const BoxCells<2, int> cells(*box);
  const index_t number = (index_t{5} << 30) + 12345;
  EXPECT_EQ(cells.behind(cells.at(number - 300), 300).offset[1], number);
}

TEST(DeviceSums, DivisorsDivide) {
  for (const index_t d : {1, 2, 3, 5, 7, 64, 360, 1440, 65535, 1 << 30, 2147483647})
    for (const index_t n : {0, 1, 2, 6, 359, 360, 1439, 99999, 1 << 20, 2147483646, 2147483647})
      for (const index_t about : {n, n / d * d, n / d * d + d - 1})
        if (about < index_t{1} << 31) {
          ASSERT_EQ(Divisor::of(d).quotient(static_cast<std::uint32_t>(about)), about / d);
        }
}

struct NotTheHost {};  // a work item is a cell there, not a row
template <class Kernel>
void run_items(const RowSplit& split, const Kernel& kernel) {
  for (index_t i = 0; i < split.items(); ++i) kernel(i);
}

// Each cell sums what the outputs that have chosen it give, in the host's order: the same bits.
TEST(DevicePool, GradientsOfMaximaAreTheHosts) {
  const PoolWindow window{
      .kernel = {1, 3, 2}, .stride = {1, 2, 1}, .offset = {0, -1, 0}, .last = {2, 7, 13}};
  for (const index_t channels : {1, 3, 11}) {
    const Cells<double> x({2, channels, 2, 7, 13, 2}, 1), y({2, channels, 2, 4, 12, 1}, 2),
        dy({2, channels, 2, 4, 12, 3}, 3), chosen({2, channels, 2, 4, 12, 0}, 4);
    const Cells<double> host({2, channels, 2, 7, 13, 1}, 5), listed({2, channels, 2, 7, 13, 1}, 5),
        from_field({2, channels, 2, 7, 13, 1}, 5);
    std::vector<int> taps(static_cast<std::size_t>(2 * channels * y.block.cells()));
    using Host = PoolKernels<Space, double>;
    Host::max(Space(), y.block, taps.data(), x.input(), window);
    Host::taps_as_values(Space(), chosen.block, taps.data());
    Host::max_pullback(Space(), host.block, taps.data(), dy.input(), window);
    const RowSplit split = RowSplit::of_groups(NotTheHost(), host.block);
    run_items(split, MaxPoolPullbackKernel<double, ListedTaps>{
                         split, listed.block, {taps.data()}, dy.input(), window});
    run_items(split, MaxPoolPullbackKernel<double, TapField<double>>{
                         split, from_field.block, {chosen.input()}, dy.input(), window});
    EXPECT_EQ(listed.memory, host.memory) << channels;
    EXPECT_EQ(from_field.memory, host.memory) << channels;
  }
}

}  // namespace
