// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a halo exchange shard::overlapped hides behind a 7-point stencil, 256x256x64 double.
// Prints Google Benchmark's JSON, times of one step.
//
// Steps of a time loop (two time levels that swap), of several kinds that take turns, as do the
// transports: a block of one kind is a step that isn't timed, which leaves the caches as that kind
// leaves them, and some that are, without a barrier, as a model runs.
//   sequence:   exchange, then the stencil over all owned cells
//   overlapped: shard::overlapped
//   pieces:     interior and rim without an exchange: what is left where all of it is hidden
//   whole:      the stencil over all owned cells without an exchange
//   by_hand:    interior and rim with start, advance and finish, and clocks around these
// Of the exchange's time that of start and finish is still seen, the wait for a neighbour who is
// late included; it is in the sequence's exchange too, where nothing is hidden:
//   hidden = 1 - (start + finish of by_hand) / exchange of sequence
// the mean of the ranks, for of two that wait for each other one does. From the times of whole
// steps the same, as the OSU benchmarks define it (the same computation with and without
// communication), a small difference of large times, with all that caches do to the stencil:
//   hidden_by_steps = 1 - (overlapped - pieces) / (sequence - whole)
// and what a user gains, with the price of cutting the stencil in two taken off:
//   gained = (sequence - overlapped) / (sequence - whole)
// differences turn by turn of the slowest rank's steps, of which the median counts.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/overlapped.hpp"
#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace {

struct Cut;
using Space = Kokkos::DefaultHostExecutionSpace;

/// Halos in the dimension that is cut; the others end in walls, which the stencil knows.
template <int D>
using FieldCut =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<D, Cut, shard::Halo<1>, shard::Periodic>, Kokkos::HostSpace>;

/// Diffusion. No flux through the walls of the dimensions that aren't cut.
template <int D>
struct DiffuseKernel {
  const double* from;
  double* to;
  std::array<int, 3> extent;
  std::array<long, 3> stride;

  template <int E>
  KOKKOS_FUNCTION double both_sides(const double* cell, int i) const {
    const bool low = E == D || i > 0, high = E == D || i < extent[E] - 1;
    return cell[low ? -stride[E] : 0] + cell[high ? stride[E] : 0];
  }
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    const long at      = i * stride[0] + j * stride[1] + k;
    const double* cell = from + at;
    // Beyond the walls of the inner dimension lies another line's cell or one of the halo: read and
    // not used, so that the line is computed in vectors.
    const double below = cell[-1], above = cell[1];
    const double inner = (k > 0 ? below : *cell) + (k < extent[2] - 1 ? above : *cell);
    to[at] = *cell + 0.1 * (both_sides<0>(cell, i) + both_sides<1>(cell, j) + inner - 6 * *cell);
  }
};

template <int D>
DiffuseKernel<D> diffuse(const FieldCut<D>& from, const FieldCut<D>& to) {
  DiffuseKernel<D> kernel{from.origin(), to.origin(), {}, {}};
  for (int d = 0; d < 3; ++d) {
    const auto i     = static_cast<std::size_t>(d);
    kernel.extent[i] = static_cast<int>(from.extent(d));
    kernel.stride[i] = static_cast<long>(from.stride(d));
  }
  return kernel;
}

enum Kind { sequence, overlapped, pieces, whole, by_hand, kinds };

/// Seconds of a block.
struct Block {
  double all = 0, start = 0, finish = 0;  // the sequence's exchange is all start
};

template <int D>
class Loop {
  using Field    = FieldCut<D>;
  using Exchange = shard::Exchange<Field>;

 public:
  Loop(MPI_Comm comm, int ranks, const shard::Tuning& tuning, bool shared)
      : mesh_(comm, {ranks}),
        levels_{make("now", shared), make("then", shared)},
        halos_{Exchange(tuning, levels_[0]), Exchange(tuning, levels_[1])} {
    reset();
  }

