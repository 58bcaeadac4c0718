// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a halo exchange shard::overlapped hides behind a stencil of 7 points, 256x256x64
// double; with --network, for ranks on several hosts (tools/hosts): over MPI alone, of 7 and of 27
// points, of one field and of eight in one exchange (of 128x128x64).
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
// An exchange that takes longer than the stencil can't be hidden whole:
//   of_possible = (sequence - overlapped) / min(sequence - whole, whole)
// differences turn by turn of the slowest rank's steps, of which the median counts.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
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

constexpr int most_fields = 8;

/// Diffusion of one field or several. No flux through the walls of the dimensions that aren't cut.
template <int D, int Points>
struct DiffuseKernel {
  std::array<const double*, most_fields> from{};
  std::array<double*, most_fields> to{};
  int fields = 0;
  std::array<int, 3> extent{};
  std::array<long, 3> stride{};

  /// The way to a neighbour; to the cell itself where a wall is between.
  template <int E>
  KOKKOS_FUNCTION long low(int i) const {
    return E == D || i > 0 ? -stride[E] : 0;
  }
  template <int E>
  KOKKOS_FUNCTION long high(int i) const {
    return E == D || i < extent[E] - 1 ? stride[E] : 0;
  }
  /// The sum of a cell's neighbours along the inner dimension. Beyond its walls lies another line's
  /// cell or one of the halo: read and not used, so that the line is computed in vectors.
  KOKKOS_FUNCTION double inner(const double* cell, int k) const {
    const double below = cell[-1], above = cell[1];
    return (k > 0 ? below : *cell) + (k < extent[2] - 1 ? above : *cell);
  }
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    const long at   = i * stride[0] + j * stride[1] + k;
    const long x[3] = {low<0>(i), 0, high<0>(i)}, y[3] = {low<1>(j), 0, high<1>(j)};
    for (int f = 0; f < fields; ++f) {
      const double* cell = from[static_cast<std::size_t>(f)] + at;
      double sum         = 0;
      if constexpr (Points == 7) {
        sum = cell[x[0]] + cell[x[2]] + cell[y[0]] + cell[y[2]] + inner(cell, k) - 6 * *cell;
      } else {
        for (const long a : x)
          for (const long b : y) sum += cell[a + b] + inner(cell + a + b, k);
        sum -= 27 * *cell;
      }
      to[static_cast<std::size_t>(f)][at] = *cell + 0.03 * sum;
    }
  }
};

template <int D, int Points>
DiffuseKernel<D, Points> diffuse(const std::vector<FieldCut<D>>& from,
                                 const std::vector<FieldCut<D>>& to) {
  DiffuseKernel<D, Points> kernel;
  for (std::size_t f = 0; f < from.size(); ++f) {
    kernel.from[f] = from[f].origin();
    kernel.to[f]   = to[f].origin();
  }
  kernel.fields = static_cast<int>(from.size());
  for (int d = 0; d < 3; ++d) {
    const auto i     = static_cast<std::size_t>(d);
    kernel.extent[i] = static_cast<int>(from[0].extent(d));
    kernel.stride[i] = static_cast<long>(from[0].stride(d));
  }
  return kernel;
}

enum Kind { sequence, overlapped, pieces, whole, by_hand, kinds };

/// Seconds of a block.
struct Block {
  double all = 0, start = 0, finish = 0;  // the sequence's exchange is all start
};

/// The mesh's ranks over each other, on transports of several kinds.
struct Options {
  const char* name;
  shard::Tuning tuning;
  bool shared;  ///< fields that neighbours on the node read in place
  int fields = 1;
  shard::Extents<3> all{256, 256, 64};
};

template <int D, int Points>
class Loop {
  using Field    = FieldCut<D>;
  using Fields   = std::vector<Field>;
  using Exchange = shard::Exchange<Fields>;

 public:
  Loop(MPI_Comm comm, int ranks, const Options& options)
      : mesh_(comm, {ranks}),
        levels_{make("now", options), make("then", options)},
        halos_{Exchange(options.tuning, levels_[0]), Exchange(options.tuning, levels_[1])} {
    reset();
  }

  void reset() {
    for (const Fields& level : levels_)
      for (const Field& t : level)
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
    MPI_Barrier(mesh_.communicator());
    const double begin = MPI_Wtime();
    for (int s = 0; s < steps; ++s) step(kind, block);
    block.all = MPI_Wtime() - begin;
    MPI_Barrier(mesh_.communicator());
    return block;
  }

  /// A sum that tells one cell from another.
  double checksum() const {
    double sum = 0;
    for (const Field& t : levels_[now_])
      for (int i = 0; i < t.extent(0); ++i)
        for (int j = 0; j < t.extent(1); ++j)
          for (int k = 0; k < t.extent(2); ++k)
            sum += t(i, j, k) * static_cast<double>((i * 7 + j * 3 + k) % 13);
    return sum;
  }

