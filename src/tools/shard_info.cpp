// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shard-info: what a mesh and a spec mean, before a job is run; --help shows the options.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/placement.hpp"
#include "shard/view/sharding_spec.hpp"

namespace {

using Ints = std::vector<int>;

/// What was asked for, as words; an option that wasn't given is empty.
struct Options {
  std::string mesh, spec, extents, grid, halo, periodic;
  int nodes            = 0;
  shard::index_t bytes = 1;
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

shard::LogicalMesh mesh_from(const std::string& words) {
  if (words.find('=') == std::string::npos)
    return shard::LogicalMesh::of_shape(numbers<int>(words));
  Ints shape;
  std::vector<std::string> names;
  for (const std::string& axis : split(words, ",")) {
    const auto parts = split(axis, "=");
    if (parts.size() != 2) refuse("'" + axis + "' is no axis like lat=8");
    names.push_back(parts[0]);
    shape.push_back(number<int>(parts[1]));
  }
  return shard::LogicalMesh::of_shape(shape, names);
}

shard::HaloTraffic traffic_from(const Ints& shape, const Options& options) {
  shard::HaloTraffic t = shard::HaloTraffic::of_square_shards(shape);
  t.bytes              = options.bytes;
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

void print_placement(const shard::LogicalMesh& mesh, const Options& options) {
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
}

void print_sharding(const shard::LogicalMesh& mesh, const Options& options) {
  const shard::ShardingSpec spec(mesh, shard::PartitionSpec::from_text(options.spec));
  const shard::OpSharding& s = spec.sharding();
  std::printf("type                %s\n", shard::name_of(s.type()));
  std::printf("tile assignment     %s\n", s.tile_assignment().text().c_str());
  std::printf("replication groups  %s\n", s.replication_groups().text().c_str());
  std::printf("in effect           %s\n", s.text().c_str());
  std::printf("iota form           %s\n", s.iota().text().c_str());
  if (options.extents.empty()) return;
  const shard::ShardLayout layout = spec.apply(numbers<shard::index_t>(options.extents));
  for (int device = 0; device < mesh.size(); ++device) {
    const shard::DeviceShard shard = layout.shard(device);
    std::printf("device %-4d %-24s replica %d\n", device, shard.text().c_str(), shard.replica_id);
  }
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--mesh", options.mesh, "ranks along each axis: 8x16, or with names lat=8,lon=16")
      ->required();
  auto* spec  = app.add_option("--spec", options.spec,
                               "how the spec lies on the mesh: \"(0, None)\", \"lat, lon\"");
  auto* nodes = app.add_option("--nodes", options.nodes,
                               "bytes of halo faces that cross so many nodes, with as many ranks "
                               "each, in rank order and placed by node")
                    ->check(CLI::PositiveNumber);
  app.add_option("--extents", options.extents, "what each device holds of such a tensor: 721x1440")
      ->needs(spec);
  app.add_option("--grid", options.grid, "global extents, one per mesh axis (one cell a rank)")
      ->needs(nodes);
  app.add_option("--halo", options.halo, "widths low:high, one pair per mesh axis (1:1,1:1)")
      ->needs(nodes);
  app.add_option("--periodic", options.periodic, "axes that wrap round, counted from 0: 0,1 (none)")
      ->needs(nodes);
  app.add_option("--bytes", options.bytes,
                 "of one cell: value size times the extents that aren't cut (1)")
      ->check(CLI::PositiveNumber)
      ->needs(nodes);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What a mesh and a spec mean, before a job is run.", "shard-info");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
    const shard::LogicalMesh mesh = mesh_from(options.mesh);
    if (options.nodes == 0 && options.spec.empty()) refuse("one of --nodes and --spec is needed");
    if (options.nodes != 0) print_placement(mesh, options);
    if (!options.spec.empty()) print_sharding(mesh, options);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shard-info: %s\n", e.what());
    return 2;
  }
  return 0;
}
