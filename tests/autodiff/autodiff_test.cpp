// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol: chains, the checks, the exchange as an operation, and code differentiated by
// others.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "operations.hpp"
#include "shard/autodiff/checks.hpp"
#include "shard/autodiff/complex_step.hpp"
#include "shard/autodiff/external_function.hpp"
#include "shard/redistribute/rearrange.hpp"
#include "shard/reduce/cumulative_sum.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

static_assert(std::is_same_v<Halos::halo<0>, Halo<1, 1>> && std::is_same_v<Halos::axis<1>, Lon> &&
              std::is_same_v<Halos::boundary<0>, Reflect> && Field::halo_lo(1) == 1);

/// A step whose adjoint forgets the reflections' part of the halo.
struct WrongStep : Step {
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    deep_copy(space, dx, 0.0);
    Kokkos::parallel_for("adjoint of a step", Kokkos::RangePolicy<Space>(space, 0, 1),
                         StepAdjointKernel{dx, dy, x, c});
  }
};
struct WrongTangent : Step {
  void pushforward(const Space& space, const Field& ty, const Field& tx, const Field& x) const {
    exchange(space, tx);
    shard::parallel_for("tangent of a step", space, owned_region(ty),
                        StepTangentKernel{ty, tx, x, 1.001 * c});
  }
};

TEST(Autodiff, ChecksPassForATruePairAndFailForAWrongOne) {
  for (const bool square : {false, true}) {
    const Grid mesh = grid(square);
    const Space space;
    const Field x = field(mesh, 0.1, "x"), tx = field(mesh, 0.2, "tx"), dy = field(mesh, 0.3, "dy");
    EXPECT_LT(dot_product_error(space, Step{}, x, tx, dy), 1e-15);
    EXPECT_GT(dot_product_error(space, WrongStep{}, x, tx, dy), 1e-4);
    EXPECT_LT(tangent_error(space, Step{}, x, tx, dy), 1e-9);
    EXPECT_GT(tangent_error(space, WrongTangent{}, x, tx, dy), 1e-5);
    EXPECT_LT(gradient_error(space, Step{}, x, tx, dy), 1e-8);
    EXPECT_GT(gradient_error(space, WrongStep{}, x, tx, dy), 1e-4);
    EXPECT_LT(complex_step_error(space, Step{}, x, tx, dy), 1e-15);
    EXPECT_GT(complex_step_error(space, WrongTangent{}, x, tx, dy), 1e-5);
  }
}

/// Steps that use the halo as it is.
struct StaleStep : Step {
  void apply(const Space& space, const Field& y, const Field& x) const {
    shard::parallel_for("step", space, owned_region(y), StepKernel<Field, Field>{y, x, c});
  }
};

TEST(Autodiff, ShardingErrorsShowWhatAShardsEdgeDoes) {
  const Space space;
  for (const bool square : {false, true}) {
    const Grid mesh = grid(square);
    const Field x   = field(mesh, 0.1, "x");
    const auto of   = [&](const auto& op) {
      return sharding_error(
            space, [&](const auto&) { return op; }, x);
    };
    const ShardingErrors right = of(Step{});
    EXPECT_EQ(right.result, 0.0);
    EXPECT_LT(right.adjoint, 1e-15);
    const ShardingErrors rolled = of(Roll(0, 3)), added = of(CumulativeSum{1});
    EXPECT_EQ(rolled.result + rolled.adjoint + added.result + added.adjoint, 0.0);
    if (mesh.size() == 1) continue;
    EXPECT_GT(of(StaleStep{}).result, 1e-3);
    EXPECT_GT(of(WrongStep{}).adjoint, 1e-3);
  }
}

TEST(Autodiff, RemaindersOfATaylorTestDecreaseWithTheSquareOfTheStep) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), tx = field(mesh, 0.2, "tx");
  const TaylorTest right = taylor_test(space, Step{}, x, tx, x);
  EXPECT_EQ(right.remainders.size(), 6u);
  EXPECT_NEAR(right.worst_slope(), 2.0, 0.2);  // s = 1 has a third order too
  EXPECT_NEAR(right.slope(3), 2.0, 1e-3);
  const TaylorTest wrong = taylor_test(space, WrongTangent{}, x, tx, x);
  EXPECT_NEAR(wrong.worst_slope(), 1.0, 0.1);
}

