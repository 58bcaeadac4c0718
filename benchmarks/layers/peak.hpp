// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_LAYERS_PEAK_HPP
#define SHARD_BENCHMARKS_LAYERS_PEAK_HPP

/// GFLOP/s of a loop of multiply-adds that touches registers only, with the instructions that this
/// program was compiled for: the best of `tries` loops of about a hundredth of a second.
template <class T>
double register_peak(int tries);

extern template double register_peak<float>(int tries);
extern template double register_peak<double>(int tries);

#endif
