// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run of the latitude-longitude model that leaves files: latlon_run --help.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "../help.hpp"
#include "galewsky.hpp"
#include "laeuter.hpp"
#include "latlon_output.hpp"
#include "latlon_semi_implicit.hpp"

using Options = std::map<std::string, std::string>;

double number(const Options& options, const char* name) {
  char* end          = nullptr;
  const double value = std::strtod(options.at(name).c_str(), &end);
  if (*end != '\0' || !(value > 0))
    throw shard::ArgumentError("latlon_run: " + std::string(name) + "=" + options.at(name) +
                               " is no number above 0");
  return value;
}

bool exists(MPI_Comm comm, const std::string& path) {
  int there = !path.empty() && std::filesystem::exists(path) ? 1 : 0;
  MPI_Bcast(&there, 1, MPI_INT, 0, comm);
  return there == 1;
}

template <class Case>
bool run(MPI_Comm comm, const Case& of, const Options& options) {
  const auto rows   = static_cast<shard::index_t>(number(options, "rows"));
  const double hour = 3600 * number(options, "every"), times = number(options, "implicit");
  const double longest =
      options.at("step").empty() ? 240.0 * 64 / static_cast<double>(rows) : number(options, "step");
  const auto each       = static_cast<shard::index_t>(std::ceil(hour / (longest * times)));
  const double dt       = hour / static_cast<double>(each);
  const auto outputs    = static_cast<shard::index_t>(number(options, "days") * day / hour + 0.5);
  const auto days_after = [&](shard::index_t step) { return static_cast<double>(step) * dt / day; };

  LatLon model(comm, of, rows);
  std::optional<SemiImplicit> implicit;
  if (times > 1) implicit.emplace(model, dt);
  const double mass       = model.budget()[0];
  const std::string saved = options.at("checkpoint");
  shard::index_t step     = 0;
  if (exists(comm, saved)) checkpoint_of(model, step).load(saved);
  const shard::index_t first = step / each;
  const bool root            = model.mesh().rank() == 0;

  std::vector<double> days;
  for (shard::index_t k = first; k <= outputs; ++k) days.push_back(days_after(k * each));
  const RelativeVorticity vorticity(model);
  std::optional<History> history;
  if (!options.at("output").empty()) history.emplace(model, options.at("output"), days);
  std::optional<Frames> frames;
  if (!options.at("frames").empty()) frames.emplace(options.at("frames"));
  DayBar bar(days_after(step), days_after(outputs * each), root);

  for (shard::index_t k = first; k <= outputs; ++k) {
    for (; step < k * each; ++step) {
      implicit ? implicit->step() : model.step(dt);
      bar.update(days_after(step + 1));
    }
    vorticity.compute(model);
    if (history) history->write(model, vorticity.field);
    if (frames)
      frames->draw(model.gathered(vorticity.field), static_cast<int>(k), days_after(step));
    if (!saved.empty()) checkpoint_of(model, step).save(saved);
  }
  if (history) history->close();
  const double change = model.budget()[0] / mass - 1;
  if (root) std::printf("steps of %.0f s; mass changed by %.1e\n", dt, change);
  if (root && implicit)
    std::printf("the last one took %d iterations of the solver\n", implicit->iterations());
  return std::fabs(change) < 1e-12;
}

bool run(MPI_Comm comm, const Options& options) {
  const std::string& name = options.at("case");
  if (name == "galewsky" || name == "jet") return run(comm, Galewsky(name == "galewsky"), options);
  if (name == "laeuter") return run(comm, Laeuter{}, options);
  if (name == "2" || name == "5" || name == "6")
    return run(comm, Williamson{std::atoi(name.c_str()), name == "2" ? pi / 4 : 0}, options);
  throw shard::ArgumentError("latlon_run: there is no case=" + name);
}

constexpr const char* usage = R"(latlon_run [NAME=VALUE ...]
  case=galewsky    or jet (without perturbation), laeuter, 2, 5, 6
  rows=48 days=6   the grid has twice as many columns
  every=6          hours between outputs
  step=            seconds; by default what the explicit model can do
  implicit=1       a factor. Above 1 the run uses the semi-implicit model, and its time step is
                   the explicit one times this factor
  output=          a NetCDF file
  frames=          the beginning of the pictures' names
  checkpoint=      a file that is written at each output; if it exists, the run continues from it
                   on any number of ranks, to the same bits)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  Options options{{"case", "galewsky"}, {"rows", "48"}, {"days", "6"},
                  {"every", "6"},       {"step", ""},   {"implicit", "1"},
                  {"output", ""},       {"frames", ""}, {"checkpoint", ""}};
  for (int a = 1; a < argc; ++a) {
    const std::string words = argv[a];
    const std::size_t equal = words.find('=');
    if (equal == std::string::npos || !options.contains(words.substr(0, equal)))
      throw shard::ArgumentError("latlon_run: \"" + words + "\" isn't one of its NAME=VALUE");
    options[words.substr(0, equal)] = words.substr(equal + 1);
  }
  return run(environment.world(), options) ? 0 : 1;
}
