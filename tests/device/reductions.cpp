// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every reduction and its gradient, for the device.

#include "shard/reduce/cumulative_sum.hpp"
#include "shard/reduce/reduce.hpp"
#include "shard/reduce/reduction_operations.hpp"
#include "shard/view/block_grid.hpp"

struct Lat;
struct Lon;
struct Sphere;

namespace device_reductions {

using namespace shard;

template <class Field>
struct SquareKernel {
  Field f;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    return f(i...) * f(i...);
  }
};

template <Determinism Order, class T>
double use(const Mesh<Lat, Lon>& mesh) {
  using Field = ShardedView<T***, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<2, Lon, Halo<1>>>;
  const Kokkos::DefaultExecutionSpace space;
  const Field x("x", mesh, {2, 8, 8}), y = x.like("y");
  const Kokkos::View<double*> rows("rows", static_cast<std::size_t>(x.extent(1)));
  const double result = sum<Order>(space, x) + mean<Order>(space, x) + dot<Order>(space, x, y) +
                        norm1<Order>(space, x) + norm2<Order>(space, x) +
                        static_cast<double>(min(space, x)) + static_cast<double>(max(space, x)) +
                        norm_max(space, x) + weighted_mean<Order>(space, x, along<1>(rows)) +
                        weighted_mean<Order>(space, x, y) + variance<Order>(space, x);
  sum_pullback(space, x, result);
  mean_pullback(space, x, result);
  dot_pullback(space, x, y, result);
  variance_pullback<Order>(space, x, y, result);
  norm1_pullback(space, x, y, result);
  norm2_pullback(space, x, y, 1.0, result);
  min_pullback(space, x, y, T(1), result);
  max_pullback(space, x, y, T(1), result);
  norm_max_pullback(space, x, y, 1.0, result);
  weighted_mean_pullback<Order>(space, x, along<1>(rows), result);
  weighted_mean_pullback_weights<Order>(space, x, y, y, 1.0, result);
  const GlobalMax most;
  const auto value = most.output(x);
  most.pushforward(space, value, y, x);
  GlobalNorm1<Order>{}.pushforward(space, value, y, x);
  GlobalVariance<Order>{}.pushforward(space, value, y, x);
  CumulativeSum{1}.apply(space, y, x);
  CumulativeSum{2}.pullback(space, y, x);
  return result;
}

double use_reductions(const Mesh<Lat, Lon>& mesh) {
  using Whole = ShardedView<int***, Kokkos::LayoutLeft, ShardDim<1, Lat>>;
  const Kokkos::DefaultExecutionSpace space;
  const Whole n("n", mesh, {2, 8, 8});
  using Ocean = ShardedView<double**, Kokkos::LayoutRight,
                            ShardDim<0, Lat, Halo<1>, Sides<Clamp, NorthFold<1, Pivot::t_point>>>,
                            ShardDim<1, Lon, Halo<1>, Periodic>>;
  const Ocean u("u", mesh, {8, 8});
  sum_pullback(space, u, sum(space, u) + mean(space, u));
  using Tiled = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Lat, Blocks<Sphere>>,
                            ShardDim<1, Unsharded, Halo<1>, LinkedY>,
                            ShardDim<2, Unsharded, Halo<1>, LinkedX>>;
  const BlockGrid<Sphere, Lat> sphere(mesh, cubed_sphere(8));
  const At at = At::south_west;
  const Tiled corners("corners", mesh, {sphere.at(at), sphere.y(at), sphere.x(at)});
  sum_pullback(space, corners, sum(space, corners) + mean(space, corners));
  const double squares = reduce(space, u, SquareKernel<Ocean>{u}) +
                         reduce(space, corners, SquareKernel<Tiled>{corners}) +
                         reduce<Determinism::ordered>(space, corners, SquareKernel<Tiled>{corners});
  return squares + use<Determinism::on_one_mesh, float>(mesh) +
         use<Determinism::ordered, double>(mesh) +
         static_cast<double>(sum(space, n) + dot(space, n, n) + max(space, n));
}

}  // namespace device_reductions
