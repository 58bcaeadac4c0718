// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_BIAS_NETWORK_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_BIAS_NETWORK_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "shard/layers/attention/attention_bias.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/impl/linear_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

namespace shard {

namespace impl {

/// One stage of a bias's network: a Linear, a LayerNorm if `norm`, a ReLU if `relu`.
struct BiasStage {
  index_t in = 1, out = 1;
  bool bias = true, norm = false, relu = true;
  const char *linear_name = "", *norm_name = "";

  index_t linear_count() const { return out * (in + (bias ? 1 : 0)); }
  index_t count() const { return linear_count() + (norm ? 2 * out : 0); }
};

/// A network that computes a table of biases [row, head] from the coordinates of its rows. Its
/// parameters are arrays one after the other. Activations are [channel][row] but the last ones.
template <class T, class Memory>
struct BiasNetwork {
  using View   = Kokkos::View<T*, Memory>;
  using Double = Kokkos::View<double*, Memory>;

  std::vector<BiasStage> stages;
  index_t rows = 0, widest = 1;
  View coordinates, table, table_gradient, tangent;
  View values, slopes[2];  ///< of each stage its Linear's and its norm's result and its output
  Double statistics, sums, parts;

  /// `at(row, d)` is coordinate d of a row.
  template <class At>
  BiasNetwork(std::vector<BiasStage> all, index_t row_count, const At& at)
      : stages(std::move(all)), rows(row_count) {
    index_t kept = 0, norms = 0;
    for (const BiasStage& s : stages) {
      widest = std::max({widest, s.in, s.out});
      kept += 3 * s.out;
      norms += s.norm ? 2 : 0;
    }
    const auto room = [&](const std::string& label, index_t count) {
      return View(label, static_cast<std::size_t>(count * rows));
    };
    coordinates     = room("shard::bias coordinates", stages[0].in);
    values          = room("shard::bias values", kept);
    tangent         = room("shard::bias tangent", 3 * widest);
    slopes[0]       = room("shard::bias slopes", widest);
    slopes[1]       = room("shard::bias slopes", widest);
    table           = room("shard::bias table", stages.back().out);
    table_gradient  = room("shard::bias table gradient", stages.back().out);
    statistics      = Double("shard::bias statistics", static_cast<std::size_t>(norms * rows));
    sums            = Double("shard::bias sums", static_cast<std::size_t>(2 * widest));
    parts           = Double("shard::bias parts", CellPieces::room<Memory>(widest, rows, 2));
    const auto host = Kokkos::create_mirror_view(coordinates);
    for (index_t d = 0; d < stages[0].in; ++d)
      for (index_t r = 0; r < rows; ++r)
        host(static_cast<std::size_t>(d * rows + r)) = static_cast<T>(at(r, d));
    Kokkos::deep_copy(coordinates, host);
  }

  /// Sets `values` and returns the last stage's result, [row][head].
  template <class Space>
  const T* apply(const Space& space, const T* weights) const {
    const T* in = coordinates.data();
    T *linear = values.data(), *out = linear;
    double* figures = statistics.data();
    for (const BiasStage& s : stages) {
      const index_t size = s.out * rows;
      const bool last    = &s == &stages.back();
      LinearKernels<Space, T>::contract(
          space, last ? in_rows(linear, s.out) : across(linear, s.out), as_const(across(in, s.in)),
          weight_of(s, weights), s.bias ? weights + s.out * s.in : nullptr, 1);
      out = linear;
      if (s.norm) {
        const T* const w = weights + s.linear_count();
        ChannelKernels<Space, T>::norm(space, block(linear + size, s.out),
                                       as_const(block(linear, s.out)), figures, w, w + s.out,
                                       {eps, true});
        figures += 2 * rows;
        out = linear + size;
      }
      if (s.relu) {
        ActivationKernels<Space, T>::apply(space, Activation::relu, 0.0,
                                           block(linear + 2 * size, s.out),
                                           as_const(block(out, s.out)));
        out = linear + 2 * size;
      }
      in = out;
      weights += s.count();
      linear += 3 * size;
    }
    return out;
  }

