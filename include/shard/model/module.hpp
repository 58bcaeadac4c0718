// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_MODULE_HPP
#define SHARD_MODEL_MODULE_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/layers/parameters.hpp"

namespace shard {

/// The position of a training run.
struct ModelMark {
  std::uint64_t step = 0;      ///< how often it was applied in training
  bool again         = false;  ///< the next apply is a repetition: running averages don't change
};

namespace impl {

template <class Layer, class T, class Memory>
inline constexpr bool has_parameters_v = requires {
  typename Layer::template Parameters<T, Memory>;
};

/// The parameters of a layer without parameters.
struct NoParameters {};

/// The mode of a model, shared with all models made from it.
struct ModelRun {
  bool training = true;  ///< training or evaluation mode
  ModelMark mark;        ///< of the current apply
};

template <class Layer, class T, class Memory>
struct ParametersOf {
  using type = NoParameters;
};
template <class Layer, class T, class Memory>
requires has_parameters_v<Layer, T, Memory>
struct ParametersOf<Layer, T, Memory> {
  using type = typename Layer::template Parameters<T, Memory>;
};

/// A string as a template argument.
template <std::size_t N>
struct FixedString {
  char text[N] = {};

  constexpr FixedString() = default;
  constexpr FixedString(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: implicit
  static constexpr std::size_t size() { return N - 1; }
  constexpr bool is(const char* other, std::size_t length) const {
    return length == N - 1 && std::equal(text, text + (N - 1), other);
  }
};

}  // namespace impl

/// A layer with its parameters and their gradients, which are in the model's two arrays. Copies
/// share them.
template <class T, class Memory, class Layer>
class Module {
 public:
  using value_type   = T;       ///< of the parameters
  using memory_space = Memory;  ///< where they are
  using layer_type   = Layer;   ///< the layer's type
  /// Views into the model's array.
  using Parameters = typename impl::ParametersOf<Layer, T, Memory>::type;

  Module() = default;
  /// State besides parameters: a norm's running averages.
  using Buffers = Kokkos::View<double*, Kokkos::LayoutRight, Memory>;

  /// A layer with existing parameters, for converters.
  Module(const Layer& layer, const Parameters& parameters, const Parameters& gradients,
         std::shared_ptr<bool> frozen, const Buffers& buffers = {},
         std::shared_ptr<impl::ModelRun> run = std::make_shared<impl::ModelRun>())
      : layer_(layer),
        parameters_(parameters),
        gradients_(gradients),
        frozen_(std::move(frozen)),
        buffers_(buffers),
        run_(std::move(run)) {}

  /// The layer.
  const Layer& layer() const { return layer_; }
  /// All parameters of the layer.
  const Parameters& parameters() const { return parameters_; }
  /// This rank's part of their gradients.
  const Parameters& gradients() const { return gradients_; }
  /// The layer's weight.
  const auto& weight() const { return parameters_.weight; }
  /// The layer's bias; an empty View if it has none.
  const auto& bias() const { return parameters_.bias; }

  /// The concatenation of the layer's buffers; an empty View if it has none.
  const Buffers& buffers() const { return buffers_; }
  /// The mode of its model.
  const std::shared_ptr<impl::ModelRun>& run() const { return run_; }

  /// The exchange of its input, for a layer that domain_parallel replaced.
  static constexpr auto halo_exchange() requires requires { Layer::halo_exchange(); }
  { return Layer::halo_exchange(); }

  /// Freezes the parameters, in all modules that share them: no pullback computes their gradients.
  void freeze(bool constant = true) const { *frozen_ = constant; }
  /// True if the parameters are frozen.
  bool is_frozen() const { return *frozen_; }
  /// The flag itself, for modules that share the parameters.
  const std::shared_ptr<bool>& frozen_state() const { return frozen_; }

 private:
  Layer layer_;
  Parameters parameters_, gradients_;
  std::shared_ptr<bool> frozen_ = std::make_shared<bool>(false);
  Buffers buffers_;
  std::shared_ptr<impl::ModelRun> run_ = std::make_shared<impl::ModelRun>();
};

/// A named layer or block. Made by `named`.
template <impl::FixedString Name, class Layer>
struct Named {
  static constexpr auto name = Name;   ///< the name
  using layer_type           = Layer;  ///< type of the layer
  Layer layer;                         ///< the layer
};
/// A sequence of layers as one layer. Made by `block`.
template <class... Layers>
struct Sequence {
  std::tuple<Layers...> layers;  ///< in order
};
/// y = x + f(x), where f is a sequence of layers. Made by `residual`.
template <class... Layers>
struct Residual {
  std::tuple<Layers...> layers;  ///< of f
};
/// y = the concatenation of the channels of x and f(x). Made by `concat`.
template <class... Layers>
struct Concat {
  std::tuple<Layers...> layers;  ///< of f
};

/// Names a layer, in place of its number: `named<"stem">(Stem{4, 32})`.
template <impl::FixedString Name, class Layer>
Named<Name, Layer> named(const Layer& layer) {
  return {layer};
}
/// A sequence of layers as one layer of a model.
template <class... Layers>
Sequence<Layers...> block(const Layers&... layers) {
  return {{layers...}};
}
/// A residual block: y = x + f(x). f keeps channels and extents.
template <class... Layers>
Residual<Layers...> residual(const Layers&... layers) {
  return {{layers...}};
}
/// A skip connection as in a U-Net: y's channels are x's, then f(x)'s. f keeps the extents; its
/// last upsampling layer takes the skip's partitions.
template <class... Layers>
Concat<Layers...> concat(const Layers&... layers) {
  return {{layers...}};
}

/// The modules of a sequence of layers, each with its name (empty: its number).
template <class... Children>
struct ModuleList {
  std::tuple<Children...> children;  ///< Child<...> in order
};
/// One of them.
template <impl::FixedString Name, class M>
struct Child {
  static constexpr auto name = Name;  ///< empty: its number
  M module;                           ///< a Module, or several
};
/// The module of a Residual.
template <class List>
struct ResidualModule {
  List inner;  ///< of f
};
/// The module of a Concat.
template <class List>
struct ConcatModule {
  List inner;  ///< of f
};

}  // namespace shard

#endif
