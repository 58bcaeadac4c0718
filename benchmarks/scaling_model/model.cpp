// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "model.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shard/exchange/plan_spec.hpp"
#include "shard/mesh/mesh_state.hpp"
#include "shard/view/boundary.hpp"
#include "support/imagined_ranks.hpp"

namespace scaling {

namespace {

using shard::impl::Geometry;

constexpr double micro = 1e-6, giga = 1e9;

int node_of(const Problem& p, const Machine& machine, int rank) {
  if (p.tile == Triple{1, 1, 1}) return rank / machine.ranks_per_node;
  const Triple place{rank / (p.mesh[1] * p.mesh[2]), rank / p.mesh[2] % p.mesh[1],
                     rank % p.mesh[2]};
  int node = 0;
  for (std::size_t d = 0; d < 3; ++d)
    node = node * ((p.mesh[d] + p.tile[d] - 1) / p.tile[d]) + place[d] / p.tile[d];
  return node;
}

double cells_of(const Triple& cells, int more) {
  double product = 1;
  for (const int n : cells) product *= n + more;
  return product;
}

int ranks_of(const Triple& mesh) { return mesh[0] * mesh[1] * mesh[2]; }

}  // namespace

Traffic traffic_of(const Problem& p, const Machine& machine, int rank) {
  imagined::begin(ranks_of(p.mesh), rank);
  Traffic traffic;
  {
    const auto mesh =
        shard::impl::MeshState::make(MPI_COMM_SELF, {p.mesh[0], p.mesh[1], p.mesh[2]}, {});
    std::array<shard::impl::DimType, 3> types;
    std::array<shard::index_t, 3> extents{}, stride{};
    shard::index_t next = 1;
    for (int d = 2; d >= 0; --d) {
      const auto i        = Geometry::at(d);
      const int width     = p.width * p.steps_per_exchange;
      types[i].lo         = width;
      types[i].hi         = width;
      types[i].low        = {shard::BoundaryKind::periodic};
      types[i].high       = {shard::BoundaryKind::periodic};
      types[i].axes[0]    = d;
      types[i].axis_count = 1;
      extents[i]          = shard::index_t{p.cells[i]} * p.mesh[i];
      stride[i]           = next;
      next *= p.cells[i] + 2 * width;
    }
    const auto geometry =
        shard::impl::make_geometry("model", mesh, 3, types.data(), extents.data(), nullptr);
    auto spec = shard::impl::exchange_spec(geometry(), types.data(), shard::impl::ValueKind::opaque,
                                           p.value_bytes, false, stride.data());
    spec.faces = p.faces;
    std::map<int, double> bytes;
    for (const auto& box : shard::impl::boxes_of(*mesh, spec, 0).sends) {
      double cells = 1;
      for (std::size_t d = 0; d < 3; ++d) cells *= static_cast<double>(box.segments[d].count);
      bytes[box.peer] += cells * p.value_bytes * p.fields;
    }
    const int here = node_of(p, machine, rank);
    for (const auto& [peer, count] : bytes) {
      const bool near = node_of(p, machine, peer) == here;
      (near ? traffic.near_messages : traffic.far_messages) += p.fused ? 1 : p.fields;
      (near ? traffic.near_bytes : traffic.far_bytes) += count;
    }
  }
  imagined::end();
  return traffic;
}

Times predict(const Problem& p, const Machine& m) {
  const int ranks = ranks_of(p.mesh);
  std::set<int> looked_at{0, ranks - 1, ranks / 2};
  for (int i = 0; i < 48; ++i)
    looked_at.insert(static_cast<int>(static_cast<std::int64_t>(ranks) * i / 48));
  const auto path = [&](int messages, double bytes, double latency_us, double GBs) {
    if (messages == 0) return 0.0;
    return (latency_us + (messages - 1) * m.message_us) * micro + bytes / (GBs * giga);
  };
  // a node's ranks share its way out
  const double share = m.node_GBs / std::min(ranks, m.ranks_per_node);
  Times worst;
  for (const int rank : looked_at) {
    Times t;
    t.traffic         = traffic_of(p, m, rank);
    const Traffic& f  = t.traffic;
    const int n       = p.steps_per_exchange;
    const double sent = f.near_bytes + f.far_bytes;
    if (f.near_messages + f.far_messages > 0)
      t.pack =
          2 * (m.kernel_us * micro * (p.fused ? 1 : p.fields) + 2 * sent / (m.memory_GBs * giga));
    t.messages = std::max(path(f.near_messages, f.near_bytes, m.near_latency_us, m.near_GBs),
                          path(f.far_messages, f.far_bytes, m.far_latency_us, share));
    // deep halos: the first of n steps updates most of the halo too, the last none of it
    double updated = 0;
    for (int s = 0; s < n; ++s) updated += cells_of(p.cells, 2 * p.width * (n - 1 - s));
    t.compute           = updated / p.rate;
    const double inside = std::max(0.0, cells_of(p.cells, -2 * p.width * n)) / p.rate;
    t.hidden            = t.messages > 0 ? std::min(1.0, inside / t.messages) : 1;
    t.step              = (t.compute + t.pack + t.messages) / n;
    t.overlapped =
        (t.compute + t.pack + std::max(0.0, t.messages - inside) + m.kernel_us * micro) / n;
    t.compute /= n;
    if (t.step > worst.step) worst = t;
  }
  return worst;
}

double weak_efficiency(const Problem& problem, const Machine& machine, const Triple& one_node,
                       bool overlap) {
  Problem one     = problem;
  one.mesh        = one_node;
  const Times few = predict(one, machine), many = predict(problem, machine);
  return overlap ? few.overlapped / many.overlapped : few.step / many.step;
}

}  // namespace scaling
