// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_DOMAIN_PARALLEL_HPP
#define SHARD_MODEL_DOMAIN_PARALLEL_HPP

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/halo_exchange.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/model/impl/model_fields.hpp"
#include "shard/model/sequential.hpp"
#include "shard/model/sharded_model.hpp"

namespace shard {

/// A layer that needs points outside its shard if fields are sharded by `Cuts`: it exchanges its
/// input's halo. Made by `domain_parallel`.
template <class Layer, class... Cuts>
struct DomainParallel : Layer {
  using serial_type = Layer;  ///< the original layer

  DomainParallel() = default;
  /// The layer itself.
  explicit DomainParallel(const Layer& serial) : Layer(serial) {}

  /// The original layer.
  const Layer& layer() const { return *this; }
  /// The halo in spatial dimension `D` for shards that begin and end at multiples of the stride.
  template <int D>
  using aligned_halo = Halo<impl::aligned_sides<Layer>(D).lo, impl::aligned_sides<Layer>(D).hi>;
  /// The halo of its fields in a model, for every partition.
  template <int D>
  using required_halo = Halo<impl::required_sides<Layer>(D).lo, impl::required_sides<Layer>(D).hi>;
  /// A GroupNorm's groups, under PyTorch's name.
  index_t num_groups() const requires requires(const Layer& l) { l.groups, l.channels; }
  { return this->groups; }
  /// Its channels, under PyTorch's name.
  index_t num_channels() const requires requires(const Layer& l) { l.channels; }
  { return this->channels; }
  /// Points of a window along spatial dimension `d`.
  static constexpr int kernel(int d) requires requires { Layer::window(0); }
  { return Layer::window(d).kernel; }
  /// Points from one window to the next along spatial dimension `d`.
  static constexpr int stride(int d) requires requires { Layer::window(0); }
  { return Layer::window(d).stride; }
  /// An Interpolate's rule, under PyTorch's name: "nearest", "linear", "bicubic" or "area".
  static constexpr std::string_view mode() requires requires { Layer::rule; }
  {
    using Rule = std::remove_const_t<decltype(Layer::rule)>;
    return Layer::rule == Rule::nearest ? "nearest"
           : Layer::rule == Rule::cubic ? "bicubic"
           : Layer::rule == Rule::area  ? "area"
                                        : "linear";
  }
  /// The exchange of its input [batch, channel, space...], as an operation.
  static constexpr auto halo_exchange() {
    using Axes = typename impl::CutAxesOf<Layer::dims, Cuts...>::type;
    return []<int... D>(std::integer_sequence<int, D...>) {
      return HaloExchange<
          ShardDim<D + 2, typename Axes::template axis<D>, required_halo_t<Layer, D>,
                   typename impl::BoundaryOfLayer<Layer, D>::type>...>{};
    }
    (std::make_integer_sequence<int, Layer::dims>{});
  }
};

/// The replaced layer has the original's rule.
template <class Layer, class... Cuts>
requires(!requires { Layer::sharding; }) struct sharding_rule<DomainParallel<Layer, Cuts...>>
    : sharding_rule<Layer> {
};

namespace impl {

/// Whether a module's layer is a `Layer<...>`.
template <class M, template <class...> class Layer>
struct IsModuleOfTemplate : std::false_type {};
template <class T, class Memory, template <class...> class Layer, class... Arguments>
struct IsModuleOfTemplate<Module<T, Memory, Layer<Arguments...>>, Layer> : std::true_type {};

/// Whether it is this one.
template <class M, class Layer>
struct IsModuleOf : std::false_type {};
template <class T, class Memory, class Layer>
struct IsModuleOf<Module<T, Memory, Layer>, Layer> : std::true_type {};

/// A converter of modules of a template of layers or of one type. Made by `on`.
template <template <class...> class Layer, class Make>
struct ConverterOf {
  Make make;  ///< from the module, another module
  /// Whether it is for this module.
  template <class M>
  static constexpr bool matches() {
    return IsModuleOfTemplate<M, Layer>::value;
  }
};
/// The same for one type of layer.
template <class Layer, class Make>
struct ConverterOfType {
  Make make;  ///< from the module, another module
  /// Whether it is for this module.
  template <class M>
  static constexpr bool matches() {
    return IsModuleOf<M, Layer>::value;
  }
};

}  // namespace impl

/// A custom converter: replaces modules of any `Layer<...>` by the result of make(module), a module
/// (see `with_layer`) or a block of modules.
template <template <class...> class Layer, class Make>
impl::ConverterOf<Layer, Make> on(const Make& make) {
  return {make};
}
/// The same for one type of layer.
template <class Layer, class Make>
impl::ConverterOfType<Layer, Make> on(const Make& make) {
  return {make};
}

/// Another layer with the same parameters, the same memory.
template <class T, class Memory, class Layer, class Other>
Module<T, Memory, Other> with_layer(const Module<T, Memory, Layer>& m, const Other& layer) {
  return {layer, m.parameters(), m.gradients(), m.frozen_state(), m.buffers(), m.run()};
}

namespace impl {

/// The modules of a model sharded by `Cuts`.
template <class Axes, class... Cuts>
struct Converter {
  template <class Node, class First, class... Rest>
  static constexpr bool any_matches() {
    if constexpr (First::template matches<Node>())
      return true;
    else if constexpr (sizeof...(Rest) > 0)
      return any_matches<Node, Rest...>();
    else
      return false;
  }
  template <class Node, class First, class... Rest>
  static auto custom(const Node& node, const First& first, const Rest&... rest) {
    if constexpr (First::template matches<Node>())
      return first.make(node);
    else
      return custom(node, rest...);
  }

