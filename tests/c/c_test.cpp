// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C interface: the bits of the C++ interface, and an error code and a sentence for each misuse.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "shard/c/shard.h"
#include "shard/io/checkpoint.hpp"
#include "shard/io/netcdf.hpp"
#include "shard/redistribute/coupling.hpp"
#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/stencil_operator.hpp"
#include "support/support.hpp"

namespace c_test {

struct Lat;
struct Lon;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
using Grid  = Mesh<Lat, Lon>;

template <class T, class BoundaryOfLat, class BoundaryOfLon = Periodic>
using Haloed = ShardedView<T***, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<2, 1>, BoundaryOfLat>,
                           ShardDim<1, Lon, Halo<1, 2>, BoundaryOfLon>, Kokkos::HostSpace>;

constexpr index_t rows = 12, columns = 16, levels = 3;

/// Uneven begins of n elements over the ranks of an axis; some ranks may own nothing.
std::vector<int64_t> begins_of(index_t n, int parts) {
  std::vector<int64_t> begins{0};
  for (int r = 1; r < parts; ++r)
    begins.push_back(std::min<index_t>(n, begins.back() + (r * 5) % (2 * n / parts + 1)));
  begins.push_back(n);
  return begins;
}

shard_boundary kind(int k, int odd = 0, int dimension = 0) {
  shard_boundary b{};
  b.kind      = k;
  b.odd       = odd;
  b.dimension = dimension;
  return b;
}

/// A mesh, and dimensions with uneven partitions.
struct Case {
  Grid mesh{MPI_COMM_WORLD, {0, 0}};
  shard_mesh c_mesh         = nullptr;
  std::vector<int64_t> lats = begins_of(rows, mesh.size<Lat>()),
                       lons = begins_of(columns, mesh.size<Lon>());
  std::array<Partition, 3> partitions{Partition::explicit_begins({lats.begin(), lats.end()}),
                                      Partition::explicit_begins({lons.begin(), lons.end()}),
                                      Partition::whole(levels)};

  Case() {
    const int sizes[] = {mesh.size<Lat>(), mesh.size<Lon>()};
    EXPECT_EQ(shard_mesh_create(MPI_COMM_WORLD, 2, sizes, &c_mesh), shard_ok);
  }
  ~Case() { shard_mesh_release(&c_mesh); }

