// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ensemble of examples/models, trained by the CRPS over a mesh axis, beside PyTorch.
#include "examples/models/ensemble.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

struct Member;

TEST(Models, EnsembleByCRPS) {
  ModelFile file{"ensemble"};
  const auto all = model<double>(ensemble::Network{});
  load_weights(file, all);
  std::mt19937_64 random(seed());
  using Target = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
  for (const auto& shape : mesh_shapes()) {
    const Mesh<Member, Lat> mesh(MPI_COMM_WORLD, shape);
    const auto net = domain_parallel<ShardDim<0, Member>, ShardDim<2, Lat>>(all, mesh);
    using Field    = std::remove_cvref_t<decltype(net)>::Input;
    for (const bool even : {true, false}) {
      auto pieces =
          some_pieces({4, 2, 13, 10}, {mesh.size<Member>(), 1, mesh.size<Lat>(), 1}, even, random);
      SCOPED_TRACE("members " + pieces[0].describe() + ", rows " + pieces[2].describe());
      const Field x("x", mesh, pieces), dx = x.like("dx");
      set_points(x, file("example.input"));
      // the noise of this rank's members
      const auto z = net.replicated("noise", {x.extent(0), 3, 1, 1}), dz = z.like("dz");
      const auto noise = file("example.noise");
      const auto first = noise.begin() + 3 * x.begin(0);
      set_points(z, {first, first + 3 * x.extent(0)});
      pieces[0] = Partition::whole(1);
      const Target target("target", mesh, pieces);
      set_points(target, file("example.target"));

      const auto y = net.output(x, z), dy = y.like("dy");
      CRPS loss(y, target, file("example.weights"));
      net.apply(Space(), y, x, z);
      expect_near(world(y), file("example.output"), 1e-10);
      EXPECT_NEAR(loss(Space(), y, target), file("example.loss")[0], 1e-12);
      loss.pullback(Space(), dy, y, target);
      Kokkos::deep_copy(Space(), net.gradients().values(), 0.0);
      net.pullback(Space(), dx, dz, dy, x, z);
      Space().fence("gradients");
      expect_near(world(dx), file("example.dinput"), 1e-10);
      expect_gradients(file, net, 1e-10);
      std::vector<double> sums(noise.size());
      const auto mine = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), dz.view());
      for (index_t b = 0; b < x.extent(0); ++b)
        for (index_t c = 0; c < 3; ++c)
          sums[static_cast<std::size_t>(3 * (x.begin(0) + b) + c)] = mine(b, c, 0, 0);
      MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM,
                    mesh.communicator());
      expect_near(sums, file("example.dnoise"), 1e-10);
    }
  }
  expect_row(file, all, "plain PyTorch");
}

}  // namespace
}  // namespace shard::testing
