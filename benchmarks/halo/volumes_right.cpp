// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Levels before rows and columns, LayoutRight: cut along 1 each level's face is a run of its own,
// along 2 it is strided. And the levels last: cut along 0 the faces lie in one piece.
#include "subject.hpp"

namespace halo {

void add_volumes_right(std::vector<Case>& cases, int ranks) {
  const std::array<index_t, 3> deep{64, 256, 256}, shallow{8, 180, 360}, weather{13, 721, 1440};
  add_all<double, Right>(cases, ranks, deep, up_to_5, just_1, Numbers<1>{});
  add_all<double, Right>(cases, ranks, deep, up_to_2, just_1, Numbers<2>{});
  add_all<float, Right>(cases, ranks, deep, up_to_2, just_1, Numbers<1>{});
  add<double, Right, 3, 1, 1>(cases, deep, Cut<1, 2>{}, {ranks, 1});

  add_all<double, Right>(cases, ranks, shallow, up_to_5, just_1, Numbers<1>{});
  add_all<double, Right>(cases, ranks, shallow, just_1, just_1, Numbers<2>{});
  add_all<float, Right>(cases, ranks, shallow, up_to_2, just_1, Numbers<1>{});

  add<float, Right, 3, 3, 4>(cases, weather, Cut<1>{}, {ranks});
  add_all<double, Right>(cases, ranks, weather, just_1, Numbers<1, 4>{}, Numbers<1>{});
  add_all<float, Right>(cases, ranks, weather, just_1, Numbers<1, 4>{}, Numbers<1>{});
  add_all<float, Right>(cases, ranks, weather, just_1, just_1, Numbers<2>{});
  add<float, Right, 3, 1, 4>(cases, weather, Cut<1, 2>{}, {ranks, 1});

  const std::array<index_t, 3> columns{256, 256, 64}, globe{180, 360, 8};
  add_all<double, Right>(cases, ranks, columns, up_to_2, just_1, Numbers<0>{});
  add_all<double, Right>(cases, ranks, columns, just_1, just_1, Numbers<1>{});
  add_all<double, Right>(cases, ranks, globe, up_to_2, just_1, Numbers<0>{});
}

}  // namespace halo
