// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Poolings and shuffled pixels against plain loops, on every mesh, any partition.
#include "shard/layers/resampling/pool.hpp"

#include <limits>

#include "layers/window_reference.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

template <class B0, class B1>
using Wide    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<6>, B0>,
                         ShardDim<3, Lon, Halo<4>, B1>>;
using Flat    = OutputOf<double, 2>;
using Deep    = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<2>>,
                         ShardDim<4, Lon, Halo<2>>>;
using DeepOut = ShardedView<double*****, Kokkos::LayoutRight, ShardDim<2, Lat>, ShardDim<4, Lon>>;
using Line    = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lon>,
                         ShardDim<2, Lat, Halo<3>, Clamp>>;  // channels are cut too
using LineOut = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lon>, ShardDim<2, Lat>>;

/// A pooling written out as PyTorch does it.
struct SerialPool {
  std::array<Window, 3> window{};
  bool max = false, count_padding = true;
  Extents nx{}, ny{};

  /// Calls visit(output, input) for each cell of the world in each window, row-major.
  template <class Visit>
  void cells(const Visit& visit) const {
    for (index_t o = 0; o < static_cast<index_t>(count_of(ny)); ++o) {
      const std::array<index_t, 3> at{o / ny[4] / ny[3] % ny[2], o / ny[4] % ny[3], o % ny[4]};
      const index_t plane = o / ny[4] / ny[3] / ny[2], n = plane / ny[1], c = plane % ny[1];
      for (int kz = 0; kz < window[0].kernel; ++kz)
        for (int ky = 0; ky < window[1].kernel; ++ky)
          for (int kx = 0; kx < window[2].kernel; ++kx) {
            const std::array<int, 3> k{kz, ky, kx};
            std::array<index_t, 3> i{};
            bool inside = true;
            for (std::size_t d = 0; d < 3; ++d) {
              i[d]   = at[d] * window[d].stride - window[d].padding_lo + k[d] * window[d].dilation;
              inside = inside && i[d] >= 0 && i[d] < nx[d + 2];
            }
            if (inside) visit(static_cast<std::size_t>(o), place(nx, n, c, i[0], i[1], i[2]));
          }
    }
  }

  /// The window's cells in the world or its padding: with CeilMode perhaps not all of them.
  double padded(index_t o) const {
    const std::array<index_t, 3> at{o / ny[4] / ny[3] % ny[2], o / ny[4] % ny[3], o % ny[4]};
    double cells = 1.0;
    for (std::size_t d = 0; d < 3; ++d) {
      const Window& w     = window[d];
      const index_t begin = at[d] * w.stride - w.padding_lo,
                    end   = std::min<index_t>(begin + w.kernel, nx[d + 2] + w.padding_hi);
      cells *= static_cast<double>(end - begin);
    }
    return cells;
  }

  /// The weights of the linear map that the pooling of x is: of a maximum one for the chosen cell.
  struct Weights {
    std::vector<std::size_t> output, input;
    std::vector<double> weight;
  };
  Weights weights(const std::vector<double>& x) const {
    Weights w;
    if (max) {
      const std::size_t none = ~std::size_t{0};
      std::vector<std::size_t> chosen(count_of(ny), none);
      cells([&](std::size_t o, std::size_t i) {
        if (chosen[o] == none || x[i] > x[chosen[o]] || std::isnan(x[i])) chosen[o] = i;
      });
      for (std::size_t o = 0; o < chosen.size(); ++o)
        if (chosen[o] != none) {
          w.output.push_back(o);
          w.input.push_back(chosen[o]);
          w.weight.push_back(1.0);
        }
      return w;
    }
    std::vector<double> count(count_of(ny), 0.0);
    cells([&](std::size_t o, std::size_t) { count[o] += 1.0; });
    cells([&](std::size_t o, std::size_t i) {
      w.output.push_back(o);
      w.input.push_back(i);
      w.weight.push_back(1.0 / (count_padding ? padded(static_cast<index_t>(o)) : count[o]));
    });
    return w;
  }
};

