// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models of layers, cut over a mesh, against the same model on one rank.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "model_checks.hpp"
#include "shard/autodiff/tape.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

auto unet() {
  return sequential<double>(
      named<"stem">(Conv3{2, 4}), GroupNorm{2, 4}, SiLU{},
      concat(Down{4, 6}, SiLU{}, residual(Conv3{6, 6}, SiLU{}), Up{6, 4}, GroupNorm{1, 4}),
      Conv1{8, 2});
}

TEST(Model, IsTheSerialModelOnEveryMesh) {
  const auto model = unet();
  const Mesh<Lat, Lon> self(MPI_COMM_SELF, {1, 1});
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Extents<4>& extents : {Extents<4>{1, 2, 13, 10}, Extents<4>{2, 2, 8, 11}}) {
    const Results serial = run(domain_parallel<>(model, self), extents);
    for (int rows = 1; rows <= ranks; ++rows) {
      if (ranks % rows != 0) continue;
      const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {rows, ranks / rows});
      const Results cut = run(domain_parallel<Lat, Lon>(model, mesh), extents);
      expect_near(cut, serial, ranks == 1 ? 0.0 : 1e-12);
    }
    // batch over one axis, latitude over another, named from the end
    const Mesh<Data, Lat> data(MPI_COMM_WORLD, {0, ranks % 2 == 0 ? 2 : 1});
    const Results cut =
        run(domain_parallel<ShardDim<-2, Lat>, ShardDim<0, Data>>(model, data), extents);
    expect_near(cut, serial, 1e-12);
  }
}

/// One sharded model for fields of several partitions, one after the other: its memory is made
/// anew.
TEST(Model, T5_AnyPartitionIsServed) {
  const auto model = unet();
  const Extents<4> extents{1, 2, 13, 10};
  const Results serial =
      run(domain_parallel<>(model, Mesh<Lat, Lon>(MPI_COMM_SELF, {1, 1})), extents);
  std::mt19937_64 engine(seed());
  for (const Extents<2>& shape : mesh_shapes()) {
    const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, shape);
    const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
    using Input        = decltype(sharded)::Input;
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(std::to_string(mesh.size<Lat>()) + " x " + std::to_string(mesh.size<Lon>()));
      const std::array<int, 2> parts{mesh.size<Lat>(), mesh.size<Lon>()};
      expect_near(run_on(sharded, Input("x", mesh, random_partitions(extents, parts, engine))),
                  serial, 1e-12);
    }
  }
}

TEST(Model, TangentAndAdjointAreAPair) {
  const auto model = unet();
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  expect_pair(domain_parallel<Lat, Lon>(model, mesh), {1, 2, 9, 12});
  const Space space;
  // on a tape, twice, with its activations made again
  Tape tape(space);
  const auto square = sequential<double>(residual(Conv3{2, 2}, SiLU{}));
  const auto step   = domain_parallel<Lat, Lon>(square, mesh);
  const auto s0     = step.input("s0", {1, 2, 9, 12});
  fill(s0, 0.4);
  const auto once =
      chain(s0, step, HaloExchange<ShardDim<2, Lat, Halo<1>>, ShardDim<3, Lon, Halo<1>>>{});
  const auto s = tape.loop(once, s0, 5, {2, 0});
  const auto w = s.like("w");
  fill(w, 0.5);
  Kokkos::deep_copy(space, step.gradients().values(), 0.0);
  const auto d = tape.pullback(s, w);
  EXPECT_EQ(tape.recomputed(), impl::least_advances(5, 2));
  const auto short_gradients = summed(step.gradients().values(), mesh.communicator());
  Tape all(space);
  const auto t = all.loop(once, s0, 5);
  Kokkos::deep_copy(space, step.gradients().values(), 0.0);
  const auto e = all.pullback(t, w);
  EXPECT_EQ(world(d), world(e));
  EXPECT_EQ(short_gradients, summed(step.gradients().values(), mesh.communicator()));
}

TEST(Model, FrozenParametersAndUnwantedInputsCostNothing) {
  const auto model = unet();
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const Results all  = run(sharded, {1, 2, 9, 12});
  const Space space;
  const auto x = sharded.input("x", {1, 2, 9, 12});
  fill(x, 0.1);
  const auto& y = sharded(space, x);
  const auto dy = y.like("dy");
  fill(dy, 0.4);
  const auto pull = [&](const auto& dx) {
    Kokkos::deep_copy(space, sharded.gradients().values(), 0.0);
    sharded.pullback(space, dx, dy, x);
    return summed(sharded.gradients().values(), mesh.communicator());
  };
  EXPECT_EQ(pull(not_wanted), all.gradients);
  const auto dx = x.like("dx");
  model.get<"stem">().freeze();
  const std::vector<double> some = pull(dx);
  EXPECT_EQ(world(dx), all.dx);
  const auto frozen = static_cast<std::size_t>(parameter_count(model.get<"stem">().layer()));
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(some[i], i < frozen ? 0.0 : all.gradients[i]) << i;
  // the input not wanted: the first layer's transposed exchange and its kernels are left out
  const Counts before  = count([&] { pull(dx); });
  const Counts without = count([&] { pull(not_wanted); });
  if (mesh.size<Lat>() > 1) {
    EXPECT_LT(without.messages, before.messages);
  }
  EXPECT_LT(without.kernels, before.kernels);
}

