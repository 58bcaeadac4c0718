// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/shard.hpp"
#include "support/thrown.hpp"

struct X;
struct Y;
struct Z;
struct V;
struct W;

namespace {

using namespace shard;
using namespace shard::testing;

template <int D>
using Fold = PoleFold<D, Pole::on_row>;

using Field     = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1>, Fold<2>>,
                          ShardDim<2, X, Halo<2, 1>, Periodic>>;
using LeftField = ShardedView<int***, Kokkos::LayoutLeft, ShardDim<0, X, Halo<2, 1>, Periodic>,
                              ShardDim<1, Y, Halo<0, 3>>>;

Mesh<Y, X> mesh_of_all() { return Mesh<Y, X>(MPI_COMM_WORLD, {0, 0}); }

int ranks() { return mesh_of_all().size(); }

std::array<index_t, 2> owned_range(index_t n, int parts, int coordinate) {
  return {n / parts * coordinate + std::min<index_t>(coordinate, n % parts),
          n / parts + (coordinate < n % parts ? 1 : 0)};
}

template <class View>
double sum_of(const View& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  double sum      = 0.0;
  for (std::size_t i = 0; i < host.extent(0); ++i)
    for (std::size_t j = 0; j < host.extent(1); ++j)
      for (std::size_t k = 0; k < host.extent(2); ++k) sum += host(i, j, k);
  return sum;
}

struct Ones {
  KOKKOS_FUNCTION double operator()(index_t, index_t, index_t) const { return 1.0; }
};

TEST(ShardedView, ExtentsHalosAndIndices) {
  const auto mesh = mesh_of_all();
  const Field t("t", mesh, {3, 7, 10});
  const auto y = owned_range(7, mesh.size<Y>(), mesh.coordinate<Y>());
  const auto x = owned_range(10, mesh.size<X>(), mesh.coordinate<X>());
  EXPECT_EQ(t.extent(0), 3);
  EXPECT_EQ(t.begin(1), y[0]);
  EXPECT_EQ(t.extent(1), y[1]);
  EXPECT_EQ(t.begin(2), x[0]);
  EXPECT_EQ(t.extent(2), x[1]);
  EXPECT_EQ(t.global_extent(1), 7);
  EXPECT_EQ(t.label(), "t");
  EXPECT_EQ(t.view().label(), "t");
  EXPECT_EQ(t.partition(2), Partition::balanced(10, mesh.size<X>()));
  // one allocation, halos inside
  EXPECT_EQ(static_cast<index_t>(t.view().extent(0)), 3);
  EXPECT_EQ(static_cast<index_t>(t.view().extent(1)), y[1] + 2);
  EXPECT_EQ(static_cast<index_t>(t.view().extent(2)), x[1] + 3);
  EXPECT_EQ(static_cast<index_t>(t.owned().extent(1)), y[1]);
  EXPECT_EQ(static_cast<index_t>(t.owned().extent(2)), x[1]);
  EXPECT_EQ(static_cast<index_t>(t.haloed().size()), 3 * (y[1] + 2) * (x[1] + 3));
  // index 0 is the first owned cell; the halo lies before it and after the last
  EXPECT_EQ(&t(0, 0, 0), &t.view()(0, 1, 2));
  EXPECT_EQ(&t(2, -1, -2), &t.view()(2, 0, 0));
  EXPECT_EQ(&t(1, y[1], x[1]), &t.view()(1, y[1] + 1, x[1] + 2));
  if (y[1] > 0 && x[1] > 0) {
    EXPECT_EQ(&t(0, 0, 0), &t.owned()(0, 0, 0));
  }
  EXPECT_EQ(t.origin(), &t(0, 0, 0));
  for (index_t g = -2; g < 12; ++g) {
    EXPECT_EQ(t.to_global(2, t.to_local(2, g)), g);
    EXPECT_EQ(t.owns(2, g), g >= x[0] && g < x[0] + x[1]);
  }
  EXPECT_EQ(t.stride(2), 1);
  double sum = 0;
  for (std::size_t i = 0; i < t.view().span(); ++i) sum += std::abs(t.view().data()[i]);
  EXPECT_EQ(sum, 0.0) << "a new field is zero, halos too";
}

TEST(ShardedView, LayoutLeft) {
  const auto mesh = mesh_of_all();
  const LeftField t("t", mesh, {9, 5, 2});
  EXPECT_EQ(t.stride(0), 1);
  EXPECT_EQ(&t(0, 0, 0), &t.view()(2, 0, 0));
  EXPECT_EQ(&t(-2, 0, 1), &t.view()(0, 0, 1));
  EXPECT_EQ(&t(1, 2, 1) - &t(0, 2, 1), 1);
}

/// Stores its global indices in each owned cell through a copy of the field made in the kernel.
template <class F>
struct StoreGlobalIndices {
  F field;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    const F copy  = field;
    copy(l, i, j) = static_cast<typename F::value_type>(
        copy.to_global(0, l) * 10000 + copy.to_global(1, i) * 100 + copy.to_global(2, j));
  }
};

