// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and their gradients on every mesh, with uneven and empty shards, halos full of NaN.
#include "shard/reduce/reductions.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "layers/layer_support.hpp"

namespace shard::testing {
namespace {

template <class T, class Layout>
using Haloed = ShardedView<T***, Layout, ShardDim<1, Lat, Halo<2>, Clamp>,
                           ShardDim<2, Lon, Halo<1, 2>, Periodic>>;
template <class T, class Layout>
using Plain = ShardedView<T***, Layout, ShardDim<1, Lat>, ShardDim<2, Lon>>;

using Values                          = std::vector<long double>;
constexpr std::array<index_t, 3> size = {3, 13, 37};
constexpr index_t all_cells           = 3 * 13 * 37;

std::size_t place(const std::array<index_t, 3>& i) {
  return static_cast<std::size_t>((i[0] * size[1] + i[1]) * size[2] + i[2]);
}

/// Sets the owned cells; everything else to NaN, or to what no sum would hide.
template <class Field>
void set(const Field& f, const Values& values) {
  using T         = typename Field::value_type;
  const auto host = create_mirror_view(f);
  Kokkos::deep_copy(host.view(), std::is_integral_v<T> ? std::numeric_limits<T>::max()
                                                       : std::numeric_limits<T>::quiet_NaN());
  for_owned(host, [&](const auto& i, auto& v) { v = static_cast<T>(values[place(i)]); });
  deep_copy(Space(), f, host);
  Space().fence();
}

/// The greatest difference of owned cells from `values`, on this rank.
template <class Field>
double off(const Field& f, const Values& values) {
  Space().fence();
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence();
  double most = 0.0;
  for_owned(host, [&](const auto& i, const auto& v) {
    const auto e = std::abs(static_cast<double>(static_cast<long double>(v) - values[place(i)]));
    most         = e <= most ? most : std::isnan(e) ? 1e300 : e;
  });
  return most;
}

/// Calls body(mesh, partitions) for every mesh of these ranks; the partitions are balanced, then
/// others with empty parts.
template <class Body>
void on_all(const Body& body) {
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    body(mesh, std::array<Partition, 3>{Partition::balanced(size[0], 1),
                                        some_partition(size[1], shape[0], which, random),
                                        some_partition(size[2], shape[1], which, random)});
  });
}

/// Values that T holds exactly.
template <class T>
Values random_values(Random& random) {
  Values v(all_cells);
  for (auto& x : v)
    x = std::is_integral_v<T> ? static_cast<long double>(random.below(2001) - 1000)
                              : static_cast<long double>(static_cast<float>(random.real()));
  return v;
}

/// This rank's part of the weights of all rows.
template <class Field>
Kokkos::View<double*, typename Field::memory_space> rows_of(const Field& f, int dim,
                                                            const std::vector<double>& weights) {
  Kokkos::View<double*, typename Field::memory_space> mine("weights",
                                                           static_cast<std::size_t>(f.extent(dim)));
  const auto host = Kokkos::create_mirror_view(mine);
  for (index_t i = 0; i < f.extent(dim); ++i)
    host(i) = weights[static_cast<std::size_t>(f.begin(dim) + i)];
  Kokkos::deep_copy(mine, host);
  return mine;
}

std::vector<double> latitude_weights() {
  std::vector<double> w(static_cast<std::size_t>(size[1]));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.1 + 0.07 * static_cast<double>(i);
  return w;
}

struct Expected {
  long double sum = 0, dot = 0, norm1 = 0, square = 0, most = 0, least = 1e30L, greatest = -1e30L,
              weighted = 0, weights = 0, deviations = 0;
  Expected(const Values& a, const Values& b) {
    const auto w = latitude_weights();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const long double row = w[i / static_cast<std::size_t>(size[2]) % w.size()];
      sum += a[i];
      dot += a[i] * b[i];
      norm1 += std::fabs(a[i]);
      square += a[i] * a[i];
      most     = std::max(most, std::fabs(a[i]));
      least    = std::min(least, a[i]);
      greatest = std::max(greatest, a[i]);
      weighted += row * a[i];
      weights += row;
    }
    for (const long double x : a) deviations += (x - sum / all_cells) * (x - sum / all_cells);
  }
};

