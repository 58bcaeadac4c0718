// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_LAYERS_TIMING_HPP
#define SHARD_BENCHMARKS_LAYERS_TIMING_HPP

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "shard/mesh/mesh.hpp"
#include "shard/view/sharded_view.hpp"

using shard::index_t;

struct Lat;
struct Lon;
using Grid  = shard::Mesh<Lat, Lon>;
using Space = Kokkos::DefaultExecutionSpace;

/// Times a case, for at least the given seconds per number, and prints the result.
using Case  = std::function<void(const Grid&, double)>;
using Cases = std::map<std::string, Case>;

// `large`: also the cases that are meant for a device.
void add_windows(Cases& cases, bool large);    ///< convolutions
void add_fields(Cases& cases, bool large);     ///< activations, norms
void add_gates(Cases& cases);                  ///< products, gated units, embeddings, scores
void add_resampling(Cases& cases);             ///< interpolation, pooling, padding
void add_attention(Cases& cases, bool large);  ///< attention, Linear, a block
void add_training(Cases& cases, bool large);   ///< losses, optimisers, training steps
void add_large_fields(Cases& cases);           ///< copies, sums, halo exchanges
void add_large_solvers(Cases& cases);          ///< a sparse matrix, multigrid

/// From now on times are those of the clock, not of the processor: for several threads.
void use_wall_clock();

/// Seconds of a call, which need not fence. On a host it is the fastest of the calls made in
/// `least` seconds, in processor time: for one thread that is the time, and other programs disturb
/// it least. On a device calls are launched in batches: by the clock, the median of five batches.
double seconds_of(double least, const std::function<void()>& call);

/// What a case has to do at least: operations of a forward call (twice as many backward), or bytes
/// that are read and written.
struct Work {
  double flops = 0.0, forward_bytes = 0.0, backward_bytes = 0.0;
};

/// Calls to time. A backward call gives all gradients; all but `forward` may be null.
struct Calls {
  std::function<void()> forward, backward{}, of_input{}, of_parameters{};
};

/// Times the calls and prints one line of JSON: seconds, the case's work, the limits (the core's
/// peak on a host, or a copy's speed for as many bytes), and how many kernels, copies and fences a
/// forward and a backward call make by Kokkos.
template <class T>
void answer(double least, const Work& work, const Calls& calls);
extern template void answer<float>(double, const Work&, const Calls&);
extern template void answer<double>(double, const Work&, const Calls&);

/// Numbers between -1 and 1.
template <class View>
void fill(const View& view) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.span(); ++i)
    host.data()[i] =
        static_cast<typename View::value_type>(static_cast<double>(i * 7919 % 1000) / 500 - 1);
  Kokkos::deep_copy(view, host);
}

/// Fields of two dimensions in space without halos.
template <class T>
using Plain = shard::ShardedView<T****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>,
                                 shard::ShardDim<3, Lon>>;

/// A field's bytes.
template <class Field>
double bytes_of(const Field& field) {
  return static_cast<double>(sizeof(typename Field::value_type)) *
         static_cast<double>(field.view().span());
}

#endif
