// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random waves to train with and to test with, and the step of the core.
#ifndef SHARD_EXAMPLES_HYBRID_WAVES_HPP
#define SHARD_EXAMPLES_HYBRID_WAVES_HPP

#include <cstdint>
#include <random>
#include <vector>

#include "sphere.hpp"

namespace hybrid {

/// Random numbers that are the same on every rank and with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11U) * 0x1p-53;
  }
  int integer(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }

 private:
  std::mt19937_64 engine_;
};

inline std::vector<Wave> random_waves(std::uint64_t seed, int count) {
  Random random(seed);
  std::vector<Wave> waves;
  for (int w = 0; w < count; ++w) {
    Wave wave;
    wave.number    = random.integer(3, 5);
    wave.zonal     = random.uniform(5e-6, 9e-6);
    wave.amplitude = random.uniform(5e-6, 9e-6);
    wave.phase     = random.uniform(0, 2 * pi);
    wave.hill      = random.uniform(-150, 150);
    wave.hill_lat  = random.uniform(-1, 1);
    wave.hill_lon  = random.uniform(0, 2 * pi);
    waves.push_back(wave);
  }
  return waves;
}

/// Seconds: the largest stable step is about 31000 / rows.
inline double time_step(index_t rows) { return 27000 / static_cast<double>(rows); }

}  // namespace hybrid

#endif
