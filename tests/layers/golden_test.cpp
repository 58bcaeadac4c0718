// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers against PyTorch's values, forward and all gradients, on every mesh of this number of
// ranks, balanced and random partitions. The cases are in the sources that golden_cases.py made of
// tests/data/layers.json, or of the file that SHARD_GOLDEN_LAYERS named when CMake ran.

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "layers/golden_case.hpp"
#include "layers/layer_support.hpp"

namespace shard::golden {
namespace {

constexpr double tolerance = 1e-12;  // relative to the largest value of what is compared

using HostValues = Kokkos::View<double*, Kokkos::HostSpace>;
using DeviceValues =
    Kokkos::View<double*, Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

HostValues on_host(const double* values, std::size_t count) {
  HostValues host("host", count);
  Kokkos::deep_copy(host, DeviceValues(const_cast<double*>(values), count));
  return host;
}

/// Calls visit(offset from the first cell, index in the owned cells, index in the world).
template <class Visit>
void for_cells(const RawField& f, const Visit& visit) {
  std::size_t cells = 1;
  for (int d = 0; d < f.rank; ++d)
    cells *= static_cast<std::size_t>(f.extent[static_cast<std::size_t>(d)]);
  for (std::size_t c = 0; c < cells; ++c) {
    index_t rest = static_cast<index_t>(c), offset = 0, in_world = 0, step = 1;
    for (int e = f.rank - 1; e >= 0; --e) {
      const auto d    = static_cast<std::size_t>(e);
      const index_t i = rest % f.extent[d];
      rest /= f.extent[d];
      offset += i * f.stride[d];
      in_world += (f.begin[d] + i) * step;
      step *= f.world[d];
    }
    visit(offset, c, static_cast<std::size_t>(in_world));
  }
}

/// The numbers of the file and what it says of itself.
struct Values {
  std::string digest, path, error;
  std::uint64_t cases = 0;
  std::vector<double> numbers;

