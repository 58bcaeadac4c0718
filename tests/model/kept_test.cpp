// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations that are kept in two bytes a value.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "model_checks.hpp"
#include "shard/train/loss_scale.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

/// What keeping activations in two bytes does to their values, as a layer: its derivative is 1.
struct Rounded {
  static constexpr LayerSharding sharding = LayerSharding::local;
  LowPrecision format                     = LowPrecision::bfloat16;
  template <class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    copy_owned(space, y, x);
    round_values(space, y.view(), y.view(), format);
  }
  template <class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    copy_owned(space, ty, tx);
  }
  template <class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    copy_gradient(space, dx, dy);
  }
};

TEST(KeptActivations, AreRoundedOnesAndNothingElse) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto model = sequential<double>(
      Conv3{2, 4}, SiLU{}, residual(Conv3{4, 4}, SiLU{}),
      concat(Down{4, 8}, block(GroupNorm{2, 8}, SiLU{}), Up{8, 4}), Conv<Kernel<1, 1>>{8, 2});
  for (const LowPrecision format : {LowPrecision::half, LowPrecision::bfloat16}) {
    const Rounded r{format};
    const auto rounded =
        sequential<double>(Conv3{2, 4}, r, SiLU{}, r, residual(Conv3{4, 4}, r, SiLU{}), r,
                           concat(Down{4, 8}, r, block(GroupNorm{2, 8}, r, SiLU{}), r, Up{8, 4}), r,
                           Conv<Kernel<1, 1>>{8, 2});
    Kokkos::deep_copy(rounded.parameters().values(), model.parameters().values());
    const auto kept = domain_parallel<Lat, Lon>(model, mesh);
    const auto slow = domain_parallel<Lat, Lon>(rounded, mesh);
    kept.keep_activations(format);
    const Extents<4> extents{1, 2, 13, 11};
    const Results mine = run(kept, extents), theirs = run(slow, extents);
    EXPECT_EQ(mine.y, theirs.y);
    EXPECT_EQ(mine.dx, theirs.dx);
    EXPECT_EQ(mine.gradients, theirs.gradients);
    expect_pair(kept, extents, false);
    expect_steady(kept, extents);
    // and back
    kept.keep_activations_whole();
    EXPECT_NE(run(kept, extents).y, mine.y);
  }
}

TEST(KeptActivations, TakeTwoBytesAValue) {
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  const auto model = domain_parallel<Lat, Lon>(
      sequential<double>(Conv3{2, 4}, Conv3{4, 4}, Conv3{4, 4}, Conv3{4, 4}, Conv3{4, 2}), self);
  model.keep_activations(LowPrecision::half);
  model.prepare(model.input("x", {1, 2, 16, 16}));
  const index_t one = 4 * 18 * 18 * 8, kept = one / 4;
  EXPECT_EQ(model.memory().activations, 4 * ((kept + 63) / 64 * 64));
  // a pullback's input and both adjoints
  EXPECT_EQ(model.memory().adjoints, 3 * one);
}

TEST(KeptActivations, HoldWhatWasRounded) {
  const Space space;
  const std::vector<float> cases{0.0F,       -0.0F,      1.0F,     -1.5F,     65504.0F, 65520.0F,
                                 6.1035e-5F, 6.0976e-5F, 5.96e-8F, -2.98e-8F, 1e-30F,   3.0e38F,
                                 0.1F,       -1234.56F,  INFINITY, -INFINITY, NAN};
  std::mt19937 engine(static_cast<unsigned>(seed()));
  std::vector<float> all = cases;
  for (int i = 0; i < 5000; ++i)
    all.push_back(std::ldexp(static_cast<float>(engine()) * 0x1p-32F - 0.5F,
                             static_cast<int>(engine() % 60) - 30));
  const auto n = all.size();
  Kokkos::View<float*, Kokkos::LayoutRight> from("from", n), rounded("rounded", n), back("back", n);
  Kokkos::View<std::uint16_t*, Kokkos::LayoutRight> narrow("narrow", n);
  const auto host = Kokkos::create_mirror_view(from);
  std::copy(all.begin(), all.end(), host.data());
  Kokkos::deep_copy(from, host);
  for (const LowPrecision format : {LowPrecision::half, LowPrecision::bfloat16}) {
    using Kernels = impl::NarrowKernels<Space, float>;
    round_values(space, rounded, from, format);
    Kernels::narrow(space, narrow.data(), from.data(), static_cast<index_t>(n), format);
    Kernels::widen(space, back.data(), narrow.data(), static_cast<index_t>(n), format);
    const auto a = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), rounded);
    const auto b = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), back);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_TRUE(a(i) == b(i) || (std::isnan(a(i)) && std::isnan(b(i))))
          << all[i] << ": " << a(i) << ", " << b(i);
  }
}

}  // namespace
