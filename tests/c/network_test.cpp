// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Networks, multigrid and shared memory from C.
#include "shard/c/network.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "shard/model/domain_parallel.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"

namespace network_test {

struct Lat;
struct Lon;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = Mesh<Lat, Lon>;
using Conv3 = Conv<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>, PaddingMode<Reflect, Periodic>>;

auto model_on(const Grid& mesh) {
  return domain_parallel<Lat, Lon>(
      sequential<double>(named<"in">(Conv3{2, 6}), SiLU{}, named<"out">(Conv3{6, 3})), mesh);
}
auto single_on(const Grid& mesh) {
  return domain_parallel<Lat, Lon>(sequential<float>(Conv3{2, 3}), mesh);
}
auto averaged_on(const Grid& mesh) {
  return domain_parallel<Lat, Lon>(sequential<double>(Conv3{2, 3}, BatchNorm{3}), mesh);
}
void register_networks() {
  register_network<Lat, Lon>("corrector", model_on);
  register_network<Lat, Lon>("single", single_on);
  register_network<Lat, Lon>("averaged", averaged_on);
}

constexpr index_t rows = 13, columns = 18;

/// A field of [channel, lat, lon] with a halo, in an array of its own, and its partitions.
struct Array {
  shard_field field = nullptr;
  std::vector<double> values;
  std::array<int64_t, 3> local{};
  int64_t first = 0;  // the first owned value

  Array(shard_mesh mesh, const char* name, int64_t channels, const std::vector<int64_t>& lats,
        const std::vector<int64_t>& lons, bool turned = false) {
    shard_boundary clamp{}, periodic{};
    clamp.kind                   = shard_clamp;
    periodic.kind                = shard_periodic;
    const int a                  = turned ? -1 : 0;  // turned: the rows are whole, cut over axis 0
    const shard_dimension dims[] = {
        {channels, -1, nullptr, nullptr, 0, 0, {}, {}},
        {rows, a, nullptr, lats.data(), 1, 2, clamp, clamp},
        {columns, turned ? 0 : 1, nullptr, lons.data(), 2, 0, periodic, periodic}};
    int size[2], at[2];
    for (int axis = 0; axis < 2; ++axis) shard_mesh_axis(mesh, axis, &size[axis], &at[axis]);
    const auto own = [](const std::vector<int64_t>& begins, int i) {
      return begins[static_cast<std::size_t>(i) + 1] - begins[static_cast<std::size_t>(i)];
    };
    local = {channels, own(lats, turned ? 0 : at[0]) + 3, own(lons, turned ? at[0] : at[1]) + 2};
    values.assign(static_cast<std::size_t>(local[0] * local[1] * local[2]), -7.0);
    first = local[2] + 2;
    EXPECT_EQ(shard_field_wrap(mesh, name, values.data(), shard_double, shard_host, 3, dims,
                               local.data(), nullptr, &field),
              shard_ok)
        << shard_error_message();
  }
  Array(const Array&)            = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { shard_field_release(&field); }
  double& at(index_t c, index_t i, index_t j) {
    return values[static_cast<std::size_t>(first + (c * local[1] + i) * local[2] + j)];
  }
};

std::vector<int64_t> uneven(index_t n, int parts) {
  std::vector<int64_t> begins{0};
  for (int r = 1; r < parts; ++r) begins.push_back(std::min<index_t>(n, begins.back() + 2 + r % 3));
  begins.push_back(n);
  return begins;
}
double value(index_t c, index_t i, index_t j) {
  return std::sin(static_cast<double>(c * 5 + i * 3 + j * 2));
}

TEST(C, NetworksHaveTheBitsOfCpp) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const int sizes[] = {mesh.size<Lat>(), mesh.size<Lon>()};
  shard_mesh c_mesh = nullptr;
  shard_mesh_create(MPI_COMM_WORLD, 2, sizes, &c_mesh);
  const auto lats = uneven(rows, sizes[0]), lons    = uneven(columns, sizes[1]);
  const std::vector<int64_t> whole{0, rows}, turned = uneven(columns, sizes[0]);
  const Space space;