std::vector<double> forward(const SerialPool::Weights& w, const std::vector<double>& x,
                            std::size_t n) {
  std::vector<double> y(n, 0.0);
  for (std::size_t k = 0; k < w.weight.size(); ++k) y[w.output[k]] += w.weight[k] * x[w.input[k]];
  return y;
}
std::vector<double> backward(const SerialPool::Weights& w, const std::vector<double>& dy,
                             std::size_t n) {
  std::vector<double> dx(n, 0.0);
  for (std::size_t k = 0; k < w.weight.size(); ++k) dx[w.input[k]] += w.weight[k] * dy[w.output[k]];
  return dx;
}

template <class Layer>
constexpr bool is_max = !requires(const Layer& l) {
  l.count_padding;
};

/// Partitions of a field's cut dimensions; the others are whole.
template <class X>
std::array<Partition, static_cast<std::size_t>(X::rank)> parts_of(
    const std::array<index_t, static_cast<std::size_t>(X::rank)>& n, const std::array<int, 2>& mesh,
    int which, Random& random) {
  std::array<Partition, static_cast<std::size_t>(X::rank)> p;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    ((p[D] = some_partition(n[D],
                            std::is_same_v<typename X::template axis<D>, Lat>   ? mesh[0]
                            : std::is_same_v<typename X::template axis<D>, Lon> ? mesh[1]
                                                                                : 1,
                            which, random)),
     ...);
  }
  (std::make_integer_sequence<int, X::rank>{});
  return p;
}

template <class X, class Y, class Layer>
void check(const Layer& layer,
           const std::array<index_t, static_cast<std::size_t>(X::rank)>& extents,
           std::vector<double> x0 = {}) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  constexpr int rank = X::rank;
  Random random(seed());
  SerialPool serial;
  serial.max = is_max<Layer>;
  if constexpr (!is_max<Layer>) serial.count_padding = Layer::count_padding;
  serial.nx = serial.ny = five(extents);
  for (int d = 0; d < Layer::dims; ++d) {
    const auto to     = static_cast<std::size_t>(d + 3 - Layer::dims);
    serial.window[to] = Layer::window(d);
    serial.ny[to + 2] = Layer::output_extent(d, serial.nx[to + 2]);
  }
  const Extents nx = serial.nx, ny = serial.ny;
  if (x0.empty()) x0 = some_values(count_of(nx), random);
  const auto tx0 = some_values(count_of(nx), random), dy0 = some_values(count_of(ny), random);
  const auto w   = serial.weights(x0);
  auto y0        = forward(w, x0, count_of(ny));
  const auto ty0 = forward(w, tx0, count_of(ny)), dx0 = backward(w, dy0, count_of(nx));
  on_shapes(2, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, parts_of<X>(extents, shape, which, random));
    const X dx = x.like("dx"), tx = x.like("tx");
    const Y y("y", mesh, layer.output_partitions(x.partitions()));
    const Y dy = y.like("dy"), ty = y.like("ty");
    scatter(x, world_of<rank>(nx, x0));
    scatter(tx, world_of<rank>(nx, tx0));
    scatter(dy, world_of<rank>(ny, dy0));
    scatter(dx, World<rank>(extents));
    if constexpr (is_max<Layer>) {
      const auto state = layer.state(x);
      layer.apply(Space(), state, y, x);
      layer.pushforward(Space(), state, ty, tx, x);
      layer.pullback(Space(), state, dx, dy, x);
    } else {
      layer.apply(Space(), y, x);
      layer.pushforward(Space(), ty, tx, x);
      layer.pullback(Space(), dx, dy, x);
    }
    EXPECT_LT(difference(y, world_of<rank>(ny, y0)), is_max<Layer> ? 1e-300 : 1e-12);
    EXPECT_LT(difference(ty, world_of<rank>(ny, ty0)), 1e-12);
    EXPECT_LT(difference(dx, world_of<rank>(nx, dx0)), 1e-12);
  });
}

using W  = Wide<Zero, Zero>;
using WP = Wide<Periodic, Reflect>;  // what lies beyond is left out all the same

