// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of programs on several hosts, measured and predicted.
//
// hosts --measure FILE --per-node N   writes a machine file for scaling_model
// hosts [--machine FILE] [--turns N] [--parts N] [--only NAME]
//     runs the programs, and predicts their times from the file and from what each rank does when
//     it runs alone, as one of imagined ranks; --parts: the work, by default as many as ranks
// hosts --machine FILE --imagined RANKS [--only NAME]
//     on one rank: predicts the times of the programs on RANKS ranks
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "measure.hpp"
#include "scaling_model/steps.hpp"
#include "shard/base/environment.hpp"
#include "support/arguments.hpp"
#include "support/asleep.hpp"
#include "support/imagined_ranks.hpp"
#include "support/turns.hpp"
#include "workloads.hpp"

namespace {

using imagined::Part;
using scaling::Machine;
using scaling::Recorded;
using workloads::Workload;

std::vector<int> mesh_of(const Workload& workload, int ranks) {
  return workload.axes == 1 ? std::vector<int>{ranks} : workloads::shape_of(ranks);
}

/// What a rank does in a step if it is alone: computation is the median of several steps.
Recorded recorded_alone(const Workload& workload, int parts, int ranks, int rank) {
  constexpr int steps = 7;
  Recorded recorded;
  imagined::begin(ranks, rank, mesh_of(workload, ranks));
  {
    const workloads::Run run = workload.make(MPI_COMM_SELF, parts);
    for (int warm = 0; warm < 3; ++warm) run.step();
    std::vector<std::vector<double>> seconds;
    for (int s = 0; s < steps; ++s) {
      imagined::start_recording();
      run.step();
      recorded = imagined::stop_recording();
      seconds.resize(recorded.size());
      for (std::size_t p = 0; p < recorded.size(); ++p) seconds[p].push_back(recorded[p].seconds);
    }
    for (std::size_t p = 0; p < recorded.size(); ++p)
      recorded[p].seconds = support::median(seconds[p]);
  }
  imagined::end();
  return recorded;
}

/// As numbers, and back.
std::vector<double> numbers_of(const Recorded& recorded) {
  std::vector<double> numbers;
  for (const Part& p : recorded) {
    numbers.insert(numbers.end(),
                   {p.seconds, static_cast<double>(p.kind), p.bytes, static_cast<double>(p.ranks),
                    static_cast<double>(p.sends.size())});
    for (const imagined::Message& m : p.sends)
      numbers.insert(numbers.end(), {static_cast<double>(m.peer), m.bytes});
  }
  return numbers;
}
Recorded recorded_from(const double* at, const double* end) {
  Recorded recorded;
  while (at != end) {
    Part p{.seconds = at[0],
           .kind    = static_cast<imagined::Kind>(at[1]),
           .bytes   = at[2],
           .ranks   = static_cast<int>(at[3])};
    const double* const last = at + 5 + 2 * static_cast<int>(at[4]);
    for (at += 5; at != last; at += 2) p.sends.push_back({static_cast<int>(at[0]), at[1]});
    recorded.push_back(p);
  }
  return recorded;
}

/// Of all ranks, on the first one. On each node one rank after the other runs, so that as many run
/// at once as there are nodes.
std::vector<Recorded> all_recorded(MPI_Comm comm, const Workload& workload, int parts,
                                   int per_node) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  std::vector<double> mine;
  for (int turn = 0; turn < per_node; ++turn) {
    if (rank % per_node == turn) mine = numbers_of(recorded_alone(workload, parts, ranks, rank));
    support::meet_asleep(comm);
  }
  std::vector<int> counts(static_cast<std::size_t>(ranks)), begins(counts.size() + 1);
  const int count = static_cast<int>(mine.size());
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm);
  for (std::size_t r = 0; r < counts.size(); ++r) begins[r + 1] = begins[r] + counts[r];
  std::vector<double> numbers(static_cast<std::size_t>(begins.back()));
  MPI_Gatherv(mine.data(), count, MPI_DOUBLE, numbers.data(), counts.data(), begins.data(),
              MPI_DOUBLE, 0, comm);
  std::vector<Recorded> all;
  if (rank == 0)
    for (std::size_t r = 0; r < counts.size(); ++r)
      all.push_back(recorded_from(numbers.data() + begins[r], numbers.data() + begins[r + 1]));
  return all;
}

