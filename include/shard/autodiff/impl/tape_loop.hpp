// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_TAPE_LOOP_HPP
#define SHARD_AUTODIFF_IMPL_TAPE_LOOP_HPP

#include <optional>
#include <type_traits>
#include <vector>

#include "shard/autodiff/checkpointing.hpp"
#include "shard/autodiff/impl/tape_records.hpp"

namespace shard::impl {

/// A step applied many times; some states are stored and the others recomputed. The constructor
/// allocates the states, the first pullback the adjoints.
template <class Space, class Step, class State>
class LoopRecord final : public TapeRecord<Space> {
 public:
  LoopRecord(ValueTable& table, const Step& step, const State& first, const State& last,
             index_t steps, index_t slots)
      : step_(step), first_(first), last_(last), steps_(steps), latest_(step) {
    append_input(table, this->inputs.slots, first);
    append_output(table, this->outputs, last, this->inputs.slots);
    this->pass_wanted(has_parameters(step));
    // the tape owns the first state
    for (index_t s = 1; s < slots; ++s) free_.push_back(like_value(first, "shard::checkpoint"));
    for (State& w : work_) w = like_value(first, "shard::state");
    stored_.push_back({0, false, first});
  }

  /// All steps; states are stored where the reversal will begin.
  void apply(const Space& space) override {
    if (steps_ == 0) copy_value(space, last_, first_);
    while (stored_.back().step + 1 < steps_ && !free_.empty()) store_next(space, steps_);
    advance(space, steps_, last_);
    at_last_ = true;
  }

  index_t pullback(const Space& space) override {
    if (!any_filled(this->outputs) || !any_wanted(this->outputs)) return 0;
    applied_         = 0;
    Adjoint dy       = filled_adjoint(space, this->outputs.data(), last_);
    const Adjoint dx = this->inputs.to_write(space, 0, first_);
    bool as_left     = at_last_ && latest_.is_fresh(step_);
    for (index_t end = steps_; end > 0; --end) {
      const State* x  = as_left ? before_last_ : prepare(space, end);
      as_left         = false;
      const Adjoint d = end > 1 ? spare(end % 2) : dx;
      call_pullback(step_, space, d, dy, *x);
      dy = d;
      if (end > 1 && stored_.back().step == end - 1) {
        free_.push_back(stored_.back().state);
        stored_.pop_back();
      }
    }
    if (steps_ == 0) copy_value(space, dx, dy);
    this->inputs.add(space, 0, first_, dx);
    at_last_ = false;
    return applied_;
  }

 private:
  static constexpr bool has_marks = !std::is_same_v<MarkOf<Step>, NoMark>;
  using Adjoint                   = typename CotangentOf<State>::type;
  struct Stored {
    index_t step;  ///< how many steps led to it
    bool applied;  ///< a step was applied to it, so its halos are filled
    State state;
  };

  /// The step after `before` steps: the first time, or again.
  void apply(const Space& space, index_t before, const State& y, const State& x) {
    if (has_marks && before < static_cast<index_t>(marks_.size())) {
      apply_again(step_, space, marks_[static_cast<std::size_t>(before)], y, x);
    } else {
      latest_.apply(step_, space, y, x);
      if constexpr (has_marks) marks_.push_back(latest_.mark());
    }
    ++applied_;
  }
  /// One of the two adjoints between steps.
  const Adjoint& spare(index_t which) {
    std::optional<Adjoint>& place = spare_[which];
    if (!place) place = cotangent_like(first_, "shard::adjoint");
    return *place;
  }

  /// Steps from the last stored state to the state after `to` steps, which is written to `target`:
  /// a separate state or work_[0]. *before_last_ is the state before it.
  void advance(const Space& space, index_t to, const State& target) {
    Stored& from   = stored_.back();
    const State* x = &from.state;
    for (index_t k = from.step; k < to; ++k) {
      const State& y = k + 1 == to ? target : work_[(to - 1 - k) % 2];
      apply(space, k, y, *x);
      from.applied = true;
      before_last_ = x;
      x            = &y;
    }
  }
  /// Stores one more state for the reversal of the steps up to `end`.
  void store_next(const Space& space, index_t end) {
    const index_t from = stored_.back().step;
    const index_t to =
        from + checkpoint_distance(end - from, static_cast<index_t>(free_.size()) + 1);
    const State slot = free_.back();
    free_.pop_back();
    advance(space, to, slot);
    stored_.push_back({to, false, slot});
  }
  /// The state before the last of `end` steps, with that step just applied to it (or, if the step
  /// has no memory, its halos filled).
  const State* prepare(const Space& space, index_t end) {
    while (stored_.back().step + 1 < end && !free_.empty()) store_next(space, end);
    Stored& from = stored_.back();
    if (from.step + 1 == end) {
      if (remembers<Step>() || !from.applied) apply(space, from.step, work_[0], from.state);
      from.applied = true;
      return &from.state;
    }
    advance(space, end - 1, work_[0]);
    apply(space, end - 1, work_[1], work_[0]);
    return &work_[0];
  }

  Step step_;
  State first_, last_;
  index_t steps_;
  State work_[2];
  const State* before_last_ = nullptr;
  std::vector<State> free_;
  std::vector<Stored> stored_;
  std::vector<MarkOf<Step>> marks_;  ///< of all steps
  std::optional<Adjoint> spare_[2];
  Applied<Step> latest_;
  index_t applied_ = 0;
  bool at_last_    = false;  ///< the last step is the last that was applied
};

}  // namespace shard::impl

#endif
