// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scaling_model [--machine FILE] [--cells N] [--fields N] [--width N] [--rate CELLS_PER_SECOND]
// Predicts exchange time, overlap, weak and strong scaling from the boxes of the plans of ranks of
// large meshes, and sets weak scaling beside what others published.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "model.hpp"
#include "shard/base/environment.hpp"
#include "support/arguments.hpp"

namespace {

using scaling::Machine;
using scaling::Problem;
using scaling::Times;
using scaling::Triple;

void line(const char* name, const Times& t, double base) {
  std::printf("%-46s %3d+%-3d %9.3f MB %9.1f us %9.1f us %9.1f us %5.0f %% %8.1f %%\n", name,
              t.traffic.near_messages, t.traffic.far_messages,
              (t.traffic.near_bytes + t.traffic.far_bytes) * 1e-6, (t.pack + t.messages) * 1e6,
              t.step * 1e6, t.overlapped * 1e6, t.hidden * 100, 100 * base / t.overlapped);
}

void heads(const char* what) {
  std::printf("\n%-46s %-7s %12s %12s %12s %12s %7s %10s\n", what, "msgs", "sent", "exchange",
              "step", "overlapped", "hidden", "efficiency");
}

/// What others published, with what the model needs to know of their runs.
struct Published {
  const char* what;
  const char* machine;
  Problem problem;
  Triple one;  ///< the mesh that their efficiency is relative to
  double efficiency;
};

// Parthenon: Grete et al., arXiv:2202.12309: 1.7e13 zone-cycles/s on 73 728 GCDs at 92 %; two
// stages a cycle, five variables, two ghost cells. AthenaK: Stone et al., arXiv:2409.16053: 80 % on
// 65 536 GCDs; MHD, eight variables, three ghost cells. ImplicitGlobalGrid: Omlin, Raess, Utkin,
// arXiv:2211.15716: 93 % on 2 197 P100 relative to one; one variable, one ghost cell. Cells of a
// rank (256^3, 256^3, 512^3), AthenaK's rate (1e8 cells a second of both stages) and
// ImplicitGlobalGrid's (three quarters of the memory's bandwidth) are assumed here.
constexpr auto fused            = shard::MessageLayout::one_per_peer;
const Published all_published[] = {
    {"Parthenon hydro, 9 216 nodes",
     "frontier",
     {{256, 256, 256},
      {48, 48, 32},
      5,
      {2, 2, 2},
      8,
      2 * 1.7e13 / 73728 / 0.92,
      1,
      fused,
      false,
      {2, 2, 2}},
     {2, 2, 2},
     0.92},
    {"AthenaK MHD, 8 192 nodes",
     "frontier",
     {{256, 256, 256}, {32, 32, 64}, 8, {3, 3, 3}, 8, 2e8, 1, fused, false, {2, 2, 2}},
     {2, 2, 2},
     0.80},
    {"ImplicitGlobalGrid diffusion, 2 197 nodes",
     "piz-daint",
     {{512, 512, 512}, {13, 13, 13}, 1, {1, 1, 1}, 8, 0.75 * 732e9 / 24, 1, fused, true, {1, 1, 1}},
     {1, 1, 1},
     0.93},
};

std::string machine_file(const std::string& name) {
  return std::string(MACHINES) + "/" + name + ".txt";
}

void published() {
  std::printf("%-46s %10s %14s %12s\n", "weak scaling", "published", "model, no overlap",
              "overlap");
  for (const Published& p : all_published) {
    const Machine machine = scaling::read_machine(machine_file(p.machine));
    std::printf("%-46s %8.0f %% %15.1f %% %10.1f %%\n", p.what, p.efficiency * 100,
                100 * scaling::weak_efficiency(p.problem, machine, p.one, false),
                100 * scaling::weak_efficiency(p.problem, machine, p.one, true));
  }
  std::printf(
      "The model knows of no noise, no congestion, no adaptive refinement and no global reduction: "
      "it is an\n"
      "upper bound of what they could reach.\n");
}

void tables(const Problem& base, const Machine& machine, const std::string& name) {
  const Triple meshes[] = {{2, 2, 2},    {4, 4, 4},    {8, 8, 8},
                           {16, 16, 16}, {32, 32, 32}, {50, 50, 40}};
  const auto tile       = [&](Problem& p) {
    if (machine.ranks_per_node == 8) p.tile = {2, 2, 2};
    if (machine.ranks_per_node == 4) p.tile = {1, 2, 2};
  };
  std::printf("\n%s: %d^3 cells a rank, %d fields of %d bytes, halo %d, %.2e cells/s a rank\n",
              name.c_str(), base.cells[0], base.fields, base.value_bytes, base.width[0], base.rate);
  heads("weak scaling");
  double first = 0;
  for (const Triple& mesh : meshes) {
    Problem p = base;
    p.mesh    = mesh;
    tile(p);
    const Times t = scaling::predict(p, machine);
    if (first == 0) first = t.overlapped;
    line((std::to_string(mesh[0] * mesh[1] * mesh[2]) + " ranks").c_str(), t, first);
  }
  heads("strong scaling (the box of 8 ranks)");
  first = 0;
  for (int cut = 1; base.cells[0] / cut >= 4 * base.width[0]; cut *= 2) {
    Problem p = base;
    p.mesh    = {2 * cut, 2 * cut, 2 * cut};
    for (int& n : p.cells) n /= cut;
    tile(p);
    const Times t = scaling::predict(p, machine);
    if (first == 0) first = t.overlapped;
    line((std::to_string(p.mesh[0] * p.mesh[1] * p.mesh[2]) + " ranks, " +
          std::to_string(p.cells[0]) + "^3 cells")
             .c_str(),
         t, first / (cut * cut * cut));
  }
  // where messages weigh: an eighth of the cells along each dimension
  Problem p = base;
  p.mesh    = {50, 50, 40};
  for (int& n : p.cells) n = std::max(n / 8, 4 * base.width[0]);
  tile(p);
  heads(("100 000 ranks, " + std::to_string(p.cells[0]) + "^3 cells each").c_str());
  const double plain = scaling::predict(p, machine).overlapped;
  line("fused messages, compact nodes", scaling::predict(p, machine), plain);
  Problem q  = p;
  q.messages = shard::MessageLayout::one_per_field;
  line("a message for each field", scaling::predict(q, machine), plain);
  q       = p;
  q.faces = true;
  line("no corners", scaling::predict(q, machine), plain);
  q      = p;
  q.tile = {1, 1, 1};
  line("nodes as ranks are numbered", scaling::predict(q, machine), plain);
  for (const int n : {2, 4}) {
    q                    = p;
    q.steps_per_exchange = n;
    line((std::to_string(n) + " steps per exchange").c_str(), scaling::predict(q, machine), plain);
  }
}

}  // namespace

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  std::string machine = "frontier";
  Problem base;
  base.cells  = {256, 256, 256};
  base.fields = 5;
  base.width  = {2, 2, 2};
  base.rate   = 2 * 1.7e13 / 73728 / 0.92;
  support::Arguments given(
      argc, argv, "[--machine NAME|FILE] [--cells N] [--fields N] [--width N] [--rate CELLS]");
  given.take("--machine", machine);
  given.take("--cells", base.cells[0], 1);
  given.take("--fields", base.fields, 1);
  given.take("--width", base.width[0], 0);
  given.take("--rate", base.rate);
  if (!given.understood()) return 2;
  base.cells.fill(base.cells[0]);
  base.width.fill(base.width[0]);
  const bool named            = machine.find('/') == std::string::npos;
  const scaling::Machine read = scaling::read_machine(named ? machine_file(machine) : machine);
  published();
  tables(base, read, machine);
}