  /// The tangent of the last stage's result, for a tangent of the weights. After apply.
  template <class Space>
  const T* push(const Space& space, const T* weights, const T* tweights) const {
    using Linear = LinearKernels<Space, T>;
    const T *in = coordinates.data(), *tin = nullptr;
    const T* linear       = values.data();
    const double* figures = statistics.data();
    T* const room[3]      = {tangent.data(), tangent.data() + widest * rows,
                             tangent.data() + 2 * widest * rows};
    int next              = 0;  // each result has its own of the three
    const T* result       = nullptr;
    for (const BiasStage& s : stages) {
      const index_t size = s.out * rows;
      const bool last    = &s == &stages.back();
      const auto rows_to = [&](T* to) { return last ? in_rows(to, s.out) : across(to, s.out); };
      T* to              = room[next++ % 3];
      Linear::contract(space, rows_to(to), as_const(across(in, s.in)), weight_of(s, tweights),
                       s.bias ? tweights + s.out * s.in : nullptr, 1);
      if (tin != nullptr)
        Linear::contract(space, rows_to(to), as_const(across(tin, s.in)), weight_of(s, weights),
                         nullptr, 1, true);
      const T* before = linear;
      if (s.norm) {
        const T *const w = weights + s.linear_count(), *const tw = tweights + s.linear_count();
        T* const normed = room[next++ % 3];
        ChannelKernels<Space, T>::norm_pushforward(
            space, block(normed, s.out), as_const(block(to, s.out)), true,
            as_const(block(linear, s.out)), figures, w, tw, tw + s.out, true);
        figures += 2 * rows;
        to     = normed;
        before = linear + size;
      }
      if (s.relu) {
        T* const active = room[next++ % 3];
        ActivationKernels<Space, T>::times_derivative(
            space, Activation::relu, 0.0, block(active, s.out), as_const(block(to, s.out)),
            as_const(block(before, s.out)));
        to = active;
      }
      result = tin = to;
      in           = s.relu ? linear + 2 * size : before;
      weights += s.count();
      tweights += s.count();
      linear += 3 * size;
    }
    return result;
  }

  /// Adds to the gradients of the weights from `slope`, the gradient of the last stage's result.
  template <class Space>
  void pull(const Space& space, const T* weights, T* gradients, const T* slope) const {
    using Linear  = LinearKernels<Space, T>;
    index_t width = 0, norms = 0, count = 0;
    for (const BiasStage& s : stages) {
      width += 3 * s.out;
      norms += s.norm ? 2 : 0;
      count += s.count();
    }
    int next = 0;  // a result is in the one of the two that its operand isn't in
    for (std::size_t at = stages.size(); at-- > 0;) {
      const BiasStage& s = stages[at];
      const bool last    = at + 1 == stages.size();
      width -= 3 * s.out;
      count -= s.count();
      const T* const linear = values.data() + width * rows;
      const T* const w      = weights + count;
      T* const g            = gradients + count;
      const index_t size    = s.out * rows;
      if (s.relu) {
        T* const to = slopes[next++ % 2].data();
        ActivationKernels<Space, T>::times_derivative(
            space, Activation::relu, 0.0, block(to, s.out), as_const(block(slope, s.out)),
            as_const(block(linear + (s.norm ? size : 0), s.out)));
        slope = to;
      }
      if (s.norm) {
        norms -= 2;
        const double* const figures = statistics.data() + norms * rows;
        const T* const norm         = w + s.linear_count();
        T* const norm_gradient      = g + s.linear_count();
        const auto dy = as_const(block(slope, s.out)), x = as_const(block(linear, s.out));
        ChannelKernels<Space, T>::norm_sums(space, sums.data(), dy, x, figures, parts.data());
        NormKernels<Space, T>::fold_parameters(space, norm_gradient, norm_gradient + s.out,
                                               sums.data(), 1, s.out);
        T* const to = slopes[next++ % 2].data();
        ChannelKernels<Space, T>::norm_pullback(space, block(to, s.out), dy, x, figures, norm,
                                                true);
        slope = to;
      }
      const T* const in = at == 0 ? coordinates.data() : output_of(stages[at - 1], linear);
      const auto dy     = as_const(last ? in_rows(slope, s.out) : across(slope, s.out));
      Linear::add_products(space, {g, s.in, 1}, dy, as_const(across(in, s.in)));
      if (s.bias) Linear::sum_rows(space, g + s.out * s.in, 1, dy);
      if (at == 0) return;
      T* const to = slopes[next++ % 2].data();
      Linear::contract(space, across(to, s.in), dy, {w, 1, s.in}, nullptr, 1);
      slope = to;
    }
  }

 private:
  static constexpr double eps = 1e-5;  // of the LayerNorms

