// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_DIFFUSION_HPP
#define SHARD_SOLVE_DIFFUSION_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <tuple>
#include <type_traits>

#include "shard/base/impl/same_options.hpp"
#include "shard/solve/impl/diffusion_stencil.hpp"
#include "shard/solve/stencil_operator.hpp"

namespace shard {

/// The numbers of a Diffusion.
struct DiffusionOptions {
  std::array<double, 3> spacing{1, 1, 1};  ///< distance of cells along each dimension
  double shift = 0.0;                      ///< added to the diagonal
};

/// The operator -div(k grad x) + shift x on the cells of a uniform grid, by finite volumes of
/// second order: 3, 5 or 7 points, symmetric. The boundaries of the field's type are the conditions
/// at the walls: `Zero` is the value 0 at the outer faces, `Symmetric` or `Clamp` no flux. k is 1,
/// or a field of cell values; faces get the harmonic mean. Where k is 0 (land) nothing flows, and
/// without a shift the cell's row is 0.
///
///   const shard::Diffusion a(x, {.spacing = {1.0 / n, 1.0 / n}});  // -(d2/dx2 + d2/dy2)
template <class Field, class K = impl::UnitCoefficient>
class Diffusion : public StencilOperator<Field, impl::DiffusionStencil<K>> {
  using Stencil = impl::DiffusionStencil<K>;
  static_assert(impl::check_diffusion<Field>());

 public:
  using coefficient = K;  ///< the type of k

  /// k = 1, for fields like `like`. Collective over its mesh.
  Diffusion(const Field& like, const DiffusionOptions& options) : Diffusion(like, K{}, options) {}
  /// With a field of coefficients k like x. Fills k's halo, unless its values are const: then it
  /// must be filled. Whoever changes k later exchanges its halo. Collective. Fences. Throws
  /// ArgumentError on every rank unless k has the partitions of `like`, AgreementError if the
  /// ranks' options differ.
  Diffusion(const Field& like, const K& k, const DiffusionOptions& options)
      : StencilOperator<Field, Stencil>(like, Stencil{k, weights(options), options.shift}),
        options_(options) {
    const auto& [x, y, z] = options.spacing;
    impl::require_same_options(
        like.communicator(), "Diffusion",
        {{"spacing", x}, {"spacing", y}, {"spacing", z}, {"shift", options.shift}});
    if constexpr (!Stencil::is_uniform) {
      static_assert(impl::check_coefficients<Field, K>());
      impl::require_alike("Diffusion", like, k);
      if constexpr (!std::is_const_v<typename K::value_type>) {
        Kokkos::fence("shard::Diffusion: k");  // whatever instance wrote it
        const typename Field::execution_space space;
        exchange(space, k);
        space.fence("shard::Diffusion: the halo of k");
      }
    }
  }
  /// The numbers that it was made with.
  const DiffusionOptions& options() const { return options_; }
  /// k
  const K& k() const { return this->functor().k; }
  /// dk += scale times the derivative of y' (A x) with respect to k. Fills the halos of x and y.
  /// Throws ArgumentError on every rank unless all three have the operator's partitions.
  /// Collective as apply. See LinearSolve::add_coefficient_gradient.
  template <class Space>
  void add_coefficient_gradient(const Space& space, const K& dk, double scale, const Field& y,
                                const Field& x) const requires(!Stencil::is_uniform) {
    impl::require_alike("Diffusion", this->like(), dk, y, x);
    impl::require_apart("Diffusion", dk, std::tie(x, y));
    this->fill_halo(space, y);
    this->fill_halo(space, x);
    impl::write_points(
        "shard::diffusion_gradient", space, dk,
        impl::DiffusionGradientKernel<Field, Stencil>{this->functor(), dk, y, x, scale});
  }

 private:
  static Kokkos::Array<double, 3> weights(const DiffusionOptions& options) {
    Kokkos::Array<double, 3> w{};
    for (std::size_t d = 0; d < 3; ++d) w[d] = 1.0 / (options.spacing[d] * options.spacing[d]);
    return w;
  }
  DiffusionOptions options_;
};
/// k = 1.
template <class Field>
Diffusion(const Field&, const DiffusionOptions&) -> Diffusion<Field>;

}  // namespace shard

#endif
