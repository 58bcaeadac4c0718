// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/rank_placement.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

#include "shard/base/error.hpp"

namespace shard {

namespace {

using Ints = std::vector<int>;

/// Size of part r of a balanced partition.
index_t share(index_t n, index_t parts, index_t r) { return n / parts + (r < n % parts ? 1 : 0); }

int places(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
}

void check(const char* function, const Ints& shape, const Ints& order, const Ints& nodes,
           const HaloTraffic& traffic) {
  index_t all = 1;
  for (const int extent : shape) all = extent < 1 ? 0 : all * extent;
  const auto count = [](std::size_t n) { return static_cast<index_t>(n); };
  if (all < 1 || count(nodes.size()) != all || (!order.empty() && count(order.size()) != all))
    impl::throw_argument(
        function, {"the mesh has ", impl::text(all), " places, ", impl::text(count(nodes.size())),
                   " ranks have a node and ", impl::text(count(order.size())),
                   " are ordered; give extents of at least 1, a node for each rank, and an order "
                   "of all or none"});
  for (const int rank : order)
    if (rank < 0 || rank >= all)
      impl::throw_argument(function,
                           {"there is no rank ", impl::text(rank), " among ", impl::text(all)});
  const std::size_t axes = shape.size();
  if (traffic.grid.size() != axes || traffic.halo.size() != axes || traffic.periodic.size() != axes)
    impl::throw_argument(function, {"the mesh has ", impl::text(count(axes)),
                                    " axes and the traffic's grid, halo and periodic have ",
                                    impl::text(count(traffic.grid.size())), ", ",
                                    impl::text(count(traffic.halo.size())), " and ",
                                    impl::text(count(traffic.periodic.size())), " entries"});
  bool negative = traffic.bytes < 0;
  double bytes  = 2.0 * static_cast<double>(axes) * static_cast<double>(traffic.bytes);
  for (std::size_t a = 0; a < axes; ++a) {
    negative = negative || traffic.grid[a] < 0 || traffic.halo[a][0] < 0 || traffic.halo[a][1] < 0;
    bytes *= static_cast<double>(traffic.grid[a]);
  }
  if (negative || bytes > 9e18)
    impl::throw_argument(function,
                         {"the traffic's grid, halo widths and bytes are ",
                          negative ? "negative in part" : "more bytes than 64 bits can count",
                          "; give extents and widths of 0 or more, and the bytes of one cell"});
}

/// Bytes of the faces between place `c` and the next one along axis `a`, both directions.
index_t face(const Ints& shape, const Ints& c, std::size_t a, const HaloTraffic& t) {
  const index_t here  = share(t.grid[a], shape[a], c[a]);
  const index_t there = share(t.grid[a], shape[a], (c[a] + 1) % shape[a]);
  index_t cells       = std::min(t.halo[a][1], there) + std::min(t.halo[a][0], here);
  for (std::size_t b = 0; b < shape.size(); ++b)
    if (b != a) cells *= share(t.grid[b], shape[b], c[b]);
  return cells * t.bytes;
}

/// The sum over all places, row-major; `node_at[place]`.
index_t crossing(const Ints& shape, const Ints& node_at, const HaloTraffic& t) {
  index_t bytes = 0;
  Ints c(shape.size(), 0);
  for (std::size_t place = 0; place < node_at.size(); ++place) {
    std::size_t stride = 1;
    for (std::size_t a = shape.size(); a-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[a]);
      const bool last   = c[a] + 1 == shape[a];
      if (extent > 1 && (!last || t.periodic[a])) {
        const std::size_t next = last ? place - (extent - 1) * stride : place + stride;
        if (node_at[next] != node_at[place]) bytes += face(shape, c, a, t);
      }
      stride *= extent;
    }
    for (std::size_t a = shape.size(); a-- > 0;) {
      if (++c[a] < shape[a]) break;
      c[a] = 0;
    }
  }
  return bytes;
}

/// Appends the places of a box in a boustrophedon walk; `back` stores the direction along each
/// axis.
void walk_cells(const Ints& shape, const Ints& from, const Ints& to, std::size_t axis, int place,
                std::vector<bool>& back, Ints& walk) {
  if (axis == shape.size()) {
    walk.push_back(place);
    return;
  }
  for (int i = from[axis]; i < to[axis]; ++i) {
    const int c = back[axis] ? from[axis] + to[axis] - 1 - i : i;
    walk_cells(shape, from, to, axis + 1, place * shape[axis] + c, back, walk);
  }
  back[axis] = !back[axis];
}

/// All places, block after block (the last ones are smaller if blocks don't divide the mesh), with
/// such walks over the blocks and within each.
Ints block_walk(const Ints& shape, const Ints& block) {
  Ints blocks(shape.size());
  for (std::size_t a = 0; a < shape.size(); ++a) blocks[a] = (shape[a] + block[a] - 1) / block[a];
  const Ints zeros(shape.size(), 0);
  const std::vector<bool> forth(shape.size(), false);
  std::vector<bool> back = forth;
  Ints order;
  walk_cells(blocks, zeros, blocks, 0, 0, back, order);
  Ints walk, from(shape.size()), to(shape.size());
  walk.reserve(static_cast<std::size_t>(places(shape)));
  for (int b : order) {
    for (std::size_t a = shape.size(); a-- > 0; b /= blocks[a]) {
      from[a] = b % blocks[a] * block[a];
      to[a]   = std::min(shape[a], from[a] + block[a]);
    }
    back = forth;
    walk_cells(shape, from, to, 0, 0, back, walk);
  }
  return walk;
}

/// Candidate block shapes: those of `size` places that tile the mesh if there are any, else all up
/// to `largest` places, or in a large mesh those whose extents divide its own.
std::vector<Ints> block_shapes(const Ints& shape, int size, int largest) {
  constexpr int small = 4096;
  std::vector<Ints> fitting, all;
  Ints block(shape.size(), 1);
  const bool every  = places(shape) <= small;
  const auto choose = [&](const auto& self, std::size_t axis, int volume) -> void {
    if (axis == shape.size()) {
      bool divides = volume == size;
      for (std::size_t a = 0; a < shape.size(); ++a) divides = divides && shape[a] % block[a] == 0;
      (divides ? fitting : all).push_back(block);
      return;
    }
    for (int extent = 1; extent <= shape[axis] && extent <= largest / volume; ++extent) {
      if (!every && shape[axis] % extent != 0) continue;
      block[axis] = extent;
      self(self, axis + 1, volume * extent);
    }
  };
  choose(choose, 0, 1);
  return fitting.empty() ? all : fitting;
}

}  // namespace

