// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Levels before rows and columns, LayoutRight: cut along 1 each level's face is a run of its own,
// along 2 it is strided. And the levels last: cut along 0 the faces lie in one piece.
#include "subject.hpp"

namespace halo {

void add_volumes_right(std::vector<Case>& cases, int ranks) {
  using Right = Kokkos::LayoutRight;
  const std::integer_sequence<int, 1, 2, 3, 5> all;
  const std::integer_sequence<int, 1, 2> two;
  const std::integer_sequence<int, 1> one;

  const std::array<index_t, 3> deep{64, 256, 256}, shallow{8, 180, 360}, weather{13, 721, 1440};
  add_widths<double, Right, 3, 1>(cases, all, deep, Cut<1>{}, ranks);
  add_widths<double, Right, 3, 1>(cases, two, deep, Cut<2>{}, ranks);
  add_widths<float, Right, 3, 1>(cases, two, deep, Cut<1>{}, ranks);
  add<double, Right, 3, 1, 1>(cases, deep, Cut<1, 2>{}, {ranks, 1});

  add_widths<double, Right, 3, 1>(cases, all, shallow, Cut<1>{}, ranks);
  add_widths<double, Right, 3, 1>(cases, one, shallow, Cut<2>{}, ranks);
  add_widths<float, Right, 3, 1>(cases, two, shallow, Cut<1>{}, ranks);

  add_widths<double, Right, 3, 1>(cases, one, weather, Cut<1>{}, ranks);
  add<float, Right, 3, 3, 4>(cases, weather, Cut<1>{}, {ranks});
  add_widths<float, Right, 3, 1>(cases, one, weather, Cut<1>{}, ranks);
  add_widths<double, Right, 3, 4>(cases, one, weather, Cut<1>{}, ranks);
  add_widths<float, Right, 3, 4>(cases, one, weather, Cut<1>{}, ranks);
  add_widths<float, Right, 3, 1>(cases, one, weather, Cut<2>{}, ranks);
  add<float, Right, 3, 1, 4>(cases, weather, Cut<1, 2>{}, {ranks, 1});

  const std::array<index_t, 3> columns{256, 256, 64}, globe{180, 360, 8};
  add_widths<double, Right, 3, 1>(cases, two, columns, Cut<0>{}, ranks);
  add_widths<double, Right, 3, 1>(cases, one, columns, Cut<1>{}, ranks);
  add_widths<double, Right, 3, 1>(cases, two, globe, Cut<0>{}, ranks);
}

}  // namespace halo
