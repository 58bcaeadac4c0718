// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_MODEL_SCOPE_HPP
#define SHARD_MODEL_IMPL_MODEL_SCOPE_HPP

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/model/impl/recorder.hpp"
#include "shard/model/impl/run_node.hpp"
#include "shard/model/impl/struct_module.hpp"

namespace shard {

/// Stands for a field in a model's function. `Rank` is that of the model's fields.
template <int Rank>
class ModelValue {
 public:
  /// For the library's own use.
  ModelValue(int number, const std::array<Partition, static_cast<std::size_t>(Rank)>& partitions)
      : number_(number), partitions_(partitions) {}
  /// Points of the global domain along dimension d.
  index_t global_extent(int d) const { return partition(d).size(); }
  /// The partition of dimension d.
  const Partition& partition(int d) const { return partitions_[impl::Geometry::at(d)]; }
  /// For the library's own use.
  int number() const { return number_; }

 private:
  int number_;
  std::array<Partition, static_cast<std::size_t>(Rank)> partitions_;
};

namespace impl {

/// Whether a node is the module of this layer, perhaps converted by domain_parallel.
template <class Node, class Layer>
inline constexpr bool is_module_of_layer_v = false;
template <class T, class Memory, class Converted, class Layer>
inline constexpr bool is_module_of_layer_v<Module<T, Memory, Converted>, Layer> = [] {
  if constexpr (requires { typename Converted::serial_type; })
    return std::is_same_v<typename Converted::serial_type, Layer>;
  else
    return std::is_same_v<Converted, Layer>;
}();

/// The argument `m` of a model's function: it records what `run` is called with.
template <class Recorder>
class ModelScope {
 public:
  using T          = typename Recorder::T;
  using Memory     = typename Recorder::Base::memory_space;
  using Cuts       = typename Recorder::Cuts;
  using Partitions = typename Recorder::Partitions;
  using Value      = ModelValue<Cuts::rank>;

  /// `run`: the model's mode.
  ModelScope(Recorder& recorder, const std::shared_ptr<ModelRun>& run)
      : recorder_(recorder), run_(run) {}
  ModelScope(const ModelScope&)            = delete;
  ModelScope& operator=(const ModelScope&) = delete;

  /// Names the modules of a struct's members.
  template <class S, class List>
  void add(const StructModule<S, List>& node) {
    std::apply([&](const auto&... child) { add_members(*node.self, child.module...); },
               node.inner.children);
  }

  /// The value of a model's input, or of an operation's output.
  Value value(int number) const { return {number, recorder_.partitions(number)}; }

  /// y = op(x...): a member of the model's struct (a layer, a block, a struct), or an operation
  /// without parameters. A struct may return several values as a tuple. Collective over the mesh.
  /// Throws ArgumentError, on every rank, for a layer with parameters that isn't a member, a copy
  /// of one for instance.
  template <class Op, class... X>
  auto run(const Op& op, const X&... x) {
    static_assert(sizeof...(X) <= 6, "an operation of a model has at most six inputs");
    static_assert((std::is_same_v<X, Value> && ...),
                  "a model's function runs operations on values that it was given or that run "
                  "returned");
    if constexpr (is_struct_of_modules<Op>())
      return op(*this, x...);
    else
      return value(number_of(op, nullptr, x...));
  }
  /// y = the values one after the other in a dimension. Along channels (1) the others may have
  /// other partitions in space than the first.
  template <class... X>
  Value run(const shard::Concatenate& op, const std::tuple<X...>& x) {
    static_assert(sizeof...(X) <= 6, "an operation of a model has at most six inputs");
    require_dimension("Concatenate", op.dim, Cuts::rank);
    return std::apply(
        [&](const auto&... one) { return value(recorder_.run_joined(op, one.number()...)); }, x);
  }
  /// x in parts of these sizes in a dimension.
  std::vector<Value> run(const Split& op, const Value& x) {
    require_dimension("Split", op.dim, Cuts::rank);
    require_sizes("Split", op.sizes, x.global_extent(op.dim));
    std::vector<Value> parts;
    index_t begin = 0;
    for (const index_t size : op.sizes) {
      parts.push_back(run(Slice{op.dim, begin, begin + size}, x));
      begin += size;
    }
    return parts;
  }
  /// y = op(x), an upsampling layer, or a block that ends with one, whose output takes the
  /// extents and partitions in space of `level`: the finer level of a U-Net.
  template <class Op>
  Value run_like(const Value& level, const Op& op, const Value& x) {
    static_assert(!is_layer_v<Op> || can_meet_v<Op>,
                  "run_like is for a layer whose output may have the extents of a finer level: "
                  "ConvTranspose, Interpolate<..., Meets<2>>");
    const Partitions meet = recorder_.partitions(level.number());
    return value(number_of(op, &meet, x));
  }

 private:
  struct Entry {
    std::function<int(int x, const Partitions* meet)> run;
    std::shared_ptr<const void> module;  ///< that of the layer before conversion
  };
  using Key = std::pair<const void*, const void*>;  ///< a member's address and type