template <class F>
void check_kernel(const F& field) {
  const Kokkos::DefaultExecutionSpace space;
  Kokkos::parallel_for("store",
                       Kokkos::MDRangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::Rank<3>>(
                           space, {0, 0, 0}, {field.extent(0), field.extent(1), field.extent(2)}),
                       StoreGlobalIndices<F>{field});
  const auto host = create_mirror_view(field);
  deep_copy(space, host, field);
  space.fence();
  for (int l = 0; l < field.extent(0); ++l)
    for (int i = 0; i < field.extent(1); ++i)
      for (int j = 0; j < field.extent(2); ++j)
        ASSERT_EQ(static_cast<index_t>(host(l, i, j)),
                  (field.begin(0) + l) * 10000 + (field.begin(1) + i) * 100 + field.begin(2) + j);
}

TEST(ShardedView, KernelsStoreThroughCopies) {
  const auto mesh = mesh_of_all();
  check_kernel(Field("right", mesh, {3, 7, 10}));
  check_kernel(LeftField("left", mesh, {9, 5, 2}));
}

TEST(ShardedView, RankOne) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const ShardedView<float*, Kokkos::LayoutRight, ShardDim<0, X, Halo<3, 0>, Clamp>> t("t", mesh,
                                                                                      {5});
  EXPECT_EQ(static_cast<index_t>(t.view().extent(0)), t.extent(0) + 3);
  EXPECT_EQ(&t(-3), t.view().data());
}

TEST(ShardedView, RankSixCutInFiveDimensions) {
  const Mesh<V, W, X, Y, Z> mesh(MPI_COMM_WORLD, {0, 0, 0, 0, 0});
  const ShardedView<std::int16_t******, Kokkos::LayoutRight, ShardDim<0, V>, ShardDim<1, W>,
                    ShardDim<3, X, Halo<1>>, ShardDim<4, Y, Halo<1, 2>, Periodic>,
                    ShardDim<5, Z, Halo<2, 0>, Symmetric>>
      t("t", mesh, {3, 4, 2, 5, 6, 7});
  index_t mine = 1, all = 0;
  for (int d = 0; d < 6; ++d) mine *= t.extent(d);
  MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, mesh.communicator());
  EXPECT_EQ(all, 3 * 4 * 2 * 5 * 6 * 7) << "every cell has one owner";
  EXPECT_EQ(&t(0, 0, 0, 0, 0, 0), &t.view()(0, 0, 0, 1, 1, 2));
  EXPECT_EQ(&t(0, 0, 1, -1, -1, -2), &t.view()(0, 0, 1, 0, 0, 0));
}

TEST(ShardedView, TwoAxesOnOneDimension) {
  const auto mesh = mesh_of_all();
  const ShardedView<double**, Kokkos::LayoutRight, ShardDim<1, Axes<X, Y>, Halo<1>>> t("t", mesh,
                                                                                       {2, 11});
  const auto own =
      owned_range(11, mesh.size(), mesh.coordinate<X>() * mesh.size<Y>() + mesh.coordinate<Y>());
  EXPECT_EQ(t.begin(1), own[0]);
  EXPECT_EQ(t.extent(1), own[1]);
}

