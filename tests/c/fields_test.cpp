// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From C: solvers, index spaces, blocked arrays, reductions.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "c/cases.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/stencil_operator.hpp"

namespace c_test {

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
    const shard_exchange_options options = {0, 0, most, 0, 0};
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

}  // namespace c_test
