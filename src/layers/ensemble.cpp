// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/ensemble_kernels.hpp"

#include <string>

#include "device_sums.hpp"
#include "launch.hpp"
#include "row_sums.hpp"
#include "shard/base/error.hpp"
#include "shard/base/wanted.hpp"
#include "strips.hpp"

namespace shard::impl {

EnsembleScore EnsembleScore::crps(index_t members, double alpha) {
  if (!(alpha >= 0.0 && alpha <= 1.0))
    throw_argument("CRPS", {"alpha is ", std::to_string(alpha), "; it lies in [0, 1]"});
  if (members < 1 || (members == 1 && alpha > 0.0))
    throw_argument("CRPS", {text(members),
                            " members; a fair score needs at least two, with alpha "
                            "= 0 one"});
  const auto m      = static_cast<double>(members);
  const double fair = alpha > 0.0 ? alpha / (m * (m - 1.0)) : 0.0;
  return {members, fair + (1.0 - alpha) / (m * m)};
}

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

/// The sums of a sample and a channel, on a host; with tangents if `tx` has an origin.
template <class T>
struct EnsembleSumsRows {
  EnsembleScore score;
  double* sums;
  Block<const T> tx, x, target;
  const double* weights;
  int row_dim;

  void operator()(index_t item) const {
    const index_t n = item / target.channels, c = item % target.channels;
    double lanes[sum_lanes] = {}, values[strip_width];
    for (index_t z = 0; z < target.end[0]; ++z)
      for (index_t y = 0; y < target.end[1]; ++y)
        for (index_t begin = 0; begin < target.end[2]; begin += strip_width) {
          const index_t rest  = target.end[2] - begin;
          const index_t count = rest < strip_width ? rest : strip_width;
          const auto t        = Members<T>::of(target, 1, n, c, z, y, begin);
          with_unit_step(Members<T>::of(x, score.members, n, c, z, y, begin), [&](const auto& of) {
            if (tx.origin == nullptr)
              score_points<strip_width>(score, count, values, of, not_wanted, t);
            else
              score_points<strip_width>(score, count, values, of,
                                        Members<T>::of(tx, score.members, n, c, z, y, begin), t);
          });
          add_row(lanes, count, [&](index_t i) {
            return weights[row_dim == 0 ? z : row_dim == 1 ? y : begin + i] * values[i];
          });
        }
    sums[item] = add_lanes(lanes);
  }
};

/// The same on a device, for the sums of planes.
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

/// A row on a host, a point on a device.
template <class T, int Width>
struct EnsembleDerivativeKernel {
  RowSplit split;
  EnsembleScore score;
  Block<T> dx;
  Block<const T> x, target;
  const double* weights;
  int row_dim;
  double scale;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r = split.row(item);
    for (index_t begin = 0; begin < r.count; begin += Width) {
      const index_t count = r.count - begin < Width ? r.count - begin : Width;
      const auto t        = Members<T>::of(target, 1, r.n, r.c, r.z, r.y, r.x + begin);
      with_unit_step(Members<T>::of(x, score.members, r.n, r.c, r.z, r.y, r.x + begin),
                     [&](const auto& of) {
                       for (index_t m = 0; m < score.members; ++m)
                         slopes(r, begin, count, m, of, t);
                     });
    }
  }

 private:
  template <class X>
  KOKKOS_FORCEINLINE_FUNCTION void slopes(const RowSplit::Row& r, index_t begin, index_t count,
                                          index_t m, const X& of, const Members<T>& t) const {
    double spread[Width] = {};
    for (index_t n = 0; n < score.members; ++n)
      for (index_t i = 0; i < count; ++i) spread[i] += sign_of(of(m, i) - of(n, i));
    T* const to = &dx.at(r.n * score.members + m, r.c, r.z, r.y, r.x + begin);
    for (index_t i = 0; i < count; ++i) {
      const double slope = sign_of(of(m, i) - t(0, i)) / static_cast<double>(score.members) -
                           score.pairs * spread[i];
      const index_t row    = row_dim == 0 ? r.z : row_dim == 1 ? r.y : r.x + begin + i;
      to[i * dx.stride[4]] = static_cast<T>(scale * weights[row] * slope);
    }
  }
};

template <class Space, class T>
void EnsembleKernels<Space, T>::tangent_sums(const Space& space, const EnsembleScore& score,
                                             double* sums, const Block<const T>& tx,
                                             const Block<const T>& x, const Block<const T>& target,
                                             const double* row_weights, int dims, double* parts) {
  if constexpr (is_host_v<Space>)
    launch("shard::ensemble_sums", space, target.batch * target.channels,
           EnsembleSumsRows<T>{score, sums, tx, x, target, row_weights, 3 - dims});
  else
    sum_planes("shard::ensemble_sums", space,
               EnsembleTerm<T>{score, tx, x, target, row_weights, 3 - dims}, target, sums, parts);
}

template <class Space, class T>
void EnsembleKernels<Space, T>::sums(const Space& space, const EnsembleScore& score, double* sums,
                                     const Block<const T>& x, const Block<const T>& target,
                                     const double* row_weights, int dims, double* parts) {
  tangent_sums(space, score, sums, {}, x, target, row_weights, dims, parts);
}

template <class Space, class T>
void EnsembleKernels<Space, T>::derivative(const Space& space, const EnsembleScore& score,
                                           const Block<T>& dx, const Block<const T>& x,
                                           const Block<const T>& target, const double* row_weights,
                                           int dims, double scale) {
  const RowSplit split = RowSplit::of(space, target);
  constexpr int width  = is_host_v<Space> ? strip_width : 1;
  launch("shard::ensemble_derivative", space, split.items(),
         EnsembleDerivativeKernel<T, width>{split, score, dx, x, target, row_weights, 3 - dims,
                                            scale});
}

template struct EnsembleKernels<Kokkos::DefaultExecutionSpace, float>;
template struct EnsembleKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct EnsembleKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct EnsembleKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
