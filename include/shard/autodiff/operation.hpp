// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_OPERATION_HPP
#define SHARD_AUTODIFF_OPERATION_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/impl/value.hpp"
#include "shard/base/wanted.hpp"

/// \file
/// The protocol of differentiable operations. An operation is a struct with
///
///   apply(space, y, x...)                computes y; may fill the halos of x
///   pushforward(space, ty, tx..., x...)  ty = J tx, the tangent of y; may fill the halos of tx
///   pullback(space, dx..., dy, x...)     sets dx = J' dy, the adjoint, from dy = dJ/dy
///
/// all const. x (one or several) must be unchanged since apply, and tx or dx may be `not_wanted`. A
/// linear operation may omit x: pullback(space, dx..., dy), pushforward(space, ty, tx...). pullback
/// adds to the gradients of parameters that the operation holds.
///
/// Optional members:
///
/// - `output(x...)` makes a y for these x, in new memory (default: like the first x).
/// - `static constexpr bool takes_not_wanted = true`: pullback accepts `not_wanted`.
/// - `has_parameters()` is true if pullback adds to gradients of parameters. Then it runs even if
///   no x is differentiated.
/// - `static constexpr bool remembers = true`: pullback and pushforward need state of the last
///   apply (statistics of a norm, activations of a model). `applied()` is a number that differs
///   after any copy of the operation has overwritten the state (see ApplyCount). Tapes, chains and
///   graphs repeat the apply if the number has changed, or before each pullback if there is none.
/// - `mark()` and `set_mark(mark)` are for operations whose state changes at each apply (Dropout,
///   running averages). The mark saved before an apply has a member `again`; set_mark with `again`
///   true makes the next apply repeat that one.

namespace shard {

namespace impl {

template <class Op>
constexpr bool remembers() {
  if constexpr (requires { Op::remembers; })
    return Op::remembers;
  else
    return false;
}

template <class Op>
bool has_parameters(const Op& op) {
  if constexpr (requires { op.has_parameters(); })
    return op.has_parameters();
  else
    return false;
}

/// A y for these x.
template <class Op, class X, class... More>
auto make_output(const Op& op, const X& x, const More&... more) {
  if constexpr (requires { op.output(x, more...); })
    return op.output(x, more...);
  else
    return like_value(x, "shard::output");
}
template <class Op, class... X>
using OutputOf = decltype(make_output(std::declval<const Op&>(), std::declval<const X&>()...));

/// The mark of an operation whose apply has no such state.
struct NoMark {};

template <class Op>
auto mark_of(const Op& op) {
  if constexpr (requires { op.mark(); })
    return op.mark();
  else
    return NoMark{};
}
template <class Op>
using MarkOf = decltype(mark_of(std::declval<const Op&>()));

inline NoMark as_again(const NoMark& mark) { return mark; }
template <class Mark>
requires requires(Mark m) { m.again = true; }
Mark as_again(Mark mark) {
  mark.again = true;
  return mark;
}
template <class... Marks>
std::tuple<Marks...> as_again(const std::tuple<Marks...>& marks) {
  return std::apply([](const auto&... mark) { return std::tuple<Marks...>(as_again(mark)...); },
                    marks);
}

template <class Op, class Mark>
void set_mark(const Op& op, const Mark& mark) {
  if constexpr (!std::is_same_v<Mark, NoMark>) op.set_mark(mark);
}

/// Repeats an apply at this mark.
template <class Op, class Space, class Mark, class Y, class... X>
void apply_again(const Op& op, const Space& space, const Mark& mark, const Y& y, const X&... x) {
  const struct Restore {
    const Op& op;
    Mark now;
    ~Restore() { set_mark(op, now); }
  } restore{op, mark_of(op)};
  set_mark(op, as_again(mark));
  op.apply(space, y, x...);
}

/// What is needed to repeat an apply: the mark before it, and the number of the state after it.
template <class Op>
class Applied {
 public:
  explicit Applied(const Op& op) : mark_(mark_of(op)) {}

