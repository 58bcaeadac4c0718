// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fields of two dimensions. LayoutRight: cut along 0 the faces lie in one piece, along 1 they are
// strided; LayoutLeft: the other way round.
#include "subject.hpp"

namespace halo {

void add_planes(std::vector<Case>& cases, int ranks) {
  using Right = Kokkos::LayoutRight;
  using Left  = Kokkos::LayoutLeft;
  const std::integer_sequence<int, 1, 2, 3, 5> all;
  const std::integer_sequence<int, 1, 2> two;
  const std::integer_sequence<int, 1> one;

  const std::array<index_t, 2> square{1024, 1024}, globe{180, 360};
  add_widths<double, Right, 2, 1>(cases, all, square, Cut<0>{}, ranks);
  add_widths<double, Right, 2, 1>(cases, all, square, Cut<1>{}, ranks);
  add_widths<double, Left, 2, 1>(cases, one, square, Cut<1>{}, ranks);
  add_widths<double, Left, 2, 1>(cases, one, square, Cut<0>{}, ranks);
  add<float, Left, 2, 5, 1>(cases, square, Cut<1>{}, {ranks});
  add_widths<float, Right, 2, 1>(cases, two, square, Cut<0>{}, ranks);
  add_widths<float, Right, 2, 1>(cases, two, square, Cut<1>{}, ranks);
  add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {ranks, 1});
  add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {1, ranks});
  add<float, Right, 2, 3, 4>(cases, square, Cut<0, 1>{}, {ranks, 1});
  if (ranks > 2 && ranks % 2 == 0) {  // with ranks that only corners come from
    add<double, Right, 2, 1, 1>(cases, square, Cut<0, 1>{}, {2, ranks / 2});
    add<double, Right, 2, 3, 1>(cases, square, Cut<0, 1>{}, {2, ranks / 2});
  }

  add_widths<double, Right, 2, 1>(cases, two, globe, Cut<0>{}, ranks);
  add_widths<double, Right, 2, 1>(cases, one, globe, Cut<1>{}, ranks);
  add_widths<float, Right, 2, 1>(cases, two, globe, Cut<0>{}, ranks);
  add_widths<double, Right, 2, 4>(cases, one, globe, Cut<0>{}, ranks);
  add_widths<double, Right, 2, 8>(cases, one, globe, Cut<0>{}, ranks);
  add_widths<float, Right, 2, 8>(cases, one, globe, Cut<0>{}, ranks);
  // small faces: what a fused exchange saves is the handshakes
  const std::array<index_t, 2> small{64, 64};
  add_widths<double, Right, 2, 8>(cases, one, small, Cut<0>{}, ranks);
  add_widths<float, Right, 2, 8>(cases, one, small, Cut<0>{}, ranks);
}

}  // namespace halo