/// A layer of a user's own that doesn't exchange: y = x to the south - x to the north.
struct Slope {
  static constexpr int dims                = 2;
  static constexpr LayerSharding sharding  = LayerSharding::window;
  static constexpr bool zero_needs_no_halo = false;
  template <int D>
  using boundary = std::conditional_t<D == 0, Reflect, Zero>;
  static constexpr LowHigh halo_bound(int d) { return d == 0 ? padding() : LowHigh{0, 0}; }
  static constexpr LowHigh aligned_halo_bound(int d) { return halo_bound(d); }
  static constexpr LowHigh unsharded_halo_bound(int d) { return halo_bound(d); }
  static constexpr LowHigh padding() { return {1, 1}; }

  template <class To, class From>
  struct Kernel {
    To y;
    From x;
    KOKKOS_FUNCTION void operator()(int n, int c, int i, int j) const {
      y(n, c, i, j) = x(n, c, i + 1, j) - x(n, c, i - 1, j);
    }
  };
  template <class DX, class DY>
  struct Adjoint {
    DX dx;
    DY dy;
    KOKKOS_FUNCTION void operator()(int) const {
      for (int n = 0; n < static_cast<int>(dy.extent(0)); ++n)
        for (int c = 0; c < static_cast<int>(dy.extent(1)); ++c)
          for (int i = 0; i < static_cast<int>(dy.extent(2)); ++i)
            for (int j = 0; j < static_cast<int>(dy.extent(3)); ++j) {
              dx(n, c, i + 1, j) += dy(n, c, i, j);
              dx(n, c, i - 1, j) -= dy(n, c, i, j);
            }
    }
  };
  template <class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    shard::parallel_for("slope", space, owned_region(y), Kernel<Y, X>{y, x});
  }
  template <class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  template <class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    deep_copy(space, dx, 0.0);
    Kokkos::parallel_for("slope's adjoint", Kokkos::RangePolicy<Space>(space, 0, 1),
                         Adjoint<DX, DY>{dx, dy});
  }
};

TEST(Model, AnExchangeStandsInItBeforeALayerThatMakesNone) {
  using Fill       = HaloExchange<ShardDim<2, Lat, Halo<1>, Reflect>>;
  const auto model = sequential<double>(Conv1{2, 2}, Fill{}, Slope{});
  std::vector<double> results[2];
  for (int cut = 0; cut < 2; ++cut) {
    const Mesh<Lat> mesh(cut == 0 ? MPI_COMM_SELF : MPI_COMM_WORLD, {0});
    const auto sharded = domain_parallel<Lat>(model, mesh);
    expect_pair(sharded, {1, 2, 9, 5});
    results[cut] = run(sharded, {1, 2, 9, 5}).y;
  }
  expect_near(results[1], results[0], 1e-15);
}

struct Nothing {
  KOKKOS_FUNCTION void operator()(int) const {}
};

TEST(Model, NothingIsAllocatedAfterTheFirstStep) {
  const auto model = unet();
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto sharded  = domain_parallel<Lat, Lon>(model, mesh);
  const Counts steady = expect_steady(sharded, {1, 2, 9, 12});
  const Space space;
  // what Kokkos itself needs for so many launches, copies and fences with labels
  const Kokkos::View<double*> some("some", 1);
  const auto host = Kokkos::create_mirror(some);
  const std::int64_t launch =
      count([&] {
        Kokkos::parallel_for("shard::norm_fold_parameters", Kokkos::RangePolicy<Space>(space, 0, 1),
                             Nothing{});
      }).news;
  const std::int64_t copy  = count([&] { Kokkos::deep_copy(space, host, some); }).news;
  const std::int64_t fence = count([&] { space.fence("shard::norm: moments of the world"); }).news;
  EXPECT_LE(steady.news, launch * steady.kernels + copy * steady.copies + fence * steady.fences)
      << launch << ' ' << copy << ' ' << fence << ' ' << steady.news << ' ' << steady.kernels << ' '
      << steady.copies << ' ' << steady.fences;
}

}  // namespace
