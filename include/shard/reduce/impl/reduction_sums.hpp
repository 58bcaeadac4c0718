// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_REDUCTION_SUMS_HPP
#define SHARD_REDUCE_IMPL_REDUCTION_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/impl/launch.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/exchange/determinism.hpp"
#include "shard/reduce/impl/reduction_kernels.hpp"

namespace shard::impl {

/// Elements of a run. A sum's rounding depends on it.
inline constexpr index_t cells_per_run = 256;

/// Elements of a run that a device's team of threads sums.
inline constexpr index_t cells_per_team_run = 4096;

/// Memory for the runs' results and its mirror, cached in the mesh.
template <class Memory>
class ReductionScratch : public CachedPlan {
 public:
  static std::shared_ptr<ReductionScratch> of(MeshState& mesh) {
    const PlanKey key =
        PlanKey::of(KeyKind::reduction_scratch, std::is_same_v<Memory, Kokkos::HostSpace>);
    return mesh.one_of_its_kind(key, [] { return std::make_shared<ReductionScratch>(); });
  }

  std::size_t bytes() const override { return memory_.size(); }

  template <class T>
  using Values = Kokkos::View<T*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  /// Reserves `count` values; the old contents are lost.
  template <class T>
  Values<T> reserve(index_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > memory_.size()) {
      memory_ = Kokkos::View<char*, Memory>("shard::reduction", bytes);
      mirror_ = Kokkos::create_mirror_view(memory_);
    }
    return Values<T>(reinterpret_cast<T*>(memory_.data()), static_cast<std::size_t>(count));
  }

  /// The reserved values on the host. Fences `space`.
  template <class T, class Space>
  const T* fetch(const Space& space, index_t begin, index_t count) {
    const auto first = static_cast<std::size_t>(begin) * sizeof(T);
    const std::pair<std::size_t, std::size_t> bytes(
        first, first + static_cast<std::size_t>(count) * sizeof(T));
    Kokkos::deep_copy(space, Kokkos::subview(mirror_, bytes), Kokkos::subview(memory_, bytes));
    space.fence("shard::reduction: values for the collective");
    return reinterpret_cast<const T*>(mirror_.data() + first);
  }

 private:
  Kokkos::View<char*, Memory> memory_;
  typename Kokkos::View<char*, Memory>::host_mirror_type mirror_;
};

/// The sum of the terms of this rank's elements, run after run. `Like` determines memory and order.
template <class Sum, class Like, class Term, class Space, class A, class B>
Sum local_sum(const Space& space, const Like& like, const Term& what, CellValues<const A> a,
              CellValues<const B> b) {
  CellRuns runs = cell_runs(like, cells_per_run);
  if (runs.runs() == 0) return Sum(0);
  const auto scratch = ReductionScratch<typename Like::memory_space>::of(*like.geometry().mesh);
  if constexpr (!is_host_space_v<Space>) {
    if (const auto box = box_of_runs(runs, a, b, cells_per_team_run)) {
      constexpr std::size_t bytes = team_bytes(team_threads<Space>);
      runs.length                 = cells_per_team_run;
      const index_t teams         = runs.runs();
      Sum* const sums             = scratch->template reserve<Sum>(teams + 1).data();
      launch_teams("shard::sum", space, teams, team_threads<Space>, bytes,
                   SumRunsTeamKernel<Term, Sum, A, B>{runs, BoxCells<2, int>(*box), what, a.origin,
                                                      b.origin, sums});
      launch_teams("shard::sum_teams", space, 1, team_threads<Space>, bytes,
                   SumTeamsKernel<Sum>{sums, teams, sums + teams});
      return *scratch->template fetch<Sum>(space, teams, 1);
    }
  }
  constexpr int lanes = is_host_space_v<Space> ? 32 : 1;
  const auto sums     = scratch->template reserve<Sum>(runs.runs());
  launch("shard::sum", space, runs.runs(),
         SumRunsKernel<Term, Sum, A, B, lanes>{runs, what, a, b, sums.data()});
  const Sum* const host = scratch->template fetch<Sum>(space, 0, runs.runs());
  Sum sum               = 0;
  for (index_t r = 0; r < runs.runs(); ++r) sum += host[r];
  return sum;
}

/// The exact sum of the terms of this rank's elements, carried.
template <class Like, class Term, class Space, class A, class B>
std::array<index_t, ExactSum::width> local_exact_sum(const Space& space, const Like& like,
                                                     const Term& what, const CellValues<const A>& a,
                                                     const CellValues<const B>& b) {
  std::array<index_t, ExactSum::width> sum{};
  CellRuns runs = cell_runs(like, cells_per_run);
  if (runs.cells == 0) return sum;
  // one run per thread, because digits take memory; the sum doesn't depend on the runs
  const index_t most = is_host_space_v<Space> ? space.concurrency() : 4096;
  if (runs.runs() > most) runs.length = (runs.cells + most - 1) / most;
  const auto scratch = ReductionScratch<typename Like::memory_space>::of(*like.geometry().mesh);
  index_t* const all =
      scratch->template reserve<index_t>((runs.runs() + 1) * ExactSum::width).data();
  index_t* const whole = all + runs.runs() * ExactSum::width;
  // folds support doubles only, so no 64-bit integers
  constexpr bool folds = is_host_space_v<Space> && requires { Term::is_product; }
  &&!(std::is_integral_v<A> && sizeof(A) == 8) && !(std::is_integral_v<B> && sizeof(B) == 8);
  using Kernel = std::conditional_t<folds, FoldedRuns<Term, A, B>, ExactRunsKernel<Term, A, B>>;
  launch("shard::exact_sum", space, runs.runs(), Kernel{runs, what, a, b, all});
  launch("shard::merge_digits", space, index_t{ExactSum::width},
         MergeDigitsKernel{all, runs.runs(), ExactSum::width, false, whole});
  const index_t* const host = scratch->template fetch<index_t>(space, runs.runs() * ExactSum::width,
                                                               index_t{ExactSum::width});
  std::copy_n(host, ExactSum::width, sum.begin());
  ExactSum::carry(sum.data());
  return sum;
}

