// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calibrate.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "message.hpp"
#include "model.hpp"
#include "own_exchange.hpp"

namespace scaling {

namespace {

constexpr int calls  = 14;
constexpr int passes = 5;  // each on other memory; other work may be on in one, and not in others
/// Most that is measured: messages or boxes of one exchange; the field that boxes lie in.
constexpr index_t most_bytes = index_t{1} << 24U, most_memory = index_t{1} << 28U;
/// Beyond this, where no near cache holds them, fewer passes do.
constexpr index_t some_bytes = index_t{1} << 18U;
constexpr int some_passes    = 3;
/// Beyond this fewer still, and boxes of one length of runs.
constexpr index_t many_bytes = index_t{1} << 22U;
constexpr int many_passes    = 2;
constexpr double at_least_us = 0.01;  // of a curve's point: below is the clock's grain

/// Where times jump from one size of messages to the next, as they do where MPI begins to ask
/// whether the other rank is ready, sizes are halved until the jump is this narrow.
constexpr double jump = 1.5, narrow = 1.03;
constexpr index_t last_jump = 65536;

class Calibration {
 public:
  Calibration(Machine& machine, support::Handshake& handshake, double& patience)
      : machine_(machine), handshake_(handshake), patience_(patience) {
    for (index_t bytes = 32; bytes <= most_bytes; bytes *= 2)
      for (const index_t size : {bytes, bytes * 181 / 128}) sizes_.push_back(size);
    narrow_jumps();
    time_overheads();
  }

  /// Measures all that has at most so many bytes.
  void add_pass(index_t most) {
    most_now_ = most;
    add_messages();
    add_short_runs();
    add_long_runs();
    add_most();
    change_memory();
  }

  /// Sets the curves of boxes, and then what goes by these: of the passes the middle one counts.
  void finish() {
    for (auto& [point, times] : times_) {
      const auto& [curves, fields, run, pitch, bytes] = point;
      curves->add(fields, run, pitch, bytes, std::max(at_least_us, median(times)));
    }
    for_long_runs([&](index_t run) {
      for (index_t bytes = 2 * many_bytes; bytes <= most_bytes; bytes *= 2)
        if (run > page) take_from(page, run, bytes);
    });
    for (auto& [point, times] : message_times_) {
      const auto [count, bytes] = point;
      const double beyond =
          2 * machine_.kernel_us + curves_.boxes(1.0, bytes, bytes, count * bytes);
      curves_.messages.add(count, bytes, std::max(at_least_us, median(times) - beyond));
    }
    if (!has_windows_) return;
    const auto of_lines = [&](int boxes) {
      return curves_.direct(1.0, double(shortest_long), double(plane * shortest_long),
                            double(boxes * line));
    };
    machine_.box_us =
        std::max(0.0, further_boxes_us_ - of_lines(many_boxes) + of_lines(few_boxes)) /
        (many_boxes - few_boxes);
  }

 private:
  static constexpr int few_boxes = 2, many_boxes = 16;
  static constexpr int line              = 64;  // bytes
  static constexpr index_t shortest_long = 256, page = 4096;
  static constexpr index_t uneven = 1440;  // ends within a line of memory, as many grids' rows
  /// Rows of a plane: a power of two and a halo on each side, as many grids have them; caches are
  /// then used in part, for rows a power of two apart share their lines.
  static constexpr index_t plane = 34, far_plane = 130;

  /// What rows of a few lines take depends on where in memory they lie, by a factor of two. The
  /// memory of the mesh before is kept meanwhile, so that the next one's is another.
  void change_memory() {
    std::swap(mesh_, mesh_before_);
    mesh_.release();
    mesh_ = TwoRanks(MPI_COMM_WORLD, {2});
  }

  void add_messages() {
    for (const index_t bytes : sizes_)
      if (bytes <= most_now_) add_message(bytes);
    for (int count = 2; count <= 16; count *= 2)
      for (const index_t bytes : sizes_)
        if (bytes * count <= most_now_) add_messages(count, (bytes + 7) / 8 * 8);
  }

