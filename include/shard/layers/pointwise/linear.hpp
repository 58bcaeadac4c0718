// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_LINEAR_HPP
#define SHARD_LAYERS_POINTWISE_LINEAR_HPP

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/linear_kernels.hpp"
#include "shard/layers/impl/linear_types.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// y[..., m] = sum over n of x[..., n] W[m, n], plus b[m]: a contraction over the last dimension
/// (PyTorch's Linear). Tensors are Kokkos Views or ShardedViews of one value type, float or double;
/// x and y have rank 1 to 6. All functions are local; a sum that is still to be done over ranks is
/// Partial in the types:
///
/// - Axis A shards a leading dimension of x: y, dy and dx are sharded by A there; dW and db are
///   Partial<A, Sum>.
/// - Axis B shards W's rows (m): y's and dy's last dimension, dW's rows and db are sharded by B; dx
///   is Partial<B, Sum>.
/// - Axis C shards W's columns and x's last dimension: y is Partial<C, Sum>; dx's last dimension
///   and dW's columns are sharded by C.
///
/// dy has y's placement, but is replicated over C. Halos are neither read nor written.

namespace shard {

/// The result type of `linear` for a field X and a weight W (a ShardedView or a View), without
/// halos.
template <class X, class W>
using linear_result_t = typename impl::LinearTypes<X, W>::y;
/// The type of its gradient.
template <class X, class W>
using linear_result_gradient_t = typename impl::LinearTypes<X, W>::dy;
/// The types of the gradients of X, W and the bias.
template <class X, class W>
using linear_input_gradient_t = typename impl::LinearTypes<X, W>::dx;
template <class X, class W>
using linear_weight_gradient_t = typename impl::LinearTypes<X, W>::dw;  ///< see the one before
template <class X, class W>
using linear_bias_gradient_t = typename impl::LinearTypes<X, W>::db;  ///< see the one before

namespace impl {

/// Rejects Partial fields with a specific message.
template <class... Tensors>
void require_whole_values(const Tensors&... tensors) {
  const auto ask = [](const auto& t) {
    if constexpr (is_sharded_view_v<std::remove_cvref_t<decltype(t)>>) (void)t.geometry();
  };
  (ask(tensors), ...);
}

/// Checks matching dimensions: y's rows are x's, its last dimension is the weight's dimension
/// `out`, x's last the other one.
template <class Y, class X, class W>
void require_linear(const Y& y, const X& x, const W& weight, int out) {
  const LinearTensor of_y = linear_tensor(y), of_x = linear_tensor(x), of_w = linear_tensor(weight);
  require_linear_rows(of_y, of_x);
  require_linear_dim(of_y, of_y.rank - 1, of_w, out);
  require_linear_dim(of_x, of_x.rank - 1, of_w, 1 - out);
}

/// Contracts to values (not gradients), and marks y as written.
template <class Space, class Y, class X, class W, class T>
void contract(const Space& space, const Y& y, const X& x, const W& weight, const T* start,
              index_t start_step, bool add = false) {
  LinearKernels<Space, T>::contract(space, rows_of(y), as_const(rows_of(x)), weight, start,
                                    start_step, add);
  if constexpr (is_sharded_view_v<Y>)
    if constexpr (!is_partial_field_v<Y>) mark_written(space, y);
}

template <class Y, class X, class W>
void require_forward(const Y& y, const X& x, const W& weight) {
  require_linear_values<Y, X, W>();
  require_whole_values(x, weight);
  require_contractible<X, W>();
  require_placement<same_leading_axes<Y, X>() && std::is_same_v<last_axis<Y>, tensor_axis<W, 0>> &&
                    is_partial_over<Y, typename AxesOf<last_axis<X>>::type>()>();
  require_linear(y, x, weight, 0);
}

/// The linear function with a bias, or added to y.
template <class Space, class Y, class X, class W, class B>
void linear_with_bias(const Space& space, const Y& y, const X& x, const W& weight, const B& bias,
                      bool add) {
  using T = typename Y::non_const_value_type;
  static_assert(static_cast<int>(B::rank) == 1, "a Linear's bias has one dimension");
  require_linear_values<Y, B>();
  require_whole_values(bias);
  require_placement<std::is_same_v<tensor_axis<B, 0>, tensor_axis<W, 0>>>();
  require_forward(y, x, weight);
  require_linear_dim(linear_tensor(y), last_dim<Y>, linear_tensor(bias), 0);
  bool first = true;
  if constexpr (is_sharded_view_v<X>)
    first = x.geometry().dims[Geometry::at(last_dim<X>)].coordinate == 0;
  const auto start = as_const(rows_of(bias));
  contract(space, y, x, as_const(matrix_of(weight)),
           first ? start.origin : static_cast<const T*>(nullptr), start.step, add);
}

}  // namespace impl

/// y[..., m] = sum over n of x[..., n] weight[m, n], in ascending order of n. A host sums blocks of
/// 128 terms, and adds the blocks. Local. Throws ArgumentError if extents, partitions or meshes
/// don't fit.
template <class Space, class Y, class X, class W>
void linear(const Space& space, const Y& y, const X& x, const W& weight) {
  using T = typename Y::non_const_value_type;
  impl::require_forward(y, x, weight);
  impl::contract(space, y, x, impl::as_const(impl::matrix_of(weight)),
                 static_cast<const T*>(nullptr), 0);
}

/// The same plus bias[m], to which the sum is added. The bias is sharded as the weight's rows. If y
/// is Partial, only the first rank along the axes adds it.
template <class Space, class Y, class X, class W, class B>
void linear(const Space& space, const Y& y, const X& x, const W& weight, const B& bias) {
  impl::linear_with_bias(space, y, x, weight, bias, false);
}

/// Sets dx[..., n] = sum over m of dy[..., m] weight[m, n], m ascending as in `linear`.
/// Local; errors as `linear`.
template <class Space, class DX, class DY, class W>
void linear_pullback_input(const Space& space, const DX& dx, const DY& dy, const W& weight) {
  using T = typename DX::non_const_value_type;
  impl::require_linear_values<DX, DY, W>();
  impl::require_whole_values(dy, weight);
  impl::require_placement<
      impl::same_leading_axes<DX, DY>() &&
      std::is_same_v<impl::last_axis<DX>, impl::tensor_axis<W, 1>> &&
      std::is_same_v<impl::last_axis<DY>, impl::tensor_axis<W, 0>> &&
      impl::is_partial_over<DX, typename impl::AxesOf<impl::last_axis<DY>>::type>()>();
  impl::require_linear(dx, dy, weight, 1);
  const auto w = impl::as_const(impl::matrix_of(weight));
  impl::LinearKernels<Space, T>::contract(
      space, impl::rows_of(dx), impl::as_const(impl::rows_of(dy)),
      impl::Matrix<const T>{w.origin, w.column, w.row}, static_cast<const T*>(nullptr), 0);
}

/// dweight[m, n] += sum over all leading indices, ascending, the last the fastest, of dy[..., m]
/// x[..., n]: this rank's part of it. Local; errors as `linear`.
template <class Space, class DW, class DY, class X>
void linear_pullback_weight(const Space& space, const DW& dweight, const DY& dy, const X& x) {
  impl::require_linear_values<DW, DY, X>();
  impl::require_whole_values(dy, x);
  impl::require_contractible<X, DW>();
  impl::require_placement<impl::same_leading_axes<X, DY>() &&
                          std::is_same_v<impl::last_axis<DY>, impl::tensor_axis<DW, 0>> &&
                          impl::is_partial_over<DW, impl::leading_axes<X>>()>();
  impl::require_linear(dy, x, dweight, 0);
  impl::LinearKernels<Space, typename DW::non_const_value_type>::add_products(
      space, impl::matrix_of(dweight), impl::as_const(impl::rows_of(dy)),
      impl::as_const(impl::rows_of(x)));
}

/// dbias[m] += sum over all leading indices, ascending, of dy[..., m]: this rank's part. Local;
/// errors as `linear`.
template <class Space, class DB, class DY>
void linear_pullback_bias(const Space& space, const DB& dbias, const DY& dy) {
  static_assert(static_cast<int>(DB::rank) == 1, "a Linear's bias has one dimension");
  impl::require_linear_values<DB, DY>();
  impl::require_whole_values(dy);
  impl::require_placement<std::is_same_v<impl::last_axis<DY>, impl::tensor_axis<DB, 0>> &&
                          impl::is_partial_over<DB, impl::leading_axes<DY>>()>();
  impl::require_linear_dim(impl::linear_tensor(dy), impl::last_dim<DY>, impl::linear_tensor(dbias),
                           0);
  const auto to = impl::rows_of(dbias);
  impl::LinearKernels<Space, typename DB::non_const_value_type>::sum_rows(
      space, to.origin, to.step, impl::as_const(impl::rows_of(dy)));
}

/// All gradients of `linear` with a bias: sets dx, adds this rank's parts to dweight and dbias. To
/// skip one, call the functions above.
template <class Space, class DX, class DW, class DB, class DY, class X, class W>
void linear_pullback(const Space& space, const DX& dx, const DW& dweight, const DB& dbias,
                     const DY& dy, const X& x, const W& weight) {
  linear_pullback_weight(space, dweight, dy, x);
  linear_pullback_bias(space, dbias, dy);
  linear_pullback_input(space, dx, dy, weight);
}

/// The layer: y = linear(x) with `in` features to `out`. Parameters are weight ([out, in]) and bias
/// ([out]) from make_parameters, the same on every rank, or any struct with ShardedViews of these
/// names. (Interpolate has an option of the same name.)
struct Linear {
  index_t in  = 1;     ///< features of x
  index_t out = 1;     ///< features of y
  bool bias   = true;  ///< whether there is a bias