  register_networks();
  shard_network network = nullptr;
  ASSERT_EQ(shard_network_open(c_mesh, "corrector", &network), shard_ok) << shard_error_message();
  const auto model = model_on(mesh);
  const typename decltype(model)::Partitions partitions{
      Partition::whole(1), Partition::whole(2),
      Partition::explicit_begins({lats.begin(), lats.end()}),
      Partition::explicit_begins({lons.begin(), lons.end()})};
  using Input = typename decltype(model)::Input;
  const Input x("x", mesh, partitions), dx("dx", mesh, partitions);
  const auto y = model.output(x), dy = model.output(x);
  using Adamw = AdamW<double>;
  Adamw adam(static_cast<index_t>(model.parameters().values().extent(0)),
             {1e-2, 0.9, 0.999, 1e-8, 0.1});
  shard_optimiser_options options{};
  options.kind         = shard_adamw;
  options.weight_decay = 0.1;
  ASSERT_EQ(shard_network_set_optimiser(network, &options), shard_ok) << shard_error_message();
  const GradientSum<double> sum(x, static_cast<index_t>(model.parameters().values().extent(0)));

  const auto host_x = create_mirror_view(x);
  const auto host_y = create_mirror_view(y);
  Array of_x(c_mesh, "x", 2, lats, lons), of_y(c_mesh, "y", 3, lats, lons);
  Array of_dx(c_mesh, "dx", 2, lats, lons), of_dy(c_mesh, "dy", 3, lats, lons);
  Array turned_x(c_mesh, "turned x", 2, whole, turned, true);
  Array turned_y(c_mesh, "turned y", 3, whole, turned, true);
  for (index_t c = 0; c < 2; ++c)
    for (int i = 0; i < host_x.extent(2); ++i)
      for (int j = 0; j < host_x.extent(3); ++j)
        host_x(0, static_cast<int>(c), i, j) = of_x.at(c, i, j) =
            value(c, host_x.begin(2) + i, host_x.begin(3) + j);
  for (index_t c = 0; c < 2; ++c)
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < turned_x.local[2] - 2; ++j)
        turned_x.at(c, i, j) =
            value(c, i, turned[static_cast<std::size_t>(mesh.coordinate<Lat>())] + j);
  deep_copy(space, x, host_x);
  for (int step = 0; step < 3; ++step) {
    model.apply(space, y, x);
    deep_copy(space, host_y, y);
    space.fence();
    ASSERT_EQ(shard_network_apply(network, of_y.field, of_x.field), shard_ok)
        << shard_error_message();
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < host_y.extent(2); ++i)
        for (int j = 0; j < host_y.extent(3); ++j) {
          ASSERT_EQ(of_y.at(c, i, j), host_y(0, c, i, j));
          of_dy.at(c, i, j)  = 2.0 * of_y.at(c, i, j) - 1.0;
          host_y(0, c, i, j) = of_dy.at(c, i, j);
        }
    deep_copy(space, dy, host_y);
    model.pullback(space, dx, dy, x);
    ASSERT_EQ(shard_network_pullback(network, step == 1 ? nullptr : of_dx.field, of_dy.field),
              shard_ok)
        << shard_error_message();
    if (step != 1) {
      const auto host_dx = create_mirror_view(dx);
      deep_copy(space, host_dx, dx);
      space.fence();
      for (int c = 0; c < 2; ++c)
        for (int i = 0; i < host_dx.extent(2); ++i)
          for (int j = 0; j < host_dx.extent(3); ++j)
            ASSERT_EQ(of_dx.at(c, i, j), host_dx(0, c, i, j));
    }
    const auto gradients = model.gradients().values();
    sum(space, gradients);
    const double norm =
        GradientNorm<double>(static_cast<index_t>(gradients.extent(0)))(space, gradients);
    adam.options.learning_rate = step < 2 ? 1e-3 : 1e-2;
    adam(space, model.parameters().values(), gradients);
    Kokkos::deep_copy(space, gradients, 0.0);
    double found = 0.0;
    ASSERT_EQ(shard_network_step(network, step < 2 ? 0.0 : 1e-2, &found), shard_ok)
        << shard_error_message();
    EXPECT_EQ(found, norm);
  }
  int type      = -1;
  int64_t count = 0;
  void* values  = nullptr;
  EXPECT_EQ(shard_network_parameters(network, &type, &count, &values, nullptr), shard_ok);
  EXPECT_EQ(type, shard_double);
  ASSERT_EQ(count, static_cast<int64_t>(model.parameters().values().extent(0)));
  const auto wanted =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), model.parameters().values());
  for (int64_t p = 0; p < count; ++p)
    ASSERT_EQ(static_cast<double*>(values)[p], wanted(static_cast<std::size_t>(p)));
  const char* name = nullptr;
  int64_t first    = -1;
  EXPECT_EQ(shard_network_parameter(network, 2, &name, &first, &count), shard_ok);
  EXPECT_STREQ(name, "out.weight");
  EXPECT_EQ(count, 3 * 6 * 9);
  EXPECT_EQ(shard_network_parameter(network, 4, &name, nullptr, nullptr), shard_ok);
  EXPECT_EQ(name, nullptr);

  // a field cut in another way: each value is computed from the same ones
  ASSERT_EQ(shard_network_apply(network, of_y.field, of_x.field), shard_ok);
  std::vector<double> all(static_cast<std::size_t>(3 * rows * columns)), others(all.size());
  ASSERT_EQ(shard_gather(all.data(), nullptr, of_y.field, 0), shard_ok);
  ASSERT_EQ(shard_network_apply(network, turned_y.field, turned_x.field), shard_ok)
      << shard_error_message();
  ASSERT_EQ(shard_gather(others.data(), nullptr, turned_y.field, 0), shard_ok);
  EXPECT_EQ(all, others);

  // a restart, and the weights for another program
  const std::string path = "c_network_" + std::to_string(ranks()) + ".safetensors";
  ASSERT_EQ(shard_network_save(network, path.c_str()), shard_ok) << shard_error_message();
  shard_network second = nullptr;
  ASSERT_EQ(shard_network_open(c_mesh, "corrector", &second), shard_ok);
  EXPECT_EQ(shard_network_restore(second, path.c_str()), shard_error_argument);  // no optimiser yet
  ASSERT_EQ(shard_network_set_optimiser(second, &options), shard_ok);
  ASSERT_EQ(shard_network_restore(second, path.c_str()), shard_ok) << shard_error_message();
  shard_network third = nullptr;
  ASSERT_EQ(shard_network_open(c_mesh, "corrector", &third), shard_ok);
  EXPECT_EQ(shard_network_pullback(third, nullptr, of_dy.field), shard_error_argument);  // no apply
  ASSERT_EQ(shard_network_load(third, path.c_str(), "model."), shard_ok) << shard_error_message();
  ASSERT_EQ(shard_network_apply(third, of_y.field, of_x.field), shard_ok);
  ASSERT_EQ(shard_gather(others.data(), nullptr, of_y.field, 0), shard_ok);
  EXPECT_EQ(all, others);
  for (shard_network n : {network, second}) {
    ASSERT_EQ(shard_network_apply(n, of_y.field, of_x.field), shard_ok);
    ASSERT_EQ(shard_network_pullback(n, nullptr, of_dy.field), shard_ok);
    ASSERT_EQ(shard_network_step(n, 1e-3, nullptr), shard_ok);
    ASSERT_EQ(shard_network_apply(n, of_y.field, of_x.field), shard_ok);
    ASSERT_EQ(shard_gather((n == network ? all : others).data(), nullptr, of_y.field, 0), shard_ok);
  }
  EXPECT_EQ(all, others);
  // a network with running averages reads a file that lacks them: an error, and nothing is changed
  shard_network averaged = nullptr;
  ASSERT_EQ(shard_network_open(c_mesh, "averaged", &averaged), shard_ok);
  ASSERT_EQ(shard_network_apply(averaged, of_y.field, of_x.field), shard_ok)
      << shard_error_message();
  void* own = nullptr;
  ASSERT_EQ(shard_network_parameters(averaged, nullptr, &count, &own, nullptr), shard_ok);
  const std::string fragment = "c_fragment_" + std::to_string(ranks()) + ".safetensors";
  ParameterArena<double> part("part", 3 * 2 * 9 + 3);
  part.take("0", Conv3{2, 3});
  Kokkos::deep_copy(part.values(), 7.0);
  save_safetensors(fragment, part, MPI_COMM_WORLD);
  EXPECT_EQ(shard_network_load(averaged, fragment.c_str(), nullptr), shard_error_argument);
  EXPECT_NE(std::string(shard_error_message()).find("1.running_mean"), std::string::npos)
      << shard_error_message();
  EXPECT_NE(*static_cast<double*>(own), 7.0);
  shard_network_release(&averaged);
  // y of other extents: the last apply stands
  ASSERT_EQ(shard_network_apply(second, of_y.field, of_x.field), shard_ok);
  EXPECT_EQ(shard_network_apply(second, of_x.field, turned_x.field), shard_error_argument);
  EXPECT_EQ(shard_network_pullback(second, of_dx.field, of_dy.field), shard_ok)
      << shard_error_message();
  EXPECT_EQ(shard_network_step(second, -1.0, nullptr), shard_error_argument);
  if (rank() == 0) std::filesystem::remove(path), std::filesystem::remove(fragment);

  const char* text = nullptr;
  EXPECT_EQ(shard_describe(network, &text), shard_ok);
  EXPECT_NE(std::string(text).find("corrector"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find("in.weight [6, 2, 3, 3]"), std::string::npos) << text;
  EXPECT_EQ(shard_describe(of_x.field, &text), shard_ok);
  EXPECT_NE(std::string(text).find("13"), std::string::npos) << text;
  EXPECT_EQ(shard_describe(c_mesh, &text), shard_ok);
  EXPECT_FALSE(std::string(text).empty());
  EXPECT_EQ(shard_describe(nullptr, &text), shard_error_argument);

  // misuse
  shard_network none = nullptr;
  EXPECT_EQ(shard_network_open(c_mesh, "no such", &none), shard_error_argument);
  EXPECT_NE(std::string(shard_error_message()).find("\"averaged\", \"corrector\", \"single\""),
            std::string::npos)
      << shard_error_message();
  EXPECT_EQ(none, nullptr);
  // null on one rank is an error on all
  EXPECT_EQ(shard_network_open(c_mesh, rank() == 0 ? nullptr : "single", &none),
            shard_error_argument);
  EXPECT_EQ(shard_network_load(network, rank() == 0 ? nullptr : "x", nullptr),
            shard_error_argument);
  EXPECT_EQ(shard_network_set_optimiser(network, rank() == 0 ? nullptr : &options),
            shard_error_argument);
  if (ranks() > 1) {
    EXPECT_EQ(shard_network_open(c_mesh, rank() == 0 ? "single" : "corrector", &none),
              shard_error_agreement);
    options.clip = rank();
    EXPECT_EQ(shard_network_set_optimiser(network, &options), shard_error_agreement);
  }
  EXPECT_EQ(shard_network_step(third, 0.0, nullptr), shard_error_argument);
  EXPECT_EQ(shard_network_apply(network, of_x.field, of_y.field),
            shard_error_argument);  // channels
  ASSERT_EQ(shard_network_open(c_mesh, "single", &none), shard_ok);
  EXPECT_EQ(shard_network_apply(none, of_y.field, of_x.field), shard_error_argument);  // float
  for (shard_network* n : {&network, &second, &third, &none})
    EXPECT_EQ(shard_network_release(n), shard_ok);
  EXPECT_EQ(shard_mesh_release(&c_mesh), shard_ok);
}

