// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "model.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "shard/exchange/impl/route.hpp"
#include "shard/exchange/tuning.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
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

/// Of a box that has `more` widths of the halo more on each side.
double cells_of(const Problem& p, int more) {
  double product = 1;
  for (std::size_t d = 0; d < 3; ++d) product *= p.cells[d] + 2 * p.width[d] * more;
  return product;
}

int ranks_of(const Triple& mesh) { return mesh[0] * mesh[1] * mesh[2]; }

/// Where the field's memory is, in values; from the fastest dimension to the slowest.
struct Layout {
  std::array<shard::index_t, 3> stride{};

  explicit Layout(const Problem& p) {
    shard::index_t next = 1;
    for (const std::size_t d :
         p.left ? std::array<std::size_t, 3>{0, 1, 2} : std::array<std::size_t, 3>{2, 1, 0}) {
      stride[d] = next;
      next *= p.cells[d] + 2 * p.width[d] * p.steps_per_exchange;
    }
  }
};

/// Bytes of the box in one field.
double bytes_of(const Problem& p, const shard::impl::Piece& box) {
  shard::index_t cells = 1;
  for (std::size_t d = 0; d < 3; ++d) cells *= box.extent[d];
  return static_cast<double>(cells) * p.value_bytes;
}

/// Messages that a plan makes of the boxes of a field that go to one rank.
int messages_of(const Problem& p, const std::vector<double>& boxes) {
  const int count = static_cast<int>(boxes.size());
  int messages    = 0;
  switch (p.messages) {
    case shard::MessageLayout::one_per_field: return p.fields;
    case shard::MessageLayout::one_per_box: return p.fields * count;
    case shard::MessageLayout::by_size: {
      double room = 0;
      for (int i = 0; i < p.fields * count; ++i) {
        const double bytes = boxes[static_cast<std::size_t>(i % count)];
        if (i == 0 || bytes > room) {
          ++messages;
          room = static_cast<double>(shard::impl::short_message);
        }
        room -= bytes;
      }
      return messages;
    }
    default: return 1;
  }
}

/// Seconds of so many messages by latency and bandwidth.
double by_bandwidth(int messages, double bytes, double latency_us, double GBs, const Machine& m) {
  if (messages == 0) return 0.0;
  return (latency_us + (messages - 1) * m.message_us) * micro + bytes / (GBs * giga);
}

/// Sets what an exchange takes: `pack` and `messages`.
void predict_exchange(const Problem& p, const Machine& m, Times& t) {
  const Traffic& f  = t.traffic;
  const int ranks   = ranks_of(p.mesh);
  const double sent = f.near_bytes + f.far_bytes;
  const int kernels = p.messages == shard::MessageLayout::one_per_field ? p.fields : 1;
  // a node's ranks share its way out
  const double share = m.node_GBs / std::min(ranks, m.ranks_per_node);
  if (f.near_messages + f.far_messages > 0)
    t.pack = 2 * (m.kernel_us * micro * kernels + 2 * sent / (m.memory_GBs * giga));
  t.messages =
      std::max(by_bandwidth(f.near_messages, f.near_bytes, m.near_latency_us, m.near_GBs, m),
               by_bandwidth(f.far_messages, f.far_bytes, m.far_latency_us, share, m));
}

}  // namespace

Traffic traffic_of(const Problem& p, const Machine& machine, int rank) {
  imagined::begin(ranks_of(p.mesh), rank);
  Traffic traffic;
  {
    const auto mesh =
        shard::impl::MeshState::make(MPI_COMM_SELF, {p.mesh[0], p.mesh[1], p.mesh[2]}, {});
    const Layout layout(p);
    std::array<shard::impl::DimType, 3> types;
    std::array<shard::index_t, 3> extents{};
    for (int d = 0; d < 3; ++d) {
      const auto i        = Geometry::at(d);
      types[i].lo         = p.width[i] * p.steps_per_exchange;
      types[i].hi         = types[i].lo;
      types[i].low        = {shard::BoundaryKind::periodic};
      types[i].high       = {shard::BoundaryKind::periodic};
      types[i].axes[0]    = d;
      types[i].axis_count = 1;
      extents[i]          = shard::index_t{p.cells[i]} * p.mesh[i];
    }
    const auto geometry =
        shard::impl::make_geometry("model", mesh, 3, types.data(), extents.data(), nullptr);
    auto spec = shard::impl::exchange_spec(geometry, types.data(), shard::impl::ValueKind::opaque,
                                           p.value_bytes, p.left, layout.stride.data());
    if (p.faces) spec.part = shard::impl::HaloPart::faces;
    const auto boxes = shard::impl::route_of(*mesh, {spec});
    std::map<int, std::vector<double>> bytes;
    for (const auto& box : boxes.sends) bytes[box.peer].push_back(bytes_of(p, box));
    const int here = node_of(p, machine, rank);
    for (const auto& [peer, of_boxes] : bytes) {
      const bool near = node_of(p, machine, peer) == here;
      (near ? traffic.near_messages : traffic.far_messages) += messages_of(p, of_boxes);
      for (const double count : of_boxes)
        (near ? traffic.near_bytes : traffic.far_bytes) += count * p.fields;
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
  Times worst;
  for (const int rank : looked_at) {
    Times t;
    t.traffic = traffic_of(p, m, rank);
    predict_exchange(p, m, t);
    const int n = p.steps_per_exchange;
    // deep halos: the first of n steps updates most of the halo too, the last none of it
    double updated = 0;
    for (int s = 0; s < n; ++s) updated += cells_of(p, n - 1 - s);
    t.compute           = updated / p.rate;
    const double inside = std::max(0.0, cells_of(p, -n)) / p.rate;
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
