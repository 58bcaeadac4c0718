// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Halos that are out of date are found: SHARD_CHECK is on.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "support/on_host.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace stale_test {

struct X;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultExecutionSpace;

template <class T>
using Line = ShardedView<T*, Kokkos::LayoutRight, ShardDim<0, X, Halo<2>, Periodic>>;

template <class T>
struct IndexKernel {
  Line<T> t;
  KOKKOS_FUNCTION void operator()(int i) const { t(i) = T(static_cast<float>(i % 50 + 1)); }
};

template <class From, class To>
struct NeighboursKernel {
  Line<From> from;
  Line<To> to;
  KOKKOS_FUNCTION void operator()(int i) const {
    to(i) = static_cast<To>(from(i - 1)) + static_cast<To>(from(i)) + static_cast<To>(from(i + 1));
  }
};

template <class T>
struct CopyKernel {
  Line<T> from, to;
  KOKKOS_FUNCTION void operator()(int i) const { to(i) = from(i + 1); }
};

class Stale : public ::testing::Test {
 protected:
  Mesh<X> mesh{MPI_COMM_WORLD, {0}};
  Space space;
  const index_t n = 5 * mesh.size();

  template <class T>
  Line<T> written(const char* label) const {
    const Line<T> t(label, mesh, {n});
    parallel_for("index", space, owned_region(t), IndexKernel<T>{t});
    mark_written(space, t);
    return t;
  }

  std::string cell(index_t of_rank) const { return "element [" + std::to_string(of_rank) + "]"; }

  /// A sum over neighbours whose halos were not exchanged is named, one whose halos were isn't.
  template <class From, class To>
  void expect_named() {
    const auto from = written<From>("from");
    const Line<To> to("to", mesh, {n});
    const NeighboursKernel<From, To> sum{from, to};
    parallel_for("sum", space, owned_region(to), sum);
    const std::string message =
        message_thrown_by<StaleHaloError>([&] { exchange(space, from, to); });
    expect_parts(message, {("rank " + std::to_string(mesh.rank())).c_str(), "\"to\"",
                           cell(to.begin(0)).c_str()});
    if (sizeof(From) >= 4 && sizeof(To) >= 4) expect_parts(message, {"that of \"from\""});
    parallel_for("sum", space, owned_region(to), sum);  // that exchange filled the halo of `from`
    EXPECT_NO_THROW(exchange(space, from, to));
  }
};

TEST_F(Stale, AStencilThatForgotItsExchangeIsNamed) {
  expect_named<double, double>();
  expect_named<float, float>();
  expect_named<float, double>();
  expect_named<double, float>();
  expect_named<Kokkos::complex<double>, Kokkos::complex<double>>();
  expect_named<Kokkos::complex<float>, Kokkos::complex<float>>();
}

/// What a launch is told that it writes is marked, without mark_written.
TEST_F(Stale, WhatALaunchWritesIsMarked) {
  const Line<double> a("a", mesh, {n}), b("b", mesh, {n}), c("c", mesh, {n});
  using Sum = NeighboursKernel<double, double>;
  parallel_for("index", space, owned_region(a), IndexKernel<double>{a}, writes(a));
  parallel_for("sum", space, owned_region(b), Sum{a, b}, writes(b));  // forgets a's exchange
  expect_parts(message_thrown_by<StaleHaloError>([&] { exchange(space, b); }),
               {"\"b\"", cell(b.begin(0)).c_str(), "that of \"a\""});
  // exchanged, nothing is said; what `overlapped` wrote is out of date again
  parallel_for("index", space, owned_region(a), IndexKernel<double>{a}, writes(a, b));
  overlapped("sum", space, Exchange(a), a, Sum{a, b}, writes(b));
  parallel_for("sum", space, owned_region(c), Sum{b, c});
  expect_parts(message_thrown_by<StaleHaloError>([&] { exchange(space, b, c); }),
               {"\"c\"", "that of \"b\""});
  overlapped("sum", space, Exchange(a), a, Sum{a, b}, Reach<Halo<1>>{}, writes(b));
  exchange(space, b);
  parallel_for("sum", space, owned_region(c), Sum{b, c}, writes(c));
  EXPECT_NO_THROW(exchange(space, c));
}