TEST(ShardedView, StaticExtents) {
  const auto mesh = mesh_of_all();
  using F =
      ShardedView<int** [3], Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>>, ShardDim<1, X, Halo<1>>>;
  const F t("t", mesh, {5, 6, 3});
  EXPECT_EQ(t.extent(2), 3);
  EXPECT_EQ(&t(0, 0, 2), &t.view()(1, 1, 2));
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const F wrong("wrong", mesh, {5, 6, 4});
               }),
               {"wrong", "extent 3", "4"});
}

TEST(ShardedView, DeviceInTheType) {
  const auto mesh = mesh_of_all();
  using Host      = Kokkos::DefaultHostExecutionSpace;
  using F = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>>, Kokkos::HostSpace>;
  static_assert(std::is_same_v<F::memory_space, Kokkos::HostSpace>);
  using G = ShardedView<float**, Kokkos::LayoutRight, Host::device_type, ShardDim<0, Y, Halo<1>>>;
  static_assert(std::is_same_v<G::device_type, Host::device_type>);
  static_assert(std::is_same_v<Field::memory_space, Kokkos::DefaultExecutionSpace::memory_space>);
  const F t("t", mesh, {5, 6});
  const G u("u", mesh, {5, 6});
  EXPECT_EQ(t.extent(0), u.extent(0));
  static_assert(std::is_same_v<host_mirror_t<F>, F>);
}

TEST(ShardedView, ConstAndNarrowerHalosShareMemory) {
  const auto mesh = mesh_of_all();
  using Wide      = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2, 3>, Clamp>,
                           ShardDim<1, X, Halo<2>, Periodic>>;
  using Narrow    = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y>,
                             ShardDim<1, X, Halo<2, 1>, Periodic>>;
  using Const = ShardedView<const double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2, 3>, Clamp>,
                            ShardDim<1, X, Halo<2>, Periodic>>;
  using OtherEdge = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Zero>,
                                ShardDim<1, X, Halo<2>, Periodic>>;
  static_assert(std::is_convertible_v<Wide, Narrow>);
  static_assert(std::is_convertible_v<Wide, Const>);
  static_assert(!std::is_convertible_v<Narrow, Wide>, "a halo doesn't grow by conversion");
  static_assert(!std::is_convertible_v<Const, Wide>, "const isn't lost");
  static_assert(!std::is_convertible_v<Wide, OtherEdge>, "the halo has another meaning there");
  const Wide wide("wide", mesh, {6, 8});
  const Narrow narrow  = wide;
  const Const constant = wide;
  for (int i = 0; i < wide.extent(0); ++i)
    for (int j = -2; j < wide.extent(1) + 1; ++j) {
      wide(i, j) = 10.0 * i + j;
      EXPECT_EQ(&narrow(i, j), &wide(i, j));
      EXPECT_EQ(constant(i, j), wide(i, j));
    }
  EXPECT_EQ(static_cast<index_t>(narrow.haloed().extent(0)), wide.extent(0));
  EXPECT_EQ(static_cast<index_t>(narrow.haloed().extent(1)), wide.extent(1) + 3);
  EXPECT_EQ(narrow.view().data(), wide.view().data());
  // a new one like the narrow one has an allocation of its own width
  const Narrow another = narrow.like("another");
  EXPECT_EQ(static_cast<index_t>(another.view().extent(0)), wide.extent(0));
  EXPECT_EQ(&another(0, 0), &another.view()(0, 2));
}

TEST(ShardedView, LikeAndSwap) {
  const auto mesh = mesh_of_all();
  Field t("t", mesh, {2, 5, 6}), u = t.like("u");
  EXPECT_EQ(u.label(), "u");
  EXPECT_NE(u.view().data(), t.view().data());
  for (int d = 0; d < 3; ++d) {
    EXPECT_EQ(u.extent(d), t.extent(d));
    EXPECT_EQ(u.begin(d), t.begin(d));
    EXPECT_EQ(u.partition(d), t.partition(d));
  }
  const double* const of_t = t.view().data();
  swap(t, u);
  EXPECT_EQ(u.view().data(), of_t);
  EXPECT_EQ(u.label(), "t");
  EXPECT_EQ(t.label(), "u");
}

