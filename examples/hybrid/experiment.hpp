// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training against truths, and the errors of runs that training didn't see.
#ifndef SHARD_EXAMPLES_HYBRID_EXPERIMENT_HPP
#define SHARD_EXAMPLES_HYBRID_EXPERIMENT_HPP

#include <string>

#include "sphere.hpp"

namespace hybrid {

struct Options {
  int rows = 45, ratio = 2, width = 8;  // of the coarse core; its cells to the truth's; channels
  int waves = 4, days = 5;              // of the truth
  int iterations = 200, terms = 4, every = 6;  // comparisons with the truth, and steps between them
  double rate  = 5e-3;
  int held_out = 3, stable_days = 30;                 // waves that training didn't see
  int seed            = 1;                            // of the random waves
  std::string weights = "hybrid.safetensors", start;  // written or read; weights to begin with
  std::string truth;                                  // a file that keeps the truth
  std::string picture;
};

/// Trains the network, and writes its weights.
void train(const Space& space, const Mesh& mesh, bool root, const Options& o);

/// Runs held-out waves with and without the correction, beside the truth.
void show(const Space& space, const Mesh& mesh, bool root, const Options& o);

}  // namespace hybrid

#endif
