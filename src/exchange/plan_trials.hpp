// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_TRIALS_HPP
#define SHARD_SRC_EXCHANGE_PLAN_TRIALS_HPP

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "job_builder.hpp"
#include "plan_choice.hpp"
#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/exchange/impl/field_plan.hpp"
#include "upload.hpp"

namespace shard::impl {

/// Times plans on the fields that they are made for. Owned elements are rewritten before each
/// trial, as in a model: unwritten arrays stay in the caches of the ranks that read them last, and
/// are copied several times faster.
template <class Memory>
class Trials {
 public:
  /// Local.
  Trials(const MeshState& mesh, const std::vector<FieldSpec>& fields, const std::string& names,
         const FieldAddresses& addresses)
      : comm_(mesh.comm()), rank_(mesh.rank()), names_(names), addresses_(addresses) {
    CopyJobList owned;
    std::vector<Address> places;
    for (std::size_t f = 0; f < fields.size(); ++f)
      places.push_back({static_cast<std::byte*>(addresses.from[f])});
    const Route route = route_of(mesh, fields);
    for (const Piece& piece : route.sends) {
      const auto f = static_cast<std::size_t>(piece.field);
      const Elements source =
          source_elements(route.fields[f], piece, piece.field, fields[f].from_stride);
      add_copy(route.fields[f], piece, source, source, owned);
    }
    Tables tables;
    tables.add(owned, owned_);
    const std::size_t place = tables.add(places);
    tables_                 = tables.upload<Memory>("shard::touch");
    places_.memory          = table_at<Address>(tables_.data(), place);
  }
  Trials(const Trials&)            = delete;
  Trials& operator=(const Trials&) = delete;

  /// The slowest rank's seconds of each plan in each turn: plans alternate, so that a change of the
  /// machine's speed affects all. Fills the fields' halos. Collective.
  std::vector<Seconds> seconds(const std::vector<std::shared_ptr<FieldPlan<Memory>>>& plans) const {
    constexpr int warm = 3;
    std::vector<Seconds> times(plans.size());
    // shuffled, because the plan that ran before leaves its data in the caches; the order is the
    // same on all ranks
    std::minstd_rand dice;
    std::vector<std::size_t> order(plans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int turn = -warm; turn < static_cast<int>(trial_turns); ++turn) {
      std::shuffle(order.begin(), order.end(), dice);
      for (const std::size_t i : order) {
        launch("shard::touch", space_, owned_.cells, TouchKernel{owned_.table(places_)});
        wait();
        {
          const Watched watched(for_others());
          await_mpi("MPI_Barrier", MPI_Barrier, comm_);
        }
        const double begin = MPI_Wtime();
        plans[i]->finish(space_, plans[i]->start(space_, addresses_, Direction::forward));
        wait();
        if (turn >= 0) times[i][static_cast<std::size_t>(turn)] = MPI_Wtime() - begin;
      }
    }
    const Watched watched(for_others());
    for (Seconds& t : times)
      await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, t.data(),
                static_cast<int>(trial_turns), MPI_DOUBLE, MPI_MAX, comm_);
    return times;
  }

 private:
  static constexpr bool on_host = std::is_same_v<Memory, Kokkos::HostSpace>;

  void wait() const {
    if constexpr (!on_host) space_.fence("shard: measuring");
  }

  Wait for_others() const {
    return {.what = "other ranks to try plans", .rank = rank_, .of = &names_};
  }

  const typename Memory::execution_space space_;
  MPI_Comm comm_;
  int rank_;
  std::string names_;
  FieldAddresses addresses_;
  Kokkos::View<const std::byte*, Memory> tables_;
  CopyJobs owned_;
  Addresses places_;
};

}  // namespace shard::impl

#endif
