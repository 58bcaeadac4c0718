// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_IMPL_TAPE_RECORDS_HPP
#define SHARD_AUTODIFF_IMPL_TAPE_RECORDS_HPP

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/operation.hpp"
#include "shard/autodiff/impl/value_table.hpp"

namespace shard::impl {

/// A record of one applied operation.
template <class Space>
struct TapeRecord {
  TapeRecord()                             = default;
  TapeRecord(const TapeRecord&)            = delete;
  TapeRecord& operator=(const TapeRecord&) = delete;
  virtual ~TapeRecord()                    = default;

  virtual void apply(const Space& space) = 0;
  /// Adds to the adjoints of its inputs, if that of its output is filled. Returns the number of
  /// recomputed applies.
  virtual index_t pullback(const Space& space) = 0;

  /// Marks the output as wanted if the operation has parameters or an input is wanted.
  void pass_wanted(bool has_parameters) const {
    const ValueSlot* const* const first = inputs.slots.data();
    const bool wanted = has_parameters || any_wanted(first, first + inputs.slots.size());
    for (ValueSlot* const slot : outputs) slot->wanted = wanted;
  }

  InputAdjoints inputs;
  std::vector<ValueSlot*> outputs;
};

/// Whether an operation's pullback takes its inputs too. A concept, because nvcc 13 evaluates the
/// same expression within a function wrongly.
template <class Op, class Space, class... Arguments>
concept PullsBackWith = requires(const Op& op, const Space& space, const Arguments&... arguments) {
  op.pullback(space, arguments...);
};

/// An operation with its inputs and output, on a tape or in a graph (whose records are a `Base`
/// with more functions).
template <class Base, class Space, class Op, class Y, class... X>
class AppliedRecord : public Base {
 public:
  /// Doesn't apply the operation. Throws ArgumentError as the table.
  AppliedRecord(ValueTable& table, const Op& op, const Y& y, const X&... x)
      : op_(op), y_(y), x_(x...), applied_(op) {
    std::size_t k    = 0;
    const auto input = [&](const auto& one) {
      append_input(table, this->inputs.slots, one);
      behind_[k++] = this->inputs.slots.size();
    };
    (input(x), ...);
    append_output(table, this->outputs, y, this->inputs.slots);
    this->pass_wanted(has_parameters(op));
  }

  void apply(const Space& space) override {
    std::apply([&](const auto&... x) { applied_.apply(op_, space, y_, x...); }, x_);
  }

  index_t pullback(const Space& space) override {
    if (!any_filled(this->outputs)) return 0;
    const bool again = restore(space);
    pull<0>(space, filled_adjoint(space, this->outputs.data(), y_));
    return again ? 1 : 0;
  }

 protected:
  /// Makes the operation's state that of this apply.
  bool restore(const Space& space) {
    return std::apply([&](const auto&... x) { return applied_.restore(op_, space, y_, x...); }, x_);
  }
  /// The number of the first slot of input I.
  std::size_t first_slot(std::size_t I) const { return I == 0 ? 0 : behind_[I - 1]; }

  Op op_;
  Y y_;
  std::tuple<X...> x_;
  Applied<Op> applied_;

 private:
  /// Decides for each x whether its adjoint is wanted, and where it is written; then pulls back.
  template <std::size_t I, class DY, class... DX>
  void pull(const Space& space, const DY& dy, const DX&... dx) {
    if constexpr (I == sizeof...(X)) {
      call(space, std::index_sequence_for<X...>{}, dy, dx...);
    } else {
      const auto& x           = std::get<I>(x_);
      const std::size_t first = first_slot(I);
      if constexpr (takes_not_wanted()) {
        ValueSlot* const* const slots = this->inputs.slots.data();
        if (!any_wanted(slots + first, slots + behind_[I]))
          return pull<I + 1>(space, dy, dx..., not_wanted);
      }
      const auto own = this->inputs.to_write(space, first, x);
      pull<I + 1>(space, dy, dx..., own);
      this->inputs.add(space, first, x, own);
    }
  }
  // not a lambda: g++ 12 can't capture dx there
  template <std::size_t... I, class DY, class... DX>
  void call(const Space& space, std::index_sequence<I...>, const DY& dy, const DX&... dx) {
    if constexpr (PullsBackWith<Op, Space, DX..., DY, X...>)
      op_.pullback(space, dx..., dy, std::get<I>(x_)...);
    else
      op_.pullback(space, dx..., dy);
  }
  /// Whether the operation's pullback accepts not_wanted.
  static constexpr bool takes_not_wanted() {
    if constexpr (requires { Op::takes_not_wanted; })
      return Op::takes_not_wanted;
    else
      return false;
  }

  std::array<std::size_t, sizeof...(X)> behind_;  ///< last slot of each input, plus one
};

}  // namespace shard::impl

#endif