  template <class Node, class... Converters>
  static auto convert(const Node& node, const Converters&... converters) {
    if constexpr (any_matches_of<Node, Converters...>())
      return custom(node, converters...);
    else
      return own(node, converters...);
  }
  template <class Node, class... Converters>
  static constexpr bool any_matches_of() {
    if constexpr (sizeof...(Converters) == 0)
      return false;
    else
      return any_matches<Node, Converters...>();
  }

  template <class T, class Memory, class Layer, class... Converters>
  static auto own(const Module<T, Memory, Layer>& m, const Converters&...) {
    static_assert(require_sharding_rules<Layer, Axes>());
    static_assert(sizeof(LayerWants<Layer, Axes>) > 0, "the layer fits the cuts");
    if constexpr (looks_past_any_shard_v<Layer, Axes>)
      return with_layer(m, DomainParallel<Layer, Cuts...>(m.layer()));
    else
      return m;
  }
  template <class... Children, class... Converters>
  static auto own(const ModuleList<Children...>& list, const Converters&... converters) {
    return std::apply(
        [&](const auto&... c) {
          const auto one = [&](const auto& child) {
            auto m = convert(child.module, converters...);
            return Child<std::remove_cvref_t<decltype(child)>::name, decltype(m)>{std::move(m)};
          };
          return ModuleList<decltype(one(c))...>{{one(c)...}};
        },
        list.children);
  }
  template <class S, class List, class... Converters>
  static auto own(const StructModule<S, List>& m, const Converters&... converters) {
    auto inner = own(m.inner, converters...);
    return StructModule<S, decltype(inner)>{m.self, std::move(inner)};
  }
  template <class M, class... Converters>
  static auto own(const ModuleArray<M>& array, const Converters&... converters) {
    ModuleArray<decltype(convert(std::declval<const M&>(), converters...))> converted;
    for (const M& item : array.items) converted.items.push_back(convert(item, converters...));
    return converted;
  }
  template <class List, class... Converters>
  static auto own(const ResidualModule<List>& m, const Converters&... converters) {
    auto inner = own(m.inner, converters...);
    return ResidualModule<decltype(inner)>{std::move(inner)};
  }
  template <class List, class... Converters>
  static auto own(const ConcatModule<List>& m, const Converters&... converters) {
    auto inner = own(m.inner, converters...);
    return ConcatModule<decltype(inner)>{std::move(inner)};
  }
};

/// Spatial dimensions of the first window in a module, 0 if it has none.
template <class Node>
struct DimsOfNode {
  static constexpr int value = 0;
};
template <class T, class Memory, class Layer>
struct DimsOfNode<Module<T, Memory, Layer>> {
  static constexpr int value = [] {
    if constexpr (requires { Layer::dims; })
      return Layer::dims;
    else
      return 0;
  }();
};
template <class... Children>
struct DimsOfNode<ModuleList<Children...>> {
  static constexpr int value = [] {
    int dims = 0;
    ((dims = dims > 0 ? dims : DimsOfNode<decltype(Children::module)>::value), ...);
    return dims;
  }();
};
template <class S, class List>
struct DimsOfNode<StructModule<S, List>> : DimsOfNode<List> {};
template <class M>
struct DimsOfNode<ModuleArray<M>> : DimsOfNode<M> {};
template <class List>
struct DimsOfNode<ResidualModule<List>> : DimsOfNode<List> {};
template <class List>
struct DimsOfNode<ConcatModule<List>> : DimsOfNode<List> {};

/// The spatial dimensions that a cut requires: none for a plain mesh axis.
template <class C>
inline constexpr int dims_for_cut_v = 0;
template <int Dim, class Axis>
inline constexpr int dims_for_cut_v<ShardDim<Dim, Axis>> = Dim < 0 ? -Dim : Dim - 1;

/// Spatial dimensions of a model: those of its windows, else the smallest number that fits the
/// cuts.
template <class Root, class... Cuts>
inline constexpr int model_dims_v = [] {
  if (DimsOfNode<Root>::value > 0) return DimsOfNode<Root>::value;
  int dims = sizeof...(Cuts) > 0 ? static_cast<int>(sizeof...(Cuts)) : 2;
  ((dims = dims > dims_for_cut_v<Cuts> ? dims : dims_for_cut_v<Cuts>), ...);
  return dims;
}();

}  // namespace impl

/// The model with its fields sharded over the mesh. Layers that need points outside their shard are
/// replaced by DomainParallel<Layer, Cuts...>; parameters are shared. A cut is a mesh axis (the
/// first shards the first spatial dimension, and so on; `Unsharded` skips one) or a
/// `ShardDim<Dim, Axis>`. Converters (see `on`) run first. A layer without a rule for a sharded
/// dimension does not compile. Local.
template <class... Cuts, class T, class Memory, class Root, class... MeshAxes, class... Converters>
auto domain_parallel(const Model<T, Memory, Root>& model, const Mesh<MeshAxes...>& mesh,
                     const Converters&... converters) {
  using Axes      = typename impl::CutAxesOf<impl::model_dims_v<Root, Cuts...>, Cuts...>::type;
  const auto root = impl::Converter<Axes, Cuts...>::own(model.root(), converters...);
  return ShardedModel<T, Memory, std::remove_cv_t<decltype(root)>, Mesh<MeshAxes...>, Axes>(
      mesh, root, model);
}

/// One module: replaces the layer if it needs points outside its shard, with the same parameters.
template <class... Cuts, class T, class Memory, class Layer, class... MeshAxes>
auto domain_parallel(const Module<T, Memory, Layer>& module, const Mesh<MeshAxes...>&) {
  using Axes = typename impl::CutAxesOf<impl::model_dims_v<Module<T, Memory, Layer>, Cuts...>,
                                        Cuts...>::type;
  return impl::Converter<Axes, Cuts...>::own(module);
}

}  // namespace shard

#endif
