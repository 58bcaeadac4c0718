// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "workloads.hpp"

const std::vector<workloads::Workload>& workloads::all() {
  static const std::vector<Workload> five{{"exchange", exchange, 2},
                                          {"unet", unet, 1},
                                          {"shallow_water", shallow_water, 2},
                                          {"multigrid", multigrid, 2},
                                          {"transposes", transposes, 2}};
  return five;
}
