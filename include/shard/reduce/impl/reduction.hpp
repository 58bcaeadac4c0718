// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_REDUCTION_HPP
#define SHARD_REDUCE_IMPL_REDUCTION_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/exchange/determinism.hpp"
#include "shard/reduce/impl/reduction_sums.hpp"
#include "shard/reduce/impl/term_kernels.hpp"

namespace shard::impl {

/// The host's part of a reduction: one message for all values (two if exact sums and extrema are
/// mixed).
class ReductionMessage {
 public:
  void begin(std::shared_ptr<RankGroup> group, int values, bool exact);
  void set_kind(int value, ReductionKind kind) { kinds_[static_cast<std::size_t>(value)] = kind; }
  const RankGroup* group() const { return group_.get(); }
  bool is_exact() const { return exact_; }
  int values() const { return static_cast<int>(kinds_.size()); }

  /// Sends this rank's results: `values`, and the digits of the exact sums.
  void start(const double* values, const index_t* digits, bool waits);
  /// Waits for the messages.
  void wait();
  /// Waits, and writes the results of all ranks.
  void finish(double* results);

 private:
  std::shared_ptr<RankGroup> group_;
  std::vector<ReductionKind> kinds_;
  std::vector<double> mine_, all_;
  std::vector<index_t> digits_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool exact_ = false, sums_ = false, gathers_ = false;
};

/// The memory of a reduction in progress.
template <class Memory>
struct ReductionState {
  using Bytes = Kokkos::View<char*, Memory>;
  ReductionMessage message;
  Bytes parts, results;
  typename Bytes::host_mirror_type mirror;
};

/// States that aren't in use, cached in the mesh, so that a second reduction allocates nothing.
template <class Memory>
class ReductionStates : public CachedPlan {
 public:
  using State = std::unique_ptr<ReductionState<Memory>>;
  static std::shared_ptr<ReductionStates> of(MeshState& mesh) {
    const PlanKey key =
        PlanKey::of(KeyKind::reduction_states, std::is_same_v<Memory, Kokkos::HostSpace>);
    return mesh.one_of_its_kind(key, [] { return std::make_shared<ReductionStates>(); });
  }
  State take() {
    if (free_.empty()) return std::make_unique<ReductionState<Memory>>();
    State state = std::move(free_.back());
    free_.pop_back();
    return state;
  }
  void give(State state) { free_.push_back(std::move(state)); }
  std::size_t bytes() const override {
    std::size_t all = 0;
    for (const State& s : free_) all += s->parts.size() + s->results.size();
    return all;
  }

 private:
  std::vector<State> free_;
};

/// Throws ArgumentError: the fields of a reduction are sharded over different ranks.
[[noreturn]] void throw_other_ranks(std::string_view label);

/// Collective over the mesh of `geometry`: throws AgreementError on every rank if sets of different
/// length are reduced.
void require_same_length(const Geometry& geometry, std::size_t fields);

/// Values over all ranks, reduced from the terms of one or several fields' elements. First `add`
/// runs the kernels, then `start` sends one message, `finish` waits for it.
template <class Memory>
class TermReduction {
 public:
  TermReduction(const Geometry& geometry, int values, Determinism order)
      : states_(ReductionStates<Memory>::of(*geometry.mesh)), state_(states_->take()) {
    const bool exact = order == Determinism::ordered;
    state_->message.begin(RankGroup::of(geometry, ~0U), values, exact);
    const auto count = static_cast<std::size_t>(values);
    const auto bytes = count * (sizeof(double) + (exact ? ExactSum::width * sizeof(index_t) : 0));
    if (state_->results.size() < bytes) {
      state_->results = typename ReductionState<Memory>::Bytes("shard::reduction", bytes);
      state_->mirror  = Kokkos::create_mirror_view(state_->results);
    }
  }
  TermReduction(TermReduction&&) noexcept   = default;
  TermReduction& operator=(TermReduction&&) = delete;
  ~TermReduction() {
    if (!state_) return;
    state_->message.wait();
    states_->give(std::move(state_));
  }