TEST(pool, maxima) {
  check<W, Flat>(MaxPool<Kernel<2, 2>>{}, {1, 2, 11, 12});
  check<WP, Flat>(MaxPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}, {2, 2, 11, 12});
  check<W, Flat>(MaxPool<Kernel<3, 2>, Stride<1, 3>, Padding<1, low_high<0, 1>>, Dilation<3, 2>>{},
                 {1, 2, 17, 13});
}

TEST(pool, another_layout) {
  using X = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<2, Lat, Halo<2>>,
                        ShardDim<3, Lon, Halo<2>>>;
  check<X, OutputOf<double, 2, Kokkos::LayoutLeft>>(
      MaxPool<Kernel<3, 2>, Stride<2, 1>, Padding<1, 1>>{}, {2, 2, 9, 7});
}

TEST(pool, means_by_both_counting_rules) {
  using Uneven = Padding<low_high<2, 0>, low_high<1, 2>>;
  check<W, Flat>(AvgPool<Kernel<2, 2>>{}, {1, 2, 11, 12});
  check<W, Flat>(AvgPool<Kernel<2, 2>, ExcludePadding>{}, {1, 2, 11, 12});
  check<WP, Flat>(AvgPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}, {2, 2, 11, 12});
  check<WP, Flat>(AvgPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>, ExcludePadding>{},
                  {2, 2, 11, 12});
  check<W, Flat>(AvgPool<Kernel<5, 4>, Stride<1, 3>, Uneven>{}, {1, 1, 13, 11});
  check<W, Flat>(AvgPool<Kernel<5, 4>, Stride<1, 3>, Uneven, Dilation<1, 1>, ExcludePadding>{},
                 {1, 1, 13, 11});
}

TEST(pool, last_windows_that_end_beyond_the_padding) {
  static_assert(MaxPool<Kernel<2>, CeilMode>::output_extent(0, 5) == 3);
  static_assert(MaxPool<Kernel<2>>::output_extent(0, 5) == 2);
  static_assert(MaxPool<Kernel<2>, Stride<3>, Padding<1>, CeilMode>::output_extent(0, 2) == 1);
  static_assert(MaxPool<Kernel<5>, Stride<2>, CeilMode>::output_extent(0, 4) == 1);
  static_assert(MaxPool<Kernel<7>, Stride<2>, CeilMode>::output_extent(0, 4) == 0);
  check<W, Flat>(MaxPool<Kernel<3, 2>, Stride<2, 2>, CeilMode>{}, {1, 2, 12, 11});
  check<WP, Flat>(MaxPool<Kernel<3, 3>, Stride<2, 3>, Padding<1, 1>, Dilation<2, 1>, CeilMode>{},
                  {1, 1, 12, 9});
  check<WP, Flat>(AvgPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>, CeilMode>{}, {2, 1, 12, 11});
  check<W, Flat>(AvgPool<Kernel<4, 5>, Stride<3, 4>, Padding<2, low_high<1, 2>>, CeilMode>{},
                 {1, 2, 14, 11});
  check<W, Flat>(AvgPool<Kernel<4, 5>, Stride<3, 4>, Padding<2, 1>, CeilMode, ExcludePadding>{},
                 {1, 2, 14, 11});
}

TEST(pool, one_dimension_with_its_channels_cut) {
  check<Line, LineOut>(MaxPool<Kernel<4>, Stride<3>, Padding<2>>{}, {2, 5, 19});
  check<Line, LineOut>(AvgPool<Kernel<3>, Stride<2>, Padding<1>, ExcludePadding>{}, {2, 5, 19});
}

TEST(pool, three_dimensions) {
  check<Deep, DeepOut>(MaxPool<Kernel<2, 3, 3>, Stride<1, 2, 2>, Padding<1, 1, 1>>{},
                       {1, 2, 6, 5, 7});
  check<Deep, DeepOut>(
      AvgPool<Kernel<3, 2, 2>, Stride<2, 2, 1>, Padding<1, 0, 1>, ExcludePadding>{},
      {1, 2, 7, 4, 6});
}