// a field in memory that the node shares: its neighbours' values, which need no buffer
TEST(C, FieldsInAllocatedMemory) {
  shard_mesh mesh   = nullptr;
  const int size    = ranks();
  const int64_t all = 40 * size, wide = 600;
  ASSERT_EQ(shard_mesh_create(MPI_COMM_WORLD, 1, &size, &mesh), shard_ok);
  const int64_t local[]   = {42, wide};
  shard_allocation memory = nullptr;
  void* first             = nullptr;
  shard_boundary periodic{};
  periodic.kind                = shard_periodic;
  const shard_dimension dims[] = {{all, 0, nullptr, nullptr, 1, 1, periodic, periodic},
                                  {wide, -1, nullptr, nullptr, 0, 0, {}, {}}};
  ASSERT_EQ(shard_allocate(mesh, local[0] * wide * 8, &memory, &first), shard_ok)
      << shard_error_message();
  void* again = nullptr;
  EXPECT_EQ(shard_allocation_address(memory, &again), shard_ok);
  EXPECT_EQ(first, again);
  auto* values = static_cast<double*>(first);
  for (int64_t i = 0; i < local[0] * wide; ++i) ASSERT_EQ(values[i], 0.0);
  shard_field field       = nullptr;
  shard_exchange exchange = nullptr;
  ASSERT_EQ(shard_field_wrap(mesh, "f", values, shard_double, shard_asked, 2, dims, local, nullptr,
                             &field),
            shard_ok);
  ASSERT_EQ(shard_exchange_create(1, &field, nullptr, &exchange), shard_ok);
  for (int step = 0; step < 3; ++step) {
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < wide; ++j)
        values[(i + 1) * wide + j] =
            static_cast<double>((rank() * 40 + i) * wide + j + step * 1000000);
    ASSERT_EQ(shard_exchange_run(exchange), shard_ok) << shard_error_message();
    for (const int64_t i : {int64_t{-1}, int64_t{40}})
      for (int64_t j = 0; j < wide; ++j)
        ASSERT_EQ(values[(i + 1) * wide + j],
                  static_cast<double>((rank() * 40 + i + all) % all * wide + j + step * 1000000));
  }
  const char* text = nullptr;
  EXPECT_EQ(shard_describe(memory, &text), shard_ok);
  const char* const required = std::getenv("SHARD_TEST_WINDOWS");
  if (ranks() > 1 && required != nullptr) {
    EXPECT_STREQ(text, "memory that the ranks of a node share\n");
  }
  shard_allocation none = nullptr;
  EXPECT_EQ(shard_allocate(mesh, rank() == 0 ? -1 : 8, &none, &first), shard_error_argument);
  EXPECT_EQ(none, nullptr);
  shard_exchange_release(&exchange);
  shard_field_release(&field);
  EXPECT_EQ(shard_allocation_release(&memory), shard_ok);
  shard_mesh_release(&mesh);
}

