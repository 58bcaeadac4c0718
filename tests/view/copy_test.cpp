// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// deep_copy between a field and its mirror on the host, and back, in whatever way the field holds
// its cells. Kokkos refuses to copy a part of a device's array to the host.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <type_traits>

#include "shard/shard.hpp"
#include "support/counting.hpp"

namespace {

using namespace shard;
struct X;
struct Y;
using Space = Kokkos::DefaultExecutionSpace;

template <int Wider>
using FieldOf =
    ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1 + Wider, 1>, Clamp>,
                ShardDim<2, X, Halo<1, 2 + Wider>, Periodic>>;
using Field = FieldOf<0>;

template <class F>
KOKKOS_FUNCTION double value_at(const F& t, index_t l, index_t i, index_t j) {
  return static_cast<double>(100 * l + 10 * t.to_global(1, i) + t.to_global(2, j));
}

template <class F>
struct NumberKernel {
  F t;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const { t(l, i, j) = value_at(t, l, i, j); }
};

/// To a mirror, from there to a plain field, from that back, and to a mirror again.
template <class F>
void there_and_back(const char* what, const F& t, const Field& plain) {
  const Space space;
  parallel_for("number", space, owned_region(t), NumberKernel<F>{t});
  const auto host = create_mirror_view(t);
  deep_copy(space, host, t);
  deep_copy(space, plain, host);
  deep_copy(space, t, -1.0);
  deep_copy(space, t, plain);
  const auto again = create_mirror_view(t);
  deep_copy(space, again, t);
  space.fence();
  int wrong = 0;
  for (int l = 0; l < t.extent(0); ++l)
    for (int i = 0; i < t.extent(1); ++i)
      for (int j = 0; j < t.extent(2); ++j)
        wrong += again(l, i, j) != value_at(again, l, i, j) ? 1 : 0;
  EXPECT_EQ(wrong, 0) << what;
}

/// A copy in this direction ends with a fence, so that the host may go on.
template <class To, class From>
void expect_fenced(const To& to, const From& from) {
  const auto counts = shard::testing::count([&] { deep_copy(Space(), to, from); });
  ASSERT_FALSE(counts.fence_names.empty());
  EXPECT_EQ(counts.fence_names.back(), "shard::deep_copy: between a device and a host");
}

TEST(Copy, BetweenADeviceAndAHostItFences) {
  using Pinned =
      ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y>, Kokkos::SharedHostPinnedSpace>;
  using Lines = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y>>;
  if constexpr (std::is_same_v<Space::memory_space, Kokkos::HostSpace>) {
    GTEST_SKIP() << "the host's memory is the device's";
  } else {
    const Mesh<Y> mesh(MPI_COMM_WORLD, {0});
    const Lines lines("lines", mesh, {8, 3});
    const auto host = create_mirror_view(lines);
    const Pinned pinned("pinned", mesh, {8, 3});
    expect_fenced(host, lines);
    expect_fenced(lines, host);
    expect_fenced(pinned, lines);
    expect_fenced(lines, pinned);
  }
}

TEST(Copy, FieldsAndMirrorsHoweverTheFieldHoldsItsCells) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Field plain("plain", mesh, {3, 8, 9});
  there_and_back("whole", plain.like("whole"), plain);

  const FieldOf<1> wide("wide", mesh, {3, 8, 9});
  there_and_back("narrowed", Field(wide), plain);

  const auto n = [&](int d) { return plain.view().extent(static_cast<std::size_t>(d)); };
  const Field::view_type padded(Kokkos::view_alloc("padded", Kokkos::AllowPadding), n(0), n(1),
                                n(2));
  there_and_back("padded", rebind(plain, padded), plain);

  using First = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Y, Halo<1>, Clamp>,
                            ShardDim<3, X, Halo<1, 2>, Periodic>>;
  const First first("first", mesh, {2, 3, 8, 9});
  there_and_back("slice", subview(first, 1, Kokkos::ALL, Kokkos::ALL, Kokkos::ALL), plain);

  using Last = ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1>, Clamp>,
                           ShardDim<2, X, Halo<1, 2>, Periodic>>;
  const Last last("last", mesh, {3, 8, 9, 2});
  there_and_back("strided slice", subview(last, Kokkos::ALL, Kokkos::ALL, Kokkos::ALL, 1), plain);
}

}  // namespace