 private:
  Fields make(const char* label, const Options& of) const {
    Fields fields;
    for (int f = 0; f < of.fields; ++f)
      fields.push_back(of.shared ? shard::shared_field<Field>(label, mesh_, of.all)
                                 : Field(label, mesh_, of.all));
    return fields;
  }

  void step(Kind kind, Block& block) {
    const Fields& level   = levels_[now_];
    const Field& from     = level[0];
    const Exchange& halos = halos_[now_];
    now_                  = 1 - now_;
    const auto kernel     = diffuse<D, Points>(level, levels_[now_]);
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
  std::array<Fields, 2> levels_;
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
template <int D, int Points>
struct Way {
  Options options;
  Loop<D, Points> loop;
  std::array<std::vector<double>, kinds> all;
  std::vector<double> exchange, start, finish;

  Way(const shard::Environment& environment, const Options& given)
      : options(given), loop(environment.world(), environment.size(), given) {}

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
                   options.name);
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
        "%s  {\"name\": \"overlap/%s/%dx%dx%d/cut%d\", \"run_type\": \"iteration\", "
        "\"iterations\": %zu, \"real_time\": %.2f, \"cpu_time\": %.2f, \"time_unit\": \"us\", "
        "\"exchange\": %.2f, \"start\": %.2f, \"finish\": %.2f, \"hidden\": %.3f, "
        "\"by_hand\": %.2f, \"sequence\": %.2f, \"pieces\": %.2f, \"whole\": %.2f, "
        "\"exchange_by_steps\": %.2f, "
        "\"seen_by_steps\": %.2f, \"hidden_by_steps\": %.3f, \"gained\": %.3f, "
        "\"of_possible\": %.3f}",
        separator, options.name, static_cast<int>(options.all[0]), static_cast<int>(options.all[1]),
        static_cast<int>(options.all[2]), D,
        all[overlapped].size() * static_cast<std::size_t>(steps), support::median(all[overlapped]),
        support::median(all[overlapped]), mean[0], mean[1], mean[2],
        1 - (mean[1] + mean[2]) / mean[0], support::median(all[by_hand]),
        support::median(all[sequence]), support::median(all[pieces]), support::median(all[whole]),
        cost, seen, 1 - seen / cost, difference(sequence, overlapped) / cost,
        difference(sequence, overlapped) / std::min(cost, support::median(all[whole])));
    separator = ",\n";
  }
};

template <int D, int Points>
void measure(const shard::Environment& environment, int turns, const std::vector<Options>& options,
             const char*& separator) {
  constexpr int steps = 4;
  std::vector<Way<D, Points>> ways;
  ways.reserve(options.size());
  for (const Options& one : options) ways.emplace_back(environment, one);
  for (auto& way : ways) way.check(environment.world());
  for (int turn = -2; turn < turns; ++turn)
    for (auto& way : ways) way.take_turn(steps, turn >= 0);
  for (auto& way : ways) way.print(environment, steps, separator);
}

}  // namespace

// overlap [--network [--part BYTES]] [TURNS]; BYTES: see Tuning::message_part
int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  int turns = 60;
  support::Arguments given(argc, argv, "[--network [--part BYTES]] [TURNS]");
  const bool network = given.flag("--network");
  int part           = 0;
  given.take("--part", part, 0);
  given.next("TURNS", turns, 1);
  if (!given.understood()) return 2;
  if (environment.rank() == 0) std::printf("{\"benchmarks\": [\n");
  const char* separator = "";
  const shard::Tuning by_rule, packed{.direct_run = std::numeric_limits<std::size_t>::max()},
      by_mpi{.transport    = shard::TransportKind::mpi,
             .message_part = static_cast<std::size_t>(part)};
  if (network) {
    const shard::Extents<3> small{128, 128, 64};
    const std::vector<Options> of_7{{"7_points", by_mpi, false},
                                    {"7_points/8_fields", by_mpi, false, 8, small}},
        of_27{{"27_points", by_mpi, false}, {"27_points/8_fields", by_mpi, false, 8, small}};
    measure<0, 7>(environment, turns, of_7, separator);
    measure<1, 7>(environment, turns, of_7, separator);
    measure<0, 27>(environment, turns, of_27, separator);
    measure<1, 27>(environment, turns, of_27, separator);
  } else {
    const std::vector<Options> all{
        {"shared_direct", by_rule, true}, {"shared_packed", packed, true}, {"mpi", by_mpi, false}};
    measure<0, 7>(environment, turns, all, separator);
    measure<1, 7>(environment, turns, all, separator);
  }
  if (environment.rank() == 0) std::printf("\n]}\n");
}