template <Determinism Order, class T, class Layout, class OtherLayout>
void check_values() {
  Random random(seed() + 1);
  const Values a0 = random_values<T>(random), b0 = random_values<T>(random);
  const Expected e(a0, b0);
  const Space space;
  on_all([&](const Grid& mesh, const std::array<Partition, 3>& partitions) {
    const Haloed<T, Layout> a("a", mesh, partitions);
    const Plain<T, OtherLayout> b("b", mesh, partitions);
    set(a, a0);
    set(b, b0);
    const auto near = [](double is, long double should_be, long double scale) {
      EXPECT_NEAR(is, static_cast<double>(should_be), static_cast<double>(scale) * 1e-14);
    };
    near(static_cast<double>(sum<Order>(space, a)), e.sum, e.norm1);
    near(mean<Order>(space, a), e.sum / all_cells, e.norm1 / all_cells);
    near(static_cast<double>(dot<Order>(space, a, b)), e.dot, e.square);
    near(variance<Order>(space, a), e.deviations / all_cells, e.square / all_cells);
    near(variance<Order>(space, a, 1), e.deviations / (all_cells - 1), e.square / all_cells);
    near(norm1<Order>(space, a), e.norm1, e.norm1);
    near(norm2<Order>(space, a), std::sqrt(e.square), std::sqrt(e.square));
    EXPECT_EQ(norm_max(space, a), static_cast<double>(e.most));
    EXPECT_EQ(static_cast<long double>(shard::min(space, a)), e.least);
    EXPECT_EQ(static_cast<long double>(shard::max(space, a)), e.greatest);
    const auto w = along<1>(rows_of(a, 1, latitude_weights()));
    near(weighted_mean<Order>(space, a, w), e.weighted / e.weights, e.norm1 / all_cells);
    if constexpr (Order == Determinism::ordered && !std::is_integral_v<T>) {
      EXPECT_EQ(sum<Order>(space, a), static_cast<double>(e.sum));  // long double is exact here
      Plain<double, OtherLayout> wide("weights", mesh, partitions);
      Values w0(all_cells);
      const auto rows = latitude_weights();
      for (std::size_t i = 0; i < w0.size(); ++i)
        w0[i] = rows[i / static_cast<std::size_t>(size[2]) % rows.size()];
      set(wide, w0);
      EXPECT_EQ(weighted_mean<Order>(space, a, wide), weighted_mean<Order>(space, a, w));
    }
    const Plain<const T, OtherLayout> fixed = b;
    EXPECT_EQ(dot<Order>(space, a, fixed), dot<Order>(space, a, b));
  });
}

TEST(reductions, any_shards) {
  using Kokkos::LayoutLeft;
  using Kokkos::LayoutRight;
  check_values<Determinism::on_one_mesh, double, LayoutRight, LayoutRight>();
  check_values<Determinism::on_one_mesh, float, LayoutLeft, LayoutRight>();
  check_values<Determinism::on_one_mesh, int, LayoutRight, LayoutLeft>();
  check_values<Determinism::ordered, double, LayoutLeft, LayoutRight>();
  check_values<Determinism::ordered, float, LayoutRight, LayoutLeft>();
  check_values<Determinism::ordered, std::int64_t, LayoutLeft, LayoutLeft>();
}