  /// Adds a functor's terms to the values from `first` on; values are added in ascending order.
  /// `Order` is the constructor's.
  template <Determinism Order, class Ops, class Space, class Field, class Functor>
  void add(const Space& space, const Field& field, const Functor& functor, int first = 0) {
    static_assert(std::is_same_v<typename Field::memory_space, Memory>);
    using Terms         = FieldTerms<Field, Functor>;
    constexpr int count = Terms::count;
    if (RankGroup::of(field.geometry(), ~0U).get() != state_->message.group())
      throw_other_ranks(field.geometry().label);
    const bool adds = first < used_;
    if (!adds) used_ = first + count;
    bool sums = false, extrema = false;
    for (int n = 0; n < count; ++n) {
      state_->message.set_kind(first + n, Ops::of(n));
      (Ops::of(n) == ReductionKind::sum ? sums : extrema) = true;
    }
    const Terms terms(field, functor);
    if constexpr (Order == Determinism::ordered) {
      if (sums) add_exactly(space, terms, digits() + first * ExactSum::width, adds);
      if (!extrema) return;
    }
    constexpr bool strided = !is_host_space_v<Space>;
    constexpr index_t most = 16384;  // a device's threads
    const index_t length   = strided ? (terms.cells < most ? terms.cells : most) : cells_per_run;
    const index_t parts    = strided ? length : (terms.cells + cells_per_run - 1) / cells_per_run;
    double* const values   = reserve<double>(parts * count);
    launch("shard::reduce", space, parts,
           ReduceTermsKernel<Terms, Ops, strided>{terms, length, values});
    const CombineParts<Ops> combine{values, parts, count, adds, results() + first};
    if constexpr (strided)
      launch_teams("shard::combine_parts", space, count, team_threads<Space>,
                   team_bytes(team_threads<Space>), CombinePartsTeamKernel<Ops>{combine});
    else
      launch("shard::combine_parts", space, index_t{count}, combine);
  }

  /// Fences `space` and sends this rank's values; unless `waits` doesn't wait for the others.
  template <class Space>
  void start(const Space& space, bool waits) {
    Kokkos::deep_copy(space, state_->mirror, state_->results);
    space.fence("shard::reduce: values for the collective");
    const char* const bytes = state_->mirror.data();
    const auto values       = static_cast<std::size_t>(state_->message.values());
    state_->message.start(reinterpret_cast<const double*>(bytes),
                          reinterpret_cast<const index_t*>(bytes + values * sizeof(double)), waits);
  }
  /// Waits; the results of all ranks.
  void finish(double* results) { state_->message.finish(results); }
  bool is_exact() const { return state_->message.is_exact(); }

 private:
  double* results() const { return reinterpret_cast<double*>(state_->results.data()); }
  index_t* digits() const {
    return reinterpret_cast<index_t*>(results() + state_->message.values());
  }
  template <class T>
  T* reserve(index_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (state_->parts.size() < bytes)
      state_->parts = typename ReductionState<Memory>::Bytes("shard::reduction", bytes);
    return reinterpret_cast<T*>(state_->parts.data());
  }

  template <class Space, class Terms>
  void add_exactly(const Space& space, const Terms& terms, index_t* whole, bool adds) {
    constexpr bool host = is_host_space_v<Space>;
    // few parts, because digits take memory; the sum doesn't depend on the parts
    const index_t most      = host ? space.concurrency() : 4096;
    const index_t length    = host ? (terms.cells + most - 1) / most : 1;
    const index_t parts     = terms.cells == 0 ? 0
                              : host           ? (terms.cells + length - 1) / length
                                               : (terms.cells < most ? terms.cells : most);
    constexpr index_t width = index_t{Terms::count} * ExactSum::width;
    index_t* const sums     = reserve<index_t>(parts * width);
    if constexpr (host)
      launch("shard::exact_terms", space, parts, FoldedTerms<Terms>{terms, length, sums});
    else
      launch("shard::exact_terms", space, parts * Terms::count,
             ExactTermsKernel<Terms>{terms, parts, sums});
    launch("shard::merge_digits", space, width, MergeDigitsKernel{sums, parts, width, adds, whole});
  }

  std::shared_ptr<ReductionStates<Memory>> states_;
  typename ReductionStates<Memory>::State state_;
  int used_ = 0;
};

}  // namespace shard::impl

#endif
