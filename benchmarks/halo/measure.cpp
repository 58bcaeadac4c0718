// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <stdexcept>

#include "support/turns.hpp"

namespace halo {

namespace {

using peers::Box;
using peers::Problem;

/// The boxes of owned cells that neighbours read, and those of the halo.
struct Boxes {
  std::vector<Box> edges, halos;

  explicit Boxes(const Problem& p) {
    for (int d = 0; d < peers::dims; ++d) {
      if (p.width[static_cast<std::size_t>(d)] == 0) continue;
      edges.insert(edges.end(), {low_edge(p, d), high_edge(p, d)});
      halos.insert(halos.end(), {low_halo(p, d), high_halo(p, d)});
    }
  }
};

double sink = 0;  // what was read, so that reading isn't left out

/// What a model does between two exchanges: writes the cells that others read, reads those that
/// others wrote. Before a transposed exchange the pullback of a stencil has written both the halo
/// and the owned cells near it, for it scatters.
template <class T>
void touch(const Problem& p, const std::vector<Box>& written, const std::vector<Box>& read) {
  for (std::byte* origin : p.origins) {
    T* field = reinterpret_cast<T*>(origin);
    for (const Box& box : written)
      for_lines(p, box, [&](index_t first, index_t count, index_t stride) {
        for (index_t i = 0; i < count; ++i) field[first + i * stride] += T(1e-6);
      });
    T sum = 0;
    for (const Box& box : read)
      for_lines(p, box, [&](index_t first, index_t count, index_t stride) {
        for (index_t i = 0; i < count; ++i) sum += field[first + i * stride];
      });
    sink += static_cast<double>(sum);
  }
}

void touch(const Problem& p, const Boxes& boxes, Direction direction) {
  const bool forward = direction == Direction::forward;
  auto written       = boxes.edges;
  if (!forward) written.insert(written.end(), boxes.halos.begin(), boxes.halos.end());
  const auto& read = forward ? boxes.halos : boxes.edges;
  if (p.value_bytes == 4)
    touch<float>(p, written, read);
  else
    touch<double>(p, written, read);
}

double value_of(const Problem& p, std::size_t f, std::array<index_t, peers::dims> at) {
  for (std::size_t d = 0; d < peers::dims; ++d)
    at[d] = ((p.begin[d] + at[d]) % p.global[d] + p.global[d]) % p.global[d];
  const index_t number = (at[0] * p.global[1] + at[1]) * p.global[2] + at[2];
  return static_cast<double>(number % 8191) + 8192.0 * static_cast<double>(f);
}

template <class T>
void fill(const Problem& p, const std::vector<Box>& halos) {
  for (std::size_t f = 0; f < p.origins.size(); ++f) {
    T* field = reinterpret_cast<T*>(p.origins[f]);
    for_cells(p, {{}, p.extent}, [&](const auto& at, index_t offset) {
      field[offset] = static_cast<T>(value_of(p, f, at));
    });
    for (const Box& box : halos)
      for_cells(p, box, [&](const auto&, index_t offset) { field[offset] = T(-7); });
  }
}

template <class T>
index_t wrong_cells(const Problem& p, const std::vector<Box>& halos) {
  index_t wrong = 0;
  for (std::size_t f = 0; f < p.origins.size(); ++f) {
    const T* field = reinterpret_cast<T*>(p.origins[f]);
    for (const Box& box : halos)
      for_cells(p, box, [&](const auto& at, index_t offset) {
        wrong += field[offset] == static_cast<T>(value_of(p, f, at)) ? 0 : 1;
      });
  }
  return wrong;
}

/// Throws on every rank unless the way fills every halo cell with what its owner has.
void check(const Problem& p, const Boxes& boxes, const Way& way, const std::string& name) {
  if (p.value_bytes == 4)
    fill<float>(p, boxes.halos);
  else
    fill<double>(p, boxes.halos);
  MPI_Barrier(p.comm);
  way.call();
  if (way.deliver) way.deliver();
  index_t wrong =
      p.value_bytes == 4 ? wrong_cells<float>(p, boxes.halos) : wrong_cells<double>(p, boxes.halos);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, p.comm);
  if (wrong > 0)
    throw std::runtime_error(name + "/" + way.name + ": " + std::to_string(wrong) +
                             " halo cells are wrong");
}

/// The other libraries' ways of a case; says once why one is missing.
class Rivals {
 public:
  void add(const Problem& p, std::vector<Way>& ways) {
    add("hand_mpi", peers::make_hand_mpi(p, false), ways);
    add("hand_mpi_in_place", peers::make_hand_mpi(p, true), ways);
    if (p.origins.size() > 1) add_singles(p, ways);
    std::string reason;
    add_or_say("petsc", peers::make_petsc(p, reason), reason, p, ways);
    add_or_say("tpetra", peers::make_tpetra(p, reason), reason, p, ways);
    add_or_say("ghex", peers::make_ghex(p, reason), reason, p, ways);
    add("memcpy", peers::make_memcpy(p), ways);
    ways.back().fills = false;
  }