/// From the least denormal to the greatest double, most of it cancelling.
Values wild_values(Random& random) {
  Values v(all_cells);
  for (std::size_t i = 0; i + 1 < v.size(); i += 2) {
    const double x = std::ldexp(random.real(), static_cast<int>(random.below(2098)) - 1074);
    v[i]           = x;
    v[i + 1]       = random.below(4) == 0 ? static_cast<double>(random.real()) : -x;
  }
  v[7]   = 1e300;
  v[900] = -1e300;
  v[901] = std::numeric_limits<double>::denorm_min();
  return v;
}

template <class Field, class Other, class Weights>
std::array<double, 9> ordered_results(const Field& a, const Other& b, const Weights& w) {
  constexpr auto order = Determinism::ordered;
  const Space space;
  return {sum<order>(space, a),
          mean<order>(space, a),
          variance<order>(space, a),
          dot<order>(space, a, b),
          norm1<order>(space, a),
          norm2<order>(space, a),
          static_cast<double>(norm_max(space, a)),
          weighted_mean<order>(space, a, w),
          dot<order>(space, b, b)};
}

template <class T, class Layout>
void check_bits(const Values& a0, const Values& b0) {
  const Grid self(MPI_COMM_SELF, {1, 1});
  const Plain<T, Kokkos::LayoutRight> a1("a", self, {size[0], size[1], size[2]});
  const auto b1 = a1.like("b");
  set(a1, a0);
  set(b1, b0);
  const auto alone = ordered_results(a1, b1, along<1>(rows_of(a1, 1, latitude_weights())));
  on_all([&](const Grid& mesh, const std::array<Partition, 3>& partitions) {
    const Haloed<T, Layout> a("a", mesh, partitions), b("b", mesh, partitions);
    set(a, a0);
    set(b, b0);
    const auto here = ordered_results(a, b, along<1>(rows_of(a, 1, latitude_weights())));
    for (std::size_t k = 0; k < here.size(); ++k)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(here[k]), std::bit_cast<std::uint64_t>(alone[k]))
          << "result " << k << ": " << here[k] << " for " << alone[k];
  });
}

TEST(reductions, ordered_have_the_bits_of_one_rank) {
  Random random(seed() + 2);
  const Values wild = wild_values(random), tame = random_values<double>(random);
  check_bits<double, Kokkos::LayoutRight>(wild, tame);
  check_bits<double, Kokkos::LayoutLeft>(tame, wild);
  check_bits<float, Kokkos::LayoutLeft>(tame, tame);
}

/// Sums that are known exactly.
TEST(reductions, ordered_sums_round_once) {
  constexpr auto order = Determinism::ordered;
  const double tiny    = std::numeric_limits<double>::denorm_min(),
               big     = std::numeric_limits<double>::max();
  const Space space;
  on_all([&](const Grid& mesh, const std::array<Partition, 3>& partitions) {
    const Plain<double, Kokkos::LayoutRight> x("x", mesh, partitions), y = x.like("y");
    const auto sum_of = [&](const std::vector<double>& few) {
      Values v(all_cells);
      for (std::size_t i = 0; i < few.size(); ++i) v[(i * 577) % v.size()] = few[i];
      set(x, v);
      return sum<order>(space, x);
    };
    EXPECT_EQ(sum_of({1e300, 1.0, -1e300}), 1.0);
    EXPECT_EQ(sum_of({big, big, tiny, -big, -big}), tiny);
    EXPECT_EQ(sum_of({big, big}), HUGE_VAL);
    EXPECT_EQ(sum_of({-big, -big, 1.0}), -HUGE_VAL);
    EXPECT_EQ(sum_of({-tiny, -tiny, -tiny}), -3.0 * tiny);
    EXPECT_EQ(sum_of({1.0, 0x1p-53}), 1.0);  // a tie, to even
    EXPECT_EQ(sum_of({1.0, 0x1p-52, 0x1p-53}), 1.0 + 0x1p-51);
    EXPECT_EQ(sum_of({1.0, 0x1p-53, tiny}), 1.0 + 0x1p-52);  // more than a tie
    EXPECT_EQ(sum_of({-1.0, -0x1p-53, tiny}), -1.0);
    EXPECT_EQ(sum_of({0x1.fffffffffffffp0, 0x1p-53}), 2.0);
    EXPECT_FALSE(std::signbit(sum_of({-0.0, 1.0, -1.0})));
    sum_of({1e200, 3e-200, 4e200});
    EXPECT_EQ(norm2<order>(space, x), norm2<order>(space, x));
    EXPECT_NEAR(norm2<order>(space, x) / 1e200, std::sqrt(17.0), 1e-15);
    sum_of({3 * tiny, 4 * tiny});
    EXPECT_EQ(norm2<order>(space, x), 5 * tiny);
    Values a(all_cells), b(all_cells);
    a[0] = b[0] = 1e300;
    a[500]      = -1e300;
    b[500]      = 1e300;
    a[999] = b[999] = 1.0 + 0x1p-30;
    a[1000]         = -1.0;
    b[1000]         = 1.0 + 0x1p-29;
    set(x, a);
    set(y, b);
    EXPECT_EQ((dot<order>(space, x, y)), 0x1p-60);
  });
}