  template <class U>
  Block<U> block(U* origin, index_t channels) const {
    Block<U> b;
    b.origin   = origin;
    b.batch    = 1;
    b.channels = channels;
    b.end[2]   = rows;
    for (int d = 0; d < 4; ++d) b.stride[d] = rows;
    b.stride[0] = channels * rows;
    b.stride[4] = 1;
    return b;
  }
  /// The rows of [channel][row].
  template <class U>
  TensorRows<U> across(U* origin, index_t channels) const {
    TensorRows<U> t;
    t.origin = origin;
    t.rows.append(rows, 1);
    t.length = channels;
    t.step   = rows;
    return t;
  }
  /// The rows of [row][channel].
  template <class U>
  TensorRows<U> in_rows(U* origin, index_t channels) const {
    TensorRows<U> t;
    t.origin = origin;
    t.rows.append(rows, channels);
    t.length = channels;
    return t;
  }
  static Matrix<const T> weight_of(const BiasStage& s, const T* weights) {
    return {weights, s.in, 1};
  }
  /// The output of the stage before the one whose values begin at `linear`.
  const T* output_of(const BiasStage& s, const T* linear) const {
    const index_t size = s.out * rows;
    return linear - 3 * size + (s.relu ? 2 : s.norm ? 1 : 0) * size;
  }
};

inline std::vector<ParameterShape> bias_shapes(const std::vector<BiasStage>& stages) {
  std::vector<ParameterShape> shapes;
  for (const BiasStage& s : stages) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(s.in));
    shapes.push_back({std::string(s.linear_name) + ".weight", {s.out, s.in}, bound});
    if (s.bias) shapes.push_back({std::string(s.linear_name) + ".bias", {s.out}, bound});
    if (!s.norm) continue;
    shapes.push_back({std::string(s.norm_name) + ".weight", {s.out}, 0.0, 1.0});
    shapes.push_back({std::string(s.norm_name) + ".bias", {s.out}, 0.0, 0.0});
  }
  return shapes;
}

/// Base of the biases that a network computes.
template <class Bias>
struct NetworkBias {
  static constexpr bool each_row = false;  ///< the same for all windows

  /// The network's arrays, one after the other.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = ParameterArrays<T, Memory>;

  /// Every dimension counts by differences.
  static constexpr bool relative(int, int) { return true; }

  /// Those of the network's Linears and LayerNorms.
  std::vector<ParameterShape> parameter_shapes(const std::array<index_t, 2>&, index_t heads) const {
    return bias_shapes(self().stages(heads));
  }
  /// The state of one use: the network's values.
  template <class T, class Memory>
  BiasNetwork<T, Memory> state(const std::array<index_t, 2>& sizes, index_t heads) const {
    return {self().stages(heads), (2 * sizes[0] - 1) * (2 * sizes[1] - 1),
            [&](index_t row, index_t d) { return self().coordinate(sizes, row, d); }};
  }
  /// The table, by the network.
  template <class Space, class T, class Memory, class P>
  const T* table(const Space& space, const BiasNetwork<T, Memory>& network,
                 const P& parameters) const {
    const T* const result = network.apply(space, parameters.values.data());
    if (Bias::most == 0.0) return result;
    BiasKernels<Space, T>::bound(space, network.table.data(), result, count(network), Bias::most);
    return network.table.data();
  }
  /// Its tangent.
  template <class Space, class T, class Memory, class P, class TP>
  const T* table_tangent(const Space& space, const BiasNetwork<T, Memory>& network,
                         const P& parameters, const TP& tangents) const {
    const T* const result = network.push(space, parameters.values.data(), tangents.values.data());
    if (Bias::most == 0.0) return result;
    BiasKernels<Space, T>::bound_derivative(space, network.table_gradient.data(), result,
                                            network.table.data(), count(network), Bias::most);
    return network.table_gradient.data();
  }
  /// Where the table's gradient is added.
  template <class Space, class T, class Memory, class G>
  T* table_gradient(const Space& space, const BiasNetwork<T, Memory>& network, const G&) const {
    Kokkos::deep_copy(space, network.table_gradient, T(0));
    return network.table_gradient.data();
  }
  /// Adds to the gradients of the network's parameters.
  template <class Space, class T, class Memory, class P, class G>
  void pull_table(const Space& space, const BiasNetwork<T, Memory>& network, const P& parameters,
                  const G& gradients) const {
    T* const slope = network.table_gradient.data();
    if (Bias::most != 0.0)
      BiasKernels<Space, T>::bound_derivative(space, slope, slope, network.table.data(),
                                              count(network), Bias::most);
    network.pull(space, parameters.values.data(), gradients.values.data(), slope);
  }

