// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "experiment.hpp"

#include <shard/io/checkpoint.hpp>
#include <shard/io/map.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/train/adam.hpp>
#include <shard/train/gradient_norm.hpp>
#include <shard/train/schedules.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "loss.hpp"
#include "waves.hpp"

namespace hybrid {
namespace {

/// A coarse core with its correction.
struct Coarse {
  Coarse(const Mesh& mesh, const Options& o)
      : core(Grid(mesh, o.rows), time_step(o.rows)), correction(core.grid(), o.width) {}
  int steps_in(double seconds) const { return static_cast<int>(std::lround(seconds / core.dt())); }
  Core<double> core;
  Correction correction;
};
using States = std::vector<State<>>;

/// The truth of each wave, from a file if there is one.
std::vector<States> truths(const Space& space, const Coarse& coarse, const Options& o,
                           const std::vector<Wave>& waves, int records, int every) {
  std::vector<States> all;
  const bool from_file = std::filesystem::exists(o.truth);
  for (const Wave& wave : waves) {
    if (from_file)
      all.emplace_back();
    else
      all.push_back(truth(space, coarse.core, o.ratio, wave, records, every));
    for (int r = 0; from_file && r <= records; ++r)
      all.back().push_back(coarse.core.grid().state());
  }
  if (o.truth.empty()) return all;
  shard::Checkpoint file(coarse.core.grid().mesh.communicator());
  for (std::size_t w = 0; w < all.size(); ++w)
    for (std::size_t r = 0; r < all[w].size(); ++r) {
      const std::string name = std::to_string(w) + "." + std::to_string(r) + ".";
      file.add(name + "h", std::get<0>(all[w][r]));
      file.add(name + "u", std::get<1>(all[w][r]));
      file.add(name + "v", std::get<2>(all[w][r]));
    }
  if (from_file)
    file.load(o.truth);
  else
    file.save(o.truth);
  return all;
}

/// Weights with which the loss of the uncorrected core is about 1 for this truth. Without them the
/// waves of large number, whose errors are the largest, would be the only ones that count.
Weights loss_weights(const Space& space, const Coarse& coarse, const Options& o,
                     const States& states) {
  const Grid& grid = coarse.core.grid();
  State<> x = grid.state(), y = grid.state();
  const auto middle = states.size() / 2;
  fill(space, x, states[middle]);
  for (int s = 0; s < o.every * o.terms; ++s) {
    coarse.core.apply(space, y, x);
    std::swap(x, y);
  }
  const auto d = differences(space, coarse.core.metric(), x,
                             states[middle + static_cast<std::size_t>(o.terms)]);
  Weights weights;
  for (int k = 0; k < 3; ++k)
    weights[k] = 1 / (sum_of_cosines(grid.rows) * 3 * o.terms * d[static_cast<std::size_t>(k)] *
                      d[static_cast<std::size_t>(k)]);
  return weights;
}

/// The depth of all ranks on rank 0, by row.
std::vector<double> gathered(const Space& space, bool root, const State<>& x) {
  const auto& h = std::get<0>(x);
  Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> all(
      "all", root ? static_cast<std::size_t>(h.global_extent(0)) : 0,
      root ? static_cast<std::size_t>(h.global_extent(1)) : 0);
  shard::gather(space, all, h);
  return {all.data(), all.data() + all.size()};
}

shard::Map map_of(const std::string& title, int rows, const std::vector<double>& values,
                  double most) {
  shard::Map map;
  map.title         = title;
  map.units         = "m";
  map.values        = values;
  const double step = 180.0 / rows;
  for (int j = 0; j < rows; ++j) map.latitudes.push_back((j + 0.5) * step - 90);
  for (int i = 0; i < 2 * rows; ++i) map.longitudes.push_back((i + 0.5) * step);
  if (most > 0) {
    map.colours = shard::ColourScale::diverging;
    map.low = -most, map.high = most;
  }
  return map;
}

void draw(const Space& space, bool root, const Options& o, const State<>& truth,
          const State<>& plain, const State<>& better) {
  const auto exact = gathered(space, root, truth);
  auto without = gathered(space, root, plain), with = gathered(space, root, better);
  if (!root) return;
  double most = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    without[i] -= exact[i], with[i] -= exact[i];
    most = std::max(most, std::fabs(without[i]));
  }
  shard::Figure figure;
  figure.maps    = {map_of("Depth, truth", o.rows, exact, 0),
                    map_of("Error of the coarse core", o.rows, without, most),
                    map_of("Error with the network", o.rows, with, most)};
  figure.columns = 3;
  figure.width   = 1500;
  shard::write_png(o.picture, figure);
}

}  // namespace