struct Measured {
  double seconds;          ///< median of a step
  std::uint64_t checksum;  ///< of the result after all steps
};
Measured measured(MPI_Comm comm, const Workload& workload, int parts, int turns) {
  const workloads::Run run = workload.make(comm, parts);
  for (int warm = 0; warm < 3; ++warm) run.step();
  constexpr int steps  = 5;
  const double seconds = 1e-6 * support::in_turns(comm, turns, steps, {run.step})[0];
  return {seconds, run.checksum()};
}

struct Sent {
  double messages = 0, bytes = 0, collectives = 0;
};
Sent sent_in(const Recorded& recorded) {
  Sent sent;
  for (const Part& p : recorded) {
    sent.messages += static_cast<double>(p.sends.size());
    for (const imagined::Message& m : p.sends) sent.bytes += m.bytes;
    if (p.kind > imagined::Kind::messages) ++sent.collectives;
  }
  return sent;
}

void predict(const Workload& workload, int ranks, const Machine& machine) {
  scaling::StepTime worst;
  Sent sent;
  std::set<int> looked_at{0, ranks - 1};
  for (int i = 1; i < 6; ++i) looked_at.insert(static_cast<int>(0.19 * i * ranks));
  double alone = 0;
  for (const int rank : looked_at) {
    const Recorded recorded = recorded_alone(workload, ranks, ranks, rank);
    const auto time         = scaling::time_of_step({recorded}, ranks, machine, rank);
    if (time.total <= worst.total) continue;
    worst = time;
    sent  = sent_in(recorded);
    alone = 0;
    for (const Part& p : recorded) alone += p.seconds;
  }
  std::printf("| %s | %d | %.0f | %.3f | %.0f | %.2f | %.2f | %.3f |\n", workload.name, ranks,
              sent.messages, sent.bytes * 1e-6, sent.collectives, alone * 1e3, worst.total * 1e3,
              alone / worst.total);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  std::string measure, machine_file, only;
  int per_node = 1, turns = 9, parts = 0, ranks = 0;
  support::Arguments given(
      argc, argv,
      "--measure FILE [--per-node N] | [--machine FILE] [--turns N] [--parts N] "
      "[--only NAME] | --machine FILE --imagined RANKS [--only NAME]");
  given.take_output("--measure", measure);
  given.take("--machine", machine_file);
  given.take("--only", only);
  given.take("--per-node", per_node, 1);
  given.take("--turns", turns, 1);
  given.take("--parts", parts, 1);
  given.take("--imagined", ranks, 1);
  if (ranks > 0 && (environment.size() > 1 || machine_file.empty()))
    given.refuse("--imagined is for one rank, with --machine");
  if (!given.understood()) return 2;
  const MPI_Comm world = environment.world();
  const bool prints    = environment.rank() == 0;
  if (!measure.empty()) {
    const std::string text = measured_machine(world, per_node);
    if (prints) support::write_output(measure, text);
    return 0;
  }
  Machine machine;
  if (!machine_file.empty()) machine = scaling::read_machine(machine_file);
  if (parts == 0) parts = environment.size();
  if (prints && ranks > 0)
    std::printf(
        "| program | ranks | messages | MB sent | collectives | computation, ms | step, ms | "
        "efficiency |\n|---|---|---|---|---|---|---|---|\n");
  else if (prints)
    std::printf(
        "| program | parts | ranks | measured, ms | checksum | messages | MB sent | collectives | "
        "computation, ms | predicted, ms | predicted / measured |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Workload& workload : workloads::all()) {
    if (!only.empty() && only != workload.name) continue;
    if (ranks > 0) {
      if (workload.axes > 0) predict(workload, ranks, machine);
      continue;
    }
    std::vector<Recorded> recorded;
    if (!machine_file.empty() && workload.axes > 0)
      recorded = all_recorded(world, workload, parts, machine.ranks_per_node);
    const Measured is = measured(world, workload, parts, turns);
    if (!prints) continue;
    std::printf("| %s | %d | %d | %.2f | %016llx |", workload.name, parts, environment.size(),
                is.seconds * 1e3, static_cast<unsigned long long>(is.checksum));
    if (!recorded.empty()) {
      const auto time = scaling::time_of_step(recorded, environment.size(), machine);
      const Sent sent = sent_in(recorded[0]);
      std::printf(" %.0f | %.3f | %.0f | %.2f | %.2f | %.2f |", sent.messages, sent.bytes * 1e-6,
                  sent.collectives, time.compute * 1e3, time.total * 1e3, time.total / is.seconds);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