  std::array<shard_dimension, 3> dimensions(const shard_boundary& low, const shard_boundary& high,
                                            const shard_boundary& lon) const {
    return {{{rows, 0, nullptr, lats.data(), 2, 1, low, high},
             {columns, 1, nullptr, lons.data(), 1, 2, lon, lon},
             {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  }
  template <class F>
  shard_field wrap(const char* name, const F& f, int type,
                   const std::array<shard_dimension, 3>& dims) const {
    shard_field field       = nullptr;
    const auto& view        = f.view();
    const int64_t local[]   = {static_cast<int64_t>(view.extent(0)),
                               static_cast<int64_t>(view.extent(1)),
                               static_cast<int64_t>(view.extent(2))};
    const int64_t strides[] = {static_cast<int64_t>(view.stride(0)),
                               static_cast<int64_t>(view.stride(1)),
                               static_cast<int64_t>(view.stride(2))};
    EXPECT_EQ(shard_field_wrap(c_mesh, name, view.data(), type, shard_host, 3, dims.data(), local,
                               strides, &field),
              shard_ok)
        << shard_error_message();
    return field;
  }
};

template <class F>
void fill(const F& f, int seed) {
  using T = typename F::value_type;
  for (std::size_t i = 0; i < f.view().span(); ++i)
    f.view().data()[i] =
        static_cast<T>((i * 37 + static_cast<std::size_t>(seed) * 11) % 101) / T(7);
}
template <class F>
int differences(const F& a, const F& b) {
  int wrong = 0;
  for (std::size_t i = 0; i < a.view().span(); ++i)
    wrong += a.view().data()[i] == b.view().data()[i] ? 0 : 1;
  return wrong;
}

template <class F>
void check_exchange(int type, const shard_boundary& low, const shard_boundary& high,
                    const shard_boundary& lon) {
  const Case c;
  const Space space;
  const F a("a", c.mesh, c.partitions), b("b", c.mesh, c.partitions), a2 = a.like("a2"),
                                                                      b2 = b.like("b2");
  const auto dims        = c.dimensions(low, high, lon);
  shard_field own[]      = {c.wrap("a", a2, type, dims), c.wrap("b", b2, type, dims)};
  const auto refill      = [&] { fill(a, 1), fill(a2, 1), fill(b, 2), fill(b2, 2); };
  const auto expect_same = [&](const char* what) {
    EXPECT_EQ(differences(a, a2), 0) << what;
    EXPECT_EQ(differences(b, b2), 0) << what;
  };
  const Exchange halos(a, b);
  const auto check = [&](const char* what, const auto& plan,
                         const shard_exchange_options& options) {
    shard_exchange exchange = nullptr;
    ASSERT_EQ(shard_exchange_create(2, own, &options, &exchange), shard_ok)
        << shard_error_message();
    refill();
    plan(space);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    expect_same(what);
    plan.adjoint(space);
    EXPECT_EQ(shard_exchange_start_adjoint(exchange), shard_ok);
    EXPECT_EQ(shard_exchange_finish(exchange), shard_ok);
    expect_same(what);
    shard_exchange_release(&exchange);
    EXPECT_EQ(exchange, nullptr);
  };
  check("whole", halos, {});
  check("faces", halos.faces(), {.faces = 1, .width = 0, .layers = 0, .axes = 0});
  check("width", halos.template width<Halo<1>>(), {.faces = 0, .width = 1, .layers = 0, .axes = 0});
  check("axis", halos.template only<Lon>(), {.faces = 0, .width = 0, .layers = 0, .axes = 2});
  for (shard_field& f : own) shard_field_release(&f);
}

TEST(C, ExchangesHaveTheBitsOfCpp) {
  check_exchange<Haloed<double, Reflect>>(shard_double, kind(shard_reflect), kind(shard_reflect),
                                          kind(shard_periodic));
  check_exchange<Haloed<float, Sides<Odd<Symmetric>, Clamp>>>(
      shard_float, kind(shard_symmetric, 1), kind(shard_clamp), kind(shard_periodic));
  shard_boundary pole = kind(shard_pole_fold, 1, 1);
  pole.pole           = shard_pole_between_rows;
  check_exchange<Haloed<double, PoleFold<1, Pole::between_rows, Parity::odd>>>(
      shard_double, pole, pole, kind(shard_periodic));
  shard_boundary north = kind(shard_north_fold, 1, 1);
  north.pivot          = shard_t_point;
  north.position       = shard_at_east;
  check_exchange<Haloed<double, Sides<Clamp, NorthFold<1, Pivot::t_point, At::east, Parity::odd>>>>(
      shard_double, kind(shard_clamp), north, kind(shard_periodic));
  const shard_boundary of_level[] = {kind(shard_constant), kind(shard_clamp),
                                     kind(shard_symmetric, 1)};
  shard_boundary by_index         = kind(shard_by_index, 0, 2);
  by_index.count                  = 3;
  by_index.each                   = of_level;
  check_exchange<Haloed<double, ByIndex<2, Zero, Clamp, Odd<Symmetric>>>>(
      shard_double, by_index, by_index, kind(shard_periodic));
}

TEST(C, FieldsAreAddedAndRemovedByName) {
  const Case c;
  const Space space;
  using F = Haloed<double, Clamp>;
  using S = Haloed<float, Clamp>;
  const F t("t", c.mesh, c.partitions), t2 = t.like("t2");
  const S s("s", c.mesh, c.partitions), s2 = s.like("s2");
  const auto dims  = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  shard_field of_t = c.wrap("t", t2, shard_double, dims), of_s = c.wrap("s", s2, shard_float, dims);
  shard_exchange set = nullptr;
  ASSERT_EQ(shard_exchange_create(0, nullptr, nullptr, &set), shard_ok);
  EXPECT_EQ(shard_exchange_run(set), shard_ok);  // of nothing
  const auto check = [&](bool has_t, bool has_s) {
    fill(t, 1), fill(t2, 1), fill(s, 2), fill(s2, 2);
    if (has_t) exchange(space, t);
    if (has_s) exchange(space, s);
    EXPECT_EQ(shard_exchange_run(set), shard_ok) << shard_error_message();
    EXPECT_EQ(differences(t, t2), 0);
    EXPECT_EQ(differences(s, s2), 0);
  };
  EXPECT_EQ(shard_exchange_add(set, of_t), shard_ok);
  check(true, false);
  EXPECT_EQ(shard_exchange_add(set, of_s), shard_ok);
  check(true, true);
  EXPECT_EQ(shard_exchange_add(set, of_s), shard_error_argument);
  EXPECT_EQ(shard_exchange_remove(set, "q"), shard_error_argument);
  EXPECT_EQ(shard_exchange_start(set), shard_ok);
  EXPECT_EQ(shard_exchange_remove(set, "t"), shard_error_argument);
  EXPECT_EQ(shard_exchange_finish(set), shard_ok);
  EXPECT_EQ(shard_exchange_remove(set, "t"), shard_ok);
  check(false, true);
  EXPECT_EQ(shard_exchange_remove(set, "s"), shard_ok);
  check(false, false);
  // in another order on one rank
  const bool last = rank() == ranks() - 1;
  EXPECT_EQ(shard_exchange_add(set, last ? of_s : of_t), shard_ok);
  EXPECT_EQ(shard_exchange_add(set, last ? of_t : of_s), shard_ok);
  if (ranks() > 1) {
    EXPECT_EQ(shard_exchange_run(set), shard_error_agreement);
  }
  shard_exchange_release(&set);
  shard_field_release(&of_t);
  shard_field_release(&of_s);
}

/// Three quarters of the nearest element inside, and a number for the place.
struct Wall {
  template <class F>
  KOKKOS_FUNCTION auto& nearest(const F& f, const OutsidePoint<3>& at) const {
    int i[3] = {at.index[0], at.index[1], at.index[2]};
    i[at.dim] += static_cast<int>(at.high ? f.global_extent(at.dim) - 1 - at.global[at.dim]
                                          : -at.global[at.dim]);
    return f(i[0], i[1], i[2]);
  }
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    return 0.75 * nearest(f, at) + static_cast<double>(at.global[0] + 100 * at.global[1]);
  }
};
struct WallAdjoint {
  template <class F>
  KOKKOS_FUNCTION void operator()(const F& f, const OutsidePoint<3>& at, double cotangent) const {
    Wall{}.nearest(f, at) += 0.75 * cotangent;
  }
};
using Walled = Haloed<double, Custom<Wall, WallAdjoint>, Custom<Wall, WallAdjoint>>;
void fill_wall(void* context, const char* name, void* origin, int rank, int adjoint, int dimension,
               int high, const int64_t* begin, const int64_t* end) {
  const auto& f = *static_cast<const Walled*>(context);
  EXPECT_EQ(name, std::string("x"));
  EXPECT_EQ(origin, static_cast<void*>(f.origin()));
  EXPECT_EQ(rank, 3);
  OutsidePoint<3> at{{}, {}, dimension, high != 0};
  for (int64_t i = begin[0]; i < end[0]; ++i)
    for (int64_t j = begin[1]; j < end[1]; ++j)
      for (int64_t k = begin[2]; k < end[2]; ++k) {
        const int64_t index[] = {i, j, k};
        for (int d = 0; d < 3; ++d) {
          at.index[d]  = static_cast<int>(index[d]);
          at.global[d] = f.begin(d) + index[d];
        }
        double& value = f(at.index[0], at.index[1], at.index[2]);
        if (adjoint == 0) {
          value = Wall{}(f, at);
        } else {
          const double cotangent = value;
          value                  = 0;
          WallAdjoint{}(f, at, cotangent);
        }
      }
}

TEST(C, BoundariesOfTheCallersOwn) {
  const Case c;
  const Space space;
  const Walled x("x", c.mesh, c.partitions), x2 = x.like("x2");
  const auto given = kind(shard_given);
  shard_field own  = c.wrap("x", x2, shard_double, c.dimensions(given, given, given));
  const Exchange<Walled> whole(x);
  const auto check = [&](const Exchange<Walled>& plan, const shard_exchange_options& options) {
    shard_exchange exchange = nullptr;
    ASSERT_EQ(shard_exchange_create(1, &own, &options, &exchange), shard_ok);
    const auto halos = plan.with(Wall{}, WallAdjoint{});
    EXPECT_EQ(shard_exchange_set_boundary(exchange, &fill_wall, const_cast<Walled*>(&x2)),
              shard_ok);
    fill(x, 1), fill(x2, 1);
    halos(space);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    halos.adjoint(space);
    EXPECT_EQ(shard_exchange_adjoint(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    // without it they are left
    EXPECT_EQ(shard_exchange_set_boundary(exchange, nullptr, nullptr), shard_ok);
    fill(x2, 1);
    const double corner = x2(-2, -1, 0);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    if (x2.begin(0) == 0 && x2.begin(1) == 0) {
      EXPECT_EQ(x2(-2, -1, 0), corner);
    }
    shard_exchange_release(&exchange);
  };
  check(whole, {});
  shard_field_release(&own);
}

TEST(C, RedistributionsHaveTheBitsOfCpp) {
  const Case c;
  const Space space;
  using F    = Haloed<double, Clamp>;
  using Bare = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<0, Lon>,
                           Kokkos::HostSpace>;
  const F x("x", c.mesh, c.partitions), x2               = x.like("x2");
  const Bare y("y", c.mesh, {rows, columns, levels}), y2 = y.like("y2");
  shard_field own =
      c.wrap("x", x2, shard_double,
             c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic)));
  const std::array<shard_dimension, 3> turned = {{{rows, 1, nullptr, nullptr, 0, 0, {}, {}},
                                                  {columns, 0, nullptr, nullptr, 0, 0, {}, {}},
                                                  {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  shard_field other                           = c.wrap("y", y2, shard_double, turned);
  fill(x, 1), fill(x2, 1);
  redistribute(space, y, x);
  EXPECT_EQ(shard_redistribute(other, own), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  redistribute_adjoint(space, x, y);
  EXPECT_EQ(shard_redistribute_adjoint(own, other), shard_ok);
  EXPECT_EQ(differences(x, x2), 0);
  int64_t first = -1, count = -1;
  EXPECT_EQ(shard_field_owned(other, 1, &first, &count), shard_ok);
  EXPECT_EQ(first, y.begin(1));
  EXPECT_EQ(count, y.extent(1));

  // to an array of the last rank, and back
  const int root = ranks() - 1;
  const Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> all(
      "all", rank() == root ? rows : 0, rank() == root ? columns : 0, levels);
  const auto all2 = Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace>(
      "all2", all.extent(0), all.extent(1), levels);
  gather(space, all, x, root);
  EXPECT_EQ(shard_gather(all2.data(), nullptr, own, root), shard_ok) << shard_error_message();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all.data()[i], all2.data()[i]);
  deep_copy(space, y, -1.0);
  deep_copy(space, y2, -2.0);
  distribute(space, y, all, root);
  EXPECT_EQ(shard_scatter(other, all2.data(), nullptr, root), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  EXPECT_EQ(shard_gather(all2.data(), nullptr, own, ranks()), shard_error_argument);

  // the same plan for another array
  const F z = x.like("z"), z2 = x.like("z2");
  fill(z, 3), fill(z2, 3);
  redistribute(space, y, z);
  EXPECT_EQ(shard_field_rebind(own, z2.view().data()), shard_ok);
  EXPECT_EQ(shard_redistribute(other, own), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  shard_field_release(&own);
  shard_field_release(&other);
}

// the order of a message's values is one on all ranks, also where an array doesn't tell it
TEST(C, EmptyShardsOfEitherOrder) {
  const Case c;
  const Space space;
  using Bare   = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<1, Lon>,
                           Kokkos::HostSpace>;
  using Turned = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<0, Lon>,
                             Kokkos::HostSpace>;
  const Bare x("x", c.mesh, {1, columns, levels});
  const Turned y("y", c.mesh, {1, columns, levels}), y2 = y.like("y2");
  const auto dims = [&](int rows_over, int columns_over) {
    return std::array<shard_dimension, 3>{{{1, rows_over, nullptr, nullptr, 0, 0, {}, {}},
                                           {columns, columns_over, nullptr, nullptr, 0, 0, {}, {}},
                                           {levels, -1, nullptr, nullptr, 0, 0, {}, {}}}};
  };
  shard_field from = c.wrap("x", x, shard_double, dims(0, 1)),
              to   = c.wrap("y", y2, shard_double, dims(1, 0));
  fill(x, 1 + rank());
  redistribute(space, y, x);
  EXPECT_EQ(shard_redistribute(to, from), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  shard_field_release(&from);
  shard_field_release(&to);
}

TEST(C, CouplingsHaveTheBitsOfCpp) {
  const Case c;
  const Space space;
  const Mesh<Lat> line(MPI_COMM_WORLD, {ranks()});
  using To   = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<1, Lat>, Kokkos::HostSpace>;
  using From = Haloed<double, Clamp>;
  const From x("x", c.mesh, c.partitions), x2        = x.like("x2");
  const To y("y", line, {rows, columns, levels}), y2 = y.like("y2");
  shard_mesh c_line = nullptr;
  const int all     = ranks();
  ASSERT_EQ(shard_mesh_create(MPI_COMM_WORLD, 1, &all, &c_line), shard_ok);
  shard_field from =
      c.wrap("x", x2, shard_double,
             c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic)));
  const shard_dimension dims[] = {{rows, -1, nullptr, nullptr, 0, 0, {}, {}},
                                  {columns, 0, nullptr, nullptr, 0, 0, {}, {}},
                                  {levels, -1, nullptr, nullptr, 0, 0, {}, {}}};
  const int64_t local[]        = {rows, static_cast<int64_t>(y2.extent(1)), levels};
  const int64_t strides[]      = {1, rows, static_cast<int64_t>(rows * y2.extent(1))};
  shard_field to = nullptr, narrow = nullptr;
  ASSERT_EQ(shard_field_wrap(c_line, "y", y2.view().data(), shard_double, shard_host, 3, dims,
                             local, strides, &to),
            shard_ok);
  ASSERT_EQ(shard_field_wrap(c_line, "n", y2.view().data(), shard_float, shard_host, 3, dims, local,
                             strides, &narrow),
            shard_ok);
  shard_coupling coupling = nullptr;
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &narrow, 1, &from, &coupling),
            shard_error_argument);
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, rank() == 0 ? -1 : 1, &from, &coupling),
            shard_error_argument);
  EXPECT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, 0, nullptr, &coupling),
            shard_error_argument);
  ASSERT_EQ(shard_coupling_create(MPI_COMM_WORLD, 1, &to, 1, &from, &coupling), shard_ok)
      << shard_error_message();
  fill(x, 1), fill(x2, 1), fill(y, 2), fill(y2, 2);
  Coupling<To, From> wanted(MPI_COMM_WORLD, &y, &x);
  wanted(space);
  EXPECT_EQ(shard_coupling_run(coupling), shard_ok) << shard_error_message();
  EXPECT_EQ(differences(y, y2), 0);
  wanted.adjoint(space);
  EXPECT_EQ(shard_coupling_adjoint(coupling), shard_ok);
  EXPECT_EQ(differences(x, x2), 0);
  wanted(space);
  EXPECT_EQ(shard_coupling_put(coupling), shard_ok);
  EXPECT_EQ(shard_coupling_put(coupling), shard_error_argument);
  EXPECT_EQ(shard_coupling_get(coupling), shard_ok);
  EXPECT_EQ(shard_coupling_finish(coupling), shard_ok);
  EXPECT_EQ(differences(y, y2), 0);
  for (shard_field* field : {&from, &to, &narrow}) shard_field_release(field);
  EXPECT_EQ(shard_coupling_run(coupling), shard_ok);
  shard_coupling_release(&coupling);
  shard_mesh_release(&c_line);
}

TEST(C, FilesAreThoseOfCpp) {
  const Case c;
  using F = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions), x2 = x.like("x2");
  const auto dims = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  shard_field own = c.wrap("x", x2, shard_double, dims);
  fill(x, 1 + rank());
  const std::string path = "c_test_" + std::to_string(ranks());
  double numbers[]       = {3, 0.25};
  // what C++ writes C reads, and the other way
  Checkpoint state(MPI_COMM_WORLD);
  const Kokkos::View<double*, Kokkos::HostSpace> view("numbers", 2);
  view(0) = 3, view(1) = 0.25;
  state.add("x", x);
  state.add("numbers", view);
  state.save(path + ".st");
  fill(x2, 9);
  numbers[0] = numbers[1] = 0;
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 2, numbers), shard_ok)
      << shard_error_message();
  EXPECT_EQ(numbers[0], 3);
  EXPECT_EQ(numbers[1], 0.25);
  const auto expect_same = [&] {
    for (int i = 0; i < x.extent(0); ++i)
      for (int j = 0; j < x.extent(1); ++j)
        for (int k = 0; k < levels; ++k) {
          EXPECT_EQ(x(i, j, k), x2(i, j, k));
        }
  };
  expect_same();
  EXPECT_EQ(shard_checkpoint_save((path + ".st").c_str(), 1, &own, 2, numbers), shard_ok);
  deep_copy(Space(), x, 0.0);
  state.load(path + ".st");
  expect_same();
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 1, numbers),
            shard_error_argument);
  EXPECT_EQ(shard_checkpoint_load("none", 1, &own, 2, numbers), shard_error_io);
  EXPECT_EQ(shard_checkpoint_load(nullptr, 1, &own, 2, numbers), shard_error_argument);
  // the dimensions in the opposite order aren't those of the file
  EXPECT_EQ(shard_field_reversed(own, 1), shard_ok);
  EXPECT_EQ(shard_checkpoint_load((path + ".st").c_str(), 1, &own, 2, numbers),
            shard_error_argument);

  shard_output output = nullptr;
  const int begun     = shard_output_create(c.c_mesh, (path + ".nc").c_str(), 0, &output);
  if (begun == shard_error_other) {
    shard_field_release(&own);
    GTEST_SKIP() << shard_error_message();  // a build without NetCDF
  }
  ASSERT_EQ(begun, shard_ok) << shard_error_message();
  const double lat[]  = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const char* names[] = {"time", "level", "lon", "lat"};
  EXPECT_EQ(shard_output_time(output, "days since 2000-01-01", nullptr), shard_ok);
  EXPECT_EQ(shard_output_coordinate(output, "lat", rows, lat, nullptr), shard_ok);
  EXPECT_EQ(shard_output_dimension(output, "lon", columns), shard_ok);
  EXPECT_EQ(shard_output_dimension(output, "level", levels), shard_ok);
  EXPECT_EQ(shard_output_variable(output, "x", shard_complex_float, 4, names, nullptr, nullptr),
            shard_error_argument);
  EXPECT_EQ(shard_output_variable(output, "x", shard_double, 4, names, "x", "m"), shard_ok);
  EXPECT_EQ(shard_output_write_number(output, "time", 0, 1.5), shard_ok) << shard_error_message();
  EXPECT_EQ(shard_output_write(output, "x", 0, own), shard_ok) << shard_error_message();
  EXPECT_EQ(shard_output_write(output, "x", -1, own), shard_error_argument);
  EXPECT_EQ(shard_output_close(output), shard_ok);
  shard_output_release(&output);
  shard_field_release(&own);
  const NetcdfFile file(path + ".nc");
  const auto values = file.read("x");
  ASSERT_EQ(values.size(), static_cast<std::size_t>(rows * columns * levels));
  for (int i = 0; i < x.extent(0); ++i)
    for (int j = 0; j < x.extent(1); ++j)
      for (int k = 0; k < levels; ++k) {
        EXPECT_EQ(values[static_cast<std::size_t>((k * columns + x.begin(1) + j) * rows +
                                                  x.begin(0) + i)],
                  x(i, j, k));
      }
}