  void reset() {
    for (const Field& t : levels_)
      for (int i = 0; i < t.extent(0); ++i)
        for (int j = 0; j < t.extent(1); ++j)
          for (int k = 0; k < t.extent(2); ++k)
            t(i, j, k) = static_cast<double>(
                ((t.begin(0) + i) * 31 + (t.begin(1) + j) * 17 + (t.begin(2) + k) * 7) % 101);
    now_ = 0;
  }

  Block run(Kind kind, int steps) {
    Block block;
    step(kind, block);
    block = {};
    MPI_Barrier(levels_[0].communicator());
    const double begin = MPI_Wtime();
    for (int s = 0; s < steps; ++s) step(kind, block);
    block.all = MPI_Wtime() - begin;
    MPI_Barrier(levels_[0].communicator());
    return block;
  }

  /// A sum that tells one cell from another.
  double checksum() const {
    const Field& t = levels_[now_];
    double sum     = 0;
    for (int i = 0; i < t.extent(0); ++i)
      for (int j = 0; j < t.extent(1); ++j)
        for (int k = 0; k < t.extent(2); ++k)
          sum += t(i, j, k) * static_cast<double>((i * 7 + j * 3 + k) % 13);
    return sum;
  }

 private:
  Field make(const char* label, bool shared) const {
    const shard::Extents<3> all{256, 256, 64};
    return shared ? shard::shared_field<Field>(label, mesh_, all) : Field(label, mesh_, all);
  }

  void step(Kind kind, Block& block) {
    const Field& from     = levels_[now_];
    const Exchange& halos = halos_[now_];
    now_                  = 1 - now_;
    const auto kernel     = diffuse<D>(from, levels_[now_]);
    switch (kind) {
      case sequence: {
        const double begin = MPI_Wtime();
        halos(space_);
        block.start += MPI_Wtime() - begin;
        shard::parallel_for("diffuse", space_, shard::owned_region(from), kernel);
        break;
      }
      case overlapped: shard::overlapped("diffuse", space_, halos, from, kernel); break;
      case pieces:
        shard::parallel_for("diffuse", space_, shard::interior(from), kernel);
        shard::parallel_for("diffuse", space_, shard::rim(from), kernel);
        break;
      case whole: shard::parallel_for("diffuse", space_, shard::owned_region(from), kernel); break;
      default: {
        double begin = MPI_Wtime();
        auto pending = halos.start(space_);
        bool again   = pending.advance();
        block.start += MPI_Wtime() - begin;
        auto inner = shard::interior(from);
        for (int turn = 0; again && pending.next_parts(turn) > 1; ++turn) {
          shard::parallel_for("diffuse", space_,
                              shard::impl::split_first(inner, pending.next_parts(turn)), kernel);
          begin = MPI_Wtime();
          again = pending.advance();
          block.start += MPI_Wtime() - begin;
        }
        shard::parallel_for("diffuse", space_, inner, kernel);
        begin = MPI_Wtime();
        pending.finish();
        block.finish += MPI_Wtime() - begin;
        shard::parallel_for("diffuse", space_, shard::rim(from), kernel);
      }
    }
    space_.fence("a step is over");
  }

  Space space_;
  shard::Mesh<Cut> mesh_;
  std::array<Field, 2> levels_;
  std::array<Exchange, 2> halos_;
  std::size_t now_ = 0;
};

/// Of each turn's time that of the slowest rank.
std::vector<double> slowest(MPI_Comm comm, const std::vector<double>& mine) {
  std::vector<double> most(mine.size());
  MPI_Allreduce(mine.data(), most.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX, comm);
  return most;
}

/// A transport's loop and the times of its blocks, by turn, in microseconds a step.
template <int D>
struct Way {
  std::string name;
  Loop<D> loop;
  std::array<std::vector<double>, kinds> all;
  std::vector<double> exchange, start, finish;

  Way(std::string n, const shard::Environment& environment, const shard::Tuning& tuning,
      bool shared)
      : name(std::move(n)), loop(environment.world(), environment.size(), tuning, shared) {}

