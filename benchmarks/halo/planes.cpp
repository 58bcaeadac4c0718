// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fields of two dimensions. LayoutRight: cut along 0 the faces lie in one piece, along 1 they are
// strided; LayoutLeft: the other way round.
#include "subject.hpp"

namespace halo {

void add_planes(std::vector<Case>& cases, int ranks) {
  const std::array<index_t, 2> square{1024, 1024}, globe{180, 360};
  add_all<double, Right>(cases, ranks, square, up_to_5, just_1, Numbers<0, 1>{});
  add_all<double, Left>(cases, ranks, square, just_1, just_1, Numbers<0, 1>{});
  add<float, Left, 2, 5, 1>(cases, square, Cut<1>{}, {ranks});
  add_all<float, Right>(cases, ranks, square, up_to_2, just_1, Numbers<0, 1>{});
  add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {ranks, 1});
  add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {1, ranks});
  add<float, Right, 2, 3, 4>(cases, square, Cut<0, 1>{}, {ranks, 1});
  if (ranks > 2 && ranks % 2 == 0) {  // with ranks that only corners come from
    add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {2, ranks / 2});
    add<double, Right, 2, 3, 1>(cases, square, Cut<0, 1>{}, {2, ranks / 2});
  }

  add_all<double, Right>(cases, ranks, globe, up_to_2, just_1, Numbers<0>{});
  add_all<double, Right>(cases, ranks, globe, just_1, just_1, Numbers<1>{});
  add_all<double, Right>(cases, ranks, globe, just_1, Numbers<4, 8>{}, Numbers<0>{});
  add_all<float, Right>(cases, ranks, globe, up_to_2, just_1, Numbers<0>{});
  add_all<float, Right>(cases, ranks, globe, just_1, Numbers<8>{}, Numbers<0>{});
  // small faces: what a fused exchange saves is the handshakes
  const std::array<index_t, 2> small{64, 64};
  add_all<double, Right>(cases, ranks, small, just_1, Numbers<8>{}, Numbers<0>{});
  add_all<float, Right>(cases, ranks, small, just_1, Numbers<8>{}, Numbers<0>{});
  // the second dimension is periodic with itself
  add<double, Right, 2, 2, 1>(cases, small, Cut<0, 1>{}, {ranks, 1});
  add<double, Right, 2, 2, 8>(cases, small, Cut<0, 1>{}, {ranks, 1});
}

}  // namespace halo