/// Adds x, or the products x y, both ways, and expects the same digits.
void check_folded(const std::string& what, const std::vector<double>& x,
                  const std::vector<double>& y) {
  SCOPED_TRACE(what);
  using Digits = std::vector<index_t>;
  Digits one(impl::ExactSum::width), other(impl::ExactSum::width);
  const auto n = static_cast<index_t>(x.size());
  for (const bool products : {false, true}) {
    impl::FoldedSum sum(one.data());
    // in two parts
    if (products) {
      sum.add_products(x.data(), y.data(), n / 3);
      sum.add_products(x.data() + n / 3, y.data() + n / 3, n - n / 3);
    } else {
      sum.add(x.data(), n / 3);
      sum.add(x.data() + n / 3, n - n / 3);
    }
    sum.finish();
    impl::ExactSum::clear(other.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      products ? impl::ExactSum::add_product(other.data(), x[i], y[i])
               : impl::ExactSum::add(other.data(), x[i]);
    impl::ExactSum::carry(other.data());
    ASSERT_EQ(one, other) << (products ? "products of " : "values, ") << n;
    if (products) continue;
    for (const index_t part : {1, 100, 128}) {  // the levels have room for few terms
      impl::FoldedSum parts(one.data());
      for (index_t i = 0; i < n; i += part) parts.add(x.data() + i, std::min(part, n - i));
      parts.finish();
      ASSERT_EQ(one, other) << "in parts of " << part << ", " << n;
    }
  }
}

TEST(reductions, folds_lose_nothing) {
  Random random(seed() + 4);
  const auto of_exponent = [&](int least, int most) {
    return std::ldexp(static_cast<double>(random.real()),
                      least + static_cast<int>(random.below(most - least + 1)));
  };
  const auto many = [&](std::size_t n, auto value) {
    std::vector<double> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = value(i);
    return v;
  };
  std::vector<std::size_t> sizes = {511, 512, 513, 1024, 3000};
  for (std::size_t n = 0; n < 40; ++n) sizes.push_back(n);
  for (const std::size_t n : sizes) {
    const auto tame = many(n, [&](std::size_t) { return of_exponent(-3, 3); });
    check_folded("of one size", tame, many(n, [&](std::size_t) { return of_exponent(0, 0); }));
    check_folded("of many sizes", many(n, [&](std::size_t) { return of_exponent(-60, 60); }), tame);
    check_folded("of all sizes", many(n, [&](std::size_t) { return of_exponent(-1074, 1023); }),
                 many(n, [&](std::size_t) { return of_exponent(-1074, 1023); }));
    check_folded("falling",
                 many(n,
                      [&](std::size_t i) {
                        return of_exponent(0, 0) * std::exp2(-0.3 * static_cast<double>(i));
                      }),
                 tame);
    check_folded("rising",
                 many(n,
                      [&](std::size_t i) {
                        return of_exponent(0, 0) * std::exp2(0.3 * static_cast<double>(i));
                      }),
                 tame);
    check_folded("zeros",
                 many(n,
                      [&](std::size_t i) {
                        return i % 3 == 0 ? of_exponent(0, 0) : i % 3 == 1 ? 0.0 : -0.0;
                      }),
                 many(n, [&](std::size_t i) { return i % 5 == 0 ? 0.0 : of_exponent(-2, 2); }));
    check_folded("tiny products",
                 many(n,
                      [&](std::size_t i) {
                        return i % 7 == 0 ? of_exponent(-560, -500) : of_exponent(-2, 2);
                      }),
                 many(n, [&](std::size_t i) {
                   return i % 14 == 0 ? of_exponent(-560, -500) : of_exponent(-2, 2);
                 }));
    check_folded("the greatest",
                 many(n,
                      [&](std::size_t i) {
                        return i % 2 == 0 ? std::numeric_limits<double>::max()
                                          : of_exponent(1000, 1023);
                      }),
                 many(n, [&](std::size_t i) {
                   return i % 4 == 0 ? of_exponent(500, 1023) : of_exponent(-1074, 0);
                 }));
    check_folded(
        "specials",
        many(n,
             [&](std::size_t i) {
               return i % 11 == 3 ? HUGE_VAL : i % 13 == 5 ? std::nan("") : of_exponent(-2, 2);
             }),
        many(n, [&](std::size_t i) {
          return i % 11 == 3 && i % 2 == 0 ? 0.0 : i % 17 == 5 ? -HUGE_VAL : of_exponent(-2, 2);
        }));
    // the greatest that the folds are for, all of one sign: their sums come as near to the limits
    // as they may
    check_folded("full", many(n, [&](std::size_t) { return 0x1.fffffffffffffp0; }),
                 many(n, [&](std::size_t) { return -0x1.fffffffffffffp0; }));
    check_folded("residuals of one sign",
                 many(n, [&](std::size_t i) { return i == 0 ? 1.0 : 0x1.7ffffffffffffp-1; }),
                 many(n, [&](std::size_t) { return 0x1.5555555555555p0; }));
  }
}

TEST(reductions, infinities_and_nans) {
  constexpr auto order   = Determinism::ordered;
  constexpr double inf   = std::numeric_limits<double>::infinity();
  constexpr double quiet = std::numeric_limits<double>::quiet_NaN();
  const Space space;
  on_all([&](const Grid& mesh, const std::array<Partition, 3>& partitions) {
    const Plain<double, Kokkos::LayoutRight> x("x", mesh, partitions), y = x.like("y");
    Values v(all_cells, 1.0L);
    const auto both = [&](auto check) {
      set(x, v);
      check(sum(space, x));
      check(sum<order>(space, x));
    };
    v[40] = inf;
    both([&](double s) { EXPECT_EQ(s, inf); });
    EXPECT_EQ(norm2<order>(space, x), inf);
    EXPECT_TRUE(std::isnan(dot<order>(space, x, y)));  // inf times 0
    EXPECT_EQ(shard::max(space, x), inf);
    EXPECT_EQ(shard::min(space, x), 1.0);
    v[900] = -inf;
    both([&](double s) { EXPECT_TRUE(std::isnan(s)); });
    v[40] = 1.0;
    both([&](double s) { EXPECT_EQ(s, -inf); });
    EXPECT_EQ(norm_max(space, x), inf);
    v[900] = quiet;
    both([&](double s) { EXPECT_TRUE(std::isnan(s)); });
    EXPECT_TRUE(std::isnan(shard::min(space, x)) && std::isnan(shard::max(space, x)) &&
                std::isnan(norm_max(space, x)));
    v.assign(all_cells, 0.0L);
    v[3] = -0.0L;
    set(x, v);
    EXPECT_TRUE(std::signbit(shard::min(space, x)) && !std::signbit(shard::max(space, x)));
  });
}

template <class T, class Layout>
void check_gradients() {
  Random random(seed() + 3);
  Values x0 = random_values<T>(random), y0 = random_values<T>(random), w0(all_cells);
  x0[11] = 0.0L;
  x0[20] = x0[1200]  = 2.0L;  // the greatest twice, and as a magnitude three times
  x0[700]            = -2.0L;
  const auto w       = latitude_weights();
  long double square = 0, weights = 0, weighted = 0, sum = 0;
  for (std::size_t i = 0; i < x0.size(); ++i) {
    sum += x0[i];
    w0[i] = static_cast<long double>(
        static_cast<T>(w[i / static_cast<std::size_t>(size[2]) % w.size()]));
    square += x0[i] * x0[i];
    weights += w0[i];
    weighted += w0[i] * x0[i];
  }
  constexpr double g   = 0.75;
  constexpr double eps = std::is_same_v<T, float> ? 2e-7 : 1e-15;
  const Space space;
  on_all([&](const Grid& mesh, const std::array<Partition, 3>& partitions) {
    const Haloed<T, Layout> x("x", mesh, partitions), dx               = x.like("dx");
    const Plain<T, Kokkos::LayoutRight> y("y", mesh, partitions), wide = y.like("weights");
    set(x, x0);
    set(y, y0);
    set(wide, w0);
    const auto expect = [&](auto formula) {
      Values e(all_cells);
      for (std::size_t i = 0; i < e.size(); ++i) e[i] = formula(i);
      EXPECT_LT(off(dx, e), eps);
      set(dx, Values(all_cells, 99.0L));
    };
    sum_pullback(space, dx, g);
    expect([&](std::size_t) { return g; });
    mean_pullback(space, dx, g);
    expect([&](std::size_t) { return static_cast<long double>(g) / all_cells; });
    dot_pullback(space, dx, y, g);
    expect([&](std::size_t i) { return g * y0[i]; });
    variance_pullback(space, dx, x, g, 1);
    expect([&](std::size_t i) { return 2 * g * (x0[i] - sum / all_cells) / (all_cells - 1); });
    norm1_pullback(space, dx, x, g);
    expect([&](std::size_t i) { return x0[i] > 0 ? g : x0[i] < 0 ? -g : 0.0; });
    norm2_pullback(space, dx, x, norm2(space, x), g);
    expect([&](std::size_t i) { return g * x0[i] / std::sqrt(square); });
    max_pullback(space, dx, x, shard::max(space, x), g);
    expect([&](std::size_t i) { return i == 20 || i == 1200 ? g / 2 : 0.0; });
    min_pullback(space, dx, x, shard::min(space, x), g);
    expect([&](std::size_t i) { return i == 700 ? g : 0.0; });
    norm_max_pullback(space, dx, x, norm_max(space, x), g);
    expect([&](std::size_t i) { return i == 700 ? -g / 3 : i == 20 || i == 1200 ? g / 3 : 0.0; });
    weighted_mean_pullback<Determinism::ordered>(space, dx, along<1>(rows_of(x, 1, w)), g);
    expect([&](std::size_t i) { return g * w0[i] / weights; });
    weighted_mean_pullback(space, dx, wide, g);
    expect([&](std::size_t i) { return g * w0[i] / weights; });
    weighted_mean_pullback_weights(space, dx, x, wide, weighted_mean(space, x, wide), g);
    expect([&](std::size_t i) { return g * (x0[i] - weighted / weights) / weights; });
    set(x, Values(all_cells));
    norm2_pullback(space, dx, x, norm2(space, x), g);
    expect([&](std::size_t) { return 0.0L; });
  });
}

TEST(reductions, gradients) {
  check_gradients<double, Kokkos::LayoutRight>();
  check_gradients<float, Kokkos::LayoutLeft>();
}

/// Ranks along an axis that cuts nothing hold the same cells: each is counted once.
TEST(reductions, replicas_count_once) {
  using Rows = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const Rows x("x", mesh, {5, 7});
    deep_copy(Space(), x, 1.0);
    EXPECT_EQ(sum(Space(), x), 35.0);
    EXPECT_EQ(sum<Determinism::ordered>(Space(), x), 35.0);
  }
}