/// The same over all ranks.
template <class Like, class Term, class Space, class A, class B>
std::array<index_t, ExactSum::width> world_exact_sum(const Space& space, const Like& like,
                                                     const Term& what, const CellValues<const A>& a,
                                                     const CellValues<const B>& b) {
  auto sum = local_exact_sum(space, like, what, a, b);
  RankGroup::of(like.geometry(), ~0U)->sum_integers(sum.data(), ExactSum::width);
  ExactSum::carry(sum.data());
  return sum;
}

/// The sum of the terms of all ranks' elements in the given Order; integers are exact modulo 2^64
/// in any case.
template <Determinism Order, class Sum, class Like, class Term, class Space, class A, class B>
Sum world_sum(const Space& space, const Like& like, const Term& what, const CellValues<const A>& a,
              const CellValues<const B>& b) {
  if constexpr (std::is_same_v<Sum, index_t>) {
    // unsigned, because signed overflow is undefined
    auto sum = static_cast<index_t>(local_sum<std::uint64_t>(space, like, what, a, b));
    RankGroup::of(like.geometry(), ~0U)->sum_integers(&sum, 1);
    return sum;
  } else if constexpr (Order == Determinism::ordered) {
    return ExactSum::value(world_exact_sum(space, like, what, a, b).data());
  } else {
    double sum       = local_sum<double>(space, like, what, a, b);
    const auto group = RankGroup::of(like.geometry(), ~0U);
    std::vector<double> all(static_cast<std::size_t>(group->size()));
    group->sum_few(&sum, 1, all.data());
    return sum;
  }
}

/// The extremum over all ranks. Throws ArgumentError, on every rank, if there are no elements.
template <class T, class Space, class Field>
T world_extremum(const char* function, const Space& space, const Field& x, Extremum which) {
  require_cells(function, x.geometry());
  struct Found {
    T value;
    int any;
  };
  Found mine{};
  const CellRuns runs = cell_runs(x, cells_per_run);
  if (runs.runs() > 0) {
    using A            = typename Field::non_const_value_type;
    const auto scratch = ReductionScratch<typename Field::memory_space>::of(*x.geometry().mesh);
    const auto values  = scratch->template reserve<T>(runs.runs());
    launch("shard::extremum", space, runs.runs(),
           ExtremumRunsKernel<T, A>{runs, which, as_const(cell_values<Field>(x)), values.data()});
    const T* const host = scratch->template fetch<T>(space, 0, runs.runs());
    mine                = {host[0], 1};
    for (index_t r = 1; r < runs.runs(); ++r) mine.value = pick(which, mine.value, host[r]);
  }
  const auto group = RankGroup::of(x.geometry(), ~0U);
  std::vector<Found> all(static_cast<std::size_t>(group->size()));
  group->gather_bytes(&mine, static_cast<int>(sizeof(Found)), all.data());
  Found found{};
  for (const Found& f : all)
    if (f.any != 0) found = {found.any != 0 ? pick(which, found.value, f.value) : f.value, 1};
  if constexpr (std::is_floating_point_v<T>)
    if (found.value != found.value) return std::numeric_limits<T>::quiet_NaN();
  return found.value;
}

/// gradient = scale (rule(a) - offset) for the owned elements, 0 for copies. Asynchronous.
template <class Rule, class Space, class DX, class A>
void set_gradient(const Space& space, const DX& dx, const Rule& rule, const CellValues<const A>& a,
                  double scale, double offset = 0.0) {
  using D = typename DX::value_type;
  static_assert(std::is_same_v<D, float> || std::is_same_v<D, double>,
                "a gradient is a field of float or double that isn't const");
  const CellRuns runs = cell_runs(dx, cells_per_run);
  if (runs.copies.any()) {
    CellRuns all     = runs;
    all.copies       = {};
    const auto zeros = as_const(cell_values<DX>(dx));
    launch("shard::reduction_gradient", space, all.runs(),
           ReductionGradientKernel<ConstantRule, D, D>{all, {}, cell_values<DX>(dx), zeros, 0, 1});
  }
  launch("shard::reduction_gradient", space, runs.runs(),
         ReductionGradientKernel<Rule, D, A>{runs, rule, cell_values<DX>(dx), a, scale, offset});
}

}  // namespace shard::impl

#endif