 private:
  const Bias& self() const { return static_cast<const Bias&>(*this); }
  template <class Network>
  static index_t count(const Network& network) {
    return static_cast<index_t>(network.table.size());
  }
};

}  // namespace impl

/// The dynamic position bias of CrossFormer (Wang et al. 2021) as miles-credit has it, one number
/// for all heads: a network of the difference of two points' places, (dy, dx) in windows of h x w:
///
///   Linear(2, m), LayerNorm, ReLU, 2 x [Linear(m, m), LayerNorm, ReLU], Linear(m, 1)
///
/// The parameters are named `layers.0.weight` ... `layers.9.bias`, as in miles-credit's
/// DynamicPositionBias. That package evaluates the network for differences of -h to h and -w to w,
/// and then looks them up with the strides of a table of -(h - 1) to h - 1 and -(w - 1) to w - 1.
/// So a pair reads the network's value of another difference: of row r = (dy + h - 1) (2w - 1) + dx
/// + w - 1 it is (floor(r / (2w + 1)) - h, r mod (2w + 1) - w). `published` is that function, which
/// its trained weights need; else the network sees (dy, dx).
struct DynamicBias : impl::NetworkBias<DynamicBias> {
  index_t width  = 16;    ///< m; a quarter of the channels in CrossFormer
  bool published = true;  ///< see above

  static constexpr bool each_head = false;  ///< one number for all heads
  static constexpr double most    = 0.0;    ///< not bounded

  /// A bias with this width.
  constexpr DynamicBias(index_t width_ = 16, bool published_ = true)
      : width(width_), published(published_) {}

 private:
  friend impl::NetworkBias<DynamicBias>;
  std::vector<impl::BiasStage> stages(index_t) const {
    return {{2, width, true, true, true, "layers.0", "layers.1"},
            {width, width, true, true, true, "layers.3", "layers.4"},
            {width, width, true, true, true, "layers.6", "layers.7"},
            {width, 1, true, false, false, "layers.9", ""}};
  }
  double coordinate(const std::array<index_t, 2>& sizes, index_t row, index_t d) const {
    const index_t less = published ? 0 : 1, across = 2 * (sizes[1] - less) + 1;
    return static_cast<double>(d == 0 ? row / across - (sizes[0] - less)
                                      : row % across - (sizes[1] - less));
  }
};

/// The continuous position bias of Swin transformers v2 (Liu et al. 2022, timm's defaults), a
/// number for each head: 16 sigmoid(Linear(2, 512), ReLU, Linear(512, heads) without bias) of the
/// difference (dy, dx) of two points' places. A coordinate is divided by the window's size less 1
/// (or by that of `pretrained`), times 8, and then sign(c) log2(1 + |c|) / 3. Parameters
/// `cpb_mlp.0.weight`, `cpb_mlp.0.bias` and `cpb_mlp.2.weight`.
struct ContinuousBias : impl::NetworkBias<ContinuousBias> {
  index_t width = 512;                  ///< of the hidden layer
  std::array<index_t, 2> pretrained{};  ///< the windows of the training; 0: the same

  static constexpr bool each_head = true;  ///< a number for each head
  static constexpr double most    = 16.0;  ///< biases are in (0, 16)

  /// A bias with this width.
  constexpr ContinuousBias(index_t width_ = 512, const std::array<index_t, 2>& pretrained_ = {})
      : width(width_), pretrained(pretrained_) {}

 private:
  friend impl::NetworkBias<ContinuousBias>;
  std::vector<impl::BiasStage> stages(index_t heads) const {
    return {{2, width, true, false, true, "cpb_mlp.0", ""},
            {width, heads, false, false, false, "cpb_mlp.2", ""}};
  }
  double coordinate(const std::array<index_t, 2>& sizes, index_t row, index_t d) const {
    const auto at   = static_cast<std::size_t>(d);
    const index_t w = sizes[at], across = 2 * sizes[1] - 1;
    const index_t of   = pretrained[at] > 0 ? pretrained[at] : w;
    const double place = static_cast<double>((d == 0 ? row / across : row % across) - (w - 1));
    const double c     = 8.0 * place / static_cast<double>(std::max<index_t>(of - 1, 1));
    return std::copysign(std::log2(1.0 + std::abs(c)) / 3.0, c);
  }
};

}  // namespace shard

#endif
