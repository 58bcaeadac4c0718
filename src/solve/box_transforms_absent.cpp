// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces box_transforms.cpp in builds without FFTW.
#include "shard/base/error.hpp"
#include "shard/solve/fft_poisson.hpp"

namespace shard {

bool fftw_available() { return false; }

namespace impl {

struct BoxTransforms::Plans {};
BoxTransforms::BoxTransforms(const BoxDimension*, int) {
  throw Error(
      "shard::FFTPoisson: this build has no FFTW; install it (Debian: libfftw3-dev) and configure "
      "with -DSHARD_ENABLE_FFTW=ON");
}
BoxTransforms::~BoxTransforms() = default;
void BoxTransforms::run(double*, index_t, bool) const {}
void BoxTransforms::run_one(double*, bool) const {}

}  // namespace impl
}  // namespace shard