/// -div(k grad x) + s x on a grid; returns the iterations of CG with this preconditioner.
struct Diffusion {
  int64_t n[2];              // cells of the dimensions
  double k[2];               // couplings
  double shift;              // s
  shard_boundary low, high;  // of dimension 0; dimension 1 is periodic
  bool singular;

  int iterations(int preconditioner, std::vector<double>* solution) const {
    shard_mesh mesh   = nullptr;
    const int sizes[] = {0, 0};
    shard_mesh_create(MPI_COMM_WORLD, 2, sizes, &mesh);
    shard_boundary periodic{};
    periodic.kind = shard_periodic;
    int size[2], at[2];
    std::vector<int64_t> begins[2];
    int64_t own[2];
    for (int a = 0; a < 2; ++a) {
      shard_mesh_axis(mesh, a, &size[a], &at[a]);
      for (int r = 0; r <= size[a]; ++r)  // uneven
        begins[a].push_back(r == size[a] ? n[a] : n[a] * r / size[a] / 2);
      own[a] = begins[a][static_cast<std::size_t>(at[a]) + 1] -
               begins[a][static_cast<std::size_t>(at[a])];
    }
    const shard_dimension dims[] = {{n[0], 0, nullptr, begins[0].data(), 1, 1, low, high},
                                    {n[1], 1, nullptr, begins[1].data(), 1, 1, periodic, periodic}};
    const int64_t local[]        = {own[0] + 2, own[1] + 2};
    std::vector<double> data[5];
    shard_field fields[5] = {};  // x, b, centre, both couplings
    for (int f = 0; f < 5; ++f) {
      data[f].assign(static_cast<std::size_t>(local[0] * local[1]), 0.0);
      shard_field_wrap(mesh, "f", data[f].data(), shard_double, shard_host, 2, dims, local, nullptr,
                       &fields[f]);
    }
    for (int64_t i = 0; i < own[0]; ++i)
      for (int64_t j = 0; j < own[1]; ++j) {
        const auto cell = static_cast<std::size_t>((i + 1) * local[1] + j + 1);
        data[1][cell] =
            std::sin(0.3 * static_cast<double>(begins[0][static_cast<std::size_t>(at[0])] + i)) *
            std::cos(0.7 * static_cast<double>(begins[1][static_cast<std::size_t>(at[1])] + j));
        data[2][cell] = 2 * k[0] + 2 * k[1] + shift;
        data[3][cell] = -k[0];
        data[4][cell] = -k[1];
      }
    if (singular) {  // a right side that A can have
      double mean = 0.0;
      shard_sum(fields[1], shard_ordered, &mean, nullptr);
      for (double& v : data[1]) v -= mean / static_cast<double>(n[0] * n[1]);
    }
    const int offsets[]              = {0, 0, 1, 0, -1, 0, 0, 1, 0, -1};
    const shard_field coefficients[] = {fields[2], fields[3], fields[3], fields[4], fields[4]};
    shard_solver_options options{};
    options.preconditioner = preconditioner;
    options.relative       = 1e-10;
    options.iterations     = 3000;
    options.order          = shard_ordered;
    options.singular       = singular ? 1 : 0;
    shard_solver solver    = nullptr;
    EXPECT_EQ(shard_solver_create(fields[0], 5, offsets, coefficients, &options, &solver), shard_ok)
        << shard_error_message();
    shard_solve_result result{};
    EXPECT_EQ(shard_solver_solve(solver, fields[0], fields[1], &result), shard_ok)
        << shard_error_message();
    EXPECT_EQ(result.converged, 1) << result.status << " " << result.residual;
    if (preconditioner == shard_multigrid) {  // of a matrix twice as large
      for (int f = 2; f < 5; ++f)
        for (double& v : data[f]) v *= 2.0;
      EXPECT_EQ(shard_solver_update(solver), shard_ok);
      const std::vector<double> half = data[0];
      for (double& v : data[0]) v = 0.0;
      shard_solve_result again{};
      EXPECT_EQ(shard_solver_solve(solver, fields[0], fields[1], &again), shard_ok);
      EXPECT_EQ(again.iterations, result.iterations);
      std::copy(half.begin(), half.end(), data[0].begin());
    }
    if (solution != nullptr) {
      solution->assign(static_cast<std::size_t>(n[0] * n[1]), 0.0);
      EXPECT_EQ(shard_gather(solution->data(), nullptr, fields[0], 0), shard_ok);
    }
    shard_solver_release(&solver);
    for (shard_field& f : fields) shard_field_release(&f);
    shard_mesh_release(&mesh);
    return result.iterations;
  }
};

