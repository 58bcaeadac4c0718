// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scaling_check [--machine FILE] [--write FILE] [REGEX]: the model against this machine. Two ranks
// measure the machine (calibrate.hpp; or FILE says what was measured), the model predicts each case
// of benchmarks/halo, over MPI and over shared memory (REGEX: case/way), from that and from the
// case's extents, mesh and fields alone, and the exchange itself is measured. A case that is more
// than 25 % off is measured twice more, on other memory, after all others and after another
// calibration, and the middle one of the three ratios counts. Ends with an error if one is off
// then, of those that were measured while the ranks' cores were near each other; or if that was so
// for less than three quarters; or if a plan sends another number of messages than the model
// thinks.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "calibrate.hpp"
#include "halo/subject.hpp"
#include "measure.hpp"
#include "model.hpp"
#include "shard/base/environment.hpp"
#include "support/arguments.hpp"

namespace {

using scaling::Machine;

constexpr int calls = 120;

/// What the model is told of a case.
scaling::Problem problem_of(const peers::Problem& p, int rank, const std::string& text) {
  scaling::Problem problem;
  for (std::size_t d = 0; d < peers::dims; ++d) {
    const bool cut   = p.width[d] > 0 && p.neighbours[d].low != rank;
    problem.mesh[d]  = cut ? 2 : 1;
    problem.cells[d] = static_cast<int>((p.global[d] + problem.mesh[d] - 1) / problem.mesh[d]);
    problem.width[d] = p.width[d];
  }
  problem.fields      = static_cast<int>(p.origins.size());
  problem.value_bytes = p.value_bytes;
  problem.left        = p.stride[0] < p.stride[2];
  // dimensions that aren't there are the slowest
  if (p.extent[0] == 1 && p.width[0] == 0) problem.left = p.stride[1] < p.stride[2];
  const shard::Tuning tuning = shard::tuning_from_text(text);
  problem.messages           = tuning.messages;
  problem.shared             = tuning.transport != shard::TransportKind::mpi;
  problem.direct_run         = static_cast<double>(tuning.direct_run);
  // the same but for corners, of a few cells, which travel in a dimension's message
  if (problem.messages == shard::MessageLayout::by_dimension)
    problem.messages = shard::MessageLayout::one_per_peer;
  return problem;
}

constexpr const char *over_mpi = "shard_mpi", *over_shared_memory = "shard_shared";

/// A case over a transport.
class Compared {
 public:
  Compared(const halo::Case& one, const char* name, int rank)
      : subject_(one.make(MPI_COMM_WORLD, {})) {
    const auto way = std::find_if(subject_->ways().begin(), subject_->ways().end(),
                                  [&](const halo::Way& w) { return w.name == name; });
    if (way == subject_->ways().end()) return;
    way_     = &*way;
    problem_ = problem_of(subject_->problem(), rank, way->tuning);
  }
  /// Not of a case that is about something else than messages.
  bool usable() const { return way_ != nullptr && way_->messages > 0; }

  scaling::Timed timed() const {
    return {way_->call, [this] { scaling::write_edges(subject_->problem()); }};
  }
  /// By the model.
  scaling::Times predicted(const Machine& machine) const {
    return scaling::predict(problem_, machine);
  }
  /// Messages that the plan sends.
  int messages() const { return way_->messages; }

 private:
  std::unique_ptr<halo::Subject> subject_;
  const halo::Way* way_ = nullptr;
  scaling::Problem problem_;
};

/// Medians of the turns, in microseconds.
struct Prediction {
  double predicted, exchange;
  bool apart;
  int messages, messages_of_model;
  double ratio() const { return predicted / exchange; }
  bool good() const { return ratio() > 0.75 && ratio() < 1.25; }
  bool counts() const { return messages == messages_of_model; }
};

/// Collective. Waits for near cores, `patience` seconds at most, which is what is left of them
/// afterwards.
Prediction compare(const Compared& compared, const Machine& machine, support::Handshake& handshake,
                   double& patience) {
  patience -= handshake.wait_until_near(MPI_COMM_WORLD, patience);
  const auto measured = scaling::measure({compared.timed()}, calls, handshake);
  std::vector<double> exchanges;
  for (const auto& turn : measured.turns) exchanges.push_back(turn[0]);
  const scaling::Times times = compared.predicted(machine);
  return {(times.pack + times.messages) * 1e6, scaling::median(exchanges), measured.apart,
          compared.messages(), times.traffic.near_messages};
}

/// A case and what was found; three tries where the first was off, the later ones after all other
/// cases.
struct Row {
  halo::Case one;
  const char* way;
  std::vector<std::unique_ptr<Compared>> subjects;  // all kept: each on memory of its own
  std::vector<Prediction> tries;

