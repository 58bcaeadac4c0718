// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <vector>

#include "shard/layers/norm/batch_norm.hpp"
#include "shard/layers/norm/elementwise_layer_norm.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/norm/instance_norm.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/pointwise/dropout.hpp"
#include "shard/layers/pointwise/softmax.hpp"
#include "shard/layers/pointwise/spatial_softmax.hpp"
#include "shard/redistribute/rearrange.hpp"
#include "shard/reduce/cumulative_sum.hpp"
#include "timing.hpp"

namespace {

constexpr index_t channels = 64, rows = 181, columns = 360;

/// x, y and their gradients.
template <class T>
struct Fields {
  Plain<T> x, y, dx, dy;
  Fields(const Grid& mesh, index_t batch)
      : x("x", mesh, {batch, channels, rows, columns}),
        y(x.like("y")),
        dx(x.like("dx")),
        dy(x.like("dy")) {
    fill(x.view());
    fill(dy.view());
  }
  /// x to y; x and dy to dx.
  Work work() const { return {0, 2 * bytes_of(x), 3 * bytes_of(x)}; }
};

template <class T, class Layer>
Case stateless(Layer layer, index_t batch = 1) {
  return [layer, batch](const Grid& mesh, double least) {
    const Space space;
    const Fields<T> f(mesh, batch);
    answer<T>(
        least, f.work(),
        {[&] { layer.apply(space, f.y, f.x); }, [&] { layer.pullback(space, f.dx, f.dy, f.x); }});
  };
}

template <class T, class Layer>
Case with_state(Layer layer, index_t batch = 1) {
  return [layer, batch](const Grid& mesh, double least) {
    const Space space;
    const Fields<T> f(mesh, batch);
    auto state = layer.state(f.x);
    answer<T>(least, f.work(),
              {[&] { layer.apply(space, state, f.y, f.x); },
               [&] { layer.pullback(space, state, f.dx, f.dy, f.x); }});
  };
}

template <class T, class Layer>
Case norm(Layer layer, index_t batch = 1) {
  return [layer, batch](const Grid& mesh, double least) {
    const Space space;
    const Fields<T> f(mesh, batch);
    auto state     = layer.state(f.x);
    Work work      = f.work();
    const auto run = [&](const auto& parameters, const auto& gradients) {
      answer<T>(least, work,
                {[&] { layer.apply(space, state, parameters, f.y, f.x); },
                 [&] { layer.pullback(space, state, parameters, gradients, f.dx, f.dy, f.x); }});
    };
    if constexpr (requires { layer.parameters(mesh, f.x, "p"); }) {
      work.forward_bytes += 2 * bytes_of(f.x);
      work.backward_bytes += 5 * bytes_of(f.x);
      run(layer.parameters(mesh, f.x, "p"), layer.gradients(mesh, f.x, "g"));
    } else {
      run(shard::make_parameters<T>(layer, "p"), shard::make_parameters<T>(layer, "g"));
    }
  };
}

/// An operation of one field, which makes its own y.
template <class T, class Op>
Case operation(Op op) {
  return [op](const Grid& mesh, double least) {
    const Space space;
    const Fields<T> f(mesh, 1);
    const auto y = [&] {
      if constexpr (requires { op.output(f.x); })
        return op.output(f.x);
      else
        return f.x.like("y");
    }();
    const auto dy = y.like("dy");
    fill(dy.view());
    const double bytes = bytes_of(y) * 2;
    answer<T>(least, {0, bytes, bytes_of(f.x) + bytes},
              {[&] { op.apply(space, y, f.x); }, [&] { op.pullback(space, f.dx, dy); }});
  };
}

/// All rows, in another order.
std::vector<index_t> mixed() {
  std::vector<index_t> indices;
  for (index_t i = 0; i < rows; ++i) indices.push_back(i * 37 % rows);
  return indices;
}

template <class T>
Case variance_of_all() {
  return [](const Grid& mesh, double least) {
    const Space space;
    const Fields<T> f(mesh, 1);
    answer<T>(least, {0, 2 * bytes_of(f.x), 3 * bytes_of(f.x)},
              {[&] { shard::variance(space, f.x, 1); },
               [&] { shard::variance_pullback(space, f.dx, f.x, 1.0, 1); }});
  };
}

}  // namespace

// op/type/-, or batch x channels x rows x columns
void add_fields(Cases& cases, bool large) {
  cases.insert({{"relu/float/-", stateless<float>(shard::ReLU{})},
                {"leaky_relu/float/-", stateless<float>(shard::LeakyReLU{})},
                {"silu/float/-", stateless<float>(shard::SiLU{})},
                {"gelu/float/-", stateless<float>(shard::GELU{})},
                {"gelu/double/-", stateless<double>(shard::GELU{})},
                {"gelu_fast/float/-", stateless<float>(shard::GELU{shard::GeluForm::fast})},
                {"gelu_tanh/float/-", stateless<float>(shard::GELU{shard::GeluForm::tanh})},
                {"tanh/float/-", stateless<float>(shard::Tanh{})},
                {"sigmoid/float/-", stateless<float>(shard::Sigmoid{})},
                {"softmax/float/-", stateless<float>(shard::Softmax{})},
                {"softmax/double/-", stateless<double>(shard::Softmax{})},
                {"roll/float/-", operation<float>(shard::Roll(3, 20))},
                {"flip/float/-", operation<float>(shard::Flip(2))},
                {"flip_columns/float/-", operation<float>(shard::Flip(3))},
                {"slice/float/-", operation<float>(shard::Slice(2, 40, 140))},
                {"slice_by_2/float/-", operation<float>(shard::Slice(2, 0, rows, 2))},
                {"index_select/float/-", operation<float>(shard::IndexSelect(2, mixed()))},
                {"cumulative_sum/float/-", operation<float>(shard::CumulativeSum{2})},
                {"cumulative_sum_columns/float/-", operation<float>(shard::CumulativeSum{3})},
                {"variance/float/-", variance_of_all<float>()},
                {"softmax_columns/float/-", with_state<float>(shard::SpatialSoftmax<1>{})},
                {"softmax_rows/float/-", with_state<float>(shard::SpatialSoftmax<0>{})},
                {"drop_path/float/-", with_state<float>(shard::DropPath{0.1, 7})},
                {"rms_norm/float/-", norm<float>(shard::RMSNorm{channels})},
                {"dropout/float/-", with_state<float>(shard::Dropout{0.1, 7})},
                {"group_norm/float/-", norm<float>(shard::GroupNorm{32, channels})},
                {"batch_norm/float/-", norm<float>(shard::BatchNorm{channels})},
                {"instance_norm/float/-", norm<float>(shard::InstanceNorm{channels})},
                {"layer_norm/float/-", norm<float>(shard::LayerNorm{channels})},
                {"layer_norm_all/float/-", norm<float>(shard::SpatialLayerNorm{channels})},
                {"layer_norm_elementwise/float/-",
                 norm<float>(shard::ElementwiseLayerNorm<2>{{channels, rows, columns}})}});
  if (!large) return;
  cases.insert({{"silu/float/8x64x181x360", stateless<float>(shard::SiLU{}, 8)},
                {"gelu/float/8x64x181x360", stateless<float>(shard::GELU{}, 8)},
                {"group_norm/float/8x64x181x360", norm<float>(shard::GroupNorm{32, channels}, 8)}});
}