/// The stencil of the test below.
struct SevenPoints {
  static constexpr bool is_symmetric = true;
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j, int k) const {
    double sum = 0.0;
    sum += 6.5 * x(i, j, k);
    sum += -1.0 * x(i + 1, j, k);
    sum += -1.0 * x(i - 1, j, k);
    sum += -1.0 * x(i, j + 1, k);
    sum += -1.0 * x(i, j - 1, k);
    return sum;
  }
};

// the same iterations as those of a StencilOperator
TEST(C, SolversHaveTheBitsOfCpp) {
  const Case c;
  const Space space;
  using F = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions), x2 = x.like("x2"), b = x.like("b"), middle = x.like("c"),
                                        side = x.like("s");
  const auto dims  = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  const auto field = [&](const F& f) { return c.wrap("f", f, shard_double, dims); };
  shard_field of_x = field(x2), of_b = field(b), of_middle = field(middle), of_side = field(side);
  deep_copy(space, middle, 6.5);
  deep_copy(space, side, -1.0);
  fill(b, 1 + rank());
  const int offsets[]              = {0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1, 0};
  const shard_field coefficients[] = {of_middle, of_side, of_side, of_side, of_side};
  const StencilOperator a(x, SevenPoints{});
  shard_solver solver = nullptr;
  shard_solve_result result{};
  const auto compare = [&](const shard_solver_options& options, auto& wanted) {
    ASSERT_EQ(shard_solver_create(of_x, 5, offsets, coefficients, &options, &solver), shard_ok)
        << shard_error_message();
    deep_copy(space, x, 0.0);
    deep_copy(space, x2, 0.0);
    const SolveResult same = wanted(space, x, b);
    EXPECT_EQ(shard_solver_solve(solver, of_x, of_b, &result), shard_ok) << shard_error_message();
    EXPECT_EQ(result.converged, 1);
    EXPECT_EQ(result.iterations, same.iterations);
    EXPECT_EQ(result.residual, same.residual);
    for (int i = 0; i < x.extent(0); ++i)
      for (int j = 0; j < x.extent(1); ++j)
        for (int k = 0; k < levels; ++k) {
          EXPECT_EQ(x(i, j, k), x2(i, j, k));
        }
    shard_solver_release(&solver);
  };
  shard_solver_options options{};
  options.order = shard_ordered;
  CG cg(x, a, {.determinism = Determinism::ordered});
  compare(options, cg);
  options.method         = shard_gmres;
  options.relative       = 1e-10;
  options.preconditioner = shard_jacobi;
  // Jacobi of a constant diagonal
  struct Sixth {
    void apply(const Space& s, const F& z, const F& r) const {
      impl::scaled_step(s, z, z, 1.0, r, diagonal, true);
    }
    F diagonal;
  };
  GMRES gmres(x, a, Sixth{middle}, {.relative = 1e-10, .determinism = Determinism::ordered});
  compare(options, gmres);

  options.method = 7;
  EXPECT_EQ(shard_solver_create(of_x, 5, offsets, coefficients, &options, &solver),
            shard_error_argument);
  options         = {};
  const int far[] = {0, 0, 0, 3, 0, 0};
  EXPECT_EQ(shard_solver_create(of_x, 2, far, coefficients, &options, &solver),
            shard_error_argument);
  options.preconditioner = shard_jacobi;
  EXPECT_EQ(shard_solver_create(of_x, 2, offsets + 3, coefficients, &options, &solver),
            shard_error_argument);
  if (ranks() > 1) {
    options.preconditioner = rank() == 0 ? shard_jacobi : shard_identity;
    EXPECT_EQ(shard_solver_create(of_x, 5, offsets, coefficients, &options, &solver),
              shard_error_agreement);
  }
  for (shard_field* f : {&of_x, &of_b, &of_middle, &of_side}) shard_field_release(f);
}

