// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// weather_emulator: a U-Net learns one step of a global field over a mesh of ranks, and draws what
// it has learnt.
#include <shard/base/environment.hpp>
#include <shard/io/netcdf.hpp>
#include <shard/io/safetensors.hpp>
#include <shard/train/schedules.hpp>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "emulator/check.hpp"
#include "emulator/maps.hpp"
#include "emulator/message_clock.hpp"
#include "emulator/progress.hpp"
#include "emulator/random.hpp"
#include "emulator/samples.hpp"
#include "emulator/trainer.hpp"

namespace {

using namespace emulator;

struct Options {
  std::vector<int> mesh{0, 0};
  int epochs            = 0;
  int batch             = 4;
  int samples           = 256;
  int held_out          = 32;
  int width             = 16;
  double learning_rate  = 3e-3;
  std::uint64_t seed    = 1;
  std::string precision = "float";
  bool check            = false;
  std::string input, variables = "z,t", hold_out = "members", output = ".", checkpoint, weights;
};

/// The pairs of an epoch in an order of its own, the same on every rank.
std::vector<int> shuffled(int count, std::uint64_t seed, int epoch) {
  std::vector<int> order(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  RandomStream random(seed, 1000000 + static_cast<std::uint64_t>(epoch));
  for (int i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(random.integer(0, i))]);
  return order;
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

/// False, and says so, where the training has come to numbers that aren't finite.
bool train(Trainer& trainer, const Samples& samples, const Options& options, bool show) {
  ProgressBar bar(stdout, show);
  const int steps = (samples.training() + options.batch - 1) / options.batch;
  const long all  = static_cast<long>(steps) * options.epochs;
  double loss     = 0.0;
  // the learning rate rises in a twentieth of the steps, then falls along a cosine to nothing
  const long rise = all / 20;
  const shard::Warmup rate{rise, shard::CosineRate{options.learning_rate, all - rise}};
  const bool keeps = !options.checkpoint.empty();
  const long first = trainer.steps();
  const auto stop  = [&](long step, const char* what) {
    bar.finish();
    if (show)
      std::fprintf(stderr,
                    "weather_emulator: the %s of step %ld %s not finite; a smaller --learning-rate "
                     "may help\n",
                    what, step, std::string(what) == "loss" ? "is" : "are");
    return false;
  };
  std::vector<int> order;
  Kokkos::Timer since_start;
  MessageClock messages;
  for (long done = first; done < all; ++done) {
    const int epoch = static_cast<int>(done / steps), s = static_cast<int>(done % steps);
    if (s == 0 || done == first) order = shuffled(samples.training(), options.seed, epoch);
    std::vector<int> pairs;
    for (int b = 0; b < options.batch; ++b)
      pairs.push_back(order[static_cast<std::size_t>(s * options.batch + b) % order.size()]);
    trainer.set_learning_rate(rate(done));
    const double now = trainer.step(pairs);
    if (!std::isfinite(now)) return stop(done + 1, "loss");
    loss                 = done == first ? now : 0.9 * loss + 0.1 * now;
    const double seconds = since_start.seconds();
    bar.update({epoch + 1, options.epochs, done + 1, all, loss,
                seconds / static_cast<double>(done - first + 1), messages.seconds() / seconds});
    if (s + 1 != steps) continue;
    if (!all_finite(trainer.parameters())) return stop(done + 1, "parameters");
    if (keeps) trainer.save(options.checkpoint);
  }
  bar.finish();
  return true;
}

void show_skill(const Samples& samples, const std::vector<Skill>& skills) {
  Table table({"held-out pairs, root mean square error", "forecast", "persistence", "ratio"});
  for (std::size_t c = 0; c < skills.size(); ++c) {
    const std::string unit =
        samples.channels()[c].units.empty() ? "" : " " + samples.channels()[c].units;
    table.add({samples.channels()[c].name, number_text(skills[c].forecast) + unit,
               number_text(skills[c].persistence) + unit,
               number_text(skills[c].forecast / skills[c].persistence)});
  }
  std::printf("\n%s\n", table.text().c_str());
}

/// Draws the first held-out pair, a picture for each channel (at most four), and names them.
void draw(Trainer& trainer, const Samples& samples, const Options& options, bool mine) {
  trainer.forecast(samples.training());
  const int channels = std::min(4, static_cast<int>(samples.channels().size()));
  for (int c = 0; c < channels; ++c) {
    ForecastMaps maps;
    maps.start    = trainer.map(State::start, c);
    maps.truth    = trainer.map(State::truth, c);
    maps.forecast = trainer.map(State::forecast, c);
    if (!mine) continue;
    const Channel& channel = samples.channels()[static_cast<std::size_t>(c)];
    maps.title =
        channel.name + (samples.hours() > 0 ? ", " + number_text(samples.hours()) + " hours ahead"
                                            : ", one step ahead");
    maps.caption     = samples.summary();
    maps.units       = channel.units;
    maps.latitudes   = samples.latitudes();
    maps.longitudes  = samples.longitudes();
    maps.shards      = trainer.shards();
    std::string file = channel.name;
    std::replace_if(
        file.begin(), file.end(),
        [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
    const auto path = std::filesystem::path(options.output) / ("forecast_" + file + ".png");
    shard::write_png(path.string(), forecast_figure(maps));
    std::printf("picture: %s\n", path.string().c_str());
  }
}

/// Throws for what the training could not write at its end.
void check_outputs(const shard::Environment& environment, const Options& options) {
  for (const std::string& path : {options.checkpoint, options.weights})
    if (!path.empty()) shard::require_writable(path, environment.world());
  if (shard::pictures_available())
    shard::require_writable((std::filesystem::path(options.output) / "forecast.png").string(),
                            environment.world());
}

int run(const shard::Environment& environment, const Options& options) {
  const bool first = environment.rank() == 0;
  check_outputs(environment, options);
  const std::unique_ptr<Samples> samples =
      options.input.empty()
          ? wave_samples(options.seed, options.samples, options.held_out, 61, 120)
          : file_samples(options.input, options.variables,
                         options.hold_out == "times" ? HoldOut::times : HoldOut::members);
  if (samples->training() == 0) throw std::runtime_error("there is nothing to learn from");
  const Normalisation normalisation = normalisation_of(environment.world(), *samples);
  TrainerOptions with;
  with.mesh          = {options.mesh[0], options.mesh[1]};
  with.batch         = std::min(options.batch, samples->training());
  with.width         = options.width;
  with.learning_rate = options.learning_rate;
  with.seed          = options.seed;
  with.poles         = shard::pole_rows(samples->latitudes());

  const auto trainer = make_trainer(environment.world(), *samples, normalisation, with,
                                    options.precision == "double");
  if (first)
    std::printf("%s.\nU-Net with %zu parameters on a mesh of %d x %d ranks (%s), %s precision.\n\n",
                samples->summary().c_str(), trainer->parameters().size(), trainer->mesh()[0],
                trainer->mesh()[1], Kokkos::DefaultExecutionSpace::name(),
                options.precision.c_str());
  std::fflush(stdout);
  if (options.check && !check_ranks_agree(environment.world(), *samples, normalisation, with))
    return 1;

  int goes_on = !options.checkpoint.empty() && std::filesystem::exists(options.checkpoint) ? 1 : 0;
  MPI_Bcast(&goes_on, 1, MPI_INT, 0, environment.world());
  if (goes_on != 0) trainer->load(options.checkpoint);
  Options batched = options;
  batched.batch   = with.batch;
  if (batched.epochs == 0) batched.epochs = options.input.empty() ? 5 : 150;
  if (!train(*trainer, *samples, batched, first)) return 1;
  if (first) {
    const shard::ModelMemory memory = trainer->memory();
    const auto megabytes            = [](shard::index_t n) { return static_cast<double>(n) / 1e6; };
    std::printf("Between layers %.1f MB of activations and %.1f MB of adjoints a rank.\n",
                megabytes(memory.activations), megabytes(memory.adjoints));
  }
  if (!options.weights.empty()) trainer->save_weights(options.weights);
  const std::vector<Skill> skills = trainer->skill();
  if (first) show_skill(*samples, skills);
  if (shard::pictures_available())
    draw(*trainer, *samples, options, first);
  else if (first)
    std::printf("No pictures: this build has no Cairo (SHARD_ENABLE_PICTURES).\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A U-Net learns one step of a global field over a mesh of ranks");
  app.add_option("--mesh", options.mesh, "Ranks along latitude and longitude, 0: chosen")
      ->expected(2)
      ->delimiter('x')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--epochs", options.epochs,
                 "Times that every sample is seen; 0: 5 of waves, 150 of a file")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Samples a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Waves to learn from")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--held-out", options.held_out, "Waves held out")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--width", options.width, "Channels of the finest level, a multiple of 4")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate,
                 "Adam's, at the most: it rises first and falls then")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of parameters, waves and order")->capture_default_str();
  app.add_option("--precision", options.precision, "float or double")
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  auto* input =
      app.add_option("--input", options.input,
                     "NetCDF file with members and times to learn from, in place of waves")
          ->check(CLI::ExistingFile);
  app.add_option("--variables", options.variables, "Variables of the file, separated by commas")
      ->needs(input)
      ->capture_default_str();
  app.add_option("--hold-out", options.hold_out,
                 "What of the file is held out: members, or the last pair of times")
      ->check(CLI::IsMember({"members", "times"}))
      ->needs(input)
      ->capture_default_str();
  app.add_option("--output", options.output, "Folder for the pictures")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint,
                 "Written after each epoch; if it is there, training goes on from it");
  app.add_option("--weights", options.weights, "Where the weights go, a safetensors file");
  app.add_flag("--check", options.check,
               "First train five steps on one rank and on all, and compare");

  shard::Environment environment(argc, argv);  // takes MPI's and Kokkos' arguments out
  try {
    app.parse(argc, argv);
    if (!std::isfinite(options.learning_rate))  // a range lets NaN through
      throw CLI::ValidationError("--learning-rate", "it is not finite");
    if (options.width % 4 != 0) throw CLI::ValidationError("--width", "it is no multiple of 4");
    if (!options.weights.empty() &&
        std::filesystem::path(options.weights).lexically_normal() ==
            std::filesystem::path(options.checkpoint).lexically_normal())
      throw CLI::ValidationError("--weights", "it is the file of --checkpoint too");
  } catch (const CLI::ParseError& e) {
    return environment.rank() == 0 ? app.exit(e) : e.get_exit_code();
  }
  return run(environment, options);
}
