// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges that move less than the fields have, and an exchange under a kernel.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"

namespace partial_test {

struct Lat;
struct Lon;
using Space = Kokkos::DefaultExecutionSpace;
using Field = shard::ShardedView<
    double***, Kokkos::LayoutRight,
    shard::ShardDim<1, Lat, shard::Halo<2>, shard::PoleFold<2, shard::Pole::on_row>>,
    shard::ShardDim<2, Lon, shard::Halo<1, 3>, shard::Periodic>>;

struct FillKernel {
  Field t;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    t(l, i, j) = 1.0 + 10000.0 * l + 100.0 * static_cast<double>(t.to_global(1, i)) +
                 static_cast<double>(t.to_global(2, j));
  }
};

struct SmoothKernel {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    to(l, i, j) =
        from(l, i - 2, j) + 2 * from(l, i + 1, j + 3) - 3 * from(l, i, j - 1) + from(l, i, j);
  }
};

class Partial : public ::testing::Test {
 protected:
  shard::Mesh<Lat, Lon> mesh{MPI_COMM_WORLD, {0, 0}};
  Space space;
  Field full{"full", mesh, {2, 9, 10}};
  shard::Exchange<Field> all{full};

  void SetUp() override {
    shard::parallel_for("fill", space, shard::owned_region(full), FillKernel{full});
    all(space);
  }

  /// Exchanges a fresh copy by `plan` and expects the full exchange's value where `moved(i outside,
  /// j outside, i, j)` says so, else what was there.
  template <class Moved>
  void expect(const shard::Exchange<Field>& plan, const Moved& moved) {
    const Field part = full.like("part");
    Kokkos::deep_copy(part.view(), -1.0);
    shard::parallel_for("fill", space, shard::owned_region(part), FillKernel{part});
    plan(space, part);
    space.fence();
    const auto a = create_mirror_view(full), b = create_mirror_view(part);
    shard::deep_copy(space, a, full);
    shard::deep_copy(space, b, part);
    space.fence();
    const auto rows = static_cast<int>(full.extent(1)), columns = static_cast<int>(full.extent(2));
    int wrong = 0;
    for (int l = 0; l < 2; ++l)
      for (int i = -2; i < rows + 2; ++i)
        for (int j = -1; j < columns + 3; ++j) {
          const int row       = i < 0       ? -i
                                : i >= rows ? i - rows + 1
                                            : 0,
                    column    = j < 0          ? -j
                                : j >= columns ? j - columns + 1
                                               : 0;
          const double wanted = moved(row, column) ? a(l, i, j) : -1.0;
          wrong += b(l, i, j) != wanted ? 1 : 0;
        }
    EXPECT_EQ(wrong, 0);
  }
};

TEST_F(Partial, everything) {
  expect(all, [](int, int) { return true; });
}
TEST_F(Partial, only_one_axis) {
  expect(all.only<Lat>(), [](int, int column) { return column == 0; });
  expect(all.only<Lon>(), [](int row, int) { return row == 0; });
}
TEST_F(Partial, narrower) {
  expect(all.width<shard::Halo<1>>(), [](int row, int column) { return row <= 1 && column <= 1; });
}
/// How many other ranks own what this rank's halo cells are images of: all, or the faces' alone.
int owners_of_halo(const shard::Mesh<Lat, Lon>& mesh, const Field& t, bool corners) {
  std::set<int> owners;
  const auto rows = static_cast<int>(t.extent(1)), columns = static_cast<int>(t.extent(2));
  for (int i = -2; i < rows + 2; ++i)
    for (int j = -1; j < columns + 3; ++j) {
      const bool beyond[] = {i < 0 || i >= rows, j < 0 || j >= columns};
      if (beyond[0] == beyond[1] && !(beyond[0] && corners)) continue;
      const auto row   = t.begin(1) + i;  // over a pole it is half round the globe
      const auto image = row < 0 ? -row : row > 8 ? 16 - row : row;
      const auto turn  = image == row ? 10 : 15;
      owners.insert(mesh.rank_at(
          {t.partition(1).owner(image), t.partition(2).owner((t.begin(2) + j + turn) % 10)}));
    }
  owners.erase(mesh.rank());
  return static_cast<int>(owners.size());
}