TEST(ShardedView, Staggered) {
  const auto mesh = mesh_of_all();
  using Box       = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<1>, Clamp>,
                          ShardDim<2, X, Halo<2, 1>, Periodic>>;
  const Box t("t", mesh, {2, 5, 6});
  const Box v = t.staggered<Y>();
  EXPECT_EQ(v.label(), "t staggered");
  EXPECT_EQ(v.global_extent(1), 6);
  EXPECT_EQ(v.global_extent(2), 6);
  EXPECT_EQ(v.partition(1), t.partition(1).staggered());
  const bool last = t.extent(1) > 0 && t.begin(1) + t.extent(1) == 5;
  EXPECT_EQ(v.extent(1), t.extent(1) + (last ? 1 : 0));
  if (t.extent(1) > 0) {
    EXPECT_EQ(v.begin(1), t.begin(1));
  }
  EXPECT_EQ(t.staggered<Y>("named").label(), "named");
  // where the world wraps the last point would be the first one again
  const Box u = t.staggered<X>();
  EXPECT_EQ(u.global_extent(1), 5);
  EXPECT_EQ(u.global_extent(2), 6);
  EXPECT_EQ(u.partition(2), t.partition(2));
}

TEST(ShardedView, PartitionsOfAnother) {
  const auto mesh = mesh_of_all();
  std::vector<index_t> counts(static_cast<std::size_t>(mesh.size<Y>()), 0);
  counts.back() = 7;  // the last rank owns all of it
  const Field t("t", mesh,
                {Partition::balanced(2, 1), Partition::explicit_counts(counts),
                 Partition::ceil(10, mesh.size<X>())});
  EXPECT_EQ(t.extent(1), mesh.coordinate<Y>() == mesh.size<Y>() - 1 ? 7 : 0);
  EXPECT_EQ(t.extent(2), Partition::ceil(10, mesh.size<X>()).count(mesh.coordinate<X>()));
  const Field same("same", mesh, t.partitions());
  EXPECT_EQ(same.extent(1), t.extent(1));
}

TEST(ShardedView, SubviewRenumbersItsDimensions) {
  const auto mesh = mesh_of_all();
  using F4        = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Y, Halo<1>, Fold<3>>,
                         ShardDim<3, X, Halo<2, 1>, Periodic>>;
  const F4 t("t", mesh, {2, 3, 7, 8});
  const auto level = subview(t, 1, 2, Kokkos::ALL, Kokkos::ALL);
  using Level      = std::remove_const_t<decltype(level)>;
  static_assert(Level::rank == 2 && std::is_same_v<Level::layout, Kokkos::LayoutRight>);
  static_assert(std::is_same_v<Level::axis<0>, Y> && std::is_same_v<Level::axis<1>, X>);
  static_assert(std::is_same_v<Level::boundary<0>, Fold<1>>, "the fold's longitude moves too");
  static_assert(Level::halo_lo(1) == 2 && Level::halo_hi(1) == 1);
  const auto middle = subview(t, Kokkos::ALL, 0, Kokkos::ALL, Kokkos::ALL);
  static_assert(middle.rank == 3 &&
                std::is_same_v<std::remove_const_t<decltype(middle)>::boundary<1>, Fold<2>>);
  for (int i = -1; i <= t.extent(2); ++i)
    for (int j = -2; j <= t.extent(3); ++j) {
      EXPECT_EQ(&level(i, j), &t(1, 2, i, j));
      EXPECT_EQ(&middle(1, i, j), &t(1, 0, i, j));
    }
  EXPECT_EQ(level.begin(0), t.begin(2));
  EXPECT_EQ(level.global_extent(1), 8);
  EXPECT_EQ(level.partition(1), t.partition(3));
  expect_parts(
      message_thrown_by<ArgumentError>([&] { (void)subview(t, 0, 3, Kokkos::ALL, Kokkos::ALL); }),
      {"index 3", "dimension 1", "3 cells"});
  const LeftField left("left", mesh, {6, 5, 2});
  const auto first = subview(left, Kokkos::ALL, Kokkos::ALL, 1);
  static_assert(std::is_same_v<decltype(first)::layout, Kokkos::LayoutLeft>);
  EXPECT_EQ(&first(-1, 0), &left(-1, 0, 1));
}

