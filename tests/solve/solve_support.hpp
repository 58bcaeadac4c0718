// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SOLVE_SOLVE_SUPPORT_HPP
#define SHARD_TESTS_SOLVE_SOLVE_SUPPORT_HPP

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "layers/layer_support.hpp"

namespace shard::testing {

template <class Boundary>
using Plane = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, Boundary>,
                          ShardDim<1, Lon, Halo<1>, Boundary>>;
template <class T, class Boundary>
using Cube =
    ShardedView<T***, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, Boundary>,
                ShardDim<1, Lon, Halo<1>, Boundary>, ShardDim<2, Unsharded, Halo<1>, Boundary>>;
template <class Boundary>
using Line = ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, Boundary>>;

inline constexpr double pi = 3.14159265358979323846;

/// Wind from the north-west: not symmetric.
struct Upwind {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const {
    return 5.0 * x(i, j) - 2.0 * x(i - 1, j) - 1.5 * x(i, j - 1) - 0.25 * x(i + 1, j + 1);
  }
};
struct UpwindAdjoint {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const {
    return 5.0 * x(i, j) - 2.0 * x(i + 1, j) - 1.5 * x(i, j + 1) - 0.25 * x(i - 1, j - 1);
  }
};

/// Numbers in [-1, 1] without a symmetry, for global indices.
template <std::size_t N>
double rough(const std::array<index_t, N>& index, double phase = 0.3) {
  for (const index_t i : index) phase = 1.7 * phase + 0.9 * static_cast<double>(i);
  return std::sin(phase);
}

/// The squarest mesh of all ranks.
inline Grid grid() {
  const auto shape = shapes(world_size()).back();
  return Grid(MPI_COMM_WORLD, {shape[0], shape[1]});
}
/// This rank alone.
inline Grid alone() { return Grid(MPI_COMM_SELF, {1, 1}); }

/// Sets a field's owned points to f(global index).
template <class Field, class F>
void set(const Field& field, const F& f) {
  const auto host = create_mirror_view(field);
  for_owned(host,
            [&](const auto& i, auto& v) { v = static_cast<typename Field::value_type>(f(i)); });
  deep_copy(Space(), field, host);
  Space().fence();
}

/// The largest |field - f(global index)| on all ranks.
template <class Field, class F>
double error_of(const Field& field, const F& f) {
  Space().fence();
  const auto host = on_host(field);
  double most     = 0.0;
  for_owned(host, [&](const auto& i, const auto& v) {
    const double e = std::abs(static_cast<double>(v) - f(i));
    most           = e <= most ? most : std::isnan(e) ? 1e300 : e;
  });
  double all = 0.0;
  MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, field.communicator());
  return all;
}

/// Whether this rank's owned points have the bits of the same field on one rank.
template <class Field>
bool same_bits(const Field& sharded, const Field& serial) {
  Space().fence();
  const auto a = on_host(sharded), b = on_host(serial);
  bool same = true;
  for_owned(a, [&](const auto& i, const auto& v) {
    const auto w = std::apply([&](auto... g) { return b(static_cast<int>(g)...); }, i);
    same         = same && std::memcmp(&v, &w, sizeof v) == 0;
  });
  return same;
}

}  // namespace shard::testing

#endif
