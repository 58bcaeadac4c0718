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

/// Where a model's run has come to.
struct ModelMark {
  std::uint64_t step = 0;      ///< how often it was applied in training
  bool again         = false;  ///< the next apply was made before: running averages stay
};

namespace impl {

template <class Layer, class T, class Memory>
inline constexpr bool has_parameters_v = requires {
  typename Layer::template Parameters<T, Memory>;
};

/// In place of the parameters of a layer that has none.
struct NoParameters {};

/// How a model runs: one for it and for all that are made of it.
struct ModelRun {
  bool training = true;  ///< otherwise layers that have it are evaluated
  ModelMark mark;        ///< of the apply that runs
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
  using layer_type   = Layer;   ///< what it computes
  /// Views into the model's array.
  using Parameters = typename impl::ParametersOf<Layer, T, Memory>::type;

  Module() = default;
  /// What a layer has besides parameters: a norm's running averages.
  using Buffers = Kokkos::View<double*, Kokkos::LayoutRight, Memory>;

  /// A layer with parameters that exist: what a converter makes.
  Module(const Layer& layer, const Parameters& parameters, const Parameters& gradients,
         std::shared_ptr<bool> frozen, const Buffers& buffers = {},
         std::shared_ptr<impl::ModelRun> run = std::make_shared<impl::ModelRun>())
      : layer_(layer),
        parameters_(parameters),
        gradients_(gradients),
        frozen_(std::move(frozen)),
        buffers_(buffers),
        run_(std::move(run)) {}

  /// What it computes.
  const Layer& layer() const { return layer_; }
  /// All parameters of the layer.
  const Parameters& parameters() const { return parameters_; }
  /// This rank's part of their gradients.
  const Parameters& gradients() const { return gradients_; }
  /// The layer's weight.
  const auto& weight() const { return parameters_.weight; }
  /// The layer's bias; an empty View where it has none.
  const auto& bias() const { return parameters_.bias; }

  /// All of the layer's buffers one after the other; an empty View where it has none.
  const Buffers& buffers() const { return buffers_; }
  /// How the model runs that it belongs to.
  const std::shared_ptr<impl::ModelRun>& run() const { return run_; }

  /// Of a layer that domain_parallel replaced: the exchange that it makes of its input.
  static constexpr auto halo_exchange() requires requires { Layer::halo_exchange(); }
  { return Layer::halo_exchange(); }

  /// Its parameters are constants from now on, in all modules that share them: no pullback computes
  /// their gradients.
  void freeze(bool constant = true) const { *frozen_ = constant; }
  /// Whether they are.
  bool is_frozen() const { return *frozen_; }
  /// For modules that share these parameters.
  const std::shared_ptr<bool>& frozen_state() const { return frozen_; }

 private:
  Layer layer_;
  Parameters parameters_, gradients_;
  std::shared_ptr<bool> frozen_ = std::make_shared<bool>(false);
  Buffers buffers_;
  std::shared_ptr<impl::ModelRun> run_ = std::make_shared<impl::ModelRun>();
};

/// A layer, or several as a block, under a name: what `named` makes.
template <impl::FixedString Name, class Layer>
struct Named {
  static constexpr auto name = Name;   ///< the name
  using layer_type           = Layer;  ///< of what has it
  Layer layer;                         ///< what has the name
};
/// Layers one after the other, as one: what `block` makes.
template <class... Layers>
struct Sequence {
  std::tuple<Layers...> layers;  ///< in order
};
/// y = x + f(x), f being layers one after the other: what `residual` makes.
template <class... Layers>
struct Residual {
  std::tuple<Layers...> layers;  ///< of f
};
/// y = x and f(x), their channels one after the other: what `concat` makes.
template <class... Layers>
struct Concat {
  std::tuple<Layers...> layers;  ///< of f
};

/// The layer under a name of its own in place of its number: `named<"stem">(Stem{4, 32})`.
template <impl::FixedString Name, class Layer>
Named<Name, Layer> named(const Layer& layer) {
  return {layer};
}
/// Layers one after the other as one layer of a model.
template <class... Layers>
Sequence<Layers...> block(const Layers&... layers) {
  return {{layers...}};
}
/// A residual block: y = x + f(x). f keeps channels and extents.
template <class... Layers>
Residual<Layers...> residual(const Layers&... layers) {
  return {{layers...}};
}
/// A skip connection as in a U-Net: y's channels are x's, then f(x)'s. f keeps the extents; a
/// transposed convolution or an interpolation in it that makes them again takes the skip's.
template <class... Layers>
Concat<Layers...> concat(const Layers&... layers) {
  return {{layers...}};
}

/// The modules of layers one after the other, each with its name (empty: its number).
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