struct Cell;

// a ring of cells, each rank with the neighbours of its own in two layers
TEST(C, IndexSpacesHaveTheBitsOfCpp) {
  const int p = ranks();
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {p});
  const std::int64_t own = 3, n = own * p, first = own * rank();
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < own; ++i) ids.push_back(first + i);
  std::vector<int> layers;
  for (int layer = 1; layer <= 2; ++layer)
    for (const std::int64_t id : {first - layer, first + own - 1 + layer}) {
      ids.push_back(((id % n) + n) % n);
      layers.push_back(layer);
    }
  const Space space;
  using F = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Indices<Cell>>,
                        Kokkos::HostSpace>;
  const IndexSpace<Cell, Lat> cells(mesh, by_global_ids(ids, own, layers));
  const F x("x", mesh, {cells, Partition::whole(2)}), x2 = x.like("x2");
  shard_mesh line     = nullptr;
  shard_space c_cells = nullptr;
  ASSERT_EQ(shard_mesh_create(MPI_COMM_WORLD, 1, &p, &line), shard_ok);
  ASSERT_EQ(shard_space_create(line, 0, static_cast<int64_t>(ids.size()), ids.data(), own,
                               layers.data(), &c_cells),
            shard_ok)
      << shard_error_message();
  const shard_dimension dims[] = {{0, 0, c_cells, nullptr, 0, 0, {}, {}},
                                  {2, -1, nullptr, nullptr, 0, 0, {}, {}}};
  const int64_t local[]        = {static_cast<int64_t>(ids.size()), 2};
  shard_field field            = nullptr;
  ASSERT_EQ(shard_field_wrap(line, "x", x2.view().data(), shard_double, shard_host, 2, dims, local,
                             nullptr, &field),
            shard_ok)
      << shard_error_message();
  shard_mesh_release(&line);
  shard_space_release(&c_cells);
  for (const int most : {2, 1}) {
    shard_exchange exchange              = nullptr;
    const shard_exchange_options options = {0, 0, most, 0};
    ASSERT_EQ(shard_exchange_create(1, &field, &options, &exchange), shard_ok);
    fill(x, 1), fill(x2, 1);
    const Exchange<F> whole(x), narrow = whole.layers<1>();
    (most == 2 ? whole : narrow)(space);
    EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    (most == 2 ? whole : narrow).adjoint(space);
    EXPECT_EQ(shard_exchange_adjoint(exchange), shard_ok);
    EXPECT_EQ(differences(x, x2), 0);
    shard_exchange_release(&exchange);
  }
  shard_field_release(&field);
}