TEST_F(Partial, faces) {
  const auto faces = all.faces();
  expect(faces, [](int row, int column) { return row == 0 || column == 0; });
  EXPECT_EQ(all.receives(), owners_of_halo(mesh, full, true));
  EXPECT_EQ(faces.receives(), owners_of_halo(mesh, full, false));
  // Where both dimensions are cut some corner is a rank's that no face is.
  int sends[2] = {faces.sends(), all.sends()};
  MPI_Allreduce(MPI_IN_PLACE, sends, 2, MPI_INT, MPI_SUM, mesh.communicator());
  if (mesh.size<Lat>() > 1 && mesh.size<Lon>() > 1)
    EXPECT_LT(sends[0], sends[1]);
  else
    EXPECT_EQ(sends[0], sends[1]);
}
TEST_F(Partial, transposed) {
  // <E x, y> = <x, E' y> with whole numbers: the transpose of what a narrower plan moves
  const auto faces = all.faces().width<shard::Halo<1, 2>>();
  const Field x = full.like("x"), y = full.like("y"), ey = full.like("ey");
  shard::parallel_for("fill", space, shard::owned_region(x), FillKernel{x});
  shard::deep_copy(space, y, full);
  shard::deep_copy(space, ey, full);
  faces(space, x);
  faces.adjoint(space, ey);
  space.fence();
  const auto a = create_mirror_view(x), b = create_mirror_view(y), c = create_mirror_view(ey);
  shard::deep_copy(space, a, x);
  shard::deep_copy(space, b, y);
  shard::deep_copy(space, c, ey);
  space.fence();
  double sides[2] = {0, 0};
  for (int l = 0; l < 2; ++l)
    for (int i = -2; i < x.extent(1) + 2; ++i)
      for (int j = -1; j < x.extent(2) + 3; ++j) {
        const bool owned = i >= 0 && i < x.extent(1) && j >= 0 && j < x.extent(2);
        sides[0] += a(l, i, j) * b(l, i, j);             // halo cells that aren't moved are 0 in a
        if (owned) sides[1] += a(l, i, j) * c(l, i, j);  // the owned cells are the input
      }
  MPI_Allreduce(MPI_IN_PLACE, sides, 2, MPI_DOUBLE, MPI_SUM, mesh.communicator());
  EXPECT_EQ(sides[0], sides[1]);
}

/// The owned cells of two fields whose values differ.
template <class F>
int different_cells(const F& f, const F& g) {
  const Kokkos::DefaultExecutionSpace space;
  const auto a = create_mirror_view(f), b = create_mirror_view(g);
  shard::deep_copy(space, a, f);
  shard::deep_copy(space, b, g);
  space.fence();
  int different = 0;
  for (int i = 0; i < a.extent(0); ++i)
    for (int j = 0; j < a.extent(1); ++j)
      for (int k = 0; k < a.extent(2); ++k) different += a(i, j, k) == b(i, j, k) ? 0 : 1;
  return different;
}

TEST_F(Partial, a_kernel_over_the_messages) {
  const Field plain = full.like("plain"), over = full.like("over");
  shard::parallel_for("smooth", space, shard::owned_region(full), SmoothKernel{full, plain});
  const Field again = full.like("again");
  shard::parallel_for("fill", space, shard::owned_region(again), FillKernel{again});
  shard::overlapped("smooth", space, shard::Exchange(again), again, SmoothKernel{again, over});
  EXPECT_EQ(different_cells(plain, over), 0);
}

template <class... Dims>
using Cube = shard::ShardedView<double***, Kokkos::LayoutRight, Dims...>;

/// Reads all that is in reach, corners too, of one field or of a second one that is turned.
template <class F, class G>
struct BoxSumKernel {
  F from;
  G turned;
  F to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    double sum = 0;
    for (int a = -F::halo_lo(0); a <= F::halo_hi(0); ++a)
      for (int b = -F::halo_lo(1); b <= F::halo_hi(1); ++b)
        for (int c = -F::halo_lo(2); c <= F::halo_hi(2); ++c)
          sum += (9 + a + 3 * b + 5 * c) * from(i + a, j + b, k + c);
    if constexpr (!std::is_same_v<G, int>)
      for (int a = -G::halo_lo(1); a <= G::halo_hi(1); ++a)
        for (int c = -G::halo_lo(0); c <= G::halo_hi(0); ++c)
          sum += (7 + a - c) * turned(k + c, i + a);
    to(i, j, k) = sum;
  }
};

