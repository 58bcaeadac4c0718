// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_LAYER_SUPPORT_HPP
#define SHARD_TESTS_LAYERS_LAYER_SUPPORT_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/shard.hpp"
#include "support/on_host.hpp"
#include "support/support.hpp"

namespace shard::testing {

struct Lat;
struct Lon;
using Grid  = Mesh<Lat, Lon>;
using Space = Kokkos::DefaultExecutionSpace;

/// A whole field on every rank, row-major.
template <int Rank>
struct World {
  std::array<index_t, Rank> n{};
  std::vector<double> v;

  World() = default;
  explicit World(const std::array<index_t, Rank>& extents) : n(extents) {
    std::size_t count = 1;
    for (index_t e : n) count *= static_cast<std::size_t>(e);
    v.assign(count, 0.0);
  }
  std::size_t at(const std::array<index_t, Rank>& i) const {
    index_t k = 0;
    for (std::size_t d = 0; d < Rank; ++d) k = k * n[d] + i[d];
    return static_cast<std::size_t>(k);
  }
  double largest() const {
    double m = 0.0;
    for (double x : v) m = std::max(m, std::abs(x));
    return m;
  }
};

/// Numbers that are the same on every rank.
class Random {
 public:
  explicit Random(std::uint64_t s) : state_(s * 0x9e3779b97f4a7c15ULL + 0x1234567ULL) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z               = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z               = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double real() { return static_cast<double>(next() >> 11) * 0x1.0p-52 - 1.0; }
  index_t below(index_t n) { return static_cast<index_t>(next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_;
};

template <std::size_t Rank>
World<static_cast<int>(Rank)> random_world(const std::array<index_t, Rank>& extents,
                                           Random& random) {
  World<static_cast<int>(Rank)> w(extents);
  for (double& x : w.v) x = random.real();
  return w;
}

/// Any begins: shards may be empty.
inline Partition random_partition(index_t n, int parts, Random& random) {
  std::vector<index_t> begins(static_cast<std::size_t>(parts) + 1, 0);
  for (int r = 1; r < parts; ++r) begins[static_cast<std::size_t>(r)] = random.below(n + 1);
  begins.back() = n;
  std::sort(begins.begin(), begins.end());
  return Partition::explicit_begins(begins);
}

/// 0: balanced; else random.
inline Partition some_partition(index_t n, int parts, int which, Random& random) {
  return which == 0 || parts == 1 ? Partition::balanced(n, parts)
                                  : random_partition(n, parts, random);
}

/// The meshes of this number of ranks: along one axis, along the other, and both.
inline std::vector<std::array<int, 2>> shapes(int ranks) {
  std::vector<std::array<int, 2>> all{{ranks, 1}};
  if (ranks > 1) all.push_back({1, ranks});
  for (int a = 2; a < ranks; ++a)
    if (ranks % a == 0 && a <= ranks / a) all.push_back({ranks / a, a});
  return all;
}

inline int world_size() {
  int n = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

/// Calls visit(global index, value) for the owned cells of a host field.
template <class Field, class Visit>
void for_owned(const Field& f, const Visit& visit) {
  constexpr int rank = Field::rank;
  index_t cells      = 1;
  for (int d = 0; d < rank; ++d) cells *= f.extent(d);
  for (index_t c = 0; c < cells; ++c) {
    std::array<index_t, rank> global{};
    index_t rest = c, offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const index_t i = rest % f.extent(d);
      rest /= f.extent(d);
      global[static_cast<std::size_t>(d)] = f.begin(d) + i;
      offset += i * f.stride(d);
    }
    visit(global, f.origin()[offset]);
  }
}

/// Sets the owned cells; everything else is set to a number that shows.
template <class Field, int Rank>
void scatter(const Field& f, const World<Rank>& world) {
  const auto host = create_mirror_view(f);
  Kokkos::deep_copy(host.view(), static_cast<typename Field::value_type>(1e30));
  for_owned(host, [&](const auto& i, auto& value) {
    value = static_cast<typename Field::value_type>(world.v[world.at(i)]);
  });
  deep_copy(Space(), f, host);
  Space().fence();
}

/// Largest difference of owned cells from the world's, over all ranks, relative to the world's
/// largest value.
template <class Field, int Rank>
double difference(const Field& f, const World<Rank>& world) {
  for (int d = 0; d < Rank; ++d)
    if (f.global_extent(d) != world.n[static_cast<std::size_t>(d)]) return 1e300;
  Space().fence();
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence();
  double mine = 0.0, all = 0.0;
  for_owned(host, [&](const auto& i, const auto& value) {
    const double e = std::abs(static_cast<double>(value) - world.v[world.at(i)]);
    mine           = e <= mine ? mine : std::isnan(e) ? 1e300 : e;
  });
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all / std::max(world.largest(), 1e-300);
}

/// Sets a View of parameters.
template <class View>
void set_values(const View& view, const std::vector<double>& values) {
  ASSERT_EQ(view.size(), values.size());
  using T = typename View::non_const_value_type;
  Kokkos::View<T*, Kokkos::HostSpace> host("values", values.size());
  for (std::size_t i = 0; i < values.size(); ++i) host(i) = static_cast<T>(values[i]);
  Kokkos::deep_copy(
      Kokkos::View<T*, typename View::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
          view.data(), values.size()),
      host);
}

/// A View of gradients summed over the ranks that share a field's cells.
template <class View, class Field>
std::vector<double> summed(const View& view, const Field& like) {
  using T = typename View::non_const_value_type;
  Space().fence();
  Kokkos::View<T*, Kokkos::HostSpace> host("values", view.size());
  Kokkos::deep_copy(
      host, Kokkos::View<T*, typename View::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                view.data(), view.size()));
  std::vector<double> values(view.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(host(i));
  const auto group = impl::RankGroup::of(like.geometry(), ~0U);
  std::vector<double> all(values.size() * static_cast<std::size_t>(group->size()));
  group->sum_few(values.data(), static_cast<int>(values.size()), all.data());
  return values;
}

inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return 1e300;
  double e = 0.0, m = 1e-300;
  for (std::size_t i = 0; i < a.size(); ++i) {
    e = std::isnan(a[i]) ? 1e300 : std::max(e, std::abs(a[i] - b[i]));
    m = std::max(m, std::abs(b[i]));
  }
  return e / m;
}

/// The input of a layer in 1, 2 or 3 dimensions with exactly the halo that it needs. Three
/// dimensions: the first isn't cut.
template <class T, class Layer, class B0, class B1, int Dims, class Layout = Kokkos::LayoutRight>
struct InputOf;
template <class T, class Layer, class B0, class B1, class Layout>
struct InputOf<T, Layer, B0, B1, 1, Layout> {
  using type = ShardedView<T***, Layout, ShardDim<2, Lat, required_halo_t<Layer, 0>, B0>>;
};
template <class T, class Layer, class B0, class B1, class Layout>
struct InputOf<T, Layer, B0, B1, 2, Layout> {
  using type = ShardedView<T****, Layout, ShardDim<2, Lat, required_halo_t<Layer, 0>, B0>,
                           ShardDim<3, Lon, required_halo_t<Layer, 1>, B1>>;
};
template <class T, class Layer, class B0, class B1, class Layout>
struct InputOf<T, Layer, B0, B1, 3, Layout> {
  using type = ShardedView<T*****, Layout, ShardDim<2, Unsharded, unsharded_halo_t<Layer, 0>, B0>,
                           ShardDim<3, Lat, required_halo_t<Layer, 1>, B0>,
                           ShardDim<4, Lon, required_halo_t<Layer, 2>, B1>>;
};
/// A field without a halo.
template <class T, int Dims, class Layout = Kokkos::LayoutRight>
using OutputOf = std::conditional_t<
    Dims == 1, ShardedView<T***, Layout, ShardDim<2, Lat>>,
    std::conditional_t<Dims == 2, ShardedView<T****, Layout, ShardDim<2, Lat>, ShardDim<3, Lon>>,
                       ShardedView<T*****, Layout, ShardDim<3, Lat>, ShardDim<4, Lon>>>>;

/// A field with halos of other widths, periodic in longitude.
using Haloed = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                           ShardDim<3, Lon, Halo<2, 1>, Periodic>>;

/// Partitions of [batch, channel, space...]; the last two dimensions in space are cut (or the only
/// one).
template <std::size_t Rank>
std::array<Partition, Rank> some_partitions(const std::array<index_t, Rank>& n,
                                            const std::array<int, 2>& mesh, int which,
                                            Random& random) {
  std::array<Partition, Rank> p;
  for (std::size_t d = 0; d < Rank; ++d) p[d] = Partition::balanced(n[d], 1);
  if (Rank == 3) {
    p[2] = some_partition(n[2], mesh[0], which, random);
  } else {
    p[Rank - 2] = some_partition(n[Rank - 2], mesh[0], which, random);
    p[Rank - 1] = some_partition(n[Rank - 1], mesh[1], which, random);
  }
  return p;
}

/// Calls body(mesh, shape, which) for every mesh of this number of ranks: on several ranks for
/// `which` below `ways`, as in some_partition.
template <class Body>
void on_shapes(int ways, const Body& body) {
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    for (int which = 0; which < (world_size() > 1 ? ways : 1); ++which) {
      SCOPED_TRACE("mesh " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   ", partition " + std::to_string(which));
      body(mesh, shape, which);
    }
  }
}

/// Calls body(mesh, partitions) for every mesh of this number of ranks: balanced shards, and twice
/// random ones, some of them empty.
template <std::size_t Rank, class Body>
void on_meshes(const std::array<index_t, Rank>& n, const Body& body) {
  Random random(seed());
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    body(mesh, some_partitions(n, shape, which, random));
  });
}

}  // namespace shard::testing

#endif