shard_boundary boundary(int kind, int odd = 0) {
  shard_boundary b{};
  b.kind = kind;
  b.odd  = odd;
  return b;
}

TEST(C, MultigridTakesFewIterations) {
  const shard_boundary zero = boundary(shard_constant), mirror = boundary(shard_symmetric),
                       odd = boundary(shard_symmetric, 1);
  const Diffusion cases[]  = {
       {{48, 40}, {1.0, 1.0}, 0.0, zero, zero, false},     // walls
       {{48, 40}, {1.0, 1.0}, 0.0, odd, odd, false},       // walls half a cell away
       {{33, 21}, {1.0, 1.0}, 0.0, mirror, mirror, true},  // nothing fixes x
       {{48, 40}, {100.0, 1.0}, 0.0, odd, mirror, false},  // flat cells
       {{5, 64}, {0.01, 1.0}, 1e-4, mirror, mirror, false},
  };
  for (const Diffusion& c : cases) {
    SCOPED_TRACE(::testing::Message() << c.n[0] << " x " << c.n[1] << ", " << c.k[0]);
    std::vector<double> with, without;
    const int few  = c.iterations(shard_multigrid, &with),
              many = c.iterations(shard_jacobi, &without);
    EXPECT_LE(few, 14);
    EXPECT_LT(2 * few, many);
    double most = 0.0, wrong = 0.0, mean = 0.0;
    for (std::size_t i = 0; i < with.size(); ++i) mean += with[i] - without[i];
    if (!c.singular) mean = 0.0;
    for (std::size_t i = 0; i < with.size(); ++i) {
      most = std::max(most, std::abs(without[i]));
      wrong =
          std::max(wrong, std::abs(with[i] - without[i] - mean / static_cast<double>(with.size())));
    }
    EXPECT_LT(wrong, 1e-6 * most + 1e-300);
    if (ranks() == 1) continue;
    int least[] = {few, -few};
    MPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(least[0], -least[1]);
  }
}

}  // namespace network_test
