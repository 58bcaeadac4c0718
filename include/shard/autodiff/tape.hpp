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
/// the same types; that of a Partial sum is replicated (`cotangent_t`).
///
/// Each part of a value is identified by its memory, so don't overwrite values on the tape before
/// the pullback. Two tuples may share a part, and an operation's output may become a part of one. A
/// part that overlaps the memory of another without being it is an ArgumentError (a subview that
/// isn't the output of an operation on its whole). The tape keeps its values alive. Adjoints are
/// allocated once and reused. Operations are copied. Each call is collective if the operation is;
/// all ranks must record the same operations in the same order.
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
    const auto y = impl::make_output(op, x...);
    using Y      = std::remove_cv_t<decltype(y)>;
    using Record = impl::AppliedRecord<impl::TapeRecord<Space>, Space, Op, Y, X...>;
    record(std::make_unique<Record>(table_, op, y, x...), x...);
    return y;
  }

  /// Applies a step `steps` times and returns a new value like x. Stores as many states as the
  /// limit allows, and recomputes the others in the pullback (binomial checkpointing, Griewank and
  /// Walther 2000: the fewest steps). Throws on every rank: ArgumentError if not even one state
  /// fits, or for a negative number of steps; AgreementError if `steps` isn't the same on all
  /// ranks. Collective over x's mesh.
  template <class Step, class X>
  X loop(const Step& step, const X& x, index_t steps, const Checkpoints& bound = {}) {
    const index_t slots =
        impl::allowed_slots(bound, impl::value_bytes(x), steps, impl::value_communicator(x));
    const X y    = impl::like_value(x, "shard::loop");
    using Record = impl::LoopRecord<Space, Step, X>;
    record(std::make_unique<Record>(table_, step, x, y, steps, slots), x);
    return y;
  }

  /// Declares x a constant: its adjoint isn't computed. The tape keeps it alive.
  template <class X>
  void constant(const X& x) {
    std::vector<impl::ValueSlot*> slots;
    impl::append_input(table_, slots, x);
    for (impl::ValueSlot* const slot : slots) slot->wanted = false;
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
    const auto* const x = static_cast<const Y*>(first_.get());
    if (x == nullptr || first_type_ != &impl::type_tag<Y> ||
        !impl::any_filled(impl::slots_of(table_, *x)))
      impl::throw_not_on_tape("Tape::pullback",
                              "the first operation's input is of another type than y, or y doesn't "
                              "depend on it: name the input in a third argument");
    return gradient(*x);
  }
  /// dJ/dx after a pullback, for any x on the tape that y depends on. Parts that y doesn't depend
  /// on are zero.
  template <class X>
  typename impl::CotangentOf<X>::type gradient(const X& x) {
    const auto slots = impl::slots_of(table_, x);
    if (!impl::any_filled(slots))
      impl::throw_not_on_tape("Tape::gradient", "no value given to pullback depends on this value");
    return impl::filled_adjoint(space_, slots.data(), x);
  }

  /// Number of operations and steps that the last pullback recomputed.
  index_t recomputed() const { return recomputed_; }
  /// Number of operations (a loop is one) on the tape.
  index_t size() const { return static_cast<index_t>(records_.size()); }
  /// Clears the tape.
  void clear() {
    records_.clear();
    table_.clear();
    first_.reset();
  }

 private:
  /// Applies an operation to x and others.
  template <class Record, class X, class... More>
  void record(std::unique_ptr<Record> made, const X& x, const More&...) {
    if (first_ == nullptr) {
      first_      = std::make_shared<const X>(x);
      first_type_ = &impl::type_tag<X>;
    }
    // not virtual: GCC 16 inlines other records' apply on a guess, and warns of their members
    made->Record::apply(space_);
    records_.push_back(std::move(made));
  }

  template <class Y, class DY>
  void backward(const Y& y, const DY& dy) {
    const auto slots = impl::slots_of(table_, y);
    if (slots.empty())
      impl::throw_not_on_tape("Tape::pullback", "y doesn't come from an operation on it");
    table_.forget();
    impl::set_adjoint(space_, slots.data(), y, dy);
    recomputed_ = 0;
    for (auto record = records_.rbegin(); record != records_.rend(); ++record)
      recomputed_ += (*record)->pullback(space_);
  }

  Space space_;
  impl::ValueTable table_{"Tape"};
  std::vector<std::unique_ptr<impl::TapeRecord<Space>>> records_;
  std::shared_ptr<const void> first_;  ///< the first operation's input
  const void* first_type_ = nullptr;
  index_t recomputed_     = 0;
};

}  // namespace shard

#endif