  void add_short_runs() {
    constexpr index_t most_runs = index_t{1} << 18U;
    struct Values {
      int bytes;
      index_t count;
    };
    for (const auto& [bytes, values] :
         {Values{4, 1}, Values{8, 1}, Values{8, 2}, Values{8, 3}, Values{8, 5}})
      for (const index_t owned : {16, 22, 32, 45, 64, 90, 128, 181, 256, 512, 724, 1448})
        for (index_t runs = 32; runs <= most_runs; runs *= 2)
          for (const int fields : {1, 8})
            add_boxes({bytes, values * bytes, (owned + 2 * values) * bytes, runs, fields});
  }

  void add_long_runs() {
    for_long_runs([&](index_t run) {
      add_runs(run, plane);
      if (run <= page) add_runs(run, far_plane);
    });
    add_runs(uneven, plane);
  }
  /// Of runs of a page, and for those with more of the field between them: memory is as fast for
  /// longer ones.
  void add_most() {
    constexpr index_t small_plane = 10;
    for (index_t bytes = 2 * many_bytes; bytes <= most_bytes; bytes *= 2)
      add_boxes({8, page, small_plane * page, bytes / page}, plane * page);
  }

  template <class Use>
  static void for_long_runs(const Use& use) {
    for (index_t run = shortest_long; run <= many_bytes / 2; run *= run < 65536 ? 2 : 4) use(run);
  }

  void add_runs(index_t run, index_t rows) {
    for (index_t runs = 2; runs * run <= many_bytes; runs *= 2)
      add_boxes({8, run, rows * run, runs});
  }

  Measured measure_near(const std::vector<Timed>& functions) {
    patience_ -= handshake_.wait_until_near(MPI_COMM_WORLD, patience_);
    return measure(functions, calls, handshake_);
  }
  /// Where the cores were apart too often a point goes by the other passes, or its neighbours.
  static bool is_enough(const Measured& measured) {
    return !measured.apart && measured.turns.size() >= calls / 3;
  }

  /// What a message takes beyond copying to and from its buffers.
  void add_message(index_t bytes) {
    Message message(static_cast<std::size_t>(bytes));
    const Measured measured = measure_near(message.functions());
    if (!is_enough(measured)) return;
    std::vector<double> times;
    for (const auto& turn : measured.turns) times.push_back(turn[0] - turn[1] - turn[2]);
    curves_.messages.add(1.0, double(bytes), std::max(at_least_us, median(times)));
  }
  /// What an exchange takes that sends so many.
  void add_messages(int count, index_t bytes) {
    if (curves_.messages.empty()) return;
    const Measured measured = measure_near({make_own_boxes(mesh_, count, bytes)->over_mpi()});
    if (!is_enough(measured)) return;
    std::vector<double> times;
    for (const auto& turn : measured.turns) times.push_back(turn[0]);
    message_times_[{count, double(bytes)}].push_back(median(times));
  }

  void narrow_jumps() {
    for (const index_t bytes : sizes_) add_message(bytes);
    if (curves_.messages.empty()) return;  // the cores were apart all the time
    const auto time = [&](index_t bytes) { return curves_.messages(1.0, double(bytes)); };
    for (std::size_t i = 1; i < sizes_.size() && sizes_[i] <= last_jump;) {
      const index_t low = sizes_[i - 1], high = sizes_[i];
      if (double(high) <= narrow * double(low) || time(high) < jump * time(low)) {
        ++i;
        continue;
      }
      sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(i), (low + high) / 2);
      add_message(sizes_[i]);
    }
  }