/// Of equal cells the first one has the gradient, also where they are another rank's.
TEST(pool, equal_cells) {
  check<W, Flat>(MaxPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>{}, {1, 1, 12, 7},
                 std::vector<double>(12 * 7, 0.5));
  std::vector<double> steps(12 * 7);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<double>(i / 14);
  check<W, Flat>(MaxPool<Kernel<4, 3>, Stride<2, 1>, Padding<2, 1>>{}, {1, 1, 12, 7}, steps);
  // below every number that could stand for padding
  check<W, Flat>(MaxPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}, {1, 1, 12, 7},
                 std::vector<double>(12 * 7, std::numeric_limits<double>::lowest()));
}

/// A NaN goes through, and of several the last has the gradient; infinities are values like others.
TEST(pool, nans_and_infinities) {
  using Layer      = MaxPool<Kernel<3>, Stride<1>, Padding<1>>;
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x0{nan, 1, nan, 2, 3, 4, -inf, -inf, -inf, 7, inf, nan, 0, 1, 2, 3};
  using X = ShardedView<double***, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>>;
  using Y = OutputOf<double, 1>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Layer layer;
  const X x("x", mesh, {1, 1, 16}), dx                              = x.like("dx");
  const Y y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
  scatter(x, world_of<3>({1, 1, 1, 1, 16}, x0));
  const auto state = layer.state(x);
  layer.apply(Space(), state, y, x);
  std::vector<double> ones(16, 1.0), dx0(16, 0.0);
  SerialPool serial;
  serial.max       = true;
  serial.window[2] = Layer::window(0);
  serial.nx = serial.ny = Extents{1, 1, 1, 1, 16};
  const auto w          = serial.weights(x0);
  Space().fence();
  const auto host = create_mirror_view(y);
  deep_copy(Space(), host, y);
  Space().fence();
  for_owned(host, [&](const auto& i, double value) {
    const double should_be = x0[w.input[static_cast<std::size_t>(i[2])]];
    if (std::isnan(should_be)) {
      EXPECT_TRUE(std::isnan(value)) << i[2];
    } else {
      EXPECT_EQ(value, should_be) << i[2];
    }
  });
  scatter(dy, world_of<3>({1, 1, 1, 1, 16}, ones));
  layer.pullback(Space(), state, dx, dy, x);
  EXPECT_EQ(difference(dx, world_of<3>({1, 1, 1, 1, 16}, backward(w, ones, 16))), 0.0);
}

TEST(pool, aligned_windows_send_nothing) {
  const ScopedVariable unchecked("SHARD_CHECK", "0"), messages_only("SHARD_TRANSPORT", "mpi");
  const int n = world_size();
  const Grid mesh(MPI_COMM_WORLD, {n, 1});
  const Flat x("x", mesh, {1, 2, 4 * n, 6}), dx = x.like("dx");
  const MaxPool<Kernel<4, 2>, Aligned> largest;
  const AvgPool<Kernel<2, 2>, Aligned> mean;
  const auto state = largest.state(x);
  const Flat y("y", mesh, largest.output_partitions(x.partitions())), dy = y.like("dy");
  const Flat z("z", mesh, mean.output_partitions(x.partitions()));
  const Counts counted = count([&] {
    largest.apply(Space(), state, y, x);
    largest.pushforward(Space(), state, dy, dx, x);
    largest.pullback(Space(), state, dx, y, x);
    mean.apply(Space(), z, x);
    mean.pullback(Space(), dx, z, x);
    mean.pullback(Space(), not_wanted, z, x);
  });
  EXPECT_EQ(counted.messages + counted.receives + counted.collectives, 0) << counted;
  EXPECT_EQ(counted.kernels, 5) << counted;
  EXPECT_EQ(counted.allocations, 0) << counted;
}

