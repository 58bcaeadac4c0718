// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scaling_check [REGEX]: the model's way of adding up, on this machine. Two ranks measure what the
// machine file would say (the time of a message by its size, that of copying boxes without
// messages), predict each case of benchmarks/halo over MPI from its messages' bytes and its boxes,
// and compare with the exchange itself, in turns. Ends with an error if a case is more than 25 %
// off.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <regex>
#include <vector>

#include "halo/subject.hpp"
#include "shard/base/environment.hpp"
#include "support/handshake.hpp"

namespace {

using peers::index_t;

constexpr int calls = 120, warm = 12;
constexpr std::size_t enough = 20;

double median(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

struct Timed {
  std::function<void()> call, before;  // `before` isn't timed
};

/// Microseconds of a call of each function, in turns, while the ranks' cores are near each other;
/// the slowest rank's median. Zeros if they hardly were.
std::vector<double> measure(const std::vector<Timed>& functions, support::Handshake& handshake) {
  std::vector<std::vector<double>> times(functions.size());
  support::Turns turns;
  for (int i = -warm, near = 0; i < 5 * calls && near < calls; ++i) {
    for (std::size_t f = 0; f < functions.size(); ++f) {
      functions[f].before();
      if (i >= 0) turns.see(handshake.apart());
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      functions[f].call();
      if (i >= 0) times[f].push_back((MPI_Wtime() - begin) * 1e6);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    if (i < 0) continue;
    turns.see(handshake.apart());
    turns.end_turn();
    if (i % 20 == 19) near = turns.count_near(MPI_COMM_WORLD);
  }
  std::vector<double> medians;
  for (auto& t : times) {
    const auto near = turns.of(support::Turns::near, t);
    medians.push_back(near.size() < enough ? 0 : median(near));
  }
  MPI_Allreduce(MPI_IN_PLACE, medians.data(), static_cast<int>(medians.size()), MPI_DOUBLE, MPI_MAX,
                MPI_COMM_WORLD);
  return medians;
}

/// So many bytes each way between the two ranks in so many messages, written before they are sent
/// and read when they have come; and the same copies without messages.
class Messages {
 public:
  Messages(std::size_t bytes, int count, int peer)
      : bytes_(bytes), mine_(bytes), send_(bytes), receive_(bytes), theirs_(bytes) {
    for (int way = 0; way < 2; ++way)
      for (int i = 0; i < count; ++i) {
        const std::size_t first =
                              bytes * static_cast<std::size_t>(i) / static_cast<std::size_t>(count),
                          end = bytes * static_cast<std::size_t>(i + 1) /
                                static_cast<std::size_t>(count);
        const int n = static_cast<int>(end - first);
        requests_.push_back(MPI_REQUEST_NULL);
        if (way == 0)
          MPI_Recv_init(receive_.data() + first, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                        &requests_.back());
        else
          MPI_Send_init(send_.data() + first, n, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                        &requests_.back());
      }
  }
  Messages(const Messages&)            = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages() {
    for (MPI_Request& r : requests_) MPI_Request_free(&r);
  }
  void exchange() {
    const int all = static_cast<int>(requests_.size()), half = all / 2;
    MPI_Startall(half, requests_.data());
    std::memcpy(send_.data(), mine_.data(), bytes_);
    MPI_Startall(half, requests_.data() + half);
    MPI_Waitall(all, requests_.data(), MPI_STATUSES_IGNORE);
    std::memcpy(theirs_.data(), receive_.data(), bytes_);
  }
  /// The same copies in this rank's own memory alone.
  void copy() {
    std::memcpy(send_.data(), mine_.data(), bytes_);
    std::memcpy(theirs_.data(), receive_.data(), bytes_);
  }
  void touch() {
    for (std::size_t i = 0; i < bytes_; i += 64) ++mine_[i];
  }

 private:
  std::size_t bytes_;
  std::vector<unsigned char> mine_, send_, receive_, theirs_;
  std::vector<MPI_Request> requests_;  // receives, then sends
};

index_t bytes_to_the_other(const peers::Problem& p, int rank) {
  index_t bytes = 0;
  for (int d = 0; d < peers::dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (p.width[i] > 0 && p.neighbours[i].low != rank)
      bytes += 2 * low_edge(p, d).cells() * p.value_bytes * static_cast<index_t>(p.origins.size());
  }
  return bytes;
}

template <class T>
void write_edges(const peers::Problem& p) {
  for (std::byte* origin : p.origins)
    for (int d = 0; d < peers::dims; ++d)
      if (p.width[static_cast<std::size_t>(d)] > 0)
        for (const peers::Box& box : {low_edge(p, d), high_edge(p, d)})
          for_lines(p, box, [&](index_t first, index_t count, index_t stride) {
            T* line = reinterpret_cast<T*>(origin) + first;
            for (index_t i = 0; i < count; ++i) line[i * stride] += T(1e-6);
          });
}

/// What a case takes, and what its prediction is made of, in microseconds.
struct Terms {
  double exchange = 0, message = 0, message_copies = 0, box_copies = 0;

  double predicted() const { return message + std::max(0.0, box_copies - message_copies); }
};

/// None for a case that is about something else than exchanges.
std::optional<Terms> terms_of(const halo::Case& one, int rank, support::Handshake& handshake) {
  const auto subject      = one.make(MPI_COMM_WORLD, {});
  const peers::Problem& p = subject->problem();
  const auto way          = std::find_if(subject->ways().begin(), subject->ways().end(),
                                         [](const halo::Way& w) { return w.name == "shard_mpi"; });
  if (way == subject->ways().end()) return std::nullopt;
  index_t bytes = bytes_to_the_other(p, rank);
  MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  Messages messages(static_cast<std::size_t>(bytes), way->messages, 1 - rank);
  const auto boxes = peers::make_box_copies(p);
  const auto edges = [&] {
    if (p.value_bytes == 4)
      write_edges<float>(p);
    else
      write_edges<double>(p);
  };
  const auto touch = [&] { messages.touch(); };
  const auto times = measure({{way->call, edges},
                              {[&] { messages.exchange(); }, touch},
                              {[&] { messages.copy(); }, touch},
                              {[&] { boxes->exchange(); }, edges}},
                             handshake);
  return Terms{times[0], times[1], times[2], times[3]};
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (environment.size() != 2) {
    std::fprintf(stderr, "scaling_check: it takes two ranks\n");
    return 2;
  }
  const std::regex filter(argc > 1 ? argv[1] : "");
  const int rank = environment.rank();
  support::Handshake handshake(environment.world());
  // what shard itself adds to an exchange of next to nothing
  std::vector<halo::Case> tiny;
  halo::add<double, Kokkos::LayoutRight, 2, 1, 1>(tiny, {16, 8}, halo::Cut<0>{}, {2});
  Terms nothing;
  for (int i = 0; i < 5 && nothing.exchange == 0; ++i)
    nothing = terms_of(tiny.front(), rank, handshake).value();
  const double host = std::max(0.0, nothing.exchange - nothing.predicted());
  if (rank == 0)
    std::printf("host time of an exchange: %.2f us\n%-52s %12s %12s %8s\n", host, "case, over MPI",
                "predicted", "measured", "ratio");
  int off = 0, all = 0, missing = 0;
  for (const halo::Case& one : halo::all_cases(2)) {
    if (!std::regex_search(one.name, filter)) continue;
    const std::optional<Terms> t = terms_of(one, rank, handshake);
    if (!t) continue;
    if (t->exchange == 0) {
      ++missing;
      if (rank == 0) std::printf("%-52s not measured: the cores were apart\n", one.name.c_str());
      continue;
    }
    const double predicted = t->predicted() + host, ratio = predicted / t->exchange;
    const bool good = ratio > 0.75 && ratio < 1.25;
    ++all;
    off += good ? 0 : 1;
    if (rank == 0)
      std::printf("%-52s %9.2f us %9.2f us %8.2f%s\n", one.name.c_str(), predicted, t->exchange,
                  ratio, good ? "" : "  off");
  }
  if (rank == 0)
    std::printf("%d of %d cases are within 25 %%, %d were not measured\n", all - off, all, missing);
  return off == 0 && missing <= all / 4 ? 0 : 1;
}
