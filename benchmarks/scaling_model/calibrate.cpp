// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "calibrate.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "shard/comm/shared_pool.hpp"
#include "support/theirs.hpp"
#include "synthetic.hpp"

namespace scaling {

namespace {

constexpr int calls = 14, passes = 5;  // other work may be on in one, and not in the others
/// Most that is measured: messages or boxes of one exchange; the field that boxes lie in.
constexpr index_t most_bytes = index_t{1} << 22U, most_memory = index_t{1} << 27U;
constexpr double at_least_us = 0.01;  // of a curve's point: below is the clock's grain

/// Where times jump from one size of messages to the next, as they do where MPI begins to ask
/// whether the other rank is ready, sizes are halved until the jump is this narrow.
constexpr double jump = 1.5, narrow = 1.03;
constexpr index_t last_jump = 65536;

class Calibration {
 public:
  Calibration(Curves& curves, const peers::Window& fields, const peers::Window& window,
              support::Handshake& handshake, double& patience)
      : curves_(curves),
        fields_(fields),
        window_(window),
        handshake_(handshake),
        patience_(patience) {
    for (index_t bytes = 32; bytes <= most_bytes; bytes *= 2)
      for (const index_t size : {bytes, bytes * 181 / 128}) sizes_.push_back(size);
    narrow_jumps();
  }

  void add_messages() {
    for (int count = 1; count <= 16; count *= 2)
      for (const index_t bytes : sizes_)
        if (bytes * count <= most_bytes) add_messages(count, bytes);
  }

  void add_short_runs() {
    constexpr index_t most_runs = index_t{1} << 18U;
    struct Values {
      int bytes;
      index_t count;
    };
    for (const auto& [bytes, values] :
         {Values{4, 1}, Values{8, 1}, Values{8, 2}, Values{8, 4}, Values{8, 6}})
      for (const index_t owned : {22, 90, 362, 1448})
        for (index_t runs = 32; runs <= most_runs; runs *= runs < 8192 ? 4 : 2)
          add_boxes({bytes, values * bytes, (owned + 2 * values) * bytes, runs});
  }

  void add_long_runs() {
    constexpr index_t rows = 33;  // of a plane: runs a power of two apart share lines of the caches
    for (index_t run = 256; run <= most_bytes / 2; run *= 4)
      for (index_t runs = 2; runs * run <= most_bytes; runs *= 2) {
        add_boxes({8, run, rows * run, runs});
        if (run > 256) take_from_shorter(run, rows * run, run * runs);
      }
  }

 private:
  Measured measure_near(const std::vector<Timed>& functions) {
    patience_ -= handshake_.wait_until_near(MPI_COMM_WORLD, patience_);
    return measure(functions, calls, handshake_);
  }
  /// Where the cores were apart too often a point goes by the other passes, or its neighbours.
  static bool is_enough(const Measured& measured) {
    return !measured.apart && measured.turns.size() >= calls / 3;
  }

  /// What the messages take beyond copying to and from their buffers.
  void add_messages(int count, index_t bytes) {
    Messages messages(count, static_cast<std::size_t>(bytes));
    const Measured measured = measure_near(messages.functions());
    if (!is_enough(measured)) return;
    std::vector<double> times;
    for (const auto& turn : measured.turns) times.push_back(turn[0] - turn[1] - turn[2]);
    curves_.messages.add(double(count), double(bytes), std::max(at_least_us, median(times)));
  }

  void narrow_jumps() {
    for (const index_t bytes : sizes_) add_messages(1, bytes);
    if (curves_.messages.empty()) return;  // the cores were apart all the time
    const auto time = [&](index_t bytes) { return curves_.messages(1.0, double(bytes)); };
    for (std::size_t i = 1; i < sizes_.size() && sizes_[i] <= last_jump;) {
      const index_t low = sizes_[i - 1], high = sizes_[i];
      if (double(high) <= narrow * double(low) || time(high) < jump * time(low)) {
        ++i;
        continue;
      }
      sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(i), (low + high) / 2);
      add_messages(1, sizes_[i]);
    }
  }

  void add_boxes(const Shape& shape) {
    if (shape.runs * shape.run > most_bytes || shape.memory() > most_memory) return;
    Faces faces(fields_, window_, shape);
    const Measured measured = measure_near(faces.functions());
    if (!is_enough(measured)) return;
    std::vector<double> boxes, copies, direct, window;
    for (const auto& turn : measured.turns) {
      boxes.push_back(turn[0] + turn[1]);
      copies.push_back(turn[2]);
      if (turn.size() <= 3) continue;
      direct.push_back(turn[3]);
      window.push_back(turn[4] + turn[5]);
    }
    const auto add = [&](Family<Family<Curve>>& curves, const std::vector<double>& times) {
      curves.add(double(shape.run), double(shape.pitch), double(shape.run * shape.runs),
                 std::max(at_least_us, median(times)));
    };
    add(curves_.boxes, boxes);
    add(curves_.copies, copies);
    if (direct.empty()) return;
    add(curves_.direct, direct);
    add(curves_.window, window);
  }

  /// As many bytes in longer runs take no more than in runs a quarter as long: where they did, the
  /// buffers happened to stay in the other core's cache.
  void take_from_shorter(index_t run, index_t pitch, index_t bytes) {
    const double less = double(run / 4), less_pitch = double(pitch / 4);
    for (auto* curves : {&curves_.boxes, &curves_.copies, &curves_.direct, &curves_.window})
      if (!curves->empty())
        curves->add(double(run), double(pitch), double(bytes),
                    (*curves)(less, less_pitch, double(bytes)));
  }

  Curves& curves_;
  peers::Window fields_, window_;
  support::Handshake& handshake_;
  double& patience_;
  std::vector<index_t> sizes_;  // of messages
};

}  // namespace

void calibrate(Machine& machine, shard::impl::MeshState& mesh, support::Handshake& handshake,
               double& patience) {
  const auto pool  = shard::impl::SharedPool::of(mesh);
  const auto field = pool->allocate(static_cast<std::size_t>(most_memory)),  // as fields lie
      window       = pool->allocate(static_cast<std::size_t>(most_bytes));
  const auto theirs =
      support::find_theirs(*pool, mesh.comm(), 1 - mesh.rank(), {field.data(), window.data()});
  std::vector<std::byte> ordinary;  // without windows, as some MPIs are built
  peers::Window fields, windows;
  if (theirs.empty()) {
    ordinary.resize(static_cast<std::size_t>(most_memory));
    fields.mine = ordinary.data();
  } else {
    fields  = {field.data(), theirs[0]};
    windows = {window.data(), theirs[1]};
  }
  machine.ranks_per_node = 2;
  Calibration calibration(machine.curves, fields, windows, handshake, patience);
  for (int pass = 0; pass < passes; ++pass) {
    calibration.add_messages();
    calibration.add_short_runs();
    calibration.add_long_runs();
  }
}

}  // namespace scaling
