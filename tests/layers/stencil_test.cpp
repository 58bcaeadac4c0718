// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stencils: each cell against the sum written out, the same bits on every number of ranks forward
// and, ordered, backward (T11), and the dot-product test.

#include "layers/bits.hpp"
#include "shard/comm/shared_field.hpp"
#include "shard/layers/window/stencil.hpp"

namespace shard::testing {
namespace {

template <class S>
S with_coefficients(Random& random) {
  S s{};
  for (double& c : s.coefficients) c = random.real();
  return s;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Cells of y that aren't the sum of what x holds, its halo too.
template <class S, class Y, class X>
index_t wrong_cells(const S& stencil, const Y& y, const X& x) {
  using T       = typename X::value_type;
  const auto hx = create_mirror_view(x);
  const auto hy = create_mirror_view(y);
  deep_copy(Space(), hx, x);
  deep_copy(Space(), hy, y);
  Space().fence();
  index_t wrong = 0;
  for_owned(hy, [&](const auto& i, T value) {
    double sum = 0.0, size = 0.0;
    for (int m = 0; m < S::count; ++m) {
      index_t offset = 0;
      bool held      = true;  // else zeros, of which there is no halo
      for (int d = 0; d < S::rank; ++d) {
        const index_t j = i[static_cast<std::size_t>(d)] - hx.begin(d) + S::step(m, d);
        held            = held && j >= -X::halo_lo(d) && j < hx.extent(d) + X::halo_hi(d);
        offset += j * hx.stride(d);
      }
      if (!held) continue;
      const double term = stencil.coefficients[m] * static_cast<double>(hx.origin()[offset]);
      sum += term;
      size += std::abs(term);
    }
    wrong += std::abs(static_cast<double>(value) - sum) >
             (std::is_same_v<T, float> ? 1e-6 : 1e-14) * size;
  });
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return wrong;
}

template <class Field, std::size_t Rank>
Field made(const char* label, const Grid& mesh, const std::array<Partition, Rank>& p, bool shared) {
  if constexpr (impl::can_be_shared_v<Field>)
    if (shared) return shard::shared_field<Field>(label, mesh, p);
  return Field(label, mesh, p);
}

/// `X` is what the stencil reads, `Y` its output.
template <class S, class X, class Y>
void check(const std::array<index_t, 3>& n) {
  constexpr bool is_single = std::is_same_v<typename X::value_type, float>;
  const Space space;
  Random random(seed());
  const S stencil   = with_coefficients<S>(random);
  const World<3> x0 = random_world(n, random), dy0 = random_world(n, random);
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const X x1("x of one rank", alone, n), dx1 = x1.like("dx of one rank"), also = x1.like("ordered");
  const Y y1("y of one rank", alone, n), dy1 = y1.like("dy of one rank");
  scatter(x1, x0);
  scatter(dy1, dy0);
  stencil.apply(space, y1, x1);
  stencil.pullback(space, dx1, dy1);
  stencil.template pullback<Determinism::ordered>(space, also, dy1);
  const auto y_expected = gathered(y1, MPI_COMM_SELF), dx_expected = gathered(dx1, MPI_COMM_SELF);
  EXPECT_EQ(different_bits(gathered(also, MPI_COMM_SELF).v, dx_expected.v), 0) << "on one rank";

  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    std::array<Partition, 3> p{Partition::balanced(n[0], 1),
                               some_partition(n[1], shape[0], which, random),
                               some_partition(n[2], shape[1], which, random)};
    const bool shared = which == 1;  // read straight from the owners' memory
    const X x = made<X>("x", mesh, p, shared), dx = x.like("dx"), ordered = x.like("dx, ordered");
    const Y y = made<Y>("y", mesh, p, shared), dy = y.like("dy");
    scatter(x, x0);
    scatter(dy, dy0);
    scatter(ordered, World<3>(n));
    stencil.apply(space, y, x);
    EXPECT_EQ(wrong_cells(stencil, y, x), 0);
    EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, y_expected.v), 0);
    stencil.template pullback<Determinism::ordered>(space, ordered, dy);
    const auto result = gathered(ordered, MPI_COMM_WORLD);
    EXPECT_EQ(different_bits(result.v, dx_expected.v), 0);
    EXPECT_EQ(largest_in_halo(ordered), 0.0);
    stencil.pullback(space, dx, dy);
    EXPECT_LT(difference(dx, dx_expected), (is_single ? 1e-5 : 1e-12));
    if (is_single) return;
    EXPECT_NEAR(product(y_expected.v, dy0.v), product(x0.v, result.v), 1e-11);
  });
}