  const MarkOf<Op>& mark() const { return mark_; }
  template <class Space, class Y, class... X>
  void apply(const Op& op, const Space& space, const Y& y, const X&... x) {
    mark_ = mark_of(op);
    op.apply(space, y, x...);
    number_ = number_of(op);
  }
  /// Whether the operation's state is that of the last apply.
  bool is_fresh(const Op& op) const {
    return !remembers<Op>() || (has_number && number_ == number_of(op));
  }
  /// Repeats the apply if the operation's state isn't its own. Returns whether it did.
  template <class Space, class Y, class... X>
  bool restore(const Op& op, const Space& space, const Y& y, const X&... x) {
    if constexpr (remembers<Op>()) {
      if (is_fresh(op)) return false;
      apply_again(op, space, mark_, y, x...);
      number_ = number_of(op);
      return true;
    } else {
      return false;
    }
  }

 private:
  static constexpr bool has_number = requires(const Op& op) { op.applied(); };
  static std::uint64_t number_of([[maybe_unused]] const Op& op) {
    if constexpr (has_number)
      return op.applied();
    else
      return 0;
  }

  [[no_unique_address]] MarkOf<Op> mark_;
  std::uint64_t number_ = 0;
};

/// Calls a pullback with or without x.
template <class Op, class Space, class DX, class DY, class X>
void call_pullback(const Op& op, const Space& space, const DX& dx, const DY& dy, const X& x) {
  if constexpr (requires { op.pullback(space, dx, dy, x); })
    op.pullback(space, dx, dy, x);
  else
    op.pullback(space, dx, dy);
}

template <class Op, class Space, class TY, class TX, class X>
void call_pushforward(const Op& op, const Space& space, const TY& ty, const TX& tx, const X& x) {
  if constexpr (requires { op.pushforward(space, ty, tx, x); })
    op.pushforward(space, ty, tx, x);
  else if constexpr (requires { op.pushforward(space, ty, tx); })
    op.pushforward(space, ty, tx);
  else
    static_assert(!std::is_same_v<Op, Op>,
                  "a tangent needs an operation with pushforward(space, ty, tx, x), or "
                  "pushforward(space, ty, tx) if it is linear");
}

}  // namespace impl

/// A composition of operations: y = last(...(first(x))). Allocates the intermediate values once, in
/// the constructor. Made by `chain`.
template <class X, class... Ops>
class Chain {
 public:
  /// Collective if the operations' `output` is.
  explicit Chain(const X& x, const Ops&... ops)
      : ops_(ops...), last_(fill(x)), last_apply_(std::make_shared<LastApply>(ops...)) {}

  static constexpr bool remembers = true;  ///< the values between the operations
  /// Number of applies.
  std::uint64_t applied() const { return last_apply_->number; }
  /// Whether one of the operations has parameters.
  bool has_parameters() const {
    return std::apply([](const auto&... op) { return (impl::has_parameters(op) || ...); }, ops_);
  }

  /// A new output for an x. Collective if the last operation's `output` is.
  auto output(const X&) const { return impl::like_value(last_, "shard::output"); }

