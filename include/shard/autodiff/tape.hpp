// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_TAPE_HPP
#define SHARD_AUTODIFF_TAPE_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "shard/autodiff/checkpointing.hpp"
#include "shard/autodiff/operation.hpp"
#include "shard/autodiff/impl/tape_loop.hpp"
#include "shard/autodiff/impl/tape_records.hpp"
#include "shard/base/error.hpp"

namespace shard {

namespace impl {

/// Throws ArgumentError: the value isn't on the tape.
[[noreturn]] void throw_not_on_tape(const char* function, const char* what);

}  // namespace impl

/// Records operations as they are applied and runs them backwards:
///
///   shard::Tape tape(space);
///   auto forecast = tape.run(model_step, state);
///   auto gradient = tape.pullback(forecast, misfit);   // misfit = dJ/dforecast
///
/// Values are fields, std::vectors of fields, plain Views, or std::tuples of them. Adjoints have
/// the same types; that of a Partial sum is replicated (`cotangent_t`). A value is identified by
/// its memory, so don't overwrite values on the tape before the pullback. Adjoints are allocated
/// once and reused. Operations are copied. Each call is collective if the operation is; all ranks
/// must record the same operations in the same order.
template <class Space = Kokkos::DefaultExecutionSpace>
class Tape {
 public:
  /// An empty tape, ordered on `space`.
  explicit Tape(const Space& space = Space()) : space_(space) {}

  /// Applies an operation (see operation.hpp) to one or several values and returns the output, a
  /// new value. A value that isn't on the tape is an input; it is differentiated unless it is a
  /// `constant`.
  template <class Op, class... X>
  auto run(const Op& op, const X&... x) {
    (take(x), ...);
    const auto y = impl::make_output(op, x...);
    using Y      = std::remove_cv_t<decltype(y)>;
    auto record  = std::make_unique<impl::AppliedRecord<Space, Op, Y, X...>>(op, y, x...);
    op.apply(space_, y, x...);
    give(y, (impl::slot_of(table_, x).wanted || ...), std::move(record));
    return y;
  }

  /// Applies a step `steps` times and returns a new value like x. Stores as many states as the
  /// limit allows, and recomputes the others in the pullback (binomial checkpointing, Griewank and
  /// Walther 2000: the fewest steps). Throws ArgumentError on every rank if not even one state
  /// fits. Collective over x's mesh.
  template <class Step, class X>
  X loop(const Step& step, const X& x, index_t steps, const Checkpoints& bound = {}) {
    if (steps < 0) impl::throw_argument("Tape::loop", {"can't take ", impl::text(steps), " steps"});
    take(x);
    const X y   = impl::like_value(x, "shard::loop");
    auto record = std::make_unique<impl::LoopRecord<Space, Step, X>>(
        step, x, y, steps,
        impl::allowed_slots(bound, impl::value_bytes(x), steps, impl::value_communicator(x)));
    record->run(space_);
    give(y, impl::slot_of(table_, x).wanted, std::move(record));
    return y;
  }

  /// Declares x a constant: its adjoint isn't computed.
  template <class X>
  void constant(const X& x) {
    impl::slot_of(table_, x).wanted = false;
  }

  /// Runs all operations backwards from y, whose adjoint is dy = dJ/dy, and returns dJ/dx for an x
  /// on the tape. The tape owns the result; the next pullback overwrites it.
  template <class Y, class DY, class X>
  typename impl::CotangentOf<X>::type pullback(const Y& y, const DY& dy, const X& x) {
    backward(y, dy);
    return gradient(x);
  }
  /// The same with respect to the input of the first operation, which has y's type.
  template <class Y, class DY>
  typename impl::CotangentOf<Y>::type pullback(const Y& y, const DY& dy) {
    backward(y, dy);
    if (first_ == nullptr || first_->tag != &impl::type_tag<Y> || !first_->filled)
      impl::throw_not_on_tape("Tape::pullback",
                              "the first operation's input is of another type than y, or y doesn't "
                              "depend on it: name the input in a third argument");
    return *static_cast<const typename impl::CotangentOf<Y>::type*>(first_->adjoint.get());
  }
  /// dJ/dx after a pullback, for any x on the tape that y depends on.
  template <class X>
  typename impl::CotangentOf<X>::type gradient(const X& x) {
    impl::AdjointSlot* const slot = table_.find(impl::identity_of(x));
    if (slot == nullptr || !slot->filled || slot->tag != &impl::type_tag<X>)
      impl::throw_not_on_tape("Tape::gradient", "no value given to pullback depends on this value");
    return *static_cast<const typename impl::CotangentOf<X>::type*>(slot->adjoint.get());
  }

  /// Number of operations and steps that the last pullback recomputed.
  index_t recomputed() const { return recomputed_; }
  /// Number of operations (a loop is one) on the tape.
  index_t size() const { return static_cast<index_t>(records_.size()); }
  /// Clears the tape.
  void clear() {
    records_.clear();
    latest_.clear();
    table_.clear();
    first_ = nullptr;
  }

 private:
  template <class X>
  void take(const X& x) {
    const bool is_new       = table_.find(impl::identity_of(x)) == nullptr;
    impl::AdjointSlot& slot = impl::slot_of(table_, x);
    if (is_new) slot.wanted = true;
    if (first_ == nullptr) first_ = &slot;
  }
  template <class Y>
  void give(const Y& y, bool wanted, std::unique_ptr<impl::TapeRecord<Space>> record) {
    impl::slot_of(table_, y).wanted = wanted;
    latest(record->memory())        = record.get();
    records_.push_back(std::move(record));
  }

  /// The record that an operation's memory belongs to.
  const impl::TapeRecord<Space>*& latest(const void* memory) {
    for (auto& [tag, record] : latest_)
      if (tag == memory) return record;
    latest_.push_back({memory, nullptr});
    return latest_.back().second;
  }

  template <class Y, class DY>
  void backward(const Y& y, const DY& dy) {
    if (table_.find(impl::identity_of(y)) == nullptr)
      impl::throw_not_on_tape("Tape::pullback", "y doesn't come from an operation on it");
    table_.forget();
    impl::AdjointSlot& slot = impl::slot_of(table_, y);
    impl::copy_value(space_, impl::adjoint_in(slot.adjoint, y), dy);
    slot.filled = true;
    recomputed_ = 0;
    for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
      auto*& remembered = latest((*record)->memory());
      recomputed_ += (*record)->pullback(space_, table_, remembered == record->get());
      remembered = record->get();
    }
  }

  Space space_;
  std::vector<std::unique_ptr<impl::TapeRecord<Space>>> records_;
  std::vector<std::pair<const void*, const impl::TapeRecord<Space>*>> latest_;
  impl::AdjointTable table_;
  impl::AdjointSlot* first_ = nullptr;
  index_t recomputed_       = 0;
};

}  // namespace shard

#endif