TEST(ShardedView, MirrorAndDeepCopy) {
  const auto mesh = mesh_of_all();
  const Kokkos::DefaultExecutionSpace space;
  const Field t("t", mesh, {2, 5, 6});
  deep_copy(space, t, 3.5);
  const auto host = create_mirror_view(t);
  deep_copy(space, host, t);
  space.fence();
  EXPECT_EQ(host.extent(1), t.extent(1));
  EXPECT_EQ(host(1, -1, -2), 3.5);
  const Field u("u", mesh, {2, 6, 6});
  bool differ = u.extent(1) != t.extent(1);
  if (differ)
    expect_parts(message_thrown_by<ArgumentError>([&] { deep_copy(space, u, t); }),
                 {"dimension 1", "\"u\"", "\"t\""});
}

TEST(ShardedView, DeepCopyBetweenNarrowedFieldsTouchesTheirOwnCellsOnly) {
  const auto mesh = mesh_of_all();
  const Kokkos::DefaultExecutionSpace space;
  using Narrow = ShardedView<int*, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Clamp>>;
  using Low    = ShardedView<int*, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2, 1>, Clamp>>;
  using High   = ShardedView<int*, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1, 2>, Clamp>>;
  const Low low("low", mesh, {8});
  const High high("high", mesh, {8});
  for (int i = -1; i < high.extent(0) + 2; ++i) high(i) = 10 + i;
  deep_copy(space, low, -1);
  deep_copy(space, Narrow(low), Narrow(high));
  space.fence();
  for (int i = -1; i < low.extent(0) + 1; ++i) EXPECT_EQ(low(i), 10 + i);
  EXPECT_EQ(low(-2), -1) << "outside of what was copied";
}

TEST(ShardedView, Trim) {
  const Kokkos::View<int**, Kokkos::HostSpace> view("view", 6, 4);
  const auto less = trim<0>(view, 2, 1);
  EXPECT_EQ(less.extent(0), 3u);
  EXPECT_EQ(less.extent(1), 4u);
  EXPECT_EQ(&less(0, 0), &view(2, 0));
  EXPECT_EQ(trim<1>(view, 0, 4).extent(1), 0u);
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)trim<0>(view, 4, 3); }),
               {"4 rows before", "3 after", "6"});
  message_thrown_by<ArgumentError>([&] { (void)trim<0>(view, -1, 0); });
}

TEST(ShardedView, WrapsAViewInPlace) {
  const auto mesh    = mesh_of_all();
  const index_t rows = mesh.coordinate<Y>() + 1, columns = mesh.coordinate<X>() == 0 ? 5 : 3;
  const Partition y = partition_from_counts<Y>(mesh, rows),
                  x = partition_from_counts<X>(mesh, columns);
  EXPECT_EQ(y.size(), mesh.size<Y>() * (mesh.size<Y>() + 1) / 2);
  using F = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<0, Y, Halo<1>>,
                        ShardDim<1, X, Halo<2, 1>>>;
  const F::view_type theirs("theirs", rows + 2, columns + 3);
  const F t(mesh, theirs, {y, x});
  EXPECT_EQ(t.label(), "theirs");
  EXPECT_EQ(t.view().data(), theirs.data());
  EXPECT_EQ(&t(0, 0), &theirs(1, 2));
  EXPECT_EQ(t.extent(0), rows);
  EXPECT_EQ(t.extent(1), columns);
  // one rank's View is too wide: all ranks throw, with that rank's numbers
  const int last = mesh.size() - 1;
  const F::view_type wrong("wrong", rows + 2, columns + (mesh.rank() == last ? 7 : 3));
  const Partition x2           = x;
  const std::string words      = message_thrown_by<ArgumentError>([&] {
    const F w(mesh, wrong, {y, x2});
  });
  const index_t theirs_columns = x.count(mesh.size<X>() - 1);
  expect_parts(words, {("rank " + std::to_string(last)).c_str(), "dimension 1",
                       ("extent " + std::to_string(theirs_columns + 7)).c_str(),
                       ("make " + std::to_string(theirs_columns + 3)).c_str()});
}

