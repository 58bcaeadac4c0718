// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution as long as its sequence, which is sharded in zigzag order. An all-to-all gives each
// rank the whole sequence of some channels, and back. The result is compared with that of one rank.
#include <shard/shard.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

struct Seq;
using Sequence = Kokkos::View<double***, Kokkos::LayoutRight>;  // [batch, channel, sequence]

/// A value for a position, the same on every rank.
KOKKOS_FUNCTION double sound(int channel, long at) {
  return static_cast<double>((at * 7919 + channel * 104729) % 1009) / 1009 - 0.5;
}
KOKKOS_FUNCTION double tap(int channel, long distance) {
  return 1.0 / static_cast<double>((1 + channel) * (1 + distance));
}

/// A causal convolution over all past values.
struct LongConvolution {
  Sequence from, to;
  int first_channel;
  KOKKOS_FUNCTION void operator()(int c, int i) const {
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += tap(first_channel + c, i - j) * from(0, c, j);
    to(0, c, i) = sum;
  }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Seq> mesh(environment.world(), {0});
  const int ranks = mesh.size(), rank = mesh.rank(), channels = 2 * ranks, length = 64 * ranks;
  const shard::ZigzagPartition part(length, ranks);  // the owner of each value

  Sequence mine("all channels, my chunks", 1, channels, part.count(rank));
  Sequence whole("my channels, whole", 1, channels / ranks, length), heard("heard", whole.layout());
  const auto host = Kokkos::create_mirror_view(mine);
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < part.count(rank); ++i) host(0, c, i) = sound(c, part.global_index(rank, i));
  Kokkos::deep_copy(mine, host);

  Kokkos::DefaultExecutionSpace space;
  shard::all_to_all<shard::SplitToFull, Seq>(space, whole, mine, mesh);
  Kokkos::parallel_for("convolve", Kokkos::MDRangePolicy(space, {0, 0}, {channels / ranks, length}),
                       LongConvolution{whole, heard, rank * channels / ranks});
  shard::all_to_all<shard::FullToSplit, Seq>(space, mine, heard, mesh);

  Kokkos::deep_copy(host, mine);
  double worst = 0, all = 0;
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < part.count(rank); ++i) {
      const long at = part.global_index(rank, i);
      double sum    = 0;
      for (long j = 0; j <= at; ++j) sum += tap(c, at - j) * sound(c, j);
      worst = std::max(worst, std::abs(host(0, c, i) - sum));
    }
  MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, environment.world());
  if (rank == 0)
    std::printf("%d channels of %d values on %d ranks: largest difference to one rank's %.1e\n",
                channels, length, ranks, all);
  return all < 1e-12 ? 0 : 1;
}