TEST(Autodiff, HaloExchangeIsAnOperation) {
  const Grid mesh = grid(true);
  const Space space;
  const Halos halos;
  const Bare x("x", mesh, {5, 6}), tx = x.like("tx"), dx = x.like("dx");
  fill(x, 0.1);
  fill(tx, 0.2);
  const Field y = halos.output(x), dy = y.like("dy"), filled = field(mesh, 0.1, "filled");
  halos.apply(space, y, x);
  exchange(space, filled);
  impl::add_value(space, filled, y, -1.0);
  space.fence("compared");
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), filled.view());
  for (std::size_t i = 0; i < host.span(); ++i) EXPECT_EQ(host.data()[i], 0.0);
  // the dot product over the halo too, which the plain check leaves out
  const auto with_halo = [&](const Field& a, const Field& b) {
    const auto p = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.view());
    const auto q = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b.view());
    double sum   = 0.0;
    if (a.extent(0) > 0 && a.extent(1) > 0)
      for (std::size_t i = 0; i < p.span(); ++i) sum += p.data()[i] * q.data()[i];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  };
  fill(dy, 0.4);
  exchange(space, dy);  // some values in the halo
  halos.pushforward(space, y, tx);
  space.fence("compared");
  const double left = with_halo(y, dy);
  halos.pullback(space, dx, dy);
  EXPECT_NEAR(left, impl::dot_value(space, tx, dx), 1e-13 * std::abs(left));
}

/// Beyond a Constant boundary the values are the constant, their tangents and adjoints zero.
TEST(Autodiff, ExchangesOfConstantsHaveZeroTangents) {
  using Open =
      HaloExchange<ShardDim<0, Lat, Halo<1>, Constant<3>>, ShardDim<1, Lon, Halo<1>, Periodic>>;
  const Grid mesh = grid(true);
  const Space space;
  const Bare x("x", mesh, {5, 6}), tx = x.like("tx"), dx = x.like("dx");
  fill(x, 0.1);
  fill(tx, 0.2);
  const auto y = Open{}.output(x), ty = y.like("ty");
  Open{}.apply(space, y, x);
  Open{}.pushforward(space, ty, tx);
  const auto hy = on_host(y), hty = on_host(ty);
  const auto htx = on_host(tx);
  if (x.begin(0) == 0 && x.extent(0) > 0)
    for (index_t j = 0; j < x.extent(1); ++j) {
      EXPECT_EQ(hy(-1, j), 3.0);
      EXPECT_EQ(hty(-1, j), 0.0);
    }
  for (index_t i = 0; i < x.extent(0); ++i)
    for (index_t j = 0; j < x.extent(1); ++j) EXPECT_EQ(hty(i, j), htx(i, j));
  const auto dy = y.like("dy");
  Kokkos::deep_copy(space, dy.view(), 1.0);
  Open{}.pullback(space, dx, dy);
  if (mesh.size() == 1) {
    const auto hdx = on_host(dx);
    EXPECT_EQ(hdx(0, 2), 1.0);  // beyond the first row are constants
    EXPECT_EQ(hdx(2, 0), 2.0);  // beyond the last column is the first one
  }
}

TEST(Autodiff, ChainsAreOneOperation) {
  const Grid mesh = grid(false);
  const Space space;
  const Bare x("x", mesh, {5, 6}), tx = x.like("tx");
  fill(x, 0.1);
  fill(tx, 0.2);
  const auto three = chain(x, Halos{}, Step{0.05}, Step{0.1});
  const Field dy = field(mesh, 0.3, "dy"), y = three.output(x), z = y.like("z"), w = y.like("w");
  EXPECT_LT(dot_product_error(space, three, x, tx, dy), 1e-15);
  EXPECT_LT(gradient_error(space, three, x, tx, dy), 1e-8);
  three.apply(space, y, x);
  Halos{}.apply(space, z, x);
  Step{0.05}.apply(space, w, z);
  Step{0.1}.apply(space, z, w);
  impl::add_value(space, z, y, -1.0);
  EXPECT_EQ(impl::dot_value(space, z, z), 0.0);
}

// --- a reverse-mode type in 50 lines, in place of CoDiPack
// -----------------------------------------