TEST(ShardedView, MdspanWhereKokkosHasIt) {
  const auto check = [](const auto& t) {
    if constexpr (requires { t.to_mdspan(); }) {
      const auto span = t.to_mdspan();
      EXPECT_EQ(static_cast<index_t>(span.extent(1)), t.extent(1));
      if (t.extent(0) > 0 && t.extent(1) > 0) {
        EXPECT_EQ(&span(0, 0, 0), &t(0, 0, 0));
      }
    } else {
      GTEST_SKIP() << "this Kokkos has no to_mdspan";
    }
  };
  check(LeftField("t", mesh_of_all(), {9, 5, 2}));
}

TEST(ShardedView, ErrorsOnEveryRank) {
  const auto mesh = mesh_of_all();
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Field t("t", mesh, {2, 5, 7});
               }),
               {"\"t\"", "even number of longitudes", "dimension 2 has 7"});
  using Reflecting = ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Reflect>>;
  expect_parts(message_thrown_by<ArgumentError>([&] { const Reflecting t("t", mesh, {1}); }),
               {"extent 1", "reflected"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Field t("t", mesh, {2, 1, 8});
               }),
               {"extent 1", "reflected"});
  // a domain without points, as of a coupling's other side, has a halo of zeros
  const Field none("none", mesh, {2, 0, 8});
  Kokkos::deep_copy(none.view(), 7.0);
  exchange(Kokkos::DefaultHostExecutionSpace(), none);
  for (std::size_t i = 0; i < none.view().size(); ++i) EXPECT_EQ(none.view().data()[i], 0.0) << i;
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Field t("t", mesh, {-2, 4, 8});
               }),
               {"-2"});
  const int parts = mesh.size<Y>();
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Field t("t", mesh,
                               {Partition::balanced(2, 1), Partition::balanced(9, parts + 1),
                                Partition::balanced(8, mesh.size<X>())});
               }),
               {"dimension 1", (std::to_string(parts) + " ranks").c_str(),
                (std::to_string(parts + 1) + " parts").c_str()});
}

TEST(ShardedView, RanksThatDisagreeAllThrow) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto mesh = mesh_of_all();
  expect_parts(
      message_thrown_by<AgreementError>([&] {
        const Field t("t", mesh, {2, mesh.rank() == mesh.size() - 1 ? 6 : 5, 8});
      }),
      {"rank 0", "balanced 5", "balanced 6", ("rank " + std::to_string(mesh.size() - 1)).c_str()});
}

/// The allocation that a type makes is this one, a View of the same extents is another.
TEST(ShardedView, ReboundToOtherMemory) {
  const auto mesh = mesh_of_all();
  const Kokkos::DefaultExecutionSpace space;
  const Field t("t", mesh, {3, 7, 10});
  const auto extent = [&](int d) { return t.view().extent(static_cast<std::size_t>(d)); };
  const Kokkos::View<double*, Kokkos::DefaultExecutionSpace::memory_space> pool("pool",
                                                                                t.view().span());
  const Field u = rebind(t, Field::view_type(pool.data(), extent(0), extent(1), extent(2)));
  EXPECT_EQ(u.view().data(), pool.data());
  EXPECT_EQ(u.label(), "t");
  EXPECT_EQ(u.partitions(), t.partitions());
  deep_copy(space, u, 1.0);
  exchange(space, u);
  EXPECT_EQ(sum_of(u.view()), static_cast<double>(u.view().size()));
  EXPECT_EQ(sum_of(t.view()), 0.0) << "the first field's memory was written to";
  using Narrow   = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Y>, ShardDim<2, X>>;
  const Narrow n = rebind(Narrow(t), Narrow("n", mesh, {3, 7, 10}).view());
  EXPECT_EQ(n.origin(), n.view().data());
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 (void)rebind(t, Field::view_type("v", extent(0), extent(1), extent(2) + 1));
               }),
               {"rebind", "dimension 2", "halo of 2 + 1"});
}