/// A field in blocks of `lanes` along its second dimension, and all that moves and sums it, beside
/// the same field in order.
void check_blocks(int lanes) {
  const Case c;
  const Space space;
  using F = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions), y = x.like("y");
  const auto dims      = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  const auto& view     = x.view();
  const auto rows_here = static_cast<int64_t>(view.extent(0)),
             columns_here = static_cast<int64_t>(view.extent(1));
  const int64_t blocks    = (columns_here + lanes - 1) / lanes;
  const int64_t local[]   = {rows_here, lanes, levels, blocks};
  const int64_t strides[] = {lanes, 1, rows_here * lanes, rows_here * lanes * levels};
  std::vector<double> array(static_cast<std::size_t>(strides[3] * blocks), -1.0);
  const auto at = [&](int64_t i, int64_t j, int64_t k) -> double& {
    return array[static_cast<std::size_t>(i * strides[0] + j % lanes + k * strides[2] +
                                          j / lanes * strides[3])];
  };
  const auto each = [&](const auto& use) {
    for (int64_t i = 0; i < rows_here; ++i)
      for (int64_t j = 0; j < columns_here; ++j)
        for (int64_t k = 0; k < levels; ++k)
          use(view(static_cast<std::size_t>(i), static_cast<std::size_t>(j),
                   static_cast<std::size_t>(k)),
              at(i, j, k));
  };
  const auto refill = [&] {
    fill(x, 1);
    each([](double value, double& blocked) { blocked = value; });
  };
  const auto differing = [&] {
    int wrong = 0;
    each([&](double value, double blocked) { wrong += value == blocked ? 0 : 1; });
    return wrong;
  };
  shard_field plain = c.wrap("x", x, shard_double, dims),
              other = c.wrap("y", y, shard_double, dims);
  shard_field field = nullptr;
  ASSERT_EQ(shard_field_wrap_blocked(c.c_mesh, "x", array.data(), shard_double, shard_host, 3,
                                     dims.data(), 1, local, strides, &field),
            shard_ok)
      << shard_error_message();
  shard_exchange halos = nullptr, blocked_halos = nullptr;
  ASSERT_EQ(shard_exchange_create(1, &plain, nullptr, &halos), shard_ok);
  ASSERT_EQ(shard_exchange_create(1, &field, nullptr, &blocked_halos), shard_ok);
  refill();
  for (const auto run : {&shard_exchange_run, &shard_exchange_adjoint}) {
    EXPECT_EQ(run(halos), shard_ok);
    EXPECT_EQ(run(blocked_halos), shard_ok);
    EXPECT_EQ(differing(), 0);
  }
  double sum = 0, blocked_sum = 1;
  EXPECT_EQ(shard_dot(plain, plain, shard_ordered, &sum), shard_ok);
  EXPECT_EQ(shard_dot(field, plain, shard_ordered, &blocked_sum), shard_ok);
  EXPECT_EQ(sum, blocked_sum);
  uint64_t checksum = 0, blocked_checksum = 1;
  EXPECT_EQ(shard_checksum(plain, &checksum), shard_ok);
  EXPECT_EQ(shard_checksum(field, &blocked_checksum), shard_ok);
  EXPECT_EQ(checksum, blocked_checksum);
  fill(y, 5);
  EXPECT_EQ(shard_redistribute(plain, other), shard_ok);
  EXPECT_EQ(shard_redistribute(field, other), shard_ok);
  EXPECT_EQ(differing(), 0);
  shard_exchange_release(&halos);
  shard_exchange_release(&blocked_halos);
  shard_field_release(&field);
  const int64_t few[] = {rows_here, lanes, levels, rank() == ranks() - 1 ? 0 : blocks};
  EXPECT_EQ(shard_field_wrap_blocked(c.c_mesh, "x", array.data(), shard_double, shard_host, 3,
                                     dims.data(), 1, few, strides, &field),
            shard_error_argument);
  EXPECT_EQ(shard_field_wrap_blocked(c.c_mesh, "x", array.data(), shard_double, shard_host, 3,
                                     dims.data(), 3, local, strides, &field),
            shard_error_argument);
  shard_field_release(&plain);
  shard_field_release(&other);
}

