// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "case.hpp"

namespace halo {

std::vector<Case> all_cases(int ranks) {
  std::vector<Case> cases;
  add_planes(cases, ranks);
  add_volumes_right(cases, ranks);
  add_volumes_left(cases, ranks);
  add_cubes(cases, ranks);
  add_selves(cases, ranks);
  add_stencils(cases, ranks);
  return cases;
}

}  // namespace halo