 private:
  /// An exchange for each field, what fusing them is compared with.
  static void add_singles(const Problem& p, std::vector<Way>& ways) {
    auto each = std::make_shared<std::vector<std::unique_ptr<peers::Competitor>>>();
    for (std::byte* origin : p.origins) {
      Problem one = p;
      one.origins = {origin};
      each->push_back(peers::make_hand_mpi(one, false));
    }
    ways.push_back({"hand_mpi_single",
                    Direction::forward,
                    [=] {
                      for (const auto& one : *each) one->exchange();
                    },
                    {},
                    {}});
  }
  static void add(const char* name, std::unique_ptr<peers::Competitor> competitor,
                  std::vector<Way>& ways) {
    if (!competitor) return;
    const std::shared_ptr<peers::Competitor> kept(std::move(competitor));
    ways.push_back({name, Direction::forward, [=] { kept->exchange(); }, [=] { kept->deliver(); },
                    [=] { kept->prepare(); }});
  }
  void add_or_say(const char* name, std::unique_ptr<peers::Competitor> competitor,
                  const std::string& reason, const Problem& p, std::vector<Way>& ways) {
    int rank = 0;
    MPI_Comm_rank(p.comm, &rank);
    if (competitor)
      add(name, std::move(competitor), ways);
    else if (said_.insert(name + reason).second && rank == 0)
      std::fprintf(stderr, "%s is skipped where %s\n", name, reason.c_str());
  }

  std::set<std::string> said_;
};

constexpr int most_turns = 200, least_turns = 9;
constexpr double seconds = 4;  ///< of a case, so that the report takes ten minutes on any machine

/// Microseconds of each way (rows) in each turn, of the slowest rank. The ways alternate. Ends
/// after `turns` turns, or when the case has used its seconds. Collective.
std::vector<std::vector<double>> time_ways(const Problem& p, const std::vector<Way>& ways,
                                           int turns) {
  const Boxes boxes(p);
  std::vector<std::vector<double>> times(ways.size());
  // A way that came after the same one each time would find what that one leaves in the caches. The
  // order is random, and the same on all ranks.
  std::minstd_rand dice;
  std::vector<std::size_t> order(ways.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const double begin = MPI_Wtime();
  for (int turn = -turns / 10; turn < turns; ++turn) {
    double elapsed = MPI_Wtime() - begin;
    MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, p.comm);
    if (turn >= least_turns && elapsed > seconds) break;
    std::shuffle(order.begin(), order.end(), dice);
    for (const std::size_t w : order) {
      if (ways[w].prepare) ways[w].prepare();
      touch(p, boxes, ways[w].direction);
      MPI_Barrier(p.comm);
      const double start = MPI_Wtime();
      ways[w].call();
      const double time = MPI_Wtime() - start;
      if (turn >= 0) times[w].push_back(time * 1e6);
      MPI_Barrier(p.comm);  // nobody is still at it when the fields are written
    }
  }
  for (auto& of_way : times)
    MPI_Allreduce(MPI_IN_PLACE, of_way.data(), static_cast<int>(of_way.size()), MPI_DOUBLE, MPI_MAX,
                  p.comm);
  return times;
}

/// What is said of all ways of a case.
Result describe(const Case& one, const Problem& p) {
  int rank = 0;
  MPI_Comm_rank(p.comm, &rank);
  Result common;
  common.case_name = one.name;
  for (int d = 0; d < peers::dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (p.width[i] == 0) continue;
    const index_t bytes =
        low_edge(p, d).cells() * p.value_bytes * static_cast<index_t>(p.origins.size());
    const bool self   = p.neighbours[i].low == rank;
    common.face_bytes = std::max(common.face_bytes, self ? 0 : bytes);
    const index_t run = run_bytes(p, d);
    common.run_bytes  = common.run_bytes == 0 ? run : std::min(common.run_bytes, run);
    common.strided    = common.strided || p.stride[i] == 1;
  }
  return common;
}

/// Checks and times the ways of a case that are wanted. Collective.
void run(MPI_Comm comm, const Options& options, const Case& one, const std::regex& filter,
         Rivals& rivals, std::vector<Result>& results) {
  const auto subject = one.make(comm, options.tuning);
  const Problem& p   = subject->problem();
  std::vector<Way> ways;
  if (!one.pullback) rivals.add(p, ways);
  ways.insert(ways.end(), subject->ways().begin(), subject->ways().end());
  std::erase_if(ways,
                [&](const Way& w) { return !std::regex_search(one.name + "/" + w.name, filter); });
  const Boxes boxes(p);
  for (const Way& way : ways)
    if (way.fills && way.direction == Direction::forward) check(p, boxes, way, one.name);
  const Result common = describe(one, p);
  const auto times    = time_ways(p, ways, options.quick ? most_turns / 8 : most_turns);
  int rank            = 0;
  MPI_Comm_rank(comm, &rank);
  for (std::size_t w = 0; w < ways.size(); ++w) {
    Result result       = common;
    result.way          = ways[w].name;
    result.tuning       = ways[w].tuning;
    result.messages     = ways[w].messages;
    result.microseconds = support::median(times[w]);
    result.turns        = times[w];
    if (rank == 0) print(stdout, result);
    results.push_back(result);
  }
}

}  // namespace

std::vector<Result> measure(MPI_Comm comm, const Options& options) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const std::regex filter(options.filter);
  std::vector<Result> results;
  Rivals rivals;
  if (rank == 0) print_header(stdout);
  for (const Case& one : all_cases(ranks)) {
    // a filter may name a way: only making the case tells which there are, so ask for those known
    std::vector<std::string> known{"shard_pullback", "shard_ordered_pullback"};
    if (!one.pullback) {
      known = {"hand_mpi", "hand_mpi_in_place", "hand_mpi_single", "petsc", "tpetra", "ghex",
               "memcpy"};
      for (const std::string transport : {"shard_mpi", "shard_shared"})
        for (const char* what : {"", "_adjoint", "_single", "_faces"})
          known.push_back(transport + what);
    }
    const bool wanted = std::any_of(known.begin(), known.end(), [&](const std::string& way) {
      return std::regex_search(one.name + "/" + way, filter);
    });
    if (!wanted) continue;
    if (options.list) {
      if (rank == 0) std::printf("%s\n", one.name.c_str());
      continue;
    }
    run(comm, options, one, filter, rivals, results);
  }
  return results;
}

}  // namespace halo