struct Statements {
  std::vector<double> adjoints;
  std::vector<std::function<void(std::vector<double>&)>> backwards;
  std::size_t make() {
    adjoints.push_back(0.0);
    return adjoints.size() - 1;
  }
  void reverse() {
    for (auto s = backwards.rbegin(); s != backwards.rend(); ++s) (*s)(adjoints);
  }
};
struct Active {
  double value = 0.0;
  std::size_t id;
  Statements* tape;
  Active(double v, Statements* t) : value(v), id(t->make()), tape(t) {}
  friend Active operator*(const Active& a, const Active& b) {
    Active c(a.value * b.value, a.tape);
    a.tape->backwards.push_back([a, b, i = c.id](std::vector<double>& bar) {
      bar[a.id] += b.value * bar[i];
      bar[b.id] += a.value * bar[i];
    });
    return c;
  }
  friend Active operator+(const Active& a, const Active& b) {
    Active c(a.value + b.value, a.tape);
    a.tape->backwards.push_back([a, b, i = c.id](std::vector<double>& bar) {
      bar[a.id] += bar[i];
      bar[b.id] += bar[i];
    });
    return c;
  }
};
/// The hook: one statement for a whole operation.
template <class Function>
std::vector<Active> call(const Function& f, const std::vector<Active>& x, Statements& tape) {
  std::vector<double> in, out(static_cast<std::size_t>(f.outputs()));
  for (const Active& a : x) in.push_back(a.value);
  f.apply(in.data(), out.data());
  std::vector<Active> y;
  for (const double v : out) y.emplace_back(v, &tape);
  tape.backwards.push_back([f, in, x, y](std::vector<double>& bar) {
    std::vector<double> dy, dx(x.size());
    for (const Active& a : y) dy.push_back(bar[a.id]);
    f.pullback(dx.data(), dy.data(), in.data());
    for (std::size_t i = 0; i < x.size(); ++i) bar[x[i].id] += dx[i];
  });
  return y;
}

TEST(Autodiff, CodeDifferentiatedByOthersCallsAnExchange) {
  const Grid mesh = grid(true);
  const Space space;
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.2, "w");
  const ExternalFunction<Space, Step, Field, Field> step(space, Step{}, x, x);
  const auto hx = on_host(x), hw = on_host(w);
  Statements tape;
  std::vector<Active> in, weights;
  for (index_t i = 0; i < x.extent(0); ++i)
    for (index_t j = 0; j < x.extent(1); ++j) {
      in.emplace_back(hx(i, j), &tape);
      weights.emplace_back(hw(i, j), &tape);
    }
  ASSERT_EQ(static_cast<index_t>(in.size()), step.inputs());
  // J = sum of w step(x step(x)), on every rank its own cells
  std::vector<Active> once = call(step, in, tape), middle;
  for (std::size_t i = 0; i < in.size(); ++i) middle.push_back(once[i] * in[i]);
  const std::vector<Active> out = call(step, middle, tape);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Active term      = out[i] * weights[i];
    tape.adjoints[term.id] = 1.0;
  }
  tape.reverse();

  // the same by hand
  const Field y = x.like("y"), m = x.like("m"), z = x.like("z"), dm = x.like("dm"),
              dy = x.like("dy"), dx = x.like("dx");
  Step{}.apply(space, y, x);
  product(space, m, 1.0, y, x);
  Step{}.apply(space, z, m);
  Step{}.pullback(space, dm, w, m);
  product(space, dy, 1.0, dm, x);
  Step{}.pullback(space, dx, dy, x);
  const auto hdx = on_host(dx), hdm = on_host(dm), hy = on_host(y);
  std::size_t k = 0;
  for (index_t i = 0; i < x.extent(0); ++i)
    for (index_t j = 0; j < x.extent(1); ++j, ++k)
      EXPECT_NEAR(tape.adjoints[in[k].id], hdx(i, j) + hdm(i, j) * hy(i, j), 1e-13);
}

TEST(Autodiff, ExternalFunctionsGoBackToEarlierInputs) {
  const Grid mesh = grid(false);
  const Space space;
  const Field x = field(mesh, 0.1, "x");
  const ExternalFunction<Space, Square, Field, Field> square(space, Square{x.like("last")}, x, x);
  const auto n = static_cast<std::size_t>(square.inputs());
  std::vector<double> a(n), b(n), t(n), out(n), back(n), tangent(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = std::sin(static_cast<double>(i) + 1.0);
    b[i] = std::cos(static_cast<double>(i));
    t[i] = 0.5 + static_cast<double>(i % 3);
  }
  square.apply(a.data(), out.data());
  square.apply(b.data(), out.data());
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], b[i] * b[i]);
  square.pullback(back.data(), t.data(), a.data());
  square.apply(b.data(), out.data());
  square.pushforward(tangent.data(), t.data(), a.data());
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(back[i], 2.0 * a[i] * t[i]);
    EXPECT_EQ(tangent[i], 2.0 * a[i] * t[i]);
  }
}

}  // namespace