  /// The middle one of three that were near: to have been apart since excuses nothing.
  Prediction result() const {
    std::vector<Prediction> near = tries;
    std::erase_if(near, [](const Prediction& p) { return p.apart; });
    if (near.size() < 3) return tries.front();
    std::sort(near.begin(), near.end(),
              [](const Prediction& a, const Prediction& b) { return a.ratio() < b.ratio(); });
    return near[1];
  }
};

/// Collective. False for a case without messages.
bool add_try(Row& row, const Machine& machine, int rank, support::Handshake& handshake,
             double& patience) {
  row.subjects.push_back(std::make_unique<Compared>(row.one, row.way, rank));
  if (!row.subjects.back()->usable()) return false;
  row.tries.push_back(compare(*row.subjects.back(), machine, handshake, patience));
  return true;
}

void print(const Row& row, int rank) {
  if (rank != 0) return;
  const Prediction p = row.result();
  std::printf("%-65s %9.2f us %9.2f us %8.2f%s%s\n", (row.one.name + "/" + row.way).c_str(),
              p.predicted, p.exchange, p.ratio(), row.tries.size() > 1 ? "  of three" : "",
              p.apart    ? "  cores apart"
              : p.good() ? ""
                         : "  off");
  if (!p.counts())
    std::printf("  its plan sends %d messages, %d by the model: off\n", p.messages,
                p.messages_of_model);
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // it takes minutes
  std::string expression, given, written;
  support::Arguments arguments(argc, argv, "[--machine FILE] [--write FILE] [REGEX]");
  arguments.take("--machine", given);
  arguments.take_output("--write", written);
  arguments.next("REGEX", expression);
  std::regex filter;
  try {
    filter = std::regex(expression);
  } catch (const std::regex_error& error) {
    arguments.refuse("'" + expression + "': " + error.what());
  }
  if (!arguments.understood()) return 2;
  if (environment.size() != 2) arguments.refuse("it takes two ranks");
  if (!arguments.understood()) return 2;
  const int rank = environment.rank();
  support::Handshake handshake(environment.world());
  double patience = 400;  // seconds, for all cases
  Machine machine;
  if (given.empty())
    scaling::calibrate(machine, handshake, patience);
  else
    machine = scaling::read_machine(given);
  if (rank == 0) std::printf("%-65s %12s %12s %8s\n", "case", "predicted", "measured", "ratio");
  std::vector<Row> rows;
  for (const halo::Case& one : halo::all_cases(2))
    for (const char* way : {over_mpi, over_shared_memory}) {
      if (!std::regex_search(one.name + "/" + way, filter)) continue;
      if (way == over_shared_memory && machine.curves.direct.empty()) continue;
      Row row{one, way, {}, {}};
      if (!add_try(row, machine, rank, handshake, patience)) continue;
      if (row.tries[0].good() || row.tries[0].apart) {
        row.subjects.clear();
        print(row, rank);
      }
      rows.push_back(std::move(row));
    }
  const auto count = [&](const auto& is) {
    return static_cast<int>(
        std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return is(row); }));
  };
  if (given.empty() && count([](const Row& row) { return !row.subjects.empty(); }) > 0)
    scaling::calibrate(machine, handshake, patience);
  for (Row& row : rows) {
    if (row.subjects.empty()) continue;
    for (int i = 0; i < 2; ++i) add_try(row, machine, rank, handshake, patience);
    row.subjects.clear();
    print(row, rank);
  }
  if (rank == 0 && !written.empty()) scaling::write_machine(written, machine);
  const int all   = static_cast<int>(rows.size()),
            apart = count([](const Row&row) { return row.result().apart; }),
            off = count([](const Row&row) { return !row.result().apart && !row.result().good(); }),
            wrong = count([](const Row&row) { return !row.result().counts(); });
  if (rank == 0)
    std::printf("%d of %d cases are within 25 %%, the cores were apart for %d more\n",
                all - apart - off, all - apart, apart);
  return off == 0 && wrong == 0 && apart <= all / 4 ? 0 : 1;
}
