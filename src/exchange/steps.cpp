// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <exception>

#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/exchange/impl/route.hpp"
#include "shard/exchange/steps_per_exchange.hpp"

namespace shard::impl {

namespace {

/// The sides of dimensions where a renewal needs elements of other ranks, a bit for each.
int far_sides(const FieldSpec& spec, const Route& route) {
  int sides = 0;
  for (const Piece& piece : route.receives)
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim   = spec.dims[Geometry::at(d)];
      const index_t target = dim.to.begin(dim.coordinate) + piece.target[Geometry::at(d)];
      if (dim.wraps) continue;
      if (target < 0) sides |= 1 << (2 * d);
      if (target >= dim.to.size()) sides |= 1 << (2 * d + 1);
    }
  return sides;
}

std::string words(const FieldSpec& spec, int sides) {
  std::string list;
  for (int d = 0; d < spec.rank; ++d)
    for (const int side : {0, 1})
      if ((sides >> (2 * d + side) & 1) != 0)
        list += std::string(list.empty() ? "" : ", ") + (side == 0 ? "low" : "high") +
                " end of dimension " + text(d);
  return "\"" + spec.label + "\" (" + list + ")";
}

bool has_halo(const DimType& type) { return type.lo > 0 || type.hi > 0; }

}  // namespace

void extend_inside(const DimGeometry& dim, bool wraps, index_t lo, index_t hi, index_t& begin,
                   index_t& end) {
  const index_t before = dim.partition.begin(dim.coordinate),
                mine   = dim.partition.count(dim.coordinate);
  begin                = -(wraps ? lo : std::min(lo, before));
  end                  = mine + (wraps ? hi : std::min(hi, dim.partition.size() - before - mine));
}

template <class Memory>
StepPlans<Memory>::StepPlans(const FieldArgs* fields, int count, const FlatWidths* reach, int steps,
                             unsigned periodic, const Tuning& tuning)
    : mesh_(fields[0].geometry->mesh), wraps_(periodic) {
  std::vector<const Geometry*> geometries;
  for (int f = 0; f < count; ++f) geometries.push_back(fields[f].geometry);
  MeshState& mesh = common_mesh(geometries.data(), count);
  for (int f = 0; f < count; ++f)
    for (int d = 0, k = 0; d < fields[f].geometry->rank; ++d) {
      if (!has_halo(fields[f].types[d])) continue;
      if (fields[f].geometry->dims[Geometry::at(d)].partition.parts() == 1)
        wraps_ &= ~(1U << static_cast<unsigned>(k));
      ++k;
    }
  const auto specs = [&](int times) {
    std::vector<FieldSpec> list;
    for (int f = 0; f < count; ++f) {
      const FieldArgs& field = fields[f];
      list.push_back(exchange_spec(*field.geometry, field.types, field.kind, field.value_size,
                                   field.layout == 1, field.stride.data()));
      for (int d = 0, k = 0; d < list.back().rank; ++d) {
        DimSpec& dim = list.back().dims[Geometry::at(d)];
        dim.lo       = times * reach[f][Geometry::at(d)][0];
        dim.hi       = times * reach[f][Geometry::at(d)][1];
        dim.wraps    = has_halo(field.types[d]) && wraps(k++);
      }
    }
    return list;
  };
  halos_ = FieldPlan<Memory>::make(mesh, specs(steps), tuning);

  std::vector<int> far(static_cast<std::size_t>(count), 0);
  for (int k = 0; k + 1 < steps; ++k) {
    auto beyond = specs(steps - 1 - k);
    bool any    = false;
    for (std::size_t f = 0; f < beyond.size(); ++f) {
      beyond[f].route   = RouteKind::renewal;
      const Route route = route_of(mesh, {beyond[f]});
      any = any || !(route.receives.empty() && route.sends.empty() && route.locals.empty() &&
                     route.fills.empty());
      far[f] |= far_sides(beyond[f], route);
    }
    auto plan = FieldPlan<Memory>::make(mesh, std::move(beyond), tuning);
    renewals_.push_back(any ? std::move(plan) : nullptr);
  }
  {
    const std::string of = names_of(halos_->fields());
    const Watched watched(
        {.what = "other ranks to make plans of several steps", .rank = mesh.rank(), .of = &of});
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, far.data(), count, MPI_INT, MPI_BOR,
              mesh.comm());
  }
  std::string names;
  for (std::size_t f = 0; f < far.size(); ++f)
    if (far[f] != 0) names += (names.empty() ? "" : ", ") + words(halos_->fields()[f], far[f]);
  if (!names.empty())
    log_once(mesh.comm(), "steps_per_exchange<" + text(steps) +
                              ">: elements outside the domain are exchanged at each step, "
                              "because their sources are on other ranks: " +
                              names);
}

void require_first(std::size_t fields) {
  if (fields == 0)
    throw_argument("StepsPerExchange",
                   {"the first argument is a set without fields; give one field at least first"});
}

template <class Memory>
void StepPlans<Memory>::require_same(const FieldArgs* fields, int count) const {
  require_count("StepsPerExchange", halos_->fields().size(), static_cast<std::size_t>(count));
  for (const FieldSpec& spec : halos_->fields()) {
    const FieldArgs& other = *fields++;
    if (other.geometry->mesh != mesh_)
      throw_argument("StepsPerExchange",
                     {"field \"", other.geometry->label, "\" is on another mesh than \"",
                      spec.label, "\", for which the plans were made"});
    require_served("StepsPerExchange", spec, other);
  }
}

template class StepPlans<Kokkos::HostSpace>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template class StepPlans<Kokkos::DefaultExecutionSpace::memory_space>;
#endif

}  // namespace shard::impl
