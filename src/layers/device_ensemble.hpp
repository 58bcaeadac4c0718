// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ENSEMBLE_HPP
#define SHARD_SRC_LAYERS_DEVICE_ENSEMBLE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "device_sums.hpp"
#include "shard/base/wanted.hpp"
#include "shard/layers/impl/ensemble_kernels.hpp"

/// \file
/// The score of an ensemble at points, for a host's strips and a device's threads, and its sums on
/// a device.

namespace shard::impl {

/// The sign of a difference; a NaN stays one.
KOKKOS_INLINE_FUNCTION double sign_of(double e) { return e > 0.0 ? 1.0 : e < 0.0 ? -1.0 : e; }

/// The members of a sample at consecutive points of a row.
template <class T>
struct Members {
  const T* first;
  index_t member_step, step;

  static KOKKOS_FORCEINLINE_FUNCTION Members of(const Block<const T>& x, index_t members, index_t n,
                                                index_t c, index_t z, index_t y, index_t i) {
    return {&x.at(n * members, c, z, y, i), x.stride[0], x.stride[4]};
  }
  KOKKOS_FORCEINLINE_FUNCTION double operator()(index_t m, index_t i) const {
    return static_cast<double>(first[m * member_step + i * step]);
  }
};

/// Calls use(members, step) with a constant step where it is 1, so that compilers vectorise.
template <class T, class Use>
KOKKOS_FORCEINLINE_FUNCTION void with_unit_step(Members<T> x, const Use& use) {
  if (x.step == 1)
    use([x](index_t m, index_t i) { return static_cast<double>(x.first[m * x.member_step + i]); });
  else
    use(x);
}

/// out = the score at `count` points, at most `Width`; its tangent where there is a tx.
template <int Width, class X, class TX, class Target>
KOKKOS_FORCEINLINE_FUNCTION void score_points(const EnsembleScore& s, index_t count, double* out,
                                              const X& x, const TX& tx, const Target& t) {
  constexpr bool tangent = !std::is_same_v<TX, NotWanted>;
  double near[Width] = {}, spread[Width] = {};
  for (index_t m = 0; m < s.members; ++m) {
    for (index_t i = 0; i < count; ++i) {
      const double e = x(m, i) - t(0, i);
      if constexpr (tangent)
        near[i] += sign_of(e) * tx(m, i);
      else
        near[i] += Kokkos::abs(e);
    }
    for (index_t n = 0; n < m; ++n)
      for (index_t i = 0; i < count; ++i) {
        const double e = x(m, i) - x(n, i);
        if constexpr (tangent)
          spread[i] += sign_of(e) * (tx(m, i) - tx(n, i));
        else
          spread[i] += Kokkos::abs(e);
      }
  }
  const auto members = static_cast<double>(s.members);
  for (index_t i = 0; i < count; ++i) out[i] = near[i] / members - s.pairs * spread[i];
}

/// The weighted score of a point, or its tangent where `tx` has an origin, for the sums of planes.
template <class T>
struct EnsembleTerm {
  static constexpr int kinds = 1;
  EnsembleScore score;
  Block<const T> tx, x, target;
  const double* weights;
  int row_dim;

  struct Plane {
    EnsembleScore score;
    const T *tx, *x, *target;
    index_t tx_step, x_step;
    const double* weights;
    int row_dim;
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION double load(const At& at) const {
      const Members<T> members{x + at.offset[0], x_step, 0}, t{target + at.offset[1], 0, 0};
      double value;
      if (tx == nullptr)
        score_points<1>(score, 1, &value, members, NotWanted{}, t);
      else
        score_points<1>(score, 1, &value, members, Members<T>{tx + at.offset[2], tx_step, 0}, t);
      return weights[at.along(row_dim)] * value;
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], double value) const {
      sums[0] += value;
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    const index_t first = n * score.members;
    return {score,
            tx.origin == nullptr ? nullptr : plane_of(tx, first, c),
            plane_of(x, first, c),
            plane_of(target, n, c),
            tx.stride[0],
            x.stride[0],
            weights,
            row_dim};
  }
  BoxStrides<3> box() const {
    auto fields = plane_box(x, target, tx);
    for (int d = 0; d < 3; ++d) fields.extent[d] = target.extent(d);
    return fields;
  }
};

}  // namespace shard::impl

#endif