/// Values of the owned cells that depend on global indices, and NaN in the halo.
template <class F>
void prepare(const F& f) {
  const auto host = create_mirror_view(f);
  Kokkos::deep_copy(host.view(), std::numeric_limits<double>::quiet_NaN());
  if constexpr (F::rank == 3)
    for (int i = 0; i < f.extent(0); ++i)
      for (int j = 0; j < f.extent(1); ++j)
        for (int k = 0; k < f.extent(2); ++k)
          host(i, j, k) = static_cast<double>(97 * (f.begin(0) + i) + 31 * (f.begin(1) + j) +
                                              7 * (f.begin(2) + k));
  else
    for (int i = 0; i < f.extent(0); ++i)
      for (int j = 0; j < f.extent(1); ++j)
        host(i, j) = static_cast<double>(13 * (f.begin(0) + i) + 5 * (f.begin(1) + j));
  Kokkos::deep_copy(f.view(), host.view());
}

/// What `overlapped` computes is what an exchange and a kernel over all owned cells do, bit for
/// bit, whoever is late.
template <class F, class... G>
void check_overlapped(const shard::Tuning& tuning, const F& from, const G&... turned) {
  using Turned  = std::tuple_element_t<0, std::tuple<G..., int>>;
  const F plain = from.like("plain"), over = from.like("over");
  const auto kernel = [&](const F& to) {
    return BoxSumKernel<F, Turned>{from, std::get<0>(std::tuple<G..., int>(turned..., 0)), to};
  };
  const Space space;
  const shard::Exchange halos(tuning, from, turned...);
  prepare(from);
  (prepare(turned), ...);
  halos(space);
  shard::parallel_for("sum", space, shard::owned_region(from), kernel(plain));
  for (const int late : {0, shard::testing::ranks() - 1}) {
    space.fence();
    prepare(from);
    (prepare(turned), ...);
    MPI_Barrier(MPI_COMM_WORLD);
    if (late == shard::testing::rank()) std::this_thread::sleep_for(std::chrono::microseconds(500));
    shard::overlapped("sum", space, halos, from, kernel(over));
    ASSERT_EQ(different_cells(plain, over), 0) << "rank " << late << " is late";
  }
}

/// Only sides where a message is awaited are left for later: all kinds of the others are here, and
/// shards that are thinner than the halo.
TEST(Overlapped, is_an_exchange_and_a_kernel) {
  using shard::Halo;
  using shard::ShardDim;
  using Globe = Cube<ShardDim<0, shard::Unsharded, Halo<1>, shard::Symmetric>,
                     ShardDim<1, Lat, Halo<2, 1>, shard::PoleFold<2, shard::Pole::between_rows>>,
                     ShardDim<2, Lon, Halo<1>, shard::Periodic>>;
  using Basin = Cube<ShardDim<0, Lat, Halo<1, 2>, shard::Zero>,
                     ShardDim<1, shard::Unsharded, Halo<1>, shard::Periodic>,
                     ShardDim<2, Lon, Halo<2>, shard::Sides<shard::Clamp, shard::Constant<3.0>>>>;
  using Turned =
      shard::ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lon, Halo<1>, shard::Clamp>,
                         ShardDim<1, Lat, Halo<1>, shard::Periodic>>;
  const int all = shard::testing::ranks();
  std::vector<shard::Tuning> tunings(3);
  tunings[1].transport = shard::TransportKind::mpi;
  tunings[2].messages  = shard::MessageLayout::by_dimension;
  for (const char* check : {"0", "1"}) {
    const shard::testing::ScopedVariable checked("SHARD_CHECK", check);
    for (const auto& shape : std::vector<std::array<int, 2>>{{all, 1}, {1, all}, {0, 0}}) {
      const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
      for (const auto& tuning : tunings) {
        if (*check == '1' && &tuning != &tunings.front()) continue;
        for (const int n : {2, 8}) {
          SCOPED_TRACE("check " + std::string(check) + ", mesh " + std::to_string(shape[0]) +
                       " x " + std::to_string(shape[1]) + ", extent " + std::to_string(n) + ", " +
                       shard::to_text(tuning));
          check_overlapped(tuning, Globe("globe", mesh, {3, n + 3, n}));
          const Basin basin("basin", mesh, {n + 2, 3, n});
          check_overlapped(tuning, basin);
          check_overlapped(tuning, basin, Turned("turned", mesh, {n, n + 2}));
        }
      }
    }
  }
}

}  // namespace partial_test
