// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_SEQUENTIAL_HPP
#define SHARD_MODEL_SEQUENTIAL_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/impl/layer_call.hpp"
#include "shard/model/impl/struct_module.hpp"
#include "shard/model/module.hpp"
#include "shard/model/parameter_arena.hpp"

namespace shard {

namespace impl {

template <class Layer>
struct Unnamed {
  static constexpr FixedString<1> name{""};
  using type = Layer;
  static const Layer& of(const Layer& l) { return l; }
};
// not a specialisation for Named<Name, Layer>: nvcc doesn't deduce the name
template <class Layer>
requires requires {
  typename Layer::layer_type;
  Layer::name.text;
}
struct Unnamed<Layer> {
  static constexpr auto name = Layer::name;
  using type                 = typename Layer::layer_type;
  static const type& of(const Layer& l) { return l.layer; }
};

/// Whether a layer has arrays besides its parameters.
template <class Layer>
inline constexpr bool has_buffers_v = requires(const Layer& l) {
  l.buffer_shapes();
};

/// Makes modules of layers, with parameters from the arenas.
template <class T, class Memory>
struct ModuleBuilder {
  using Arena = ParameterArena<T, Memory>;
  Arena& parameters;
  Arena& gradients;
  ParameterArena<double, Memory>& buffers;
  const std::shared_ptr<ModelRun>& run;

  /// Numbers of the layers' values.
  struct Count {
    index_t parameters = 0, buffers = 0;
    Count operator+(const Count& other) const {
      return {parameters + other.parameters, buffers + other.buffers};
    }
  };
  template <class Layer>
  static Count count(const Layer& layer) {
    Count n;
    if constexpr (has_parameters_v<Layer, T, Memory>) n.parameters = parameter_count(layer);
    if constexpr (has_buffers_v<Layer>)
      for (const ParameterShape& shape : layer.buffer_shapes()) n.buffers += shape.count();
    return n;
  }
  template <class... Layers>
  static Count count(const std::tuple<Layers...>& layers) {
    return std::apply(
        [](const auto&... l) {
          return (count(Unnamed<std::remove_cvref_t<decltype(l)>>::of(l)) + ...);
        },
        layers);
  }
  template <class... Layers>
  static Count count(const Sequence<Layers...>& b) {
    return count(b.layers);
  }
  template <class... Layers>
  static Count count(const Residual<Layers...>& b) {
    return count(b.layers);
  }
  template <class... Layers>
  static Count count(const Concat<Layers...>& b) {
    return count(b.layers);
  }

  template <class X>
  static Count count(const std::vector<X>& items) {
    Count all;
    for (const X& item : items) all = all + count(item);
    return all;
  }
  template <class X, std::size_t N>
  static Count count(const std::array<X, N>& items) {
    Count all;
    for (const X& item : items) all = all + count(item);
    return all;
  }
  template <class S>
  requires(is_struct_of_modules<S>()) static Count count(const S& self) {
    Count all;
    for_each_node(self, [&](auto, const auto& member) { all = all + count(member); });
    return all;
  }

  /// The module of a struct. Modules use the layers in `self`.
  template <class S>
  auto make_struct(const std::string& name, const std::shared_ptr<const S>& self) {
    auto children = members_from<0>(name, self);
    return std::apply(
        [&](auto&... c) {
          using List = ModuleList<std::remove_reference_t<decltype(c)>...>;
          return StructModule<S, List>{self, {{c...}}};
        },
        children);
  }
  template <class Layer>
  auto make(const std::string& name, const Layer& layer) {
    using M = Module<T, Memory, Layer>;
    typename M::Buffers own;
    if constexpr (has_buffers_v<Layer>) own = buffers.take_arrays(name, layer.buffer_shapes());
    if constexpr (has_parameters_v<Layer, T, Memory>) {
      auto values = parameters.take(name, layer);
      return M(layer, values, gradients.take(name, layer), std::make_shared<bool>(false), own, run);
    } else {
      return M(layer, {}, {}, std::make_shared<bool>(false), own, run);
    }
  }
  template <class... Layers>
  auto make(const std::string& name, const Sequence<Layers...>& b) {
    return make(name, b.layers);
  }
  template <class... Layers>
  auto make(const std::string& name, const Residual<Layers...>& b) {
    auto inner = make(name, b.layers);
    return ResidualModule<decltype(inner)>{std::move(inner)};
  }
  template <class... Layers>
  auto make(const std::string& name, const Concat<Layers...>& b) {
    auto inner = make(name, b.layers);
    return ConcatModule<decltype(inner)>{std::move(inner)};
  }
  template <class... Layers>
  auto make(const std::string& prefix, const std::tuple<Layers...>& layers) {
    static_assert(sizeof...(Layers) >= 1, "a model has at least one layer");
    return make_children(prefix, layers, std::index_sequence_for<Layers...>{});
  }