HaloTraffic HaloTraffic::of_square_shards(const std::vector<int>& shape,
                                          const std::vector<bool>& periodic) {
  HaloTraffic traffic;
  traffic.grid.assign(shape.begin(), shape.end());
  traffic.halo.assign(shape.size(), {1, 1});
  traffic.periodic = periodic.empty() ? std::vector<bool>(shape.size(), false) : periodic;
  return traffic;
}

index_t bytes_across_nodes(const std::vector<int>& shape, const std::vector<int>& order,
                           const std::vector<int>& nodes, const HaloTraffic& traffic) {
  check("bytes_across_nodes", shape, order, nodes, traffic);
  Ints node_at = nodes;
  for (std::size_t place = 0; place < order.size(); ++place)
    node_at[place] = nodes[static_cast<std::size_t>(order[place])];
  return crossing(shape, node_at, traffic);
}

std::vector<int> place_by_node(const std::vector<int>& shape, const std::vector<int>& nodes,
                               const HaloTraffic& traffic) {
  check("place_by_node", shape, {}, nodes, traffic);
  // ranks node by node, nodes by their first rank
  std::map<int, int> first;
  for (std::size_t r = 0; r < nodes.size(); ++r) first.emplace(nodes[r], static_cast<int>(r));
  Ints ranks(nodes.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Ints order = ranks;  // the best so far; initially rank order
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return first[nodes[static_cast<std::size_t>(a)]] < first[nodes[static_cast<std::size_t>(b)]];
  });
  std::map<int, int> sizes;
  for (const int node : nodes) ++sizes[node];
  int largest = 0;
  bool equal  = true;
  for (const auto& [node, size] : sizes) {
    equal   = equal && (largest == 0 || size == largest);
    largest = std::max(largest, size);
  }
  if (sizes.size() == 1) return order;

  index_t least = crossing(shape, nodes, traffic);
  Ints node_at(nodes.size());
  for (const Ints& block : block_shapes(shape, equal ? largest : 0, largest)) {
    const Ints walk = block_walk(shape, block);
    for (std::size_t i = 0; i < walk.size(); ++i)
      node_at[static_cast<std::size_t>(walk[i])] = nodes[static_cast<std::size_t>(ranks[i])];
    const index_t bytes = crossing(shape, node_at, traffic);
    if (bytes >= least) continue;
    least = bytes;
    for (std::size_t i = 0; i < walk.size(); ++i)
      order[static_cast<std::size_t>(walk[i])] = ranks[i];
  }
  return order;
}

}  // namespace shard