template <class T, class Layout, class H0, class B0, class H1, class B1, class H2, class B2>
using Volume = ShardedView<T, Layout, ShardDim<0, Unsharded, H0, B0>, ShardDim<1, Lat, H1, B1>,
                           ShardDim<2, Lon, H2, B2>>;
using Right  = Kokkos::LayoutRight;
using Left   = Kokkos::LayoutLeft;
using One    = Halo<1>;
using None   = Halo<0>;

TEST(stencil, T11_star) {
  using S = StarStencil<3>;
  static_assert(S::count == 7 && std::is_same_v<required_halo_t<S, 1>, One>);
  static_assert(
      std::is_same_v<StarStencil<2, 1>, Stencil<Offset<0, 0>, Offset<0, -1>, Offset<0, 1>>>);
  using On = PoleFold<2, Pole::on_row, Parity::odd>;
  check<S, Volume<double***, Right, One, Clamp, One, On, One, Periodic>,
        Volume<double***, Right, None, Zero, One, Zero, One, Zero>>({5, 9, 12});
  // nothing is held beyond levels that aren't cut
  check<S, Volume<double***, Left, None, Zero, One, Periodic, One, Reflect>,
        Volume<double***, Left, None, Zero, One, Zero, One, Zero>>({4, 7, 11});
}

TEST(stencil, T11_one_sided_and_far) {
  using S = Stencil<Offset<0, 2, -1>, Offset<0, 0, 0>, Offset<1, -1, 3>, Offset<0, -3, 0>>;
  static_assert(std::is_same_v<required_halo_t<S, 1>, Halo<3, 2>>);
  static_assert(std::is_same_v<ordered_halo_t<S, 1>, Halo<2, 3>>);
  check<S,
        Volume<double***, Right, Halo<0, 1>, Symmetric, Halo<4, 2>, Sides<Symmetric, Constant<0>>,
               Halo<1, 3>, Periodic>,
        Volume<double***, Right, None, Zero, Halo<2, 3>, Zero, Halo<3, 1>, Periodic>>({3, 6, 10});
  using Between = PoleFold<2, Pole::between_rows>;
  check<S, Volume<float***, Left, One, Reflect, Halo<3, 2>, Between, Halo<2, 3>, Periodic>,
        Volume<float***, Left, None, Zero, Halo<3>, Clamp, Halo<3>, Clamp>>({3, 6, 10});
}

/// Integers are exact, whatever the order.
TEST(stencil, integers_and_one_dimension) {
  using S = StarStencil<1>;
  using X = ShardedView<int*, Right, ShardDim<0, Lat, One, Periodic>>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Space space;
  Random random(seed());
  const S stencil{{3.0, -1.0, 2.0}};
  const index_t n = 17;
  const X x("x", mesh, {some_partition(n, world_size(), 1, random)});
  const X y = x.like("y"), dx = x.like("dx"), ordered = x.like("ordered");
  World<1> x0({n}), y0({n}), dx0({n});
  for (double& v : x0.v) v = static_cast<double>(random.below(1000));
  for (index_t i = 0; i < n; ++i) {
    const auto at = [&](index_t j) { return x0.v[static_cast<std::size_t>((j + n) % n)]; };
    y0.v[static_cast<std::size_t>(i)]  = 3.0 * at(i) - at(i - 1) + 2.0 * at(i + 1);
    dx0.v[static_cast<std::size_t>(i)] = 3.0 * at(i) - at(i + 1) + 2.0 * at(i - 1);
  }
  scatter(x, x0);
  stencil.apply(space, y, x);
  EXPECT_EQ(difference(y, y0), 0.0);
  stencil.pullback(space, dx, x);
  EXPECT_EQ(difference(dx, dx0), 0.0);
  stencil.pullback<Determinism::ordered>(space, ordered, x);
  EXPECT_EQ(difference(ordered, dx0), 0.0);
}

TEST(stencil, what_does_not_fit_throws_on_every_rank) {
  using X = ShardedView<double*, Right, ShardDim<0, Lat, One>>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Space space;
  const StarStencil<1> stencil{{1.0, 1.0, 1.0}};
  const X x("x", mesh, {20}), same = x;
  EXPECT_THROW(stencil.apply(space, same, x), ArgumentError);
  EXPECT_THROW(stencil.apply(space, X("y", mesh, {19}), x), ArgumentError);
  EXPECT_THROW(stencil.pullback<Determinism::ordered>(space, X("dx", mesh, {21}), x),
               ArgumentError);
}

}  // namespace
}  // namespace shard::testing
