// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Choosing how a plan moves its values by trying.
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plan_channel.hpp"
#include "plan_phases.hpp"
#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "upload.hpp"

namespace shard::impl {

namespace {

// bytes; what a rank sends in all
constexpr std::size_t shortest_taken = 16;
constexpr index_t much_taken         = index_t{1} << 19U;

/// What is tried: what the tuning that was asked for leaves open.
std::vector<Tuning> candidates(const Tuning& asked, const std::vector<FieldSpec>& fields,
                               bool shares, bool nccl, index_t bytes) {
  const bool phases = !PhasedFields(fields).specs.empty();
  std::vector<Tuning> list;
  const auto add = [&](TransportKind transport, MessageLayout messages, std::size_t direct_run) {
    Tuning t     = asked;
    t.measured   = false;
    t.transport  = transport;
    t.messages   = messages;
    t.direct_run = direct_run;
    // The transpose writes what it reads. Of single values two ranks take the same lines in turns,
    // and what lies in a near cache is packed as fast.
    if (!t.adjoint_direct_run)
      t.adjoint_direct_run =
          direct_run < asked.direct_run && bytes >= much_taken ? shortest_taken : asked.direct_run;
    list.push_back(t);
  };
  const auto add_layouts = [&](TransportKind transport) {
    add(transport, MessageLayout::one_per_peer, asked.direct_run);
    if (fields.size() > 1) add(transport, MessageLayout::one_per_field, asked.direct_run);
    if (fields.size() > 1) add(transport, MessageLayout::by_size, asked.direct_run);
    add(transport, MessageLayout::one_per_box, asked.direct_run);
    if (phases) add(transport, MessageLayout::by_dimension, asked.direct_run);
  };
  if (asked.transport == TransportKind::automatic && shares) {
    add(TransportKind::automatic, MessageLayout::one_per_peer, asked.direct_run);
    add(TransportKind::automatic, MessageLayout::one_per_peer, 1);
    add(TransportKind::automatic, MessageLayout::one_per_peer,
        std::numeric_limits<std::size_t>::max());
    if (phases) add(TransportKind::automatic, MessageLayout::by_dimension, asked.direct_run);
  }
  if (nccl) add_layouts(TransportKind::nccl);
  add_layouts(shares || nccl ? TransportKind::mpi : asked.transport);
  return list;
}

}  // namespace

/// Each candidate in turns with the others, so that a change of the machine's pace meets all; the
/// least of the medians, each the slowest rank's, wins.
template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make_measured(MeshState& mesh,
                                                          const std::vector<FieldSpec>& fields,
                                                          const Tuning& wanted,
                                                          const FieldAddresses& addresses) {
  constexpr bool device   = !std::is_same_v<Memory, Kokkos::HostSpace>;
  Tuning asked            = wanted;
  const std::string wrong = take_from_environment(asked.transport, device);
  constexpr int warm = 3, turns = 25;
  constexpr double as_good = 1.05;  // of two that are as good the first, which is the plainer one
  const typename Memory::execution_space space;
  require_agreement(mesh.comm(), "Exchange",
                    to_text(asked) + wrong);  // before asking what there is
  if (!wrong.empty()) throw_argument("Exchange", {wrong});
  int shares = 0;
  bool nccl  = false;
  if (asked.transport == TransportKind::automatic) {
    if constexpr (!device) {
      shares = SharedPool::of(mesh)->usable() ? 1 : 0;
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, mesh.comm()),
                "MPI_Allreduce");
    } else {
      nccl = DeviceCarriers::choose(mesh, device_kind_of<Memory>, asked).group != nullptr;
    }
  }
  // The first doesn't depend on the bytes, and making it checks the fields on all ranks.
  std::vector<std::shared_ptr<Plan>> plans{
      make(mesh, fields, candidates(asked, fields, shares != 0, nccl, 0).front())};
  // Arrays that nobody writes stay in the caches of those who read them last, and their exchange is
  // several times faster than that of fields at work.
  CopyJobList touched;
  std::vector<Address> places;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    places.push_back({static_cast<std::byte*>(addresses.from[f])});
    for (const PlanBox& box : boxes_of(mesh, fields[f], static_cast<int>(f)).sends)
      add_touch(fields[f], box, static_cast<int>(f), touched);
  }
  index_t bytes = touched.bytes;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_MAX, mesh.comm()),
            "MPI_Allreduce");
  const std::vector<Tuning> tried = candidates(asked, fields, shares != 0, nccl, bytes);
  for (std::size_t i = 1; i < tried.size(); ++i) plans.push_back(make(mesh, fields, tried[i]));
  Tables tables;
  const auto touches      = tables.add(touched);
  const std::size_t place = tables.add(places);
  const auto kept         = tables.upload<Memory>("shard::touch");
  const CopyJobs touch    = jobs_at(kept.data(), touches, touched);
  const auto* there       = table_at<Address>(kept.data(), place);
  std::vector<std::vector<double>> times(plans.size());
  for (int turn = -warm; turn < turns; ++turn)
    for (std::size_t i = 0; i < plans.size(); ++i) {
      run_copies("shard::touch", false, space, touch, there);
      if constexpr (device) space.fence("shard: measuring");
      check_mpi(MPI_Barrier(mesh.comm()), "MPI_Barrier");
      const double begin = MPI_Wtime();
      plans[i]->finish(space, plans[i]->start(space, addresses, Direction::forward));
      if constexpr (device) space.fence("shard: measuring");
      if (turn >= 0) times[i].push_back(MPI_Wtime() - begin);
    }
  std::vector<double> medians;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + turns / 2, t.end());
    medians.push_back(t[turns / 2]);
  }
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, medians.data(), static_cast<int>(medians.size()),
                          MPI_DOUBLE, MPI_MAX, mesh.comm()),
            "MPI_Allreduce");
  const double least = *std::min_element(medians.begin(), medians.end());
  const auto best    = static_cast<std::size_t>(
      std::find_if(medians.begin(), medians.end(), [&](double m) { return m <= as_good * least; }) -
      medians.begin());
  for (std::size_t i = 0; i < plans.size(); ++i)
    plans[best]->tried_.push_back({tried[i], medians[i]});
  return plans[best];
}

template <class Memory>
std::string Plan<Memory>::report() const {
  std::string text = to_text(tuning());
  for (const Tried& t : tried_)
    text += "\n  " + std::to_string(t.seconds * 1e6) + " us  " + to_text(t.tuning);
  return text;
}

using Host = Kokkos::HostSpace;
template std::shared_ptr<Plan<Host>> Plan<Host>::make_measured(MeshState&,
                                                               const std::vector<FieldSpec>&,
                                                               const Tuning&,
                                                               const FieldAddresses&);
template std::string Plan<Host>::report() const;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using Device = Kokkos::DefaultExecutionSpace::memory_space;
template std::shared_ptr<Plan<Device>> Plan<Device>::make_measured(MeshState&,
                                                                   const std::vector<FieldSpec>&,
                                                                   const Tuning&,
                                                                   const FieldAddresses&);
template std::string Plan<Device>::report() const;
#endif

}  // namespace shard::impl
