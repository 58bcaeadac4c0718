// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program in which something goes wrong on one rank: its argument says what. Run by ends_badly.
#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "shard/io/checkpoint.hpp"
#include "shard/redistribute/coupling.hpp"
#include "shard/shard.hpp"

struct X;

namespace {

using Space = Kokkos::DefaultHostExecutionSpace;
using Rows =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>, Kokkos::HostSpace>;

/// Tells ends_badly about this process: a file with its number as name and its program as content.
/// What this process says goes to a file of its own, for a launcher may cut the lines of several
/// ranks into each other.
void sign_in(const char* program) {
  const char* folder = std::getenv("SHARD_TEST_PROCESSES");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + std::to_string(getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "w")) {
    std::fputs(program, file);
    std::fclose(file);
  }
  const std::string words = std::string(folder) + "/../says." + std::to_string(getpid());
  if (std::freopen(words.c_str(), "w", stderr) == nullptr) std::_Exit(EXIT_FAILURE);
  std::setvbuf(stderr, nullptr, _IONBF, 0);
}

/// Does nothing more, as a rank that has lost its way.
[[noreturn]] void stay_away() {
  for (;;) pause();
}

/// Asks tools/hosts for what its options say: the last host loses its link, or has a slow one.
void disturb_link() {
  const char* hosts = std::getenv("SHARD_HOSTS");
  std::FILE* file =
      hosts == nullptr ? nullptr : std::fopen((std::string(hosts) + "/now").c_str(), "w");
  if (file == nullptr) throw std::runtime_error("this needs tools/hosts");
  std::fclose(file);
}

/// Ends as no program can help it, once the other ranks wait.
[[noreturn]] void die() {
  usleep(500000);
  std::raise(SIGKILL);
  std::abort();
}

/// Does nothing more as soon as Kokkos calls back for memory with this label.
const char* awaited = nullptr;
void stay_away_at(const Kokkos::Profiling::SpaceHandle, const char* label, const void*,
                  const std::uint64_t) {
  if (std::string(label) == awaited) stay_away();
}

/// Reads the halo's last row, and one row past the halo.
struct FarKernel {
  Rows t;
  void operator()(int j) const { t(0, j) = t(-1, j) + t(-2, j); }
};

class Program {
 public:
  Program(const shard::Environment& environment, const std::string& kind)
      : mesh_(environment.world(), {0}),
        last_(mesh_.rank() == mesh_.size() - 1),
        t_(allocate(mesh_, last_ && kind == "no_field")),
        u_(shard::shared_field<Rows>("u", mesh_, {2 * mesh_.size(), 5})) {}

  int run(const std::string& kind) {
    const shard::Exchange plan(t_);
    if (kind == "another_plan") {
      const shard::Exchange other(u_);
      if (mesh_.rank() == 0) other(Space());
      for (;;) plan(Space());
    }
    if (kind == "missing_plan") {
      if (mesh_.rank() == 0) plan(Space());
      const shard::Exchange other(u_);
      return 0;
    }
    if (kind == "missing_on_ids") {  // of an index space: only some ranks call it
      struct Cell;
      using Cells =
          shard::ShardedView<double*, Kokkos::LayoutRight,
                             shard::ShardDim<0, X, shard::Indices<Cell>>, Kokkos::HostSpace>;
      const std::int64_t me = mesh_.rank(), next = (me + 1) % mesh_.size();
      const shard::IndexSpace<Cell, X> ring(mesh_, shard::by_global_ids({me, next}, 1));
      const Cells cells("cells", mesh_, {ring});
      const shard::Exchange around(cells);
      if (last_) stay_away();
      for (;;) around(Space());
    }
    if (kind == "missing_measured") {
      if (last_) stay_away();
      const shard::Exchange other(shard::Tuning::measure, u_);
    }
    if (kind == "missing_trial") {
      // all plans that are tried are made then
      awaited = "shard::touch";
      if (last_) Kokkos::Tools::Experimental::set_allocate_data_callback(stay_away_at);
      const shard::Exchange other(shard::Tuning::measure, u_);
    }
    if (kind == "missing_steps") {
      // a plan that has nothing to move is given up when all are made
      awaited = "shard::plan";
      if (last_) Kokkos::Tools::Experimental::set_deallocate_data_callback(stay_away_at);
      using Deep = shard::ShardedView<double**, Kokkos::LayoutRight,
                                      shard::ShardDim<0, X, shard::Halo<2>, shard::Periodic>,
                                      Kokkos::HostSpace>;
      const Deep deep("deep", mesh_, {4 * mesh_.size(), 5});
      const auto steps = shard::steps_per_exchange<2>(shard::Reach<shard::Halo<1>>{}, deep);
    }
    for (int step = 0; step < 20; ++step) plan(Space());
    for (const std::string way : {"no_call_", "killed_in_"})
      if (kind.rfind(way, 0) == 0) {
        call(kind.substr(way.size()), way == "killed_in_" ? die : stay_away);
        return 0;
      }
    if (kind == "no_release") {
      if (last_) stay_away();
      mesh_.release();
    }
    if (kind == "out_of_bounds") {
      Kokkos::parallel_for("far", Kokkos::RangePolicy<Space>(0, 1), FarKernel{t_});
      return 0;
    }
    if (kind == "no_end") {
      if (last_) stay_away();
      return 0;
    }
    if (kind == "thrown") {
      auto pending = plan.start(Space());
      if (mesh_.rank() == 1) throw std::runtime_error("thrown between start and finish");
      pending.finish();
      for (;;) plan(Space());
    }
    if (kind == "left") {
      try {
        leave();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d caught what was %s\n", mesh_.rank(), error.what());
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
      }
    }
    if (kind == "unread") {
      // the plan ends while a peer that has stopped might still read its values
      std::optional<shard::Exchange<Rows>> second;
      second.emplace(Rows("v", mesh_, {2 * mesh_.size(), 5}));
      auto pending = second->start(Space());
      if (last_) std::raise(SIGSTOP);
      pending.finish();
    }
    if (kind == "coupling") {
      // rank 0 receives all rows; the last rank doesn't send
      std::vector<shard::index_t> begins(static_cast<std::size_t>(mesh_.size()) + 1,
                                         2 * mesh_.size());
      begins[0] = 0;
      const Rows all("all", mesh_,
                     {shard::Partition::explicit_begins(begins), shard::Partition::whole(5)});
      shard::Coupling<Rows, Rows> coupling(MPI_COMM_WORLD, &all, &u_);
      if (last_) stay_away();
      for (;;) coupling(Space());
    }
    if (mesh_.rank() == 0 && kind == "link") disturb_link();
    if (last_ && kind == "killed") std::raise(SIGKILL);
    if (last_ && kind == "stopped") std::raise(SIGSTOP);
    if (last_ && kind == "gone") std::_Exit(3);
    for (;;) plan(Space());
  }

