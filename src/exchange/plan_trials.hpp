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

#include "copy_builder.hpp"
#include "plan_channel.hpp"
#include "plan_choice.hpp"
#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/base/watchdog.hpp"
#include "shard/exchange/plan.hpp"
#include "upload.hpp"

namespace shard::impl {

/// Stores what leaves every value as it is, bit for bit, when it is added (`subtracted`: when it is
/// subtracted). Not-a-numbers that signal are the exception.
struct StoreNeutral {
  std::byte* to;
  bool subtracted;

  template <class T>
  void operator()() const {
    const double zero = subtracted ? 0.0 : -0.0;
    T typed           = static_cast<T>(zero);
    if constexpr (requires { typed.imag(); }) {
      using Part = typename T::value_type;
      typed      = T(static_cast<Part>(zero), static_cast<Part>(zero));
    }
    std::memcpy(to, &typed, sizeof(T));
  }
};

/// Times plans on the fields that they are made for. What is exchanged was written before, as in a
/// model: arrays that nobody writes stay in the caches of those who read them last, and move
/// several times faster.
template <class Memory>
class Trials {
 public:
  /// Local.
  Trials(const MeshState& mesh, const std::vector<FieldSpec>& fields,
         const FieldAddresses& addresses)
      : comm_(mesh.comm()),
        rank_(mesh.rank()),
        names_(names_of(fields)),
        addresses_(addresses),
        neutral_(2 * widest * fields.size(), std::byte{0}) {
    CopyJobList owned, halos;
    std::vector<Address> places;
    for (std::size_t f = 0; f < fields.size(); ++f)
      places.push_back({static_cast<std::byte*>(addresses.from[f])});
    places.push_back({neutral_.data()});
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const int field       = static_cast<int>(f);
      const PlanBoxes boxes = boxes_of(mesh, fields[f], field);
      for (const PlanBox& box : boxes.sends) add_touch(fields[f], box, field, owned);
      const std::size_t first = 2 * widest * f;
      for (const bool odd : {false, true})
        visit_arithmetic(fields[f].kind,
                         StoreNeutral{neutral_.data() + first + (odd ? widest : 0), odd});
      // the transpose is measured where fields and this lie in the host's memory
      if constexpr (on_host)
        for (const auto* list : {&boxes.receives, &boxes.locals})
          for (const PlanBox& box : *list)
            add_constant(fields[f], box,
                         {static_cast<int>(fields.size()),
                          static_cast<index_t>(first + (box.odd ? widest : 0))},
                         field, halos);
    }
    Tables tables;
    const auto owned_places = tables.add(owned), halo_places = tables.add(halos);
    const std::size_t place = tables.add(places);
    tables_                 = tables.upload<Memory>("shard::touch");
    owned_                  = jobs_at(tables_.data(), owned_places, owned);
    halos_                  = jobs_at(tables_.data(), halo_places, halos);
    places_                 = table_at<Address>(tables_.data(), place);
  }
  Trials(const Trials&)            = delete;
  Trials& operator=(const Trials&) = delete;

  /// The slowest rank's seconds of each plan in each turn: plans run in turns, so that a change of
  /// the machine's pace meets all. Forward runs fill the fields' halos; those of the transpose set
  /// them to zero and leave owned cells as they are. Collective.
  std::vector<Seconds> seconds(const std::vector<std::shared_ptr<Plan<Memory>>>& plans,
                               Direction direction) const {
    constexpr int warm      = 3;
    constexpr bool by_lines = moves_lines_v<Memory, typename Memory::execution_space>;
    std::vector<Seconds> times(plans.size());
    // a plan that came after the same one each time would find what that one leaves in the caches;
    // the order is the same on all ranks
    std::minstd_rand dice;
    std::vector<std::size_t> order(plans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int turn = -warm; turn < static_cast<int>(trial_turns); ++turn) {
      std::shuffle(order.begin(), order.end(), dice);
      for (const std::size_t i : order) {
        run_touch<by_lines>(space_, owned_, places_);
        if (direction == Direction::adjoint)
          run_copies<by_lines>("shard::fill", false, space_, halos_, places_);
        wait();
        {
          const Watched watched(for_others());
          await_mpi("MPI_Barrier", MPI_Barrier, comm_);
        }
        const double begin = MPI_Wtime();
        run(*plans[i], direction);
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

  void run(Plan<Memory>& plan, Direction direction) const {
    plan.finish(space_, plan.start(space_, addresses_, direction));
  }

 private:
  static constexpr bool on_host       = std::is_same_v<Memory, Kokkos::HostSpace>;
  static constexpr std::size_t widest = 16;  // bytes of a value that can be added

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
  std::vector<std::byte> neutral_;
  Kokkos::View<const std::byte*, Memory> tables_;
  CopyJobs owned_, halos_;
  const Address* places_ = nullptr;
};

}  // namespace shard::impl

#endif