TEST(C, BlockedArrays) {
  for (const int lanes : {1, 3, 8, 64}) check_blocks(lanes);
}

template <class F>
void check_reductions(int type, const shard_boundary& high) {
  const Case c;
  const Space space;
  const F x("x", c.mesh, c.partitions), y = x.like("y");
  fill(x, 1), fill(y, 2);
  const auto dims = c.dimensions(kind(shard_clamp), high, kind(shard_periodic));
  shard_field a = c.wrap("x", x, type, dims), b = c.wrap("y", y, type, dims);
  double value         = 0;
  int64_t integer      = 0;
  const auto expect_is = [&](int returned, double wanted) {
    EXPECT_EQ(returned, shard_ok) << shard_error_message();
    EXPECT_EQ(value, wanted);
  };
  constexpr auto ordered = Determinism::ordered;
  expect_is(shard_sum(a, shard_on_one_mesh, &value, &integer), static_cast<double>(sum(space, x)));
  expect_is(shard_sum(a, shard_ordered, &value, nullptr),
            static_cast<double>(sum<ordered>(space, x)));
  expect_is(shard_min(a, &value), static_cast<double>(shard::min(space, x)));
  expect_is(shard_max(a, &value), static_cast<double>(shard::max(space, x)));
  if constexpr (std::is_integral_v<typename F::value_type>) {
    EXPECT_EQ(integer, sum(space, x));
    EXPECT_EQ(shard_dot(a, b, shard_ordered, &value), shard_error_argument);
  } else {
    expect_is(shard_dot(a, b, shard_on_one_mesh, &value), dot(space, x, y));
    expect_is(shard_dot(a, b, shard_ordered, &value), dot<ordered>(space, x, y));
  }
  uint64_t before = 0, after = 0;
  EXPECT_EQ(shard_checksum(a, &before), shard_ok);
  if (x.begin(0) == 0 && x.begin(1) == 0 && x.extent(0) > 0 && x.extent(1) > 0)
    x(0, 0, 0) = -x(0, 0, 0) - 1;
  EXPECT_EQ(shard_checksum(a, &after), shard_ok);
  EXPECT_NE(before, after);
  shard_field_release(&a);
  shard_field_release(&b);
}