TEST(ShardedView, MadeByDefaultItHasNoCellsAndNoMesh) {
  const Kokkos::DefaultExecutionSpace space;
  const Field t, u;
  EXPECT_EQ(t.extent(0), 0);
  EXPECT_EQ(t.view().data(), nullptr);
  EXPECT_EQ(t.origin(), nullptr);
  // what goes over cells finds none
  EXPECT_EQ(t.owned().size(), 0U);
  EXPECT_EQ(t.haloed().size(), 0U);
  EXPECT_EQ(owned_region(t).cells(), 0);
  EXPECT_EQ(interior(t).cells(), 0);
  EXPECT_EQ(rim(t).cells(), 0);
  EXPECT_FALSE(is_shared(t));
  deep_copy(space, t, 1.0);
  deep_copy(space, t, u);
  deep_copy(space, create_mirror_view(t), t);
  mark_written(space, t);
  distribute(space, t, Ones());
  using Narrow = ShardedView<const double***, Kokkos::LayoutRight, ShardDim<1, Y>, ShardDim<2, X>>;
  EXPECT_EQ(Narrow(t).owned().size(), 0U);
  // what needs a mesh throws
  const Field made("made", mesh_of_all(), {3, 7, 10});
  const std::vector<std::function<void()>> uses = {
      [&] { t.label(); },
      [&] { (void)t.partition(1); },
      [&] { (void)t.communicator(); },
      [&] { (void)t.like("u"); },
      [&] { (void)t.staggered<X>(); },
      [&] { (void)rebind(t, made.view()); },
      [&] { (void)subview(t, Kokkos::ALL, Kokkos::ALL, Kokkos::ALL); },
      [&] { (void)subview(t, 0, Kokkos::ALL, Kokkos::ALL); },
      [&] { deep_copy(space, t, made); },
      [&] { deep_copy(space, made, t); },
      [&] { exchange(space, t); },
      [&] { (void)Exchange(t); },
      [&] { redistribute(space, t, made); },
      [&] { redistribute(space, made, t); },
      [&] { (void)sum(space, t); }};
  for (const auto& use : uses)
    expect_parts(message_thrown_by<ArgumentError>(use), {"this field is default-constructed"});
}

/// What `init` fills in a program's struct.
TEST(ShardedView, MeshesAndExchangesAreFilledLater) {
  struct {
    Mesh<Y, X> mesh;
    Field now, next;
    Exchange<Field> halos;
  } model;
  const Kokkos::DefaultExecutionSpace space;
  EXPECT_TRUE((model.mesh == Mesh<Y, X>()));
  for (const std::function<void()>& use : std::vector<std::function<void()>>{
           [&] { (void)model.mesh.size(); }, [&] { (void)model.mesh.coordinate<X>(); },
           [&] { (void)model.mesh.communicator(); }, [&] { model.mesh.release(); },
           [&] {
             (void)Field("t", model.mesh, {3, 7, 10});
           }})
    expect_parts(message_thrown_by<ArgumentError>(use), {"this mesh is default-constructed"});
  for (const std::function<void()>& use : std::vector<std::function<void()>>{
           [&] { model.halos(space); }, [&] { model.halos(space, model.now); },
           [&] { (void)model.halos.start(space); }, [&] { model.halos.adjoint(space); },
           [&] { (void)model.halos.faces(); }, [&] { (void)model.halos.sends(); }})
    expect_parts(message_thrown_by<ArgumentError>(use), {"this exchange was made by default"});

  model.mesh  = mesh_of_all();
  model.now   = Field("now", model.mesh, {3, 7, 10});
  model.next  = model.now.like("next");
  model.halos = Exchange(model.now);
  deep_copy(space, model.now, 1.0);
  swap(model.now, model.next);
  deep_copy(space, model.now, 2.0);
  model.halos(space);  // the memory that the plan was made for, which is now next's
  model.halos(space, model.now);
  EXPECT_EQ(sum_of(model.next.view()), static_cast<double>(model.next.view().size()));
  EXPECT_EQ(sum_of(model.now.view()), 2.0 * static_cast<double>(model.now.view().size()));
}

}  // namespace
