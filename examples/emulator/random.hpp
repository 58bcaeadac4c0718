// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

/// \file
/// Random numbers by counting: the k-th number of a stream is a function of (seed, stream, k) and
/// of nothing else, so that every rank draws the same without talking to the others.

namespace emulator {

/// Philox4x32-10: 128 random bits for a counter and a key (J. Salmon, M. Moraes, R. Dror, D. Shaw,
/// "Parallel random numbers: as easy as 1, 2, 3", SC11, doi:10.1145/2063384.2063405).
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter               = {
                      static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
                      static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// A stream of numbers, told apart from others by seed and stream number.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  /// Evenly distributed in (0, 1), both ends left out.
  double uniform() {
    const std::array<std::uint32_t, 4> bits = next();
    const std::uint64_t mantissa            = (std::uint64_t{bits[0]} << 20U) ^ (bits[1] >> 12U);
    return (static_cast<double>(mantissa) + 0.5) * 0x1p-52;
  }

  /// One of first, first + 1, ..., last.
  int integer(int first, int last) {
    const int count = last - first + 1;
    const int drawn = static_cast<int>(uniform() * count);
    return first + (drawn < count ? drawn : count - 1);
  }

  /// Normally distributed with mean 0 and variance 1 (Box and Muller, 1958).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::array<std::uint32_t, 4> next() {
    const std::uint64_t k = drawn_++;
    return philox({static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32U),
                   static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32U)},
                  {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)});
  }

  std::uint64_t seed_, stream_, drawn_ = 0;
};

}  // namespace emulator
