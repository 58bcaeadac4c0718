// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tape, the checks and a model of layers, for the device.

#include <shard/shard.hpp>

// of a namespace, as a user has it: nvcc reads that in another way
namespace user_code {

struct Lat;
struct Lon;

namespace device_autodiff {

using namespace shard;

using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat>,
                          ShardDim<1, Lon, Halo<1>, Periodic>>;
using Space = Kokkos::DefaultExecutionSpace;

template <class To, class From>
struct AverageKernel {
  To y;
  From x;
  KOKKOS_FUNCTION void operator()(int i, int j) const { y(i, j) = 0.5 * (x(i, j) + x(i, j - 1)); }
};

/// Linear, on any value type.
struct Average {
  template <class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    exchange(space, x);
    shard::parallel_for("average", space, owned_region(y), AverageKernel<Y, X>{y, x});
  }
  template <class Y, class X>
  void pushforward(const Space& space, const Y& ty, const X& tx) const {
    apply(space, ty, tx);
  }
  template <class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    deep_copy(space, dx, dy);
  }
};

double use_autodiff(const Mesh<Lat, Lon>& mesh) {
  const Space space;
  const Field x("x", mesh, {8, 8}), tx = x.like("tx"), dy = x.like("dy");
  const Kokkos::View<double*> numbers("numbers", 4);
  Tape<Space> tape(space);
  const Field y = tape.loop(Average{}, tape.run(Axpby{0.5, 2.0}, x, tx), 10, {.slots = 3});
  return impl::dot_value(space, tape.pullback(y, dy), tx) +
         impl::dot_value(space, numbers, numbers) + dot_product_error(space, Average{}, x, tx, dy) +
         tangent_error(space, Average{}, x, tx, dy) + gradient_error(space, Average{}, x, tx, dy) +
         complex_step_error(space, Average{}, x, tx, dy);
}

void use_model(const Mesh<Lat, Lon>& mesh) {
  using Stem       = Conv<Kernel<3, 3>, Padding<1, 1>, PaddingMode<Reflect, Periodic>>;
  const auto model = sequential<float>(Stem{2, 4}, GroupNorm{2, 4}, residual(SiLU{}),
                                       concat(Conv<Kernel<1, 1>>{4, 4}));
  const auto net   = domain_parallel<Lat, Lon>(model, mesh);
  const Space space;
  const auto x = net.input("x", {1, 2, 8, 8}), dx = x.like("dx");
  const auto& y = net(space, x);
  net.pushforward(space, y, dx, x);
  net.pullback(space, dx, y, x);
  net.pullback(space, not_wanted, y, x);
}

}  // namespace device_autodiff

}  // namespace user_code