  /// Weight and bias, as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 2, Memory>;

  /// Weight and bias, with PyTorch's default initialisation: within 1 / sqrt(in).
  std::vector<ParameterShape> parameter_shapes() const {
    const double bound = in > 0 ? 1.0 / std::sqrt(static_cast<double>(in)) : 0.0;
    const ParameterShape weight{"weight", {out, in}, bound, 0.0, 0, true};
    if (!bias) return {weight};
    return {weight, {"bias", {out}, bound, 0.0}};
  }

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< local

  /// Computes y; y isn't x. Local.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    if (bias)
      linear(space, y, x, parameters.weight, parameters.bias);
    else
      linear(space, y, x, parameters.weight);
  }
  /// The tangent of y for the tangents of x and of the parameters, one of which may be not_wanted
  /// (zero): ty = linear(tx, weight), then + linear(x, tangent of the weight) + tangent of the
  /// bias. ty has y's placement; it must not be tx or x. Local.
  template <class Space, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    static_assert(is_wanted_v<TX> || is_wanted_v<TP>,
                  "a Linear's tangent is that of its input, of its parameters, or of both");
    if constexpr (is_wanted_v<TX>) linear(space, ty, tx, parameters.weight);
    if constexpr (is_wanted_v<TP>) {
      constexpr bool add = is_wanted_v<TX>;
      if (bias) {
        impl::linear_with_bias(space, ty, x, parameter_tangents.weight, parameter_tangents.bias,
                               add);
      } else {
        using T = typename TY::non_const_value_type;
        impl::require_forward(ty, x, parameter_tangents.weight);
        impl::contract(space, ty, x, impl::as_const(impl::matrix_of(parameter_tangents.weight)),
                       static_cast<const T*>(nullptr), 0, add);
      }
    }
  }
  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx.
  /// Either may be not_wanted. Local.
  template <class Space, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<G>) pullback_parameters(space, gradients, dy, x);
    if constexpr (is_wanted_v<DX>) pullback_input(space, parameters, dx, dy);
  }
  /// Only the parameters' part. Local.
  template <class Space, class G, class DY, class X>
  void pullback_parameters(const Space& space, const G& gradients, const DY& dy, const X& x) const {
    linear_pullback_weight(space, gradients.weight, dy, x);
    if (bias) linear_pullback_bias(space, gradients.bias, dy);
  }
  /// Only the input's part. Local.
  template <class Space, class P, class DX, class DY>
  void pullback_input(const Space& space, const P& parameters, const DX& dx, const DY& dy) const {
    linear_pullback_input(space, dx, dy, parameters.weight);
  }
};

}  // namespace shard

#endif