 private:
  /// The modules of the members from I on, one after another, because they fill the arenas.
  template <std::size_t I, class S>
  auto members_from(const std::string& prefix, const std::shared_ptr<const S>& self) {
    if constexpr (I == member_count_v<S>) {
      return std::tuple<>();
    } else {
      const auto& member = std::get<I>(members(*self));
      using Member       = std::remove_cvref_t<decltype(member)>;
      if constexpr (is_node<Member>()) {
        constexpr auto own     = member_name_v<S, I>;
        const std::string name = prefix.empty() ? own.text : prefix + "." + own.text;
        auto module            = make_member(name, std::shared_ptr<const Member>(self, &member));
        std::tuple<Child<own, decltype(module)>> first{{std::move(module)}};
        return std::tuple_cat(std::move(first), members_from<I + 1>(prefix, self));
      } else {
        return members_from<I + 1>(prefix, self);
      }
    }
  }
  template <class Member>
  auto make_member(const std::string& name, const std::shared_ptr<const Member>& member) {
    if constexpr (is_struct_of_modules<Member>())
      return make_struct(name, member);
    else if constexpr (!std::is_void_v<typename ArrayItem<Member>::type>)
      return make_array(name, member);
    else
      return make(name, *member);
  }
  template <class Array>
  auto make_array(const std::string& name, const std::shared_ptr<const Array>& array) {
    using Item = typename ArrayItem<Array>::type;
    using M    = decltype(make_member(name, std::shared_ptr<const Item>()));
    ModuleArray<M> modules;
    for (const Item& item : *array)
      modules.items.push_back(make_member(name + "." + std::to_string(modules.items.size()),
                                          std::shared_ptr<const Item>(array, &item)));
    return modules;
  }