  void take_turn(int steps, bool counts) {
    for (int kind = 0; kind < kinds; ++kind) {
      const Block block  = loop.run(static_cast<Kind>(kind), steps);
      const double scale = 1e6 / steps;
      if (!counts) continue;
      all[static_cast<std::size_t>(kind)].push_back(block.all * scale);
      if (kind == sequence) exchange.push_back(block.start * scale);
      if (kind != by_hand) continue;
      start.push_back(block.start * scale);
      finish.push_back(block.finish * scale);
    }
  }

  /// Ends the program unless overlapped steps have the result of those in sequence.
  void check(MPI_Comm comm) {
    double expected = 0;
    for (const Kind kind : {sequence, overlapped, by_hand}) {
      loop.reset();
      loop.run(kind, 3);
      const double sum = loop.checksum();
      if (kind == sequence) expected = sum;
      if (sum == expected) continue;
      std::fprintf(stderr, "overlap/%s: overlapped steps differ from those in sequence\n",
                   name.c_str());
      MPI_Abort(comm, 1);
    }
  }

  void print(const shard::Environment& environment, int steps, const char*& separator) {
    for (auto& times : all) times = slowest(environment.world(), times);
    const auto difference = [&](Kind a, Kind b) {
      std::vector<double> of_turn;
      for (std::size_t i = 0; i < all[a].size(); ++i) of_turn.push_back(all[a][i] - all[b][i]);
      return support::median(of_turn);
    };
    double mine[3] = {support::median(exchange), support::median(start), support::median(finish)},
           mean[3] = {};
    MPI_Allreduce(mine, mean, 3, MPI_DOUBLE, MPI_SUM, environment.world());
    for (double& time : mean) time /= environment.size();
    const double cost = difference(sequence, whole), seen = difference(overlapped, pieces);
    if (environment.rank() != 0) return;
    std::printf(
        "%s  {\"name\": \"overlap/%s/256x256x64/cut%d\", \"run_type\": \"iteration\", "
        "\"iterations\": %zu, \"real_time\": %.2f, \"cpu_time\": %.2f, \"time_unit\": \"us\", "
        "\"exchange\": %.2f, \"start\": %.2f, \"finish\": %.2f, \"hidden\": %.3f, "
        "\"sequence\": %.2f, \"pieces\": %.2f, \"whole\": %.2f, \"exchange_by_steps\": %.2f, "
        "\"seen_by_steps\": %.2f, \"hidden_by_steps\": %.3f, \"gained\": %.3f}",
        separator, name.c_str(), D, all[overlapped].size() * static_cast<std::size_t>(steps),
        support::median(all[overlapped]), support::median(all[overlapped]), mean[0], mean[1],
        mean[2], 1 - (mean[1] + mean[2]) / mean[0], support::median(all[sequence]),
        support::median(all[pieces]), support::median(all[whole]), cost, seen, 1 - seen / cost,
        difference(sequence, overlapped) / cost);
    separator = ",\n";
  }
};

template <int D>
void measure(const shard::Environment& environment, int turns, const char*& separator) {
  constexpr int steps = 4;
  const shard::Tuning by_rule, packed{.direct_run = std::numeric_limits<std::size_t>::max()},
      by_mpi{.transport = shard::TransportKind::mpi};
  Way<D> ways[] = {{"shared_direct", environment, by_rule, true},
                   {"shared_packed", environment, packed, true},
                   {"mpi", environment, by_mpi, false}};
  for (Way<D>& way : ways) way.check(environment.world());
  for (int turn = -2; turn < turns; ++turn)
    for (Way<D>& way : ways) way.take_turn(steps, turn >= 0);
  for (Way<D>& way : ways) way.print(environment, steps, separator);
}

}  // namespace

// overlap [TURNS]
int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  int turns = 60;
  support::Arguments given(argc, argv, "[TURNS]");
  given.next("TURNS", turns, 1);
  if (!given.understood()) return 2;
  if (environment.rank() == 0) std::printf("{\"benchmarks\": [\n");
  const char* separator = "";
  measure<0>(environment, turns, separator);
  measure<1>(environment, turns, separator);
  if (environment.rank() == 0) std::printf("\n]}\n");
}
