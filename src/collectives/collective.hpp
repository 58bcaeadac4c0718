// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COLLECTIVES_COLLECTIVE_HPP
#define SHARD_SRC_COLLECTIVES_COLLECTIVE_HPP

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../exchange/transfer.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/same_options.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/collectives/impl/collectives_call.hpp"

namespace shard::impl {

inline constexpr const char* kind_names[] = {"without arithmetic",
                                             "bool",
                                             "int8",
                                             "int16",
                                             "int32",
                                             "int64",
                                             "uint8",
                                             "uint16",
                                             "uint32",
                                             "uint64",
                                             "half_t",
                                             "bhalf_t",
                                             "float32",
                                             "float64",
                                             "complex64",
                                             "complex128"};

/// The extents of a View, without that of dimension `except`, which may differ by rank.
inline std::string dims_of(const CollectiveCall& call, const PlainView& view, int except = -1) {
  std::string words = "[";
  for (int d = 0; d < call.rank; ++d)
    words += (d == 0 ? "" : ", ") + (d == except ? "*" : text(view.extent[Geometry::at(d)]));
  return words + "]";
}

/// One call of a collective. It makes a key of the arguments. For a new key the ranks along the
/// axis compare their arguments, check them and make the steps.
template <class Space>
class Collective {
  using Memory = TransferMemory<Space>;
  using Plan   = TransferPlan<Memory>;

 public:
  Collective(const Space& space, const CollectiveCall& call)
      : space_(space),
        call_(call),
        comm_(call.axis < 0 ? call.mesh->comm() : call.mesh->axis_comm(call.axis)),
        size_(call.axis < 0 ? call.mesh->size() : call.mesh->extent(call.axis)),
        coordinate_(call.axis < 0 ? call.mesh->rank() : call.mesh->coordinate(call.axis)),
        key_(PlanKey::of(KeyKind::collective)) {
    add_to_key(std::string_view(call.function));
    add_to_key(call.to);
    add_to_key(call.from);
    add_to_key(call.rank);
    add_to_key(call.value_size);
    add_to_key(call.kind);
    add_to_key(call.first_is_fast);
    add_to_key(call.op);
    add_to_key(call.scale);
    add_to_key(call.dim);
    add_to_key(call.concat_dim);
    add_to_key(call.root);
    if (const auto limit = environment_text("SHARD_MESSAGE_LIMIT"))
      add_to_key(std::string_view(*limit));
  }

  /// Adds other properties of the call to the key.
  template <class T>
  void add_to_key(const T& value) {
    key_.mix(&value, sizeof(value));
  }
  void add_to_key(std::string_view words) { key_.mix(words.data(), words.size()); }
  void add_to_key(const PlainView& view) {
    key_.mix(view.extent.data(), sizeof(index_t) * static_cast<std::size_t>(call_.rank));
  }

  /// Runs the call by a plan that the axis keeps. `check()` throws for what can't be done: for a
  /// call that is new, and always under SHARD_CHECK=1. `steps()` is called after it.
  template <class Check, class Steps>
  void run(const TransferField* fields, const Check& check, const Steps& steps) {
    const auto group = TransferGroup<Memory>::of(*call_.mesh, call_.axis);
    auto plan        = group->find(key_);
    if (!plan || environment_flag("SHARD_CHECK")) check();
    if (!plan) {
      std::string wrong;
      try {
        plan = std::make_shared<Plan>(steps(), limit_);
        plan->prepare(*group, fields);
      } catch (const std::exception& error) {
        wrong = std::string("no memory for its messages: ") + error.what();
      }
      if (size_ > 1) require_no_error(comm_, call_.function, wrong);
      if (!wrong.empty()) throw Error(wrong);
      group->keep(*call_.mesh, key_, plan);
    }
    plan->run(space_, *group, fields);
  }
  /// The same with the call's Views; field 1 is the View that is written.
  template <class Check, class Steps>
  void run(const Check& check, const Steps& steps) {
    const TransferField fields[] = {between(call_.from, call_.to), between(call_.to, call_.to)};
    run(fields, check, steps);
  }
  /// Runs steps without messages. Local.
  void run_here(std::vector<TransferStep> steps) {
    const TransferField fields[] = {between(call_.from, call_.to)};
    TransferGroup<Memory> here;
    Plan(std::move(steps), 1).run(space_, here, fields);
  }
  TransferField between(const PlainView& from, const PlainView& to) const {
    TransferField field{from.data, to.data, {}, {}};
    for (int d = 0; d < call_.rank; ++d) {
      const auto i            = Geometry::at(d);
      field.read_stride[i]    = from.stride[i] / call_.value_size;
      field.written_stride[i] = to.stride[i] / call_.value_size;
    }
    return field;
  }

  /// Collective: throws on every rank unless all have the same arguments. Along dimension `free`,
  /// if there is one, extents may differ. `wrong`: an error of this rank; if all ranks have the
  /// same, it is thrown as ArgumentError.
  void agree(const std::string& details, int free = -1, std::string wrong = {}) {
    const Watched watched({.what = "other ranks to call a collective", .rank = call_.mesh->rank()});
    index_t limit = 0;
    try {
      limit = message_limit();
    } catch (const ArgumentError& error) {
      wrong = error.what();
    }
    const std::string mine =
        wrong.empty()
            ? std::string(call_.function) + " of " + text(call_.value_size) + "-byte values (" +
                  kind_names[static_cast<std::size_t>(call_.kind)] + "), to " +
                  dims_of(call_, call_.to, free) + " from " + dims_of(call_, call_.from, free) +
                  details + (call_.first_is_fast ? ", both LayoutLeft" : "") +
                  ", messages of at most " + text(limit) + " bytes"
            : wrong + details;
    if (size_ > 1) require_agreement(comm_, call_.function, mine);
    if (!wrong.empty()) throw ArgumentError(wrong);
    limit_ = limit;
  }

