// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a model for a mesh; a custom converter replaces one kind of layer.
#include <shard/model/conversion_report.hpp>
#include <shard/model/domain_parallel.hpp>
#include <shard/model/validate_sharding.hpp>
#include <shard/shard.hpp>

#include <cstdio>

struct Lat;
struct Lon;

using Globe  = shard::PeriodicConv<shard::Kernel<3, 3>>;  // longitude wraps, poles reflect
using Folded =                                            // the same across folded poles
    shard::PeriodicConv<
        shard::Kernel<3, 3>,
        shard::PaddingMode<shard::PoleFold<3, shard::Pole::between_rows>, shard::Periodic>>;
using Down = shard::Conv<shard::Kernel<3, 3>, shard::Stride<2, 2>, shard::Padding<1, 1>>;
using Up   = shard::ConvTranspose<shard::Kernel<3, 3>, shard::Stride<2, 2>, shard::Padding<1, 1>>;
using Head = shard::Conv<shard::Kernel<1, 1>>;

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});

  auto model = shard::sequential<float>(
      shard::named<"stem">(Globe{2, 8}), shard::GroupNorm{4, 8}, shard::SiLU{},
      shard::named<"skip">(shard::concat(Down{8, 16}, shard::SiLU{}, Up{16, 8})),
      shard::named<"head">(Head{16, 2}));

  auto fold    = shard::on<shard::PeriodicConv>([](const auto& module) {
    const auto& serial = module.layer();
    return shard::with_layer(module, Folded{serial.in, serial.out, serial.groups, serial.bias});
  });
  auto sharded = shard::domain_parallel<Lat, Lon>(model, mesh, fold);

  const shard::ConversionReport report = shard::conversion_report(model, sharded);
  if (mesh.rank() == 0) {
    std::printf("%s", report.text().c_str());
    for (const auto& finding :
         shard::validate_sharding<Lat, Lon>(model, shard::Extents<4>{1, 2, 61, 120}, mesh))
      std::printf("%s\n", finding.text.c_str());
  }

  Kokkos::DefaultExecutionSpace space;
  auto x = sharded.input("x", {1, 2, 61, 120});
  shard::deep_copy(space, x, 1.0f);
  const auto& y = sharded(space, x);
  return report.layers[0].custom && y.global_extent(2) == 61 ? 0 : 1;
}
