// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Periodic dimensions on a mesh axis of one rank: local copies, no message.
#include "subject.hpp"

namespace halo {

void add_selves(std::vector<Case>& cases, int ranks) {
  const std::array<index_t, 2> square{1024, 1024};
  const std::array<index_t, 3> cube{64, 64, 64}, weather{13, 721, 1440};
  add<double, Right, 2, 1, 1>(cases, square, Self<0>{}, ranks);
  add<double, Right, 2, 2, 1>(cases, square, Self<1>{}, ranks);
  add<double, Right, 3, 1, 1>(cases, cube, Self<0>{}, ranks);
  add<double, Left, 3, 1, 4>(cases, cube, Self<1>{}, ranks);
  add<float, Right, 3, 1, 1>(cases, weather, Self<1>{}, ranks);
  add<float, Right, 3, 3, 1>(cases, weather, Self<2>{}, ranks);
}

}  // namespace halo