  template <class... Layers, std::size_t... I>
  auto make_children(const std::string& prefix, const std::tuple<Layers...>& layers,
                     std::index_sequence<I...>) {
    // braces guarantee the order in which the arenas are filled
    std::tuple children{make_child<I>(prefix, std::get<I>(layers))...};
    return std::apply(
        [](auto&... c) { return ModuleList<std::remove_reference_t<decltype(c)>...>{{c...}}; },
        children);
  }
  template <std::size_t I, class Layer>
  auto make_child(const std::string& prefix, const Layer& layer) {
    using Inner = Unnamed<Layer>;
    static_assert(
        layer_inputs<typename Inner::type>() == 1,
        "a layer of a list has one input, and this one has several, as attention has "
        "queries, keys and values: make the model a struct (shard::model), whose function "
        "passes them");
    constexpr auto given   = Inner::name;
    const std::string own  = given.size() > 0 ? given.text : std::to_string(I);
    const std::string name = prefix.empty() ? own : prefix + "." + own;
    auto module            = make(name, Inner::of(layer));
    return Child<given, decltype(module)>{std::move(module)};
  }
};

/// A path like "encoder.block1" or "0.2", of which the part [begin, end) names a child.
template <FixedString Path>
struct PathPart {
  static constexpr std::size_t end(std::size_t begin) {
    std::size_t e = begin;
    while (e < Path.size() && Path.text[e] != '.') ++e;
    return e;
  }
  /// The number that the part is, or -1.
  static constexpr int number(std::size_t begin) {
    int n = 0;
    for (std::size_t i = begin; i < end(begin); ++i) {
      if (Path.text[i] < '0' || Path.text[i] > '9') return -1;
      n = 10 * n + (Path.text[i] - '0');
    }
    return end(begin) > begin ? n : -1;
  }
};

/// The position of the child that a part of a path names, by name or by number; -1: none.
template <FixedString Path, std::size_t Begin, class... Children>
constexpr int child_index() {
  const std::size_t length = PathPart<Path>::end(Begin) - Begin;
  const bool named[]       = {
            (Children::name.size() > 0 && Children::name.is(Path.text + Begin, length))...};
  const bool has_name[] = {(Children::name.size() > 0)...};
  for (int i = 0; i < static_cast<int>(sizeof...(Children)); ++i)
    if (named[i]) return i;
  const int n = PathPart<Path>::number(Begin);
  return n >= 0 && n < static_cast<int>(sizeof...(Children)) && !has_name[n] ? n : -1;
}

/// The children of a module that has some.
template <class... Children>
const ModuleList<Children...>& children_of(const ModuleList<Children...>& m) {
  return m;
}
template <class List>
const List& children_of(const ResidualModule<List>& m) {
  return m.inner;
}
template <class List>
const List& children_of(const ConcatModule<List>& m) {
  return m.inner;
}

template <FixedString Path, std::size_t Begin, class Node>
const auto& module_at(const Node& node);
/// The item of an array; throws std::out_of_range if there is none.
template <FixedString Path, std::size_t Begin, class M>
const auto& module_at(const ModuleArray<M>& array) {
  constexpr int index       = PathPart<Path>::number(Begin);
  constexpr std::size_t end = PathPart<Path>::end(Begin);
  static_assert(index >= 0, "the items of an array are named by their numbers");
  const M& item = array.items.at(static_cast<std::size_t>(index));
  if constexpr (end < Path.size())
    return module_at<Path, end + 1>(item);
  else
    return item;
}
template <FixedString Path, std::size_t Begin, class Node>
const auto& module_at(const Node& node) {
  static_assert(
      requires { children_of(node); }, "the path goes on below a layer that has no layers in it");
  return [&]<class... Children>(const ModuleList<Children...>& list) -> const auto& {
    constexpr int index = child_index<Path, Begin, Children...>();
    static_assert(index >= 0, "the model has no layer of this name");
    constexpr std::size_t end = PathPart<Path>::end(Begin);
    const auto& child         = std::get<static_cast<std::size_t>(index)>(list.children).module;
    if constexpr (end < Path.size())
      return module_at<Path, end + 1>(child);
    else
      return child;
  }
  (children_of(node));
}

/// Calls visit(name, module) for each layer, in order.
template <class T, class Memory, class Layer, class Visit>
void for_each_module(const std::string& name, const Module<T, Memory, Layer>& m,
                     const Visit& visit) {
  visit(name, m);
}
template <class Node, class Visit>
requires requires(const Node& n) { children_of(n); }
void for_each_module(const std::string& prefix, const Node& node, const Visit& visit);
template <class M, class Visit>
void for_each_module(const std::string& prefix, const ModuleArray<M>& array, const Visit& visit) {
  std::size_t i = 0;
  for (const M& item : array.items)
    for_each_module(prefix + "." + std::to_string(i++), item, visit);
}
template <class Node, class Visit>
requires requires(const Node& n) { children_of(n); }
void for_each_module(const std::string& prefix, const Node& node, const Visit& visit) {
  std::size_t i = 0;
  std::apply(
      [&](const auto&... child) {
        const auto one = [&](const auto& c) {
          const std::string own = c.name.size() > 0 ? std::string(c.name.text) : std::to_string(i);
          for_each_module(prefix.empty() ? own : prefix + "." + own, c.module, visit);
          ++i;
        };
        (one(child), ...);
      },
      children_of(node).children);
}

/// An unqualified call, so that argument-dependent lookup finds a layer's own `initialise`.
template <class Space, class Layer, class Parameters>
void initialise_layer(const Space& space, const Layer& layer, const Parameters& parameters,
                      std::uint64_t seed, std::uint64_t stream) {
  initialise(space, layer, parameters, seed, stream);
}

}  // namespace impl

/// What a model has in common with its sharded forms: the modules, with memory that all of them
/// share.
template <class T, class Memory, class Root>
class ModelModules {
 public:
  ModelModules() = default;
  /// For the library's own use.
  ModelModules(const Root& root, const ParameterArena<T, Memory>& parameters,
               const ParameterArena<T, Memory>& gradients,
               const ParameterArena<double, Memory>& buffers,
               const std::shared_ptr<impl::ModelRun>& run)
      : root_(root), parameters_(parameters), gradients_(gradients), buffers_(buffers), run_(run) {}

  /// The module of layer `I`.
  template <int I>
  const auto& get() const {
    return std::get<static_cast<std::size_t>(I)>(impl::children_of(root_).children).module;
  }
  /// The module at a path of names and numbers: `get<"encoder.0">()`.
  template <impl::FixedString Path>
  const auto& get() const {
    return impl::module_at<Path, 0>(root_);
  }
  /// All modules; of a sharded model those after conversion.
  const Root& root() const { return root_; }

  /// All parameters, the same on every rank.
  const ParameterArena<T, Memory>& parameters() const { return parameters_; }
  /// This rank's part of their gradients.
  const ParameterArena<T, Memory>& gradients() const { return gradients_; }
  /// The running averages of BatchNorm, under PyTorch's names. The same on every rank (with
  /// BatchStatistics::shard this rank's).
  const ParameterArena<double, Memory>& buffers() const { return buffers_; }

  /// Sets training mode (the default) or evaluation mode (no Dropout, BatchNorm uses its running
  /// averages), also for the original model and all models made from it. Local; call it on every
  /// rank.
  void set_training(bool training) const { run_->training = training; }
  /// Whether it is in training mode.
  bool is_training() const { return run_->training; }