 private:
  /// What takes all ranks beside exchanges, by name; the last rank leaves instead, or the first
  /// where it is the one for which the others wait.
  void call(const std::string& what, void (*go)()) const {
    const Kokkos::DefaultExecutionSpace space;
    using Gradients = Kokkos::View<double*, Kokkos::LayoutRight, Kokkos::HostSpace>;
    const Gradients gradients("gradients", 100);
    const shard::GradientSum<double, Kokkos::HostSpace> gradient_sum(t_, 100);
    const shard::GradientNorm<double, Kokkos::HostSpace> gradient_norm(0, 100,
                                                                       mesh_.communicator());
    shard::ParameterArena<double, Kokkos::HostSpace> arena("arena", 100);
    arena.take_arrays("layer", {{"weight", {10, 10}}});
    using Buckets = shard::GradientBuckets<double, Kokkos::HostSpace>;
    std::optional<Buckets> buckets;
    if (what == "bucket_sums") buckets.emplace(t_, arena);
    const Rows::view_type whole("whole", static_cast<std::size_t>(t_.global_extent(0)),
                                static_cast<std::size_t>(t_.global_extent(1)));
    shard::gather(Space(), whole, t_);
    shard::Checkpoint state(mesh_.communicator());
    state.add("t", t_);
    const char* folder     = std::getenv("SHARD_TEST_PROCESSES");
    const std::string path = std::string(folder == nullptr ? "." : folder) + "/../state";
    if (what == "load") state.save(path);
    if (what == "load_weights") shard::save_safetensors(path, arena, mesh_.communicator());
    if (what == "save_weights" ? mesh_.rank() == 0 : last_) go();
    if (what == "sum") shard::sum(Space(), t_);
    if (what == "ordered_sum") shard::sum<shard::Determinism::ordered>(Space(), t_);
    if (what == "max") shard::max(Space(), t_);
    if (what == "gather") shard::gather(Space(), whole, t_);
    if (what == "gradient_sum") gradient_sum(Space(), gradients);
    if (what == "gradient_norm") gradient_norm(Space(), gradients);
    if (what == "save") state.save(path);
    if (what == "load") state.load(path);
    if (what == "buckets") buckets.emplace(t_, arena);
    if (what == "bucket_sums") buckets->finish(Space());
    if (what == "save_weights") shard::save_safetensors(path, arena, mesh_.communicator());
    if (what == "load_weights") shard::load_safetensors(path, arena, mesh_.communicator());
    if (what == "all_reduce") shard::all_reduce<X>(Space(), gradients, gradients, mesh_);
    if (what == "partition") shard::impl::gather_partition(mesh_.communicator(), 1);
    if (what == "loop")
      shard::impl::allowed_slots(shard::Checkpoints{}, 1, 1, mesh_.communicator());
  }

  /// Rank 1 leaves by an exception, and its plan ends: nobody else comes to read what it sent,
  /// which is packed, for its rows are short.
  void leave() const {
    const shard::Exchange<Rows> plan(Rows("v", mesh_, {2 * mesh_.size(), 5}));
    auto pending = plan.start(Space());
    if (mesh_.rank() == 1) {
      pending.finish();
      throw std::runtime_error("thrown after finish");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  static Rows allocate(const shard::Mesh<X>& mesh, bool away) {
    if (away) stay_away();
    return shard::shared_field<Rows>("t", mesh, {2 * mesh.size(), 600});
  }

  shard::Mesh<X> mesh_;
  bool last_;
  Rows t_, u_;
};

}  // namespace

int main(int argc, char** argv) {
  sign_in(argv[0]);
  const shard::Environment environment(argc, argv);
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "no_mesh" && environment.rank() == environment.size() - 1) stay_away();
  Program program(environment, kind);
  return program.run(kind);
}
