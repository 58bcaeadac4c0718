// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_NULLSPACE_HPP
#define SHARD_SOLVE_IMPL_NULLSPACE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/solve/vector.hpp"

namespace shard::impl {

/// Number of points of all parts.
template <class V>
double vector_points(const V& v) {
  double points = 0.0;
  for_parts([&](const auto& part) { points += world_cells(part); }, v);
  return points;
}

/// Orthonormal vectors that an operator maps to 0, and projections to what is orthogonal to them.
template <class V>
class NullspaceBasis {
 public:
  /// The constants. Complex numbers are two real ones, so there they are two vectors. Fences.
  void set_constant(const V& like) {
    using Wide = wide_t<typename FirstPart<V>::type::value_type>;
    const typename FirstPart<V>::type::execution_space space;
    const double value = 1.0 / Kokkos::sqrt(vector_points(like));
    vectors_.clear();
    add_constant(space, like, Wide(value));
    if constexpr (!std::is_same_v<Wide, double>) add_constant(space, like, Wide(0.0, value));
    space.fence("shard::krylov: the null space");
    resize();
  }
  /// The same span, orthonormal in another product.
  template <class Space>
  void set_product(const Space& space, const InnerProduct<V>& product) {
    const std::vector<V> vectors = vectors_;
    set(space, product, vectors);
  }
  /// The span of `vectors`, by Gram and Schmidt's method, twice for each.
  template <class Space>
  void set(const Space& space, const InnerProduct<V>& product, const std::vector<V>& vectors) {
    vectors_.clear();
    for (const V& v : vectors) {
      const V u           = like_value(v, "shard::krylov");
      const double before = all_dots(space, product, {DotOf<V>{&v, &v}})[0];
      axpby(space, u, 1.0, v, 0.0);
      for (int twice = 0; twice < 2; ++twice) {
        project(space, product, u);
        const double square = all_dots(space, product, {DotOf<V>{&u, &u}})[0];
        if (!(square > 1e-20 * before))
          throw_argument("set_nullspace",
                         {"vector ", text(static_cast<index_t>(vectors_.size())),
                          " is 0, not finite or a combination of those before it"});
        axpby(space, u, 0.0, u, 1.0 / Kokkos::sqrt(square));
      }
      vectors_.push_back(u);
      resize();
    }
    resize();
  }

  /// Dot products in one message, and with them those of `v` with the basis, for `remove`.
  template <class Space, std::size_t N>
  std::array<double, N> dots(const Space& space, const InnerProduct<V>& product,
                             const DotOf<V> (&of)[N], const V& v) {
    for (std::size_t k = 0; k < N; ++k) asked_[k] = of[k];
    return ask<N>(space, product, v);
  }
  /// The squared norm of v's part along the basis, of the last `dots`.
  double along() const {
    double sum = 0.0;
    for (const double f : factors_) sum += f * f;
    return sum;
  }
  /// w -= the part along the basis of the last `dots`' v.
  template <class Space>
  void remove(const Space& space, const V& w) {
    for (std::size_t k = 0; k < vectors_.size(); ++k) pointers_[k] = &vectors_[k];
    update_many(space, w, 1.0, factors_.data(), pointers_.data(),
                static_cast<int>(vectors_.size()));
  }
  /// v = its part along the basis.
  template <class Space>
  void keep(const Space& space, const InnerProduct<V>& product, const V& v) {
    if (vectors_.empty()) return zero_value(space, v);
    ask<0>(space, product, v);
    for (double& f : factors_) f = -f;
    for (std::size_t k = 0; k < vectors_.size(); ++k) pointers_[k] = &vectors_[k];
    update_many(space, v, 0.0, factors_.data(), pointers_.data(),
                static_cast<int>(vectors_.size()));
  }
  /// Makes the basis orthonormal in a product of this scale.
  template <class Space>
  void set_scale(const Space& space, double scale) {
    if (scale == scale_) return;
    for (const double factor : {scale_, 1.0 / scale})  // their product may overflow
      for (const V& v : vectors_)
        if (factor != 1.0) axpby(space, v, 0.0, v, factor);
    scale_ = scale;
  }
  std::size_t size() const { return vectors_.size(); }
  /// v -= its part along the basis.
  template <class Space>
  void project(const Space& space, const InnerProduct<V>& product, const V& v) {
    if (vectors_.empty()) return;
    ask<0>(space, product, v);
    remove(space, v);
  }

 private:
  static constexpr std::size_t most_dots = 4;

  template <class Space, class Wide>
  void add_constant(const Space& space, const V& like, const Wide& value) {
    vectors_.push_back(like_value(like, "shard::krylov"));
    for_parts(
        [&](const auto& part) {
          deep_copy(space, part,
                    static_cast<typename std::remove_cvref_t<decltype(part)>::value_type>(value));
        },
        vectors_.back());
  }

  template <std::size_t N, class Space>
  std::array<double, N> ask(const Space& space, const InnerProduct<V>& product, const V& v) {
    static_assert(N <= most_dots);
    const std::size_t all = N + vectors_.size();
    for (std::size_t k = N; k < all; ++k) asked_[k] = {&v, &vectors_[k - N]};
    start_dots(space, product, asked_.data(), static_cast<int>(all), true).finish(sums_.data());
    for (std::size_t k = N; k < all; ++k) factors_[k - N] = -sums_[k];
    std::array<double, N> results;
    for (std::size_t k = 0; k < N; ++k) results[k] = sums_[k];
    return results;
  }
  void resize() {
    factors_.resize(vectors_.size());
    pointers_.resize(vectors_.size());
    asked_.resize(most_dots + vectors_.size());
    sums_.resize(asked_.size());
  }

  std::vector<V> vectors_;
  double scale_ = 1.0;
  std::vector<const V*> pointers_;
  std::vector<DotOf<V>> asked_ = std::vector<DotOf<V>>(most_dots);
  std::vector<double> sums_    = std::vector<double>(most_dots), factors_;
};

}  // namespace shard::impl

#endif