  template <class S, class... Nodes>
  void add_members(const S& self, const Nodes&... nodes) {
    const auto all = std::tie(nodes...);
    add_member<0>(self, all);
  }
  template <std::size_t Child, std::size_t I = 0, class S, class Nodes>
  void add_member(const S& self, const Nodes& nodes) {
    if constexpr (I < member_count_v<S>) {
      const auto& member = std::get<I>(members(self));
      if constexpr (is_node<std::remove_cvref_t<decltype(member)>>()) {
        add_node(member, std::get<Child>(nodes));
        add_member<Child + 1, I + 1>(self, nodes);
      } else {
        add_member<Child, I + 1>(self, nodes);
      }
    }
  }
  template <class Member, class Node>
  void add_node(const Member& member, const Node& node) {
    Entry entry;
    static_assert(layer_inputs<Member>() == 1 || is_module_of_layer_v<Node, Member>,
                  "a layer of several inputs can't be replaced by a converter");
    if constexpr (layer_inputs<Member>() == 1)
      entry.run = [this, &node](int x, const Partitions* meet) {
        return run_node(recorder_, node, x, meet);
      };
    else
      entry.module = std::make_shared<const Module<T, Memory, Member>>(
          member, node.parameters(), node.gradients(), node.frozen_state(), node.buffers(),
          node.run());
    entries_.emplace(Key(&member, &tag_of_type<Member>), std::move(entry));
  }
  template <class Member, class S, class List>
  void add_node(const Member&, const StructModule<S, List>& node) {
    add(node);
  }
  template <class Members, class M>
  void add_node(const Members& array, const ModuleArray<M>& node) {
    std::size_t i = 0;
    for (const auto& member : array) add_node(member, node.items[i++]);
  }

  template <class Op, class... X>
  int number_of(const Op& op, const Partitions* meet, const X&... x) {
    using Plain      = Module<T, Memory, Op>;
    const auto found = entries_.find(Key(&op, &tag_of_type<Op>));
    if constexpr (sizeof...(X) == 1 && is_block_v<Op>) {
      if (found == entries_.end()) throw_not_a_member();
      return found->second.run(x.number()..., meet);
    } else {
      static_assert(layer_inputs<Op>() == 1 || sizeof...(X) == layer_inputs<Op>(),
                    "the layer has another number of inputs");
      if constexpr (sizeof...(X) == 1)
        if (found != entries_.end()) return found->second.run(x.number()..., meet);
      static_assert(require_sharding_rules<Op, Cuts>());
      static_assert(
          !remembers<Op>(),
          "an operation that remembers its last apply, as a model does, can't be a part of "
          "a model: make its struct a member");
      Plain called(op, {}, {}, std::make_shared<bool>(false), {}, run_);
      if (found != entries_.end() && found->second.module != nullptr)
        called = *static_cast<const Plain*>(found->second.module.get());
      else if constexpr (has_parameters_v<Op, T, Memory>)
        throw_not_a_member();
      if constexpr (sizeof...(X) == 1 && can_meet_v<Op>)
        return run_node(recorder_, called, x.number()..., meet);
      else
        return run_aligned(called, std::index_sequence_for<X...>{}, x.number()...);
    }
  }
  /// An operation of several inputs, all with the first one's partitions of batch and space if they
  /// have its extents.
  template <class M, std::size_t... I, class First, class... More>
  int run_aligned(const M& module, std::index_sequence<I...>, First first, More... more) {
    const int in[] = {first, aligned(first, more)...};
    return recorder_.run(module, recorder_.partitions_after(module.layer(), in[I]...), in[I]...);
  }
  int aligned(int first, int value) {
    if (recorder_.is_replicated(first) != recorder_.is_replicated(value)) return value;
    const Partitions to = recorder_.partitions(first), from = recorder_.partitions(value);
    Partitions moved = to;
    moved[1]         = from[1];
    bool same_world  = true;
    for (std::size_t d = 0; d < to.size(); ++d)
      same_world = same_world && (d == 1 || to[d].size() == from[d].size());
    return same_world ? recorder_.moved(value, moved) : value;
  }
  [[noreturn]] static void throw_not_a_member() {
    throw_argument("model",
                   {"its function runs a layer with parameters, or a block, that isn't a member of "
                    "the model's struct: perhaps a copy of one"});
  }

  Recorder& recorder_;
  std::shared_ptr<ModelRun> run_;
  std::map<Key, Entry> entries_;
};

/// The number of inputs of a model's function: the smallest with which it can be called.
template <class S, class Scope, int N = 1>
constexpr int model_inputs() {
  constexpr bool fits = []<int... I>(std::integer_sequence<int, I...>) {
    return std::is_invocable_v<
        const S&, Scope&, decltype((void(I), std::declval<const typename Scope::Value&>()))...>;
  }
  (std::make_integer_sequence<int, N>{});
  static_assert(fits || N < 16,
                "a struct of a model has a function operator()(auto& m, const auto& x...) const of "
                "1 to 16 values");
  if constexpr (fits || N >= 16)
    return N;
  else
    return model_inputs<S, Scope, N + 1>();
}

/// Calls a model's function.
template <class S, class Scope, std::size_t... I>
auto call_model(const S& self, Scope& scope, const std::vector<int>& x, std::index_sequence<I...>) {
  return self(scope, scope.value(x[I])...);
}
template <int Rank>
std::vector<int> value_numbers(const ModelValue<Rank>& y) {
  return {y.number()};
}
template <class... Values>
std::vector<int> value_numbers(const std::tuple<Values...>& y) {
  return std::apply([](const auto&... one) { return std::vector<int>{one.number()...}; }, y);
}

}  // namespace impl
}  // namespace shard

#endif
