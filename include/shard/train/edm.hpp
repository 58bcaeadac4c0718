// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_EDM_HPP
#define SHARD_TRAIN_EDM_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include "shard/autodiff/linear_operations.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/same_options.hpp"

/// \file
/// Diffusion models in the form of Karras, Aittala, Aila and Laine 2022 ("EDM").

namespace shard {

/// The factors with which a network F becomes a denoiser of x = data + sigma noise:
/// D(x; sigma) = skip x + out F(in x; noise). Then F has inputs and targets of unit variance for
/// data of the standard deviation `sigma_data`.
struct EDM {
  double sigma_data = 0.5;  ///< standard deviation of the data

  /// sigma_data^2 / (sigma^2 + sigma_data^2)
  double skip(double sigma) const { return sigma_data * sigma_data / sum(sigma); }
  /// sigma sigma_data / sqrt(sigma^2 + sigma_data^2)
  double out(double sigma) const { return sigma * sigma_data / std::sqrt(sum(sigma)); }
  /// 1 / sqrt(sigma^2 + sigma_data^2)
  double in(double sigma) const { return 1.0 / std::sqrt(sum(sigma)); }
  /// ln(sigma) / 4
  double noise(double sigma) const { return std::log(sigma) / 4.0; }
  /// The factor of |D - data|^2 in the loss, (sigma^2 + sigma_data^2) / (sigma sigma_data)^2.
  double weight(double sigma) const {
    return sum(sigma) / (sigma * sigma_data * sigma * sigma_data);
  }

 private:
  double sum(double sigma) const { return sigma * sigma + sigma_data * sigma_data; }
};

/// The noise levels of a sampler: (largest^(1/rho) + i / (steps - 1) (smallest^(1/rho) -
/// largest^(1/rho)))^rho for i from 0 to steps - 1, then 0. Throws ArgumentError unless there are
/// two steps and 0 < smallest < largest.
inline std::vector<double> edm_levels(index_t steps, double smallest = 0.002, double largest = 80.0,
                                      double rho = 7.0) {
  if (steps < 2 || !(smallest > 0.0) || !(smallest < largest))
    impl::throw_argument(
        "edm_levels", {impl::text(steps), " steps from ", impl::text_of(largest), " to ",
                       impl::text_of(smallest), "; give at least two, and 0 < smallest < largest"});
  const double from = std::pow(largest, 1.0 / rho), to = std::pow(smallest, 1.0 / rho);
  std::vector<double> levels;
  for (index_t i = 0; i < steps; ++i)
    levels.push_back(std::pow(
        from + static_cast<double>(i) / static_cast<double>(steps - 1) * (to - from), rho));
  levels.push_back(0.0);
  return levels;
}

/// Heun's method for dx/dsigma = (x - D(x; sigma)) / sigma, from the first noise level to the last
/// (algorithm 1 of the paper): the deterministic sampler. The constructor allocates all memory.
template <class Field>
class EDMSampler {
 public:
  /// For fields like this one. Collective over its mesh.
  explicit EDMSampler(const Field& like)
      : next_(like.like("shard::EDM next")),
        denoised_(like.like("shard::EDM denoised")),
        slope_(like.like("shard::EDM slope")) {}

  /// Takes x, noise times levels[0], to a sample of the data. denoise(space, d, x, sigma) computes
  /// d = D(x; sigma); it is called twice for each level above 0 except the last one, and once for
  /// that. Collective if denoise is. Throws ArgumentError unless the levels fall, to 0 at the end
  /// at the earliest.
  template <class Space, class Denoise>
  void operator()(const Space& space, const Field& x, const std::vector<double>& levels,
                  const Denoise& denoise) const {
    for (std::size_t i = 1; i < levels.size(); ++i)
      if (!(levels[i] >= 0.0 && levels[i] < levels[i - 1]))
        impl::throw_argument("EDMSampler", {"level ", impl::text(static_cast<index_t>(i)), " is ",
                                            impl::text_of(levels[i]), " after ",
                                            impl::text_of(levels[i - 1]), "; levels fall to 0"});
    for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
      const double s = levels[i], t = levels[i + 1], step = t - s;
      denoise(space, denoised_, x, s);
      if (t == 0.0) {
        Axpby{0.0, 1.0}.apply(space, x, x, denoised_);
        continue;
      }
      Axpby{t / s, 1.0 - t / s}.apply(space, next_, x, denoised_);
      denoise(space, slope_, next_, t);
      const double here = step / (2.0 * s), there = step / (2.0 * t);
      Axpby{there, -there}.apply(space, slope_, next_, slope_);
      Axpby{1.0 + here, -here}.apply(space, x, x, denoised_);
      Axpby{1.0, 1.0}.apply(space, x, x, slope_);
    }
  }

 private:
  Field next_, denoised_, slope_;
};

/// In the type of the field that it is made for.
template <class Field>
EDMSampler(const Field&) -> EDMSampler<Field>;

}  // namespace shard

#endif