  Values() {
    // another place where the program runs on another machine than the one that built it
    const char* elsewhere  = std::getenv("SHARD_GOLDEN_VALUES");
    const std::string name = elsewhere != nullptr ? elsewhere : SHARD_GOLDEN_VALUES;
    std::ifstream file(name, std::ios::binary);
    std::uint64_t length = 0;
    digest.resize(16);
    file.read(digest.data(), 16);
    file.read(reinterpret_cast<char*>(&cases), sizeof cases);
    file.read(reinterpret_cast<char*>(&length), sizeof length);
    if (file) path.resize(length);
    file.read(path.data(), static_cast<std::streamsize>(path.size()));
    const auto here = file.tellg();
    file.seekg(0, std::ios::end);
    numbers.resize(static_cast<std::size_t>(file.tellg() - here) / sizeof(double));
    file.seekg(here);
    file.read(reinterpret_cast<char*>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * sizeof(double)));
    if (!file) error = "can't be read: " + name;
  }
};
const Values& values() {
  static const Values v;
  return v;
}

std::size_t& known_cases() {
  static std::size_t count = 0;
  return count;
}
std::string& known_digest() {
  static std::string digest;
  return digest;
}

double over_all_ranks(double mine) {
  double all = 0.0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

double distance(double a, double b) {
  const double e = std::abs(a - b);
  return std::isnan(e) ? 1e300 : e;
}
double relative(double difference, const double* world, std::size_t count) {
  double largest = 1e-300;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(world[i]));
  return over_all_ranks(difference) / largest;
}

double difference(const Cells& cells, int rank, const Numbers& n, const double* world,
                  std::size_t count) {
  RawField f{nullptr, nullptr, 0, rank, cells.extent, cells.begin, {}, n};
  double e = 0.0;
  for_cells(f, [&](index_t, std::size_t c, std::size_t w) {
    e = std::max(e, distance(cells.values[c], world[w]));
  });
  return relative(e, world, count);
}
double difference(const std::vector<double>& sums, const double* world, std::size_t count) {
  if (sums.size() != count) return 1e300;
  double e = 0.0;
  for (std::size_t i = 0; i < count; ++i) e = std::max(e, distance(sums[i], world[i]));
  return relative(e, world, count);
}

std::size_t product(const Numbers& n, int rank) {
  std::size_t p = 1;
  for (int d = 0; d < rank; ++d) p *= static_cast<std::size_t>(n[static_cast<std::size_t>(d)]);
  return p;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

void expect_same_bits_by_the_dynamic_kernel(const Case& c, const Input& in, const Output& fixed) {
  Output any;
  impl::use_fixed_windows(false);
  c.run(in, any);
  impl::use_fixed_windows(true);
  EXPECT_TRUE(same_bits(any.y.values, fixed.y.values)) << "y";
  EXPECT_TRUE(same_bits(any.dx.values, fixed.dx.values)) << "dx";
  EXPECT_TRUE(same_bits(any.dweight, fixed.dweight)) << "dweight";
  EXPECT_TRUE(same_bits(any.dbias, fixed.dbias)) << "dbias";
}

void check(const Case& c) {
  const std::size_t nx = product(c.x, c.rank), ny = product(c.y, c.rank);
  const double *x = values().numbers.data() + c.place, *y = x + nx, *dy = y + ny, *dx = dy + ny,
               *weight = dx + nx, *dweight = weight + c.weights, *bias = dweight + c.weights,
               *dbias = bias + c.biases;
  testing::Random random(testing::seed());
  for (const auto& shape : testing::shapes(testing::world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < (testing::world_size() > 1 ? 3 : 1); ++which) {
      SCOPED_TRACE("mesh " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   (which == 0 ? ", balanced" : ", random partition"));
      Input in{mesh, {}, x, dy, weight, bias};
      for (int d = 0; d < c.rank; ++d) {
        const int axis = d == c.cut[0] ? 0 : d == c.cut[1] ? 1 : -1;
        in.partitions.push_back(testing::some_partition(
            c.x[static_cast<std::size_t>(d)], axis < 0 ? 1 : shape[static_cast<std::size_t>(axis)],
            which, random));
      }
      Output out;
      c.run(in, out);
      EXPECT_LT(difference(out.y, c.rank, c.y, y, ny), tolerance) << "y";
      EXPECT_LT(difference(out.dx, c.rank, c.x, dx, nx), tolerance) << "dx";
      EXPECT_LT(difference(out.dweight, dweight, c.weights), tolerance) << "dweight";
      EXPECT_LT(difference(out.dbias, dbias, c.biases), tolerance) << "dbias";
      EXPECT_EQ(out.fixed, c.fixed);
      if (c.fixed) expect_same_bits_by_the_dynamic_kernel(c, in, out);
    }
  }
}

class GoldenTest : public ::testing::Test {
 public:
  explicit GoldenTest(const Case& c) : case_(c) {}
  void TestBody() override {
    ASSERT_EQ(values().error, "");
    SCOPED_TRACE(case_.text);
    check(case_);
  }

 private:
  Case case_;
};

/// The program belongs to the values that lie beside it, and they to the file that is asked for.
TEST(golden_layers, file) {
  ASSERT_EQ(values().error, "");
  EXPECT_EQ(values().digest, known_digest())
      << "the program is older than its values: build it anew";
  EXPECT_EQ(values().cases, known_cases());
  const char* asked = std::getenv("SHARD_GOLDEN_LAYERS");
  if (asked == nullptr || *asked == '\0') return;
  const std::filesystem::path path(asked);
  if (path.is_absolute()) {
    EXPECT_EQ(std::filesystem::weakly_canonical(path), values().path)
        << "the tests were made of another file: run CMake anew with SHARD_GOLDEN_LAYERS set";
  }
}

}  // namespace

void put(const RawField& f, const double* world) {
  const HostValues host("host", f.span);
  Kokkos::deep_copy(host, 1e30);
  const index_t first = f.first - f.allocation;
  if (world != nullptr)
    for_cells(f, [&](index_t offset, std::size_t, std::size_t w) {
      host(static_cast<std::size_t>(first + offset)) = world[w];
    });
  Kokkos::deep_copy(DeviceValues(f.allocation, f.span), host);
}

void get(const RawField& f, Cells& cells) {
  Space().fence();
  cells.begin  = f.begin;
  cells.extent = f.extent;
  cells.values.clear();
  const HostValues host = on_host(f.allocation, f.span);
  const index_t first   = f.first - f.allocation;
  for_cells(f, [&](index_t offset, std::size_t, std::size_t) {
    cells.values.push_back(host(static_cast<std::size_t>(first + offset)));
  });
}

void put(double* parameters, std::size_t count, const double* from) {
  const HostValues host("host", count);
  for (std::size_t i = 0; i < count; ++i) host(i) = from[i];
  Kokkos::deep_copy(DeviceValues(parameters, count), host);
}

void get_sum(const impl::Geometry& cut_as, const double* gradients, std::size_t count,
             std::vector<double>& sums) {
  Space().fence();
  const HostValues host = on_host(gradients, count);
  sums.assign(host.data(), host.data() + count);
  const auto group = impl::RankGroup::of(cut_as, ~0U);
  std::vector<double> all(count * static_cast<std::size_t>(group->size()));
  group->sum_few(sums.data(), static_cast<int>(count), all.data());
}

bool add_cases(std::initializer_list<Case> cases, const char* digest) {
  known_digest() = digest;
  known_cases() += cases.size();
  for (const Case& c : cases)
    ::testing::RegisterTest("golden_layers", c.name, nullptr, nullptr, __FILE__, __LINE__,
                            [c]() -> ::testing::Test* { return new GoldenTest(c); });
  return true;
}

}  // namespace shard::golden