  /// A dimension counted from 0.
  int dim(const char* name, int given) const {
    if (given < -call_.rank || given >= call_.rank)
      throw_argument(call_.function,
                     {name, " is ", text(given), "; Views of rank ", text(call_.rank),
                      " have dimensions 0 to ", text(call_.rank - 1), ", or -1 for the last"});
    return given < 0 ? given + call_.rank : given;
  }
  /// Runs checks that throw ArgumentError. If the extents may differ by rank (`by_rank`) it is
  /// collective, and all ranks throw if one does.
  template <class Checks>
  void check(bool by_rank, const Checks& checks) const {
    if (!by_rank || size_ == 1) return checks();
    require_no_error(comm_, call_.function, wrong_in(checks));
  }
  /// The message of the ArgumentError that the checks throw; empty if they don't.
  template <class Checks>
  static std::string wrong_in(const Checks& checks) {
    try {
      checks();
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return {};
  }
  /// Throws unless the extent of `to` in a dimension is `wanted`.
  void require_extent(int d, index_t wanted, const char* why) const {
    const index_t is = call_.to.extent[Geometry::at(d)];
    if (is != wanted)
      throw_argument(call_.function,
                     {"dimension ", text(d), " of the View that is written has extent ", text(is),
                      ", the one that is read ", text(call_.from.extent[Geometry::at(d)]), why,
                      " makes ", text(wanted)});
  }
  void require_divides(int d) const { require_divides(d, call_.from); }
  void require_divides(int d, const PlainView& view) const {
    const index_t n = view.extent[Geometry::at(d)];
    if (n % size_ != 0)
      throw_argument(call_.function, {"dimension ", text(d), " has extent ", text(n), ", which ",
                                      text(size_), " ranks along the axis don't divide"});
  }
  /// Throws unless the Views' extents are equal in all dimensions but these two.
  void require_same(int except = -1, int except_too = -1) const {
    for (int d = 0; d < call_.rank; ++d)
      if (d != except && d != except_too) require_extent(d, call_.from.extent[Geometry::at(d)], "");
  }
  void require_scalable() const {
    const bool scales = call_.kind == ValueKind::f16 || call_.kind == ValueKind::bf16 ||
                        call_.kind == ValueKind::f32 || call_.kind == ValueKind::f64 ||
                        call_.kind == ValueKind::c32 || call_.kind == ValueKind::c64;
    if (call_.scale != 1 && !scales)
      throw_argument(call_.function,
                     {"the scale is ", text_of(call_.scale),
                      " and the values are integers; scale them yourself, or leave it 1"});
  }
  void require_root() const {
    if (call_.root < 0 || call_.root >= size_)
      throw_argument(call_.function, {"the root is ", text(call_.root),
                                      "; the axis has ranks 0 to ", text(size_ - 1)});
  }

  /// All of a View, or `length` indices of it along a dimension from `begin` on.
  PieceBox whole(const PlainView& view) const { return {{}, view.extent}; }
  PieceBox slice(PieceBox box, int d, index_t begin, index_t length) const {
    box.begin[Geometry::at(d)]  = begin;
    box.extent[Geometry::at(d)] = length;
    return box;
  }
  PieceBox slice(const PlainView& view, int d, index_t begin, index_t length) const {
    return slice(whole(view), d, begin, length);
  }
  /// A rank's share of a box that is divided among the ranks.
  PieceBox share(const PieceBox& box, int rank) const {
    return part_of(box, call_.rank, call_.first_is_fast, rank, size_);
  }
  /// A route that copies, or one that combines.
  BoxRoute copying(int fields = 1) const { return BoxRoute(described(), fields); }
  BoxRoute combining(const Reduction& reduction, int fields = 1) const {
    return BoxRoute(described(), fields, &reduction);
  }
  Reduction reduction() const { return {call_.op, false, call_.scale}; }
  /// Calls use(rank) for the other ranks along the axis.
  template <class Use>
  void for_others(const Use& use) const {
    for (int r = 0; r < size_; ++r)
      if (r != coordinate_) use(r);
  }

  /// Values of a View.
  index_t values(const PlainView& view) const { return whole(view).elements(call_.rank); }
  /// Whether there are so few values that a second step would take longer.
  bool is_small() const {
    constexpr index_t small = 65536;
    return size_ == 1 || values(call_.from) * call_.value_size * size_ <= small;
  }
  int size() const { return size_; }
  int coordinate() const { return coordinate_; }

 private:
  RouteField described() const {
    RouteField field;
    field.kind       = call_.kind;
    field.value_size = call_.value_size;
    field.rank       = call_.rank;
    field.left       = call_.first_is_fast;
    return field;
  }

  Space space_;
  const CollectiveCall& call_;
  MPI_Comm comm_;
  int size_, coordinate_;
  PlanKey key_;
  index_t limit_ = 0;
};

}  // namespace shard::impl

#endif