TEST(pool, what_does_not_fit_throws_on_every_rank) {
  const int n = world_size();
  const Grid mesh(MPI_COMM_WORLD, {n, 1});
  const MaxPool<Kernel<2, 2>, Aligned> layer;
  const W x("x", mesh, {1, 2, 3 * n, 6});
  const auto state = layer.state(x);
  EXPECT_THROW(layer.apply(Space(), state, Flat("y", mesh, {1, 2, 3 * n, 3}), x), ArgumentError);
  EXPECT_THROW(layer.apply(Space(), state, Flat("y", mesh, {1, 3, 3 * n / 2, 3}), x),
               ArgumentError);
  const Flat y("y", mesh, layer.output_partitions(x.partitions()));
  if (n > 1) {  // a field without a halo, its shards of three rows
    const Flat bare("x", mesh, {1, 2, 3 * n, 6});
    EXPECT_THROW(layer.apply(Space(), state, y, bare), ArgumentError);
    std::vector<index_t> begins(static_cast<std::size_t>(n) + 1, 0);
    begins.back()    = 3 * n / 2;
    auto all_on_last = y.partitions();
    all_on_last[2]   = Partition::explicit_begins(begins);
    EXPECT_THROW(layer.apply(Space(), state, Flat("y", mesh, all_on_last), x), ArgumentError);
  }
}

/// An output partition that isn't the natural one is served where the halo is wide enough, and
/// refused on every rank where not.
TEST(pool, other_output_partitions) {
  const MaxPool<Kernel<3, 2>, Stride<1, 2>, Padding<1, 0>> layer;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  Random random(seed() + 3);
  const W x("x", mesh, {1, 2, 6, 8}), dx = x.like("dx"), other_dx = x.like("dx");
  scatter(x, random_world<4>({1, 2, 6, 8}, random));
  const Flat y("y", mesh, layer.output_partitions(x.partitions()));
  auto partitions = y.partitions();
  partitions[2]   = random_partition(6, world_size(), random);
  const Flat other("other", mesh, partitions), moved = y.like("moved");
  const auto state = layer.state(x), other_state = layer.state(x, partitions);
  layer.apply(Space(), state, y, x);
  layer.apply(Space(), other_state, other, x);
  redistribute(Space(), moved, other);
  layer.pullback(Space(), state, dx, y, x);
  layer.pullback(Space(), other_state, other_dx, other, x);
  const double square = dot(Space(), y, y), gradient = dot(Space(), dx, dx);
  EXPECT_NEAR(dot(Space(), y, moved), square, 1e-12 * square);
  EXPECT_NEAR(dot(Space(), moved, moved), square, 1e-12 * square);
  EXPECT_NEAR(dot(Space(), dx, other_dx), gradient, 1e-12 * gradient);
  EXPECT_NEAR(dot(Space(), other_dx, other_dx), gradient, 1e-12 * gradient);
  if (world_size() == 1) return;
  const W tall("x", mesh, {1, 2, 40, 8});
  auto last = layer.output_partitions(tall.partitions());
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 0);
  begins.back()          = 40;
  last[2]                = Partition::explicit_begins(begins);
  const auto of_the_last = layer.state(tall, last);
  const Flat all_on_last("y", mesh, last);
  EXPECT_THROW(layer.apply(Space(), of_the_last, all_on_last, tall), ArgumentError);
  EXPECT_THROW(layer.apply(Space(), layer.state(tall), all_on_last, tall), ArgumentError);
}