 protected:
  Root root_;                                                                 ///< the modules
  ParameterArena<T, Memory> parameters_;                                      ///< of all layers
  ParameterArena<T, Memory> gradients_;                                       ///< of all parameters
  ParameterArena<double, Memory> buffers_;                                    ///< of all layers
  std::shared_ptr<impl::ModelRun> run_ = std::make_shared<impl::ModelRun>();  ///< the mode
};

/// An unsharded model: layers with their parameters. Made by `sequential`, sharded by
/// `domain_parallel`. Copies share the parameters.
template <class T, class Memory, class Root>
class Model : public ModelModules<T, Memory, Root> {
  using Modules = ModelModules<T, Memory, Root>;
  using Modules::root_;
  using Modules::run_;

 public:
  using value_type   = T;       ///< of the parameters and activations
  using memory_space = Memory;  ///< where they are
  using root_type    = Root;    ///< the modules

  using Modules::Modules;  ///< for the library's own use
  /// The mode, for models made from it.
  const std::shared_ptr<impl::ModelRun>& run() const { return run_; }

  /// Sets all parameters to PyTorch's default initialisation, from a counter, and buffers to their
  /// initial values: the same on every rank. Local.
  template <class Space>
  void initialise(const Space& space, std::uint64_t seed) const {
    std::uint64_t stream = 0;
    impl::for_each_module("", root_, [&](const std::string&, const auto& m) {
      using Layer = typename std::remove_cvref_t<decltype(m)>::layer_type;
      if constexpr (impl::has_parameters_v<Layer, T, Memory>)
        impl::initialise_layer(space, m.layer(), m.parameters(), seed, stream++);
      if constexpr (impl::has_buffers_v<Layer>) m.layer().initialise_buffers(space, m.buffers());
    });
  }
};

namespace impl {

/// A model with arrays for its parameters.
template <class T, class Memory, class Count, class Make>
auto make_model(const Count& count, const Make& make) {
  ParameterArena<T, Memory> parameters("shard::parameters", count.parameters),
      gradients("shard::parameter gradients", count.parameters);
  ParameterArena<double, Memory> buffers("shard::buffers", count.buffers);
  const auto run = std::make_shared<ModelRun>();
  ModuleBuilder<T, Memory> builder{parameters, gradients, buffers, run};
  const auto root = make(builder);
  Model<T, Memory, std::remove_cv_t<decltype(root)>> model(root, parameters, gradients, buffers,
                                                           run);
  const typename Memory::execution_space space;
  model.initialise(space, 0);
  space.fence("shard::model: parameters");
  return model;
}

}  // namespace impl

/// A model of a sequence of layers and blocks (`block`, `residual`, `concat`), by number or name
/// (`named`). Allocates the parameters, with the names of PyTorch's state_dict ("0.weight",
/// "0.bias", "2.0.weight"), and initialises them with the seed 0. Local.
///
///   auto model = shard::sequential<float>(Stem{4, 32}, shard::GroupNorm{8, 32}, shard::SiLU{},
///                                         shard::residual(Conv3{32, 32}, shard::SiLU{}));
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space, class... Layers>
auto sequential(const Layers&... layers) {
  const std::tuple<Layers...> all{layers...};
  return impl::make_model<T, Memory>(impl::ModuleBuilder<T, Memory>::count(all),
                                     [&](auto& builder) { return builder.make("", all); });
}

/// A model that is a struct: its members are layers, blocks (`block`, `residual`, `concat`), such
/// structs, and std::vectors and std::arrays of all of these; other members are its options. It has
/// a function from one or several fields to one, or to a std::tuple, which calls the members:
///
///   struct Block {
///     Conv3 conv1, conv2;
///     shard::SiLU act;
///     auto operator()(auto& m, const auto& x) const {
///       return m.run(shard::Add{}, x, m.run(conv2, m.run(act, m.run(conv1, x))));
///     }
///   };
///   auto model = shard::model<float>(Block{{16, 16}, {16, 16}});
///
/// A member may be called several times (a Dropout has the same mask each time). Parameters are
/// named by the members, as in PyTorch: "conv1.weight", "blocks.0.conv1.weight". They are
/// allocated, and initialised with the seed 0. The struct is an aggregate without base classes, of
/// at most 24 members. Local.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space, class S>
auto model(const S& self) {
  static_assert(
      impl::is_struct_of_modules<S>(),
      "a model is a plain struct (an aggregate) with at least one member that is a layer, "
      "a block or such a struct");
  return impl::make_model<T, Memory>(
      impl::ModuleBuilder<T, Memory>::count(self),
      [&](auto& builder) { return builder.make_struct("", std::make_shared<const S>(self)); });
}

}  // namespace shard

#endif