  void add_boxes(const Shape& shape) { add_boxes(shape, shape.pitch); }
  /// As boxes with `pitch` bytes from run to run. Each way by itself: an exchange finds the caches
  /// as the one before it left them.
  void add_boxes(const Shape& shape, index_t pitch) {
    if (shape.runs * shape.run > most_now_ || shape.memory() > most_memory) return;
    const auto own     = make_own_exchange(mesh_, alone_, shape);
    const double bytes = double(shape.run * shape.runs);
    const auto add     = [&](BoxCurves& curves, const Timed& timed, double known) {
      const Measured measured = measure_near({timed});
      if (!is_enough(measured)) return;
      std::vector<double> times;
      for (const auto& turn : measured.turns) times.push_back(turn[0] - known);
      times_[{&curves, shape.fields, double(shape.run), double(pitch), bytes}].push_back(
              median(times));
    };
    add(curves_.copies, own->copies(), copies_us_);
    if (!curves_.messages.empty())
      add(curves_.boxes, own->over_mpi(), curves_.messages(1.0, bytes) + 2 * machine_.kernel_us);
    if (!has_windows_) return;
    add(curves_.direct, own->direct(), machine_.shared_us);
    add(curves_.window, own->window(), machine_.shared_us);
  }

  /// Sets what exchanges of next to nothing take beyond their messages.
  void time_overheads() {
    const auto own = make_own_exchange(mesh_, alone_, {8, shortest_long, plane * shortest_long, 2});
    const auto time = [&](const Timed& timed) {
      std::vector<double> times;
      for (int pass = 0; pass < some_passes; ++pass)
        for (const auto& turn : measure_near({timed}).turns) times.push_back(turn[0]);
      return median(times);
    };
    has_windows_ = own->has_windows();
    if (has_windows_) {
      const auto with = [&](int boxes) {
        return time(make_own_boxes(mesh_, boxes, line)->direct());
      };
      further_boxes_us_  = with(many_boxes) - with(few_boxes);
      machine_.shared_us = time(own->direct());
    }
    copies_us_ = time(own->copies());
    if (curves_.messages.empty()) return;
    const double message_us = curves_.messages(1.0, 2.0 * shortest_long);
    machine_.kernel_us      = std::max(0.0, time(own->over_mpi()) - message_us) / 2;
  }

  /// Of longer runs that weren't measured: what as many bytes take in shorter ones.
  void take_from(index_t shorter, index_t run, index_t bytes) {
    for (auto* curves : {&curves_.boxes, &curves_.copies, &curves_.direct, &curves_.window})
      if (!curves->empty())
        curves->add(1.0, double(run), double(plane * run), double(bytes),
                    (*curves)(1.0, double(shorter), double(plane * shorter), double(bytes)));
  }

  Machine& machine_;
  Curves& curves_ = machine_.curves;
  TwoRanks mesh_{MPI_COMM_WORLD, {2}}, mesh_before_{MPI_COMM_WORLD, {2}};
  TwoRanks alone_{MPI_COMM_SELF, {1}};
  bool has_windows_        = false;
  index_t most_now_        = most_bytes;
  double further_boxes_us_ = 0, copies_us_ = 0;
  support::Handshake& handshake_;
  double& patience_;
  using Point = std::tuple<BoxCurves*, int, double, double, double>;
  std::map<Point, std::vector<double>> times_;
  std::map<std::pair<double, double>, std::vector<double>> message_times_;  // by count and bytes
  std::vector<index_t> sizes_;                                              // of messages
};

}  // namespace

void calibrate(Machine& machine, support::Handshake& handshake, double& patience) {
  machine                = {};
  machine.ranks_per_node = 2;
  int rank               = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Calibration calibration(machine, handshake, patience);
  const double begin = MPI_Wtime(), patience_then = patience;
  for (int pass = 0; pass < passes; ++pass) {
    calibration.add_pass(pass < many_passes   ? most_bytes
                         : pass < some_passes ? many_bytes
                                              : some_bytes);
    if (rank == 0)
      std::printf(
          "measuring the machine: %d of %d, %.0f s, of which %.0f for cores near each other\n",
          pass + 1, passes, MPI_Wtime() - begin, patience_then - patience);
  }
  calibration.finish();
}

}  // namespace scaling