/// y[c, i R + j] = x[c R^dims + j, i] and back, and both are each other's transpose. The first
/// `Kept` of the dimensions are the same in both.
template <int R, class X, int Kept = 0>
void check_pixels(const std::array<index_t, static_cast<std::size_t>(X::rank)>& extents) {
  constexpr int rank = X::rank, dims = rank - 2;
  constexpr auto order = PixelOrder::channels_first;
  const PixelShuffle<R, dims, order, Kept> shuffle;
  const PixelUnshuffle<R, dims, order, Kept> unshuffle;
  Random random(seed());
  const Extents nx = five(extents);
  std::array<index_t, 3> r{1, 1, 1};
  for (std::size_t d = 3 - dims + Kept; d < 3; ++d) r[d] = R;
  const Extents ny{nx[0], nx[1] / (r[0] * r[1] * r[2]), nx[2] * r[0], nx[3] * r[1], nx[4] * r[2]};
  const auto x0 = some_values(count_of(nx), random);
  std::vector<double> y0(x0.size());
  for (index_t o = 0; o < static_cast<index_t>(y0.size()); ++o) {
    const index_t x = o % ny[4], y = o / ny[4] % ny[3], z = o / ny[4] / ny[3] % ny[2],
                  c = o / ny[4] / ny[3] / ny[2] % ny[1], n = o / ny[4] / ny[3] / ny[2] / ny[1];
    y0[static_cast<std::size_t>(o)] =
        x0[place(nx, n, (c * r[0] + z % r[0]) * r[1] * r[2] + y % r[1] * r[2] + x % r[2], z / r[0],
                 y / r[1], x / r[2])];
  }
  on_shapes(2, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, parts_of<X>(extents, shape, which, random));
    const X y("y", mesh, shuffle.output_partitions(x.partitions()));
    ASSERT_EQ(unshuffle.output_partitions(y.partitions()), x.partitions());
    const X back = x.like("back");
    scatter(x, world_of<rank>(nx, x0));
    shuffle.apply(Space(), y, x);
    EXPECT_EQ(difference(y, world_of<rank>(ny, y0)), 0.0);
    unshuffle.apply(Space(), back, y);
    EXPECT_EQ(difference(back, world_of<rank>(nx, x0)), 0.0);
    scatter(y, World<rank>(of_rank<rank>(ny)));
    shuffle.pushforward(Space(), y, back, x);
    EXPECT_EQ(difference(y, world_of<rank>(ny, y0)), 0.0);
    scatter(back, World<rank>(extents));
    unshuffle.pushforward(Space(), back, y, y);
    EXPECT_EQ(difference(back, world_of<rank>(nx, x0)), 0.0);
    scatter(back, World<rank>(extents));
    shuffle.pullback(Space(), back, y, x);
    EXPECT_EQ(difference(back, world_of<rank>(nx, x0)), 0.0);
    scatter(y, World<rank>(of_rank<rank>(ny)));
    unshuffle.pullback(Space(), y, x, y);
    EXPECT_EQ(difference(y, world_of<rank>(ny, y0)), 0.0);
  });
}

TEST(pool, shuffled_pixels) {
  check_pixels<2, Flat>({2, 8, 5, 3});
  check_pixels<3, W>({1, 9, 7, 4});
  check_pixels<2, OutputOf<double, 1>>({1, 6, 9});
  check_pixels<2, OutputOf<double, 3>>({1, 8, 2, 5, 3});
  check_pixels<2, OutputOf<double, 3>, 1>({2, 8, 3, 5, 3});
  check_pixels<3, OutputOf<double, 3>, 2>({1, 6, 2, 5, 3});
  const PixelShuffle<2, 3, PixelOrder::channels_first, 1> levels;
  EXPECT_EQ(levels.output_extent(0, 7), 7);
  EXPECT_EQ(levels.output_extent(1, 7), 14);
}

TEST(pool, pixels_of_other_shards_throw_on_every_rank) {
  const int n = world_size();
  const Grid mesh(MPI_COMM_WORLD, {n, 1});
  const PixelUnshuffle<2> layer;
  const Flat odd("x", mesh, {1, 1, 7, 4});
  EXPECT_THROW(layer.output_partitions(odd.partitions()), ArgumentError);
  EXPECT_THROW((PixelShuffle<2>{}.output_partitions(odd.partitions())), ArgumentError);
  if (n > 1) {
    const Flat thirds("x", mesh, {1, 1, 6 * n, 4});
    auto p = thirds.partitions();
    std::vector<index_t> begins(static_cast<std::size_t>(n) + 1, 3);
    begins[0] = 0, begins.back() = 6 * n;
    p[2] = Partition::explicit_begins(begins);
    const Flat x("x", mesh, p), y("y", mesh, {1, 4, 3 * n, 2});
    EXPECT_THROW(layer.apply(Space(), y, x), ArgumentError);
  }
}

}  // namespace
}  // namespace shard::testing
