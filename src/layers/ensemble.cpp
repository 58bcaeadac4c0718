// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/ensemble_kernels.hpp"

#include <string>

#include "device_ensemble.hpp"
#include "launch.hpp"
#include "row_sums.hpp"
#include "shard/base/error.hpp"
#include "shard/base/wanted.hpp"
#include "strips.hpp"

namespace shard::impl {

EnsembleScore EnsembleScore::of(std::string_view score, index_t members, double alpha) {
  if (!(alpha >= 0.0 && alpha <= 1.0))
    throw_argument(score, {"alpha is ", std::to_string(alpha), "; it lies in [0, 1]"});
  if (members < 1 || (members == 1 && alpha > 0.0))
    throw_argument(score, {text(members),
                           " members; a fair score needs at least two, with alpha "
                           "= 0 one"});
  const auto m      = static_cast<double>(members);
  const double fair = alpha > 0.0 ? alpha / (m * (m - 1.0)) : 0.0;
  return {members, fair + (1.0 - alpha) / (m * m)};
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

/// The derivative of the CRPS of a point by member m: signs of differences.
struct SignSlopes {
  EnsembleScore score;

  template <int Width, class X, class Target>
  KOKKOS_FORCEINLINE_FUNCTION void find(double (&slope)[Width], index_t count, index_t, index_t m,
                                        const X& x, const Target& t) const {
    double spread[Width] = {};
    for (index_t n = 0; n < score.members; ++n)
      for (index_t i = 0; i < count; ++i) spread[i] += sign_of(x(m, i) - x(n, i));
    for (index_t i = 0; i < count; ++i)
      slope[i] =
          sign_of(x(m, i) - t(0, i)) / static_cast<double>(score.members) - score.pairs * spread[i];
  }
};
/// That of a score of distances: differences with factors [sample, members, members], of which the
/// diagonal is for the target.
struct FactorSlopes {
  const double* factors;
  index_t members;

  template <int Width, class X, class Target>
  KOKKOS_FORCEINLINE_FUNCTION void find(double (&slope)[Width], index_t count, index_t sample,
                                        index_t m, const X& x, const Target& t) const {
    const double* const f = factors + (sample * members + m) * members;
    for (index_t i = 0; i < count; ++i) slope[i] = f[m] * (x(m, i) - t(0, i));
    for (index_t n = 0; n < members; ++n)
      if (n != m)
        for (index_t i = 0; i < count; ++i) slope[i] += f[n] * (x(m, i) - x(n, i));
  }
};

/// dx = scale w slope. A row on a host, a point on a device.
template <class T, int Width, class Slopes>
struct EnsembleDerivativeKernel {
  RowSplit split;
  Slopes slopes;
  index_t members;
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
      with_unit_step(Members<T>::of(x, members, r.n, r.c, r.z, r.y, r.x + begin),
                     [&](const auto& of) {
                       for (index_t m = 0; m < members; ++m) write(r, begin, count, m, of, t);
                     });
    }
  }

 private:
  template <class X>
  KOKKOS_FORCEINLINE_FUNCTION void write(const RowSplit::Row& r, index_t begin, index_t count,
                                         index_t m, const X& of, const Members<T>& t) const {
    double slope[Width];
    slopes.find(slope, count, r.n, m, of, t);
    T* const to = &dx.at(r.n * members + m, r.c, r.z, r.y, r.x + begin);
    for (index_t i = 0; i < count; ++i) {
      const index_t row    = row_dim == 0 ? r.z : row_dim == 1 ? r.y : r.x + begin + i;
      to[i * dx.stride[4]] = static_cast<T>(scale * weights[row] * slope[i]);
    }
  }
};

template <class Space, class T, class Slopes>
void launch_derivative(const char* label, const Space& space, const Slopes& slopes, index_t members,
                       const Block<T>& dx, const Block<const T>& x, const Block<const T>& target,
                       const double* row_weights, int dims, double scale) {
  const RowSplit split = RowSplit::of(space, target);
  constexpr int width  = is_host_v<Space> ? strip_width : 1;
  launch(label, space, split.items(),
         EnsembleDerivativeKernel<T, width, Slopes>{split, slopes, members, dx, x, target,
                                                    row_weights, 3 - dims, scale});
}

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
  launch_derivative("shard::ensemble_derivative", space, SignSlopes{score}, score.members, dx, x,
                    target, row_weights, dims, scale);
}

template <class Space, class T>
void EnsembleKernels<Space, T>::distance_derivative(const Space& space, index_t members,
                                                    const Block<T>& dx, const Block<const T>& x,
                                                    const Block<const T>& target,
                                                    const double* factors,
                                                    const double* row_weights, int dims,
                                                    double scale) {
  launch_derivative("shard::distance_derivative", space, FactorSlopes{factors, members}, members,
                    dx, x, target, row_weights, dims, scale);
}

SHARD_KERNELS(EnsembleKernels)

}  // namespace shard::impl