TEST(C, ReductionsHaveTheBitsOfCpp) {
  check_reductions<Haloed<double, Clamp>>(shard_double, kind(shard_clamp));
  check_reductions<Haloed<float, Clamp>>(shard_float, kind(shard_clamp));
  check_reductions<Haloed<std::int32_t, Clamp>>(shard_int32, kind(shard_clamp));
  check_reductions<Haloed<std::int64_t, Clamp>>(shard_int64, kind(shard_clamp));
  shard_boundary north = kind(shard_north_fold, 0, 1);
  north.pivot          = shard_t_point;
  check_reductions<Haloed<double, Sides<Clamp, NorthFold<1, Pivot::t_point>>>>(shard_double, north);
}

int handled = 0;
void count_errors(int code, const char*) { handled += code == shard_error_argument ? 1 : 100; }

TEST(C, MisuseIsACodeAndASentence) {
  const Case c;
  const auto good = c.dimensions(kind(shard_clamp), kind(shard_clamp), kind(shard_periodic));
  using F         = Haloed<double, Clamp>;
  const F x("x", c.mesh, c.partitions);
  const auto refused = [](int code, const std::vector<std::string>& parts, int returned) {
    EXPECT_EQ(returned, code);
    for (const std::string& part : parts)
      EXPECT_NE(std::string(shard_error_message()).find(part), std::string::npos)
          << part << " in " << shard_error_message();
  };
  const auto wrap = [&](const std::array<shard_dimension, 3>& dims, int type = shard_double,
                        int64_t more = 0) {
    shard_field field     = nullptr;
    const int64_t local[] = {static_cast<int64_t>(x.view().extent(0)) + more,
                             static_cast<int64_t>(x.view().extent(1)),
                             static_cast<int64_t>(x.view().extent(2))};
    const int returned    = shard_field_wrap(c.c_mesh, "x", x.view().data(), type, shard_host, 3,
                                             dims.data(), local, nullptr, &field);
    EXPECT_EQ(field == nullptr, returned != shard_ok);
    if (field != nullptr) shard_field_release(&field);
    return returned;
  };
  const auto changed = [&](const std::function<void(std::array<shard_dimension, 3>&)>& change) {
    auto dims = good;
    change(dims);
    return dims;
  };
  EXPECT_EQ(wrap(good), shard_ok) << shard_error_message();
  shard_set_error_handler(&count_errors);
  refused(shard_error_argument, {"type 17"}, wrap(good, 17));
  refused(shard_error_argument, {"wrap"}, wrap(good, shard_double, 1));
  refused(shard_error_argument, {"axis 2"}, wrap(changed([](auto& d) { d[2].axis = 2; })));
  refused(shard_error_argument, {"one axis"}, wrap(changed([](auto& d) {
            d[1].axis   = 0;
            d[1].begins = nullptr;
          })));
  refused(shard_error_argument, {"periodic", "dimension 1"},
          wrap(changed([](auto& d) { d[1].low = {}; })));
  refused(shard_error_argument, {"kind 99"}, wrap(changed([](auto& d) { d[0].low.kind = 99; })));
  refused(shard_error_argument, {"north fold", "low"},
          wrap(changed([](auto& d) { d[0].low = kind(shard_north_fold, 0, 1); })));
  refused(shard_error_argument, {"halo of -1"}, wrap(changed([](auto& d) { d[0].halo_low = -1; })));
  EXPECT_EQ(handled, 8);
  shard_set_error_handler(nullptr);

  refused(shard_error_argument, {"null"}, shard_exchange_run(nullptr));
  refused(shard_error_argument, {"mesh is null"}, shard_mesh_retain(nullptr));
  refused(shard_error_argument, {"0 axes"}, [&] {
    shard_mesh none = nullptr;
    return shard_mesh_create(MPI_COMM_WORLD, 0, nullptr, &none);
  }());
  shard_field own         = c.wrap("x", x, shard_double, good);
  shard_exchange exchange = nullptr;
  refused(shard_error_argument, {"-1 fields"}, shard_exchange_create(-1, &own, nullptr, &exchange));
  ASSERT_EQ(shard_exchange_create(1, &own, nullptr, &exchange), shard_ok);
  refused(shard_error_argument, {"no exchange"}, shard_exchange_finish(exchange));
  EXPECT_EQ(shard_exchange_start(exchange), shard_ok);
  refused(shard_error_argument, {"in progress"}, shard_exchange_run(exchange));
  EXPECT_EQ(shard_exchange_finish(exchange), shard_ok);
  // what it was made of lives as long as the plan
  shard_field_release(&own);
  EXPECT_EQ(shard_exchange_run(exchange), shard_ok);
  shard_exchange_release(&exchange);

  if (ranks() == 1) return;
  // options and mistakes of one rank alone are errors on all
  const bool last = rank() == ranks() - 1;
  refused(shard_error_agreement, {"clamp", "reflect"}, wrap(changed([&](auto& d) {
            if (last) d[0].low = kind(shard_reflect);
          })));
  refused(shard_error_argument, {"0 axes"}, [&] {
    const int size  = 0;
    shard_mesh none = nullptr;
    return shard_mesh_create(MPI_COMM_WORLD, last ? 0 : 1, &size, &none);
  }());
  refused(shard_error_argument, {"halo of -1"}, wrap(changed([&](auto& d) {
            if (last) d[0].halo_low = -1;
          })));
  refused(shard_error_argument, {"wrap"}, wrap(good, shard_double, last ? 1 : 0));
  own                          = c.wrap("x", x, shard_double, good);
  shard_exchange_options faces = {last ? 1 : 0, 0, 0, 0};
  refused(shard_error_agreement, {"faces"}, shard_exchange_create(1, &own, &faces, &exchange));
  shard_field_release(&own);
}

TEST(C, StreamsAreThoseOfADevice) {
  EXPECT_EQ(shard_set_stream(nullptr), shard_ok);
  if (std::is_same_v<Kokkos::DefaultExecutionSpace, Space>) {
    int nothing = 0;
    EXPECT_EQ(shard_set_stream(&nothing), shard_error_argument);
  }
  EXPECT_EQ(shard_fence(), shard_ok);
}

TEST(C, OutsideOfParallelRegionsOnly) {
  std::vector<int> codes(2, -1);
#if defined(_OPENMP)
#pragma omp parallel for num_threads(2)
#endif
  for (int i = 0; i < 2; ++i) codes[static_cast<std::size_t>(i)] = shard_fence();
#if defined(_OPENMP)
  for (const int code : codes) EXPECT_EQ(code, shard_error_argument);
#endif
  EXPECT_EQ(shard_fence(), shard_ok);
}

}  // namespace c_test