/// What 64-bit integers sum to needs more than 64 bits, and a double doesn't hold each of them.
TEST(reductions, of_large_integers) {
  const Grid mesh(MPI_COMM_WORLD, {0, 1});
  const auto of = [&]<class T>(const std::array<T, 4>& values) {
    const ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, Lat>> x("x", mesh, {4});
    const auto host = create_mirror_view(x);
    for (index_t i = 0; i < x.extent(0); ++i)
      host(i) = values[static_cast<std::size_t>(x.to_global(0, i))];
    deep_copy(Space(), x, host);
    Space().fence();
    return x;
  };
  constexpr auto ordered  = Determinism::ordered;
  const auto expect_means = [&](const auto& x, double wanted) {
    EXPECT_EQ(mean(Space(), x), wanted);
    EXPECT_EQ(mean<ordered>(Space(), x), wanted);
  };
  using Long           = std::int64_t;
  constexpr Long large = Long{1} << 62, no_double = (Long{1} << 53) + 1;
  constexpr std::uint64_t greatest = ~std::uint64_t{0};
  expect_means(of(std::array<Long, 4>{large, large, large, large}), 0x1p62);
  expect_means(of(std::array<Long, 4>{-large, -large, -large, -large}), -0x1p62);
  expect_means(of(std::array<Long, 4>{std::numeric_limits<Long>::min(), 0, -large, -large}),
               -0x1p62);
  expect_means(of(std::array<Long, 4>{large, -large, 1, 0}), 0.25);
  expect_means(of(std::array<std::uint64_t, 4>{greatest, greatest, 1, 1}), 0x1p63);
  expect_means(of(std::array<std::int32_t, 4>{1, 2, 3, 5}), 2.75);
  const auto odd = of(std::array<Long, 4>{no_double, -no_double, 2, 0});
  EXPECT_EQ(norm1<ordered>(Space(), odd), 0x1p54 + 4);  // 0x1p54 if each were rounded
  const auto one = of(std::array<double, 4>{1.0, 0.0, 0.5, 1.0});
  EXPECT_EQ(dot<ordered>(Space(), odd, one), 0x1p53 + 2);
}

