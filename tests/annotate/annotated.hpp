// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_REDISTRIBUTE_ANNOTATED_HPP
#define SHARD_TESTS_REDISTRIBUTE_ANNOTATED_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "shard/annotate/annotated_view.hpp"
#include "support/support.hpp"

namespace annotated_test {

using shard::index_t;
using Space = Kokkos::DefaultExecutionSpace;
using Index = std::vector<index_t>;

/// Visits each value on the host with its indices, and copies them back.
template <class View, class Visit>
void on_values(const View& view, const Visit& visit) {
  const auto near = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  index_t values  = 1;
  for (std::size_t d = 0; d < View::rank(); ++d) values *= static_cast<index_t>(near.extent(d));
  Index i(View::rank());
  for (index_t flat = 0; flat < values; ++flat) {
    index_t rest = flat, offset = 0;
    for (std::size_t d = View::rank(); d-- > 0;) {
      const auto n = static_cast<index_t>(near.extent(d));
      i[d]         = rest % n;
      rest /= n;
      offset += i[d] * static_cast<index_t>(near.stride(d));
    }
    visit(near.data()[offset], i);
  }
  Kokkos::deep_copy(view, near);
}

/// What the cell at these global indices holds: never 0, another number for each cell.
inline double number_of(const Index& i) {
  double number = 1;
  for (const index_t at : i) number = 13 * number + static_cast<double>(at);
  return number;
}

template <class View>
Index extents_of(const View& view) {
  Index n;
  for (std::size_t d = 0; d < View::rank(); ++d) n.push_back(static_cast<index_t>(view.extent(d)));
  return n;
}

template <class View>
View make(const Index& n, const std::string& label = "tensor") {
  return [&]<std::size_t... D>(std::index_sequence<D...>) {
    return View(label, static_cast<std::size_t>(n[D])...);
  }
  (std::make_index_sequence<View::rank()>{});
}
/// A whole tensor, numbered.
template <class View>
View numbered(const Index& n) {
  const View view = make<View>(n);
  on_values(view, [](auto& v, const Index& i) {
    v = static_cast<typename View::value_type>(number_of(i));
  });
  return view;
}
/// Expects the numbers of the cells from `begin` on, zeros from `end` on.
template <class View>
void expect_numbered(const View& view, const Index& begin, const Index& end) {
  index_t wrong = 0;
  on_values(view, [&](auto& v, Index i) {
    bool padding = false;
    for (std::size_t d = 0; d < i.size(); ++d) {
      i[d] += begin[d];
      padding = padding || i[d] >= end[d];
    }
    const double wanted = padding ? 0 : number_of(i);
    wrong += static_cast<double>(v) == wanted ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}
template <class View>
void expect_numbered(const View& view) {
  expect_numbered(view, Index(View::rank(), 0), extents_of(view));
}
template <class View>
void expect_all(const View& view, double value) {
  index_t wrong = 0;
  on_values(view, [&](auto& v, const Index&) { wrong += v == value ? 0 : 1; });
  EXPECT_EQ(wrong, 0);
}

}  // namespace annotated_test

#endif
