// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A U-Net from PyTorch (tests/data/make_torch_unet.py), sharded over all ranks: the same layers,
// the weights by their names in its state_dict, and a comparison with PyTorch's output.
#include <shard/io/safetensors.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>

#include <cmath>
#include <cstdio>

#include "help.hpp"

struct Lat;
struct Lon;

using namespace shard;

template <int S>
auto unit(index_t in, index_t out) {  // class Block there
  return block(named<"conv">(Conv<Kernel<3, 3>, Stride<S, S>, Padding<1, 1>>{in, out}),
               named<"norm">(GroupNorm{4, out}), SiLU{});
}

constexpr const char* usage =
    R"(12_pytorch_weights torch_unet.safetensors: a U-Net's weights (tests/data))";

int main(int argc, char** argv) {
  Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  if (argc != 2) return std::printf("usage: %s torch_unet.safetensors\n", argv[0]), 1;
  const Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  const Kokkos::DefaultExecutionSpace space;

  // concat is a skip connection: x, then f(x)
  const ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>> up1{32, 16};
  const ConvTranspose<Kernel<2, 2>, Stride<2, 2>> up0{16, 8};
  const auto low =
      concat(named<"down2">(unit<2>(16, 32)), named<"middle">(unit<1>(32, 32)), named<"up1">(up1));
  const auto all = concat(named<"down1">(unit<2>(8, 16)), named<"low">(low),
                          named<"merge1">(unit<1>(32, 16)), named<"up0">(up0));
  const auto model =
      sequential<float>(named<"enter">(unit<1>(3, 8)), named<"all">(all),
                        named<"merge0">(unit<1>(16, 8)), named<"head">(Conv<Kernel<1, 1>>{8, 2}));
  SafetensorsOptions names;  // in PyTorch's model the layers inside a skip have no separate name
  for (const char* name : {"down1.**", "merge1.**", "up0.**"})
    names.rename.emplace_back(name, std::string("all.") + name);
  for (const char* name : {"down2.**", "middle.**", "up1.**"})
    names.rename.emplace_back(name, std::string("all.low.") + name);
  names.strict = false;  // the file also has an input and an output
  if (!load_safetensors(argv[1], model.parameters(), mesh.communicator(), names).missing.empty())
    return std::printf("%s lacks some of the weights\n", argv[1]), 1;

  const auto sharded = domain_parallel<Lat, Lon>(model, mesh);
  const auto x       = sharded.input("x", {2, 3, 20, 28});
  const auto input   = read_safetensors<float>(argv[1], "example.input"),
             output  = read_safetensors<float>(argv[1], "example.output");
  const auto in      = create_mirror_view(x);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < in.extent(2); ++i)
        for (int j = 0; j < in.extent(3); ++j)
          in(n, c, i, j) = input[((n * 3 + c) * 20 + in.to_global(2, i)) * 28 + in.to_global(3, j)];
  deep_copy(space, x, in);
  const auto& y   = sharded(space, x);
  const auto mine = create_mirror_view(y);
  deep_copy(space, mine, y);
  space.fence();
  float apart = 0;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < mine.extent(2); ++i)
        for (int j = 0; j < mine.extent(3); ++j) {
          const auto g = ((n * 2 + c) * 20 + mine.to_global(2, i)) * 28 + mine.to_global(3, j);
          apart        = std::fmax(apart, std::fabs(mine(n, c, i, j) - output[g]));
        }
  MPI_Allreduce(MPI_IN_PLACE, &apart, 1, MPI_FLOAT, MPI_MAX, mesh.communicator());
  if (mesh.rank() == 0)
    std::printf("%lld weights; PyTorch's output and ours are at most %.1e apart\n",
                static_cast<long long>(model.parameters().values().extent(0)),
                static_cast<double>(apart));
  return apart < 1e-5F ? 0 : 1;
}
