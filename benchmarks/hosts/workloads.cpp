// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "workloads.hpp"

const std::vector<workloads::Workload>& workloads::all() {
  static const std::vector<Workload> five{
      {"exchange", "7-point stencil, two fields, 64^3 points a part", exchange, false},
      {"unet", "U-Net's training step, 16 channels, 32 x 64 points a part", unet, true},
      {"shallow_water", "latitude-longitude, 64 x 128 points a part", shallow_water, false},
      {"multigrid", "four iterations of CG with multigrid, 48^3 cells a part", multigrid, false},
      {"transposes", "four transposes in pencils, 48^3 doubles a part", transposes, false}};
  return five;
}

std::vector<int> workloads::mesh_of(const Workload& workload, int ranks) {
  if (workload.one_axis) return {ranks};
  return shape_of(ranks);
}
