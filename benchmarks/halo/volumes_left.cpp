// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LayoutLeft: columns first in memory, cut along 1 each level's face is a run of its own.
#include "subject.hpp"

namespace halo {

void add_volumes_left(std::vector<Case>& cases, int ranks) {
  using Left = Kokkos::LayoutLeft;
  const std::integer_sequence<int, 1, 2> two;
  const std::integer_sequence<int, 1> one;

  const std::array<index_t, 3> columns{256, 256, 64}, globe{360, 180, 8}, weather{1440, 721, 13};
  add_widths<double, Left, 3, 1>(cases, two, columns, Cut<1>{}, ranks);
  add_widths<double, Left, 3, 1>(cases, one, columns, Cut<0>{}, ranks);
  add_widths<float, Left, 3, 1>(cases, one, columns, Cut<1>{}, ranks);
  add_widths<double, Left, 3, 1>(cases, two, globe, Cut<1>{}, ranks);
  add_widths<float, Left, 3, 1>(cases, one, weather, Cut<1>{}, ranks);
  add<double, Left, 3, 3, 1>(cases, columns, Cut<1>{}, {ranks});
  add<double, Left, 3, 5, 1>(cases, columns, Cut<1>{}, {ranks});
  add<float, Left, 3, 2, 4>(cases, weather, Cut<1>{}, {ranks});
}

}  // namespace halo
