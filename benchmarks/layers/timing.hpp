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

void add_windows(Cases& cases);     ///< convolutions
void add_fields(Cases& cases);      ///< activations, norms
void add_resampling(Cases& cases);  ///< interpolation, pooling, padding
void add_attention(Cases& cases);   ///< attention, Linear, a block
void add_training(Cases& cases);    ///< losses, optimisers

/// From now on times are those of the clock, not of the processor: for several threads.
void use_wall_clock();

/// The fastest of the calls made in `least` seconds, in processor time: for one thread it is the
/// time, and other programs disturb it least.
double seconds_of(double least, const std::function<void()>& call);

/// What a case has to do at least: operations of a forward call (twice as many backward), or bytes
/// that are read and written.
struct Work {
  double flops = 0.0, forward_bytes = 0.0, backward_bytes = 0.0;
};

/// Times the calls and prints one line of JSON. A backward call gives all gradients; the parts'
/// calls may be null. The limit is the core's peak, or a copy's speed for as many bytes.
template <class T>
void answer(double least, const Work& work, const std::function<void()>& forward,
            const std::function<void()>& backward, const std::function<void()>& of_input = nullptr,
            const std::function<void()>& of_parameters = nullptr);
extern template void answer<float>(double, const Work&, const std::function<void()>&,
                                   const std::function<void()>&, const std::function<void()>&,
                                   const std::function<void()>&);
extern template void answer<double>(double, const Work&, const std::function<void()>&,
                                    const std::function<void()>&, const std::function<void()>&,
                                    const std::function<void()>&);

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