TEST_F(Stale, CopiesOfIntegersAreNamed) {
  const auto check = [&](auto zero) {
    using T         = decltype(zero);
    const auto from = written<T>("from");
    const Line<T> to("to", mesh, {n});
    parallel_for("copy", space, owned_region(to), CopyKernel<T>{from, to});
    expect_parts(message_thrown_by<StaleHaloError>([&] { exchange(space, to); }),
                 {"\"to\"", cell(to.begin(0) + 4).c_str()});
    exchange(space, from);
    parallel_for("copy", space, owned_region(to), CopyKernel<T>{from, to});
    EXPECT_NO_THROW(exchange(space, to));
  };
  check(std::int32_t{0});
  check(std::uint64_t{0});
}

TEST_F(Stale, UsersNaNsAreNotNamed) {
  const auto check = [&](auto zero) {
    using T      = decltype(zero);
    const auto t = written<T>("t");
    auto host    = on_host(t);
    for (int i = 0; i < t.extent(0); ++i)
      host(i) = i % 3 == 0   ? std::numeric_limits<T>::quiet_NaN()
                : i % 3 == 1 ? std::numeric_limits<T>::signaling_NaN()
                             : std::numeric_limits<T>::infinity();
    deep_copy(space, t, host);
    EXPECT_NO_THROW(exchange(space, t));
    host    = on_host(t);
    host(0) = std::nan("0x1234");
    deep_copy(space, t, host);
    EXPECT_NO_THROW(exchange(space, t));
  };
  check(0.0);
  check(0.0F);
}

TEST_F(Stale, NothingIsWrittenUnlessAskedFor) {
  const shard::testing::ScopedVariable unchecked("SHARD_CHECK", "0");
  const auto t = on_host(written<double>("t"));
  for (const int i : {-2, -1, 5, 6}) EXPECT_EQ(t(i), 0.0);
}

