// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first layers of a network that was trained in PyTorch, on a map that all ranks share: layers
// like those there, parameters under the names of its state_dict, and one call that reads the file
// (`safetensors.torch.save_file(model.state_dict(), path)` writes one).
//
//   12_pytorch_weights weights.safetensors
#include <shard/io/safetensors.hpp>
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;
struct Lon;

using Field = shard::ShardedView<float****, Kokkos::LayoutRight,
                                 shard::ShardDim<2, Lat, shard::Halo<1>>,  // zeros beyond the edge,
                                 shard::ShardDim<3, Lon, shard::Halo<1>>>;  // as padding=1 there

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (argc != 2) {
    std::printf("usage: %s weights.safetensors\n", argv[0]);
    return 1;
  }
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  const Kokkos::DefaultExecutionSpace space;

  // self.enter = nn.Sequential: conv = nn.Conv2d(3, 8, 3, padding=1), norm = nn.GroupNorm(4, 8)
  const shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>> conv{3, 8};
  const shard::GroupNorm norm{4, 8};
  shard::ParameterArena<float> parameters(
      "parameters", shard::parameter_count(conv) + shard::parameter_count(norm));
  const auto conv_parameters = parameters.take("conv", conv);
  const auto norm_parameters = parameters.take("norm", norm);
  // strict: what is called enter.* in the file must be just these arrays, with these shapes
  shard::load_safetensors(argv[1], parameters, mesh.communicator(), {.prefix = "enter."});

  const Field x("x", mesh, {1, 3, 90, 180}), y("y", mesh, {1, 8, 90, 180});
  deep_copy(space, x, 0.5F);
  auto state = norm.state(y);
  conv.apply(space, conv_parameters, y, x);
  norm.apply(space, state, norm_parameters, y, y);
  shard::SiLU().apply(space, y, y);

  const double size = shard::norm2<shard::Determinism::ordered>(space, y);
  if (mesh.rank() == 0)
    for (const shard::ParameterEntry& entry : parameters.entries())
      std::printf("%-12s %5lld values\n", entry.name.c_str(),
                  static_cast<long long>(entry.count()));
  if (mesh.rank() == 0) std::printf("|y| = %.4f, on any number of ranks\n", size);
}
