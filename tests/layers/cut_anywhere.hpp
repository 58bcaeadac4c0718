// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_CUT_ANYWHERE_HPP
#define SHARD_TESTS_LAYERS_CUT_ANYWHERE_HPP

#include "layers/layer_support.hpp"

namespace shard::testing {

/// Partitions for fields X whose dimensions may all be cut, shards being multiples of `step`.
template <class X>
std::array<Partition, static_cast<std::size_t>(X::rank)> parts_of(
    const std::array<index_t, static_cast<std::size_t>(X::rank)>& n,
    const std::array<index_t, static_cast<std::size_t>(X::rank)>& step,
    const std::array<int, 2>& mesh, int which, Random& random) {
  std::array<Partition, static_cast<std::size_t>(X::rank)> p;
  const auto of = [&](std::size_t d, int parts) {
    const Partition steps = some_partition(n[d] / step[d], parts, which, random);
    std::vector<index_t> begins;
    for (int r = 0; r <= parts; ++r) begins.push_back(steps.begin(r) * step[d]);
    begins.back() = n[d];
    return Partition::explicit_begins(begins);
  };
  [&]<int... D>(std::integer_sequence<int, D...>) {
    ((p[D] = of(D, std::is_same_v<typename X::template axis<D>, Lat>   ? mesh[0]
                   : std::is_same_v<typename X::template axis<D>, Lon> ? mesh[1]
                                                                       : 1)),
     ...);
  }
  (std::make_integer_sequence<int, X::rank>{});
  return p;
}

/// Calls body(mesh, partitions of X) for every mesh of this number of ranks: balanced shards, and
/// twice random ones, some of them empty.
template <class X, class Body>
void on_all_cuts(const std::array<index_t, static_cast<std::size_t>(X::rank)>& n,
                 const std::array<index_t, static_cast<std::size_t>(X::rank)>& step,
                 const Body& body) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  Random random(seed() + 17);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    body(mesh, parts_of<X>(n, step, shape, which, random));
  });
}

}  // namespace shard::testing

#endif