TEST_F(Stale, OwnedCellsAreLeftAlone) {
  const auto t = on_host(written<double>("t"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(t(i), i + 1.0);
  for (const int i : {-2, -1, 5, 6}) EXPECT_TRUE(std::isnan(t(i)));
  const auto whole = written<std::int8_t>("bytes");
  EXPECT_NO_THROW(exchange(space, whole));
}

using Image = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, X, Halo<1>, Periodic>,
                          ShardDim<3, Unsharded, Halo<1>, Periodic>>;

struct BelowKernel {
  Image from, to;
  KOKKOS_FUNCTION void operator()(int b, int c, int i, int j) const {
    to(b, c, i, j) = 2 * from(b, c, i + 1, j);
  }
};

TEST_F(Stale, ALayersOutputIsMarked) {
  const Image x("x", mesh, {1, 1, n, 6}), y = x.like("y"), z = x.like("z");
  const Conv<Kernel<3, 3>, Padding<1, 1>> layer{1, 1};
  const auto parameters = make_parameters<double>(layer, "p");
  layer.apply(space, parameters, y, x);
  parallel_for("below", space, owned_region(z), BelowKernel{y, z});
  expect_parts(
      message_thrown_by<StaleHaloError>([&] { exchange(space, z); }),
      {"\"z\"", ("[0, 0, " + std::to_string(z.begin(2) + 4) + ", 0]").c_str(), "that of \"y\""});
}

/// Whether the halo below the first row of x's first channel is marked.
template <class Field>
bool is_marked(const Field& x) {
  Kokkos::fence();
  const auto host = create_mirror_view(x);
  deep_copy(Space(), host, x);
  Kokkos::fence();
  return std::isnan(host(0, 0, -1, 0));
}

TEST_F(Stale, WhatPointwiseFunctionsComputeIsMarked) {
  const Image a("a", mesh, {1, 1, n, 6}), y = a.like("y"), b = a.like("b"), c = a.like("c");
  copy_owned(space, y, a);
  EXPECT_TRUE(is_marked(y)) << "copy_owned";
  add(space, b, y, a);
  EXPECT_TRUE(is_marked(b)) << "add";
  add(space, c, c, a);
  EXPECT_TRUE(is_marked(c)) << "add in place";
  EXPECT_FALSE(is_marked(a)) << "only read";
  const Image joined("joined", mesh, {1, 2, n, 6});
  concat_channels(space, joined, a, b);
  EXPECT_TRUE(is_marked(joined)) << "concat_channels";
  parallel_for("below", space, owned_region(a), BelowKernel{b, a});
  expect_parts(message_thrown_by<StaleHaloError>([&] { exchange(space, a); }), {"that of \"b\""});
}

// Parts of gradients that wait in a halo for exchange_adjoint are not lost.
TEST_F(Stale, GradientsAreNotMarked) {
  const Image dx("dx", mesh, {1, 1, n, 6}), dy = dx.like("dy");
  const auto expect_kept = [&](const char* what, const auto& gradient, const auto& pullback) {
    deep_copy(space, gradient, 1.0);
    pullback();
    EXPECT_FALSE(is_marked(gradient)) << what;
  };
  expect_kept("copy_gradient", dx, [&] { copy_gradient(space, dx, dy); });
  expect_kept("add_gradients", dx, [&] { add_gradients(space, dx, dx, dy); });
  const Image djoined("djoined", mesh, {1, 2, n, 6});
  expect_kept("split_channels", dx, [&] { split_channels(space, djoined, dx, dy); });
  const Image fine("fine", mesh, {1, 1, 2 * n, 12}), coarse("coarse", mesh, {1, 4, n, 6});
  expect_kept("PixelShuffle", coarse,
              [&] { PixelShuffle<2>().pullback(space, coarse, fine, coarse); });
  expect_kept("PixelUnshuffle", fine,
              [&] { PixelUnshuffle<2>().pullback(space, fine, coarse, fine); });
  const Kokkos::View<double**, Space> weight("weight", 6, 6);
  expect_kept("linear", dx, [&] { linear_pullback_input(space, dx, dy, weight); });
}

TEST_F(Stale, WhatAnExternalFunctionIsGivenIsMarked) {
  struct Forgetful {  // reads below, without an exchange
    void apply(const Space& space, const Image& y, const Image& x) const {
      parallel_for("below", space, owned_region(y), BelowKernel{x, y});
      exchange(space, y);
    }
  };
  const Image x("x", mesh, {1, 1, n, 6}), y = x.like("y");
  const ExternalFunction function(space, Forgetful(), x, y);
  const std::vector<double> in(static_cast<std::size_t>(function.inputs()), 1.0);
  std::vector<double> out(static_cast<std::size_t>(function.outputs()));
  expect_parts(message_thrown_by<StaleHaloError>([&] { function.apply(in.data(), out.data()); }),
               {"shard::external y", "that of \"shard::external x\""});
}

template <int Far>
struct FarKernel {
  Line<double> from, to;
  KOKKOS_FUNCTION void operator()(int i) const { to(i) = from(i - Far) + from(i + Far); }
};

TEST_F(Stale, StepsThatLookFartherThanTheySayAreNamed) {
  const Line<double> now("now", mesh, {n}), next = now.like("next");
  auto loop          = steps_per_exchange<2>(Reach<Halo<1>>{}, now);
  const auto step_of = [&](const auto& kernel) {
    loop.restart();
    loop.step("step", space, kernel, now, next);
  };
  step_of(FarKernel<1>{now, next});
  loop.step("step", space, FarKernel<1>{next, now}, next, now);
  EXPECT_NO_THROW(exchange(space, now));
  // the second step reads what the first couldn't compute
  step_of(FarKernel<1>{now, next});
  loop.step("step", space, FarKernel<2>{next, now}, next, now);
  const std::string message = message_thrown_by<StaleHaloError>([&] { exchange(space, now); });
  expect_parts(message, {"\"now\"", "that of \"next\"", cell(now.begin(0)).c_str()});
}

}  // namespace stale_test
