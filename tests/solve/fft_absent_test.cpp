// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What FFTPoisson says in a build without FFTW.
#include <gtest/gtest.h>

#include "shard/solve/fft_poisson.hpp"
#include "solve/solve_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

TEST(FFTPoisson, SaysThatItNeedsFftw) {
  EXPECT_FALSE(fftw_available());
  const Line<Zero> x("x", grid(), {30});
  expect_parts(message_thrown_by<Error>([&] { FFTPoisson(Diffusion(x, {.spacing = {1.0}})); }),
               {"FFTPoisson", "SHARD_ENABLE_FFTW"});
}

}  // namespace
}  // namespace shard::testing
