// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shard-info: what a mesh and a spec mean, before a job is run, and what this machine has; --help
// shows the options.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json.hpp"
#include "machine.hpp"
#include "shard/base/environment.hpp"
#include "shard/base/error.hpp"
#include "shard/io/boxes.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/rank_placement.hpp"
#include "shard/view/describe.hpp"
#include "shard/view/sharding_spec.hpp"

namespace {

using shard::tools::Json;
using Ints = std::vector<int>;

/// What was asked for, as words; an option that wasn't given is empty.
struct Options {
  std::string mesh, ids, spec, extents, grid, halo, periodic, png;
  int nodes            = 0;
  shard::index_t bytes = 0;
  bool balanced = false, json = false;
};

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

std::vector<std::string> split(const std::string& words, const char* separators) {
  std::vector<std::string> parts(1);
  for (const char c : words)
    if (std::string_view(separators).find(c) != std::string_view::npos)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

template <class Integer>
Integer number(const std::string& words) {
  Integer value       = 0;
  const char* end     = words.data() + words.size();
  const auto [at, ok] = std::from_chars(words.data(), end, value);
  if (ok != std::errc() || at != end) refuse("'" + words + "' is no number that can be used here");
  return value;
}

template <class Integer>
std::vector<Integer> numbers(const std::string& words) {
  std::vector<Integer> values;
  for (const std::string& part : split(words, "x,")) values.push_back(number<Integer>(part));
  return values;
}

shard::LogicalMesh mesh_from(const Options& options) {
  Ints shape;
  std::vector<std::string> names;
  if (options.mesh.find('=') == std::string::npos)
    shape = numbers<int>(options.mesh);
  else
    for (const std::string& axis : split(options.mesh, ",")) {
      const auto parts = split(axis, "=");
      if (parts.size() != 2) refuse("'" + axis + "' is no axis like lat=8");
      names.push_back(parts[0]);
      shape.push_back(number<int>(parts[1]));
    }
  return options.ids.empty() ? shard::LogicalMesh::of_shape(shape, names)
                             : shard::LogicalMesh(numbers<int>(options.ids), shape, names);
}

shard::HaloTraffic traffic_from(const Ints& shape, const Options& options) {
  shard::HaloTraffic t = shard::HaloTraffic::of_square_shards(shape);
  t.bytes              = std::max<shard::index_t>(options.bytes, 1);
  if (!options.grid.empty()) t.grid = numbers<shard::index_t>(options.grid);
  if (!options.periodic.empty())
    for (const int axis : numbers<int>(options.periodic)) {
      if (axis < 0 || axis >= static_cast<int>(shape.size()))
        refuse("the mesh has no axis " + std::to_string(axis));
      t.periodic[static_cast<std::size_t>(axis)] = true;
    }
  if (!options.halo.empty()) {
    t.halo.clear();
    for (const std::string& pair : split(options.halo, ",")) {
      const auto sides = split(pair, ":");
      if (sides.size() != 2) refuse("'" + pair + "' is no pair of widths like 1:1");
      t.halo.push_back({number<shard::index_t>(sides[0]), number<shard::index_t>(sides[1])});
    }
  }
  return t;
}

Json::Members show_placement(const shard::LogicalMesh& mesh, const Options& options) {
  const Ints& shape = mesh.mesh_shape();
  const int count   = options.nodes;
  if (mesh.size() % count != 0)
    refuse(std::to_string(mesh.size()) + " ranks can't be shared out to " + std::to_string(count) +
           " nodes evenly");
  Ints nodes(static_cast<std::size_t>(mesh.size()));
  for (std::size_t r = 0; r < nodes.size(); ++r)
    nodes[r] = static_cast<int>(r) / (mesh.size() / count);
  const shard::HaloTraffic t = traffic_from(shape, options);
  const Ints order           = shard::place_by_node(shape, nodes, t);
  const auto before          = shard::bytes_across_nodes(shape, {}, nodes, t);
  const auto after           = shard::bytes_across_nodes(shape, order, nodes, t);
  if (options.json)
    return {{"nodes", count},
            {"bytes_in_rank_order", before},
            {"bytes_by_node", after},
            {"order", order}};
  std::printf("bytes of halo faces that cross nodes in one exchange, %d nodes of %d ranks\n", count,
              mesh.size() / count);
  std::printf("  rank order  %14lld\n", static_cast<long long>(before));
  std::printf("  by node     %14lld  %.3f of rank order's\n", static_cast<long long>(after),
              before == 0 ? 1.0 : static_cast<double>(after) / static_cast<double>(before));
  std::printf("node at each place of the mesh, placed by node\n");
  const int width = static_cast<int>(std::to_string(count - 1).size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto line = static_cast<std::size_t>(shape.back());
    std::printf("%s%*d", place % line == 0 ? "  " : " ", width,
                nodes[static_cast<std::size_t>(order[place])]);
    if ((place + 1) % line == 0) std::printf("\n");
  }
  return {};
}

void draw(const shard::ShardPicture& picture, const Options& options) {
  shard::BoxFigure figure;
  figure.title = picture.facts;
  figure.title.insert(figure.title.begin(), options.spec + " on " + options.mesh);
  const auto lines = [](const std::vector<shard::ShardPicture::Range>& ranges, int dim) {
    std::vector<shard::BoxLine> all;
    for (const auto& [begin, end] : ranges)
      all.push_back({dim < 0 ? "" : std::to_string(begin) + ":" + std::to_string(end),
                     dim < 0 ? 1 : end - begin});
    return all;
  };
  figure.rows    = lines(picture.rows, picture.row_dim);
  figure.columns = lines(picture.columns, picture.column_dim);
  figure.holders = picture.holders;
  shard::write_png(options.png, figure);
}

Json::Members show_sharding(const shard::LogicalMesh& mesh, const Options& options) {
  const shard::ShardingSpec spec(
      mesh, shard::PartitionSpec::from_text(options.spec),
      {.rule = options.balanced ? shard::ShardRule::balanced : shard::ShardRule::ceil});
  const shard::OpSharding& s = spec.sharding();
  Json::Members members{{"type", shard::name_of(s.type())},
                        {"tiles", s.tiles()},
                        {"replicas", s.replicas()},
                        {"in_effect", s.text()},
                        {"iota", s.iota().text()}};
  if (!options.json) {
    std::printf("type                %s\n", shard::name_of(s.type()));
    std::printf("tile assignment     %s\n", s.tile_assignment().text().c_str());
    std::printf("replication groups  %s\n", s.replication_groups().text().c_str());
    std::printf("in effect           %s\n", s.text().c_str());
    std::printf("iota form           %s\n", s.iota().text().c_str());
  }
  if (options.extents.empty()) return members;
  const auto extents = numbers<shard::index_t>(options.extents);
  double bytes       = static_cast<double>(std::max<shard::index_t>(options.bytes, 1));
  for (const shard::index_t extent : extents) bytes *= static_cast<double>(extent);
  if (bytes > 9e18)
    refuse("a tensor of " + options.extents + " has more bytes than can be counted");
  const shard::ShardLayout layout   = spec.apply(extents);
  const shard::ShardPicture picture = shard::shard_picture(layout, options.bytes);
  if (!options.png.empty()) draw(picture, options);
  if (!options.json) std::printf("\n%s\n", picture.text().c_str());
  std::vector<Json> shards;
  for (int device = 0; device < mesh.size(); ++device) {
    const shard::DeviceShard shard = layout.shard(device);
    if (options.json)
      shards.push_back(Json::object({{"device", device},
                                     {"begin", shard.begin},
                                     {"end", shard.end},
                                     {"replica", shard.replica_id}}));
    else
      std::printf("device %-4d %-24s replica %d\n", device, shard.text().c_str(), shard.replica_id);
  }
  members.emplace_back("shard_shape", layout.shard_shape());
  members.emplace_back("shards", shards);
  return members;
}

void show_machine(const Options& options) {
  setenv("OMP_PROC_BIND", "false", 0);  // or Kokkos warns, of speed that isn't wanted here
  int argc    = 0;
  char** argv = nullptr;
  const shard::Environment environment(argc, argv);
  const std::vector<shard::tools::Fact> facts = shard::tools::machine_facts(environment.world());
  if (environment.rank() != 0) return;
  std::vector<std::pair<std::string, Json::Members>> groups;
  for (const shard::tools::Fact& fact : facts) {
    if (groups.empty() || groups.back().first != fact.group) {
      groups.push_back({fact.group, {}});
      if (!options.json) std::printf("%s\n", fact.group.c_str());
    }
    groups.back().second.emplace_back(fact.name, fact.json);
    if (!options.json) std::printf("  %-16s %s\n", fact.name.c_str(), fact.words.c_str());
  }
  if (!options.json) return;
  Json::Members members;
  for (const auto& [name, group] : groups) members.emplace_back(name, Json::object(group));
  std::printf("%s\n", Json::object(members).text().c_str());
}

void show_mesh(const Options& options) {
  const shard::LogicalMesh mesh = mesh_from(options);
  if (options.nodes == 0 && options.spec.empty()) refuse("one of --nodes and --spec is needed");
  Json::Members members{{"mesh", mesh.mesh_shape()}};
  const auto take = [&](const char* name, const Json::Members& part) {
    if (options.json) members.emplace_back(name, Json::object(part));
  };
  if (options.nodes != 0) take("placement", show_placement(mesh, options));
  if (!options.spec.empty()) take("sharding", show_sharding(mesh, options));
  if (options.json) std::printf("%s\n", Json::object(members).text().c_str());
}

/// An option that is given has a value.
const CLI::Validator given(
    [](const std::string& words) { return std::string(words.empty() ? "it is empty" : ""); }, "");

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--json", options.json, "say everything in JSON");
  const auto text = [&](const char* name, std::string& value, const char* says, CLI::Option* with) {
    return app.add_option(name, value, says)->check(given)->needs(with);
  };
  auto* mesh = app.add_option("--mesh", options.mesh,
                              "ranks along each axis: 8x16, or with names lat=8,lon=16")
                   ->check(given);
  text("--ids", options.ids, "device ids in row-major order: 0,2,1,3 (0,1,2,...)", mesh);
  auto* spec  = text("--spec", options.spec,
                     "how the spec lies on the mesh: \"(0, None)\", \"lat, lon\"", mesh);
  auto* nodes = app.add_option("--nodes", options.nodes,
                               "bytes of halo faces that cross so many nodes, with as many ranks "
                               "each, in rank order and placed by node")
                    ->check(CLI::PositiveNumber)
                    ->needs(mesh);
  auto* extents = text("--extents", options.extents,
                       "what each device holds of such a tensor, with a picture: 721x1440", spec);
  app.add_flag("--balanced", options.balanced,
               "shards as even as can be, as fields have them (ceil(n / tiles) each, as in XLA)")
      ->needs(extents);
  text("--png", options.png, "draw the picture into this file", extents);
  text("--grid", options.grid, "global extents, one per mesh axis (one cell a rank)", nodes);
  text("--halo", options.halo, "widths low:high, one pair per mesh axis (1:1,1:1)", nodes);
  text("--periodic", options.periodic, "axes that wrap round, counted from 0: 0,1 (none)", nodes);
  app.add_option("--bytes", options.bytes,
                 "of one cell: value size times, with --nodes, the extents that aren't sharded (1)")
      ->check(CLI::PositiveNumber)
      ->needs(mesh);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "What a mesh and a spec mean, before a job is run. Without arguments: what this build and "
      "this "
      "machine have (under mpiexec, all its nodes).",
      "shard-info");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    if (options.mesh.empty())
      show_machine(options);
    else
      show_mesh(options);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shard-info: %s\n", e.what());
    return 2;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  std::fprintf(stderr, "shard-info: what it says can't be written\n");
  return 2;
}