TEST(reductions, mistakes_are_found_on_every_rank) {
  using Field = Plain<double, Kokkos::LayoutRight>;
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {0, 0}), other(MPI_COMM_WORLD, {0, 0});
  const Field x("x", mesh, {2, 9, 10}), y("y", mesh, {2, 10, 9}), z("z", other, {2, 9, 10}),
      none("none", mesh, {2, 0, 10});
  EXPECT_THROW(dot(space, x, y), ArgumentError);
  EXPECT_THROW(dot(space, x, z), ArgumentError);
  EXPECT_THROW(norm2_pullback(space, x, y, 1.0, 1.0), ArgumentError);
  EXPECT_THROW(shard::min(space, none), ArgumentError);
  EXPECT_EQ(sum(space, none), 0.0);
  EXPECT_EQ(sum<Determinism::ordered>(space, none), 0.0);
  EXPECT_TRUE(std::isnan(mean(space, none)));
  EXPECT_TRUE(std::isnan(variance(space, none)));
  // the last rank has a weight too many
  const index_t rows = x.extent(1) + (mesh.rank() + 1 == mesh.size() ? 1 : 0);
  const Kokkos::View<double*, Field::memory_space> weights("weights",
                                                           static_cast<std::size_t>(rows));
  EXPECT_THROW(weighted_mean(space, x, along<1>(weights)), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
