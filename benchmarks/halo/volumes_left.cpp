// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LayoutLeft: columns first in memory, cut along 1 each level's face is a run of its own.
#include "subject.hpp"

namespace halo {

void add_volumes_left(std::vector<Case>& cases, int ranks) {
  const std::array<index_t, 3> columns{256, 256, 64}, globe{360, 180, 8}, weather{1440, 721, 13};
  add_all<double, Left>(cases, ranks, columns, up_to_5, just_1, Numbers<1>{});
  add_all<double, Left>(cases, ranks, columns, just_1, just_1, Numbers<0>{});
  add_all<float, Left>(cases, ranks, columns, just_1, just_1, Numbers<1>{});
  add_all<double, Left>(cases, ranks, globe, up_to_2, just_1, Numbers<1>{});
  add_all<float, Left>(cases, ranks, weather, just_1, just_1, Numbers<1>{});
  add<float, Left, 3, 2, 4>(cases, weather, Cut<1>{}, {ranks});
}

}  // namespace halo