  /// y = the composition. Local or collective as the operations.
  template <class Space, class Y>
  void apply(const Space& space, const Y& y, const X& x) const {
    ++last_apply_->number;
    apply_from<0>(space, y, x);
  }
  /// The operations' marks.
  auto mark() const {
    return std::apply(
        [](const auto&... op) { return std::tuple<impl::MarkOf<Ops>...>(impl::mark_of(op)...); },
        ops_);
  }
  /// Sets them.
  void set_mark(const std::tuple<impl::MarkOf<Ops>...>& marks) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (impl::set_mark(std::get<I>(ops_), std::get<I>(marks)), ...);
    }
    (std::index_sequence_for<Ops...>{});
  }
  /// ty = J tx.
  template <class Space, class TY, class TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    push_from<0>(space, ty, tx, x);
  }
  /// dx = J' dy.
  template <class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    pull_from<0>(space, dx, dy, x);
  }

 private:
  static constexpr std::size_t count = sizeof...(Ops);
  static_assert(count >= 1, "a chain has at least one operation");

  template <std::size_t I, class In>
  struct ValuesFrom {
    using Out  = impl::OutputOf<std::tuple_element_t<I, std::tuple<Ops...>>, In>;
    using Rest = typename ValuesFrom<I + 1, Out>::type;
    using type = decltype(std::tuple_cat(std::declval<std::tuple<Out>>(), std::declval<Rest>()));
    using Last = typename ValuesFrom<I + 1, Out>::Last;
  };
  template <class In>
  struct ValuesFrom<count, In> {
    using type = std::tuple<>;
    using Last = In;
  };
  using Values = typename ValuesFrom<0, X>::type;
  using Last   = typename ValuesFrom<0, X>::Last;

  template <std::size_t I = 0, class In>
  Last fill(const In& in) {
    auto& value = std::get<I>(values_);
    value       = impl::make_output(std::get<I>(ops_), in);
    if constexpr (I + 1 == count) {
      return value;
    } else {
      std::get<I>(partners_) = impl::like_value(value, "shard::chain");
      return fill<I + 1>(value);
    }
  }

  template <std::size_t I, class Space, class Y, class In>
  void apply_from(const Space& space, const Y& y, const In& in) const {
    auto& apply = std::get<I>(last_apply_->of);
    if constexpr (I + 1 == count) {
      apply.apply(std::get<I>(ops_), space, y, in);
    } else {
      apply.apply(std::get<I>(ops_), space, std::get<I>(values_), in);
      apply_from<I + 1>(space, y, std::get<I>(values_));
    }
  }
  /// Copies of an operation share its memory, in the chain and elsewhere, so it is applied again
  /// where needed.
  template <std::size_t I, class Space, class In>
  void remember(const Space& space, const In& in) const {
    std::get<I>(last_apply_->of).restore(std::get<I>(ops_), space, std::get<I>(values_), in);
  }
  template <std::size_t I, class Space, class TY, class TX, class In>
  void push_from(const Space& space, const TY& ty, const TX& tx, const In& in) const {
    remember<I>(space, in);
    if constexpr (I + 1 == count) {
      impl::call_pushforward(std::get<I>(ops_), space, ty, tx, in);
    } else {
      impl::call_pushforward(std::get<I>(ops_), space, std::get<I>(partners_), tx, in);
      push_from<I + 1>(space, ty, std::get<I>(partners_), std::get<I>(values_));
    }
  }
  template <std::size_t I, class Space, class DX, class DY, class In>
  void pull_from(const Space& space, const DX& dx, const DY& dy, const In& in) const {
    if constexpr (I + 1 == count) {
      remember<I>(space, in);
      impl::call_pullback(std::get<I>(ops_), space, dx, dy, in);
    } else {
      pull_from<I + 1>(space, std::get<I>(partners_), dy, std::get<I>(values_));
      remember<I>(space, in);
      impl::call_pullback(std::get<I>(ops_), space, dx, std::get<I>(partners_), in);
    }
  }

  std::tuple<Ops...> ops_;
  Values values_, partners_;  // partners: tangents or adjoints
  Last last_;
  struct LastApply {
    explicit LastApply(const Ops&... ops) : of(impl::Applied<Ops>(ops)...) {}
    std::uint64_t number = 0;
    std::tuple<impl::Applied<Ops>...> of;
  };
  std::shared_ptr<LastApply> last_apply_;
};

/// The composition of operations, for values like x. Allocates all memory.
template <class X, class... Ops>
Chain<X, Ops...> chain(const X& x, const Ops&... ops) {
  return Chain<X, Ops...>(x, ops...);
}

}  // namespace shard

#endif