void train(const Space& space, const Mesh& mesh, bool root, const Options& o) {
  const Coarse coarse(mesh, o);
  const auto begin   = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const int records = coarse.steps_in(o.days * day) / o.every;
  const auto all    = truths(space, coarse, o, random_waves(o.seed, o.waves), records, o.every);
  if (root) std::printf("truth: %d waves, %.0f s\n", o.waves, seconds());
  std::fflush(stdout);

  const auto parameters = coarse.correction.net().parameters();
  coarse.correction.initialise(space, 1, true);
  if (!o.start.empty()) shard::load_safetensors(o.start, parameters, mesh.communicator());
  WindowLoss loss(coarse.core, coarse.correction);
  std::vector<Weights> weights;
  for (const States& states : all) weights.push_back(loss_weights(space, coarse, o, states));
  shard::Adam<double, Space::memory_space> adam(loss.count());
  const shard::GradientNorm<double, Space::memory_space> norm(loss.count());
  const shard::Warmup rate{10, shard::CosineRate{o.rate, o.iterations - 10}};
  Random random(2);
  double mean = 0;
  for (int n = 0; n < o.iterations; ++n) {
    const auto w    = static_cast<std::size_t>(random.integer(0, o.waves - 1));
    const int first = random.integer(0, records - o.terms);
    mean += loss(space, all[w], first, o.terms, o.every, weights[w], true, o.every) / 20;
    norm.clip(space, loss.gradients(), 1.0);
    adam.options.learning_rate = rate(n);
    adam(space, loss.weights(), loss.gradients());
    if (n % 20 != 19) continue;
    if (root) {
      std::printf("%4d  loss %.4f  %.0f s\n", n + 1, mean, seconds());
      std::fflush(stdout);
    }
    mean = 0;
    shard::save_safetensors(o.weights, parameters, mesh.communicator());
  }
  shard::save_safetensors(o.weights, parameters, mesh.communicator());
}

void show(const Space& space, const Mesh& mesh, bool root, const Options& o) {
  const Coarse coarse(mesh, o);
  shard::load_safetensors(o.weights, coarse.correction.net().parameters(), mesh.communicator());
  const auto& core = coarse.core;
  const Grid& grid = core.grid();
  const auto step  = shard::chain(grid.state(), core, coarse.correction);
  const int every = coarse.steps_in(6 * hour), records = 4 * o.days;
  std::vector<Wave> waves = random_waves(o.seed, o.held_out);
  waves.insert(waves.begin(), Wave{});  // case 6
  const auto all = truths(space, coarse, o, waves, records, every);
  if (root)
    std::printf(
        "wave  day    depth without     with  ratio   wind without     with  ratio   mass     "
        "energy without   with\n");
  const State<> calm = grid.state();
  double sums[4]     = {};  // squared errors of the random waves at the truth's end
  for (std::size_t w = 0; w < all.size(); ++w) {
    State<> plain = grid.state(), better = grid.state(), next = grid.state();
    fill(space, plain, all[w][0]);
    fill(space, better, all[w][0]);
    const auto before = budget(space, core.metric(), plain);
    for (int r = 1; r <= 4 * o.stable_days; ++r) {
      for (int s = 0; s < every; ++s) {
        core.apply(space, next, plain);
        std::swap(next, plain);
        step.apply(space, next, better);
        std::swap(next, better);
      }
      if (r > records && r % 20 != 0) continue;
      // after the truth's end: the size of the wind
      const State<>& right = r <= records ? all[w][static_cast<std::size_t>(r)] : calm;
      const auto a         = differences(space, core.metric(), plain, right),
                 b         = differences(space, core.metric(), better, right);
      const double wind[]  = {std::hypot(a[1], a[2]), std::hypot(b[1], b[2])};
      const auto e = budget(space, core.metric(), plain), f = budget(space, core.metric(), better);
      if (root && r <= records)
        std::printf("%4zu  %5.2f  %12.3f %8.3f  %5.3f   %11.4f %8.4f  %5.3f", w, r / 4.0, a[0],
                    b[0], b[0] / a[0], wind[0], wind[1], wind[1] / wind[0]);
      else if (root)
        std::printf("%4zu  %5.2f  %28s   %11.4f %8.4f  %5s", w, r / 4.0, "rms wind:", wind[0],
                    wind[1], "");
      if (root)
        std::printf("  %8.1e  %8.1e %8.1e\n", f[0] / before[0] - 1, e[1] / before[1] - 1,
                    f[1] / before[1] - 1);
      std::fflush(stdout);
      if (w > 0 && r == records)
        for (int k = 0; k < 2; ++k) {
          const auto& d = k == 0 ? a : b;
          sums[k] += d[0] * d[0], sums[2 + k] += wind[k] * wind[k];
        }
      if (w == 1 && r == records && !o.picture.empty()) draw(space, root, o, right, plain, better);
    }
  }
  if (root)
    std::printf("random waves, day %d: ratio of depth %.3f, of wind %.3f\n", o.days,
                std::sqrt(sums[1] / sums[0]), std::sqrt(sums[3] / sums[2]));
}

}  // namespace hybrid
