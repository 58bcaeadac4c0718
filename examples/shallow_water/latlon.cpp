// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shallow water on a latitude-longitude grid, cut in both directions, with poles and a polar
// filter: the cases 1 (a bell is carried over the poles), 2 (steady, along the equator and over the
// poles), 5 (a mountain) and 6 (a Rossby-Haurwitz wave) of Williamson et al. 1992, the balanced jet
// of Galewsky et al. 2004, and the unsteady flow of Laeuter et al. 2005. Cases 5 and 6 have no
// known answer; it is the run on the finest grid. Each coarsest run is repeated on each rank alone,
// which gives the same bits, and with half the step. A run that is saved and goes on on one rank
// has the same bits too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "../help.hpp"
#include "galewsky.hpp"
#include "laeuter.hpp"
#include "latlon_model.hpp"
#include "latlon_output.hpp"
#include "latlon_semi_implicit.hpp"
#include "shard/io/safetensors.hpp"

using Values = Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace>;

/// The mean of the cells that make up a cell of a grid with `rows` rows.
Values coarsened(const Values& fine, std::size_t rows) {
  const std::size_t n = fine.extent(0) / rows;
  const double step   = pi / static_cast<double>(fine.extent(0));
  Values out("coarse", rows, 2 * rows);
  for (std::size_t j = 0; j < rows; ++j)
    for (std::size_t i = 0; i < 2 * rows; ++i) {
      double area = 0;
      for (std::size_t y = j * n; y < (j + 1) * n; ++y) {
        const double c = std::sin((static_cast<double>(y) + 0.5) * step);
        area += c * static_cast<double>(n);
        for (std::size_t x = i * n; x < (i + 1) * n; ++x) out(j, i) += c * fine(y, x);
      }
      out(j, i) /= area;
    }
  return out;
}

/// l1, l2 and l-infinity of Williamson et al. 1992, equations 82 to 84.
std::array<double, 3> errors(const Values& h, const Values& exact) {
  double sums[4] = {}, most = 0, largest = 0;
  for (std::size_t j = 0; j < h.extent(0); ++j) {
    const double area =
        std::sin((static_cast<double>(j) + 0.5) * pi / static_cast<double>(h.extent(0)));
    for (std::size_t i = 0; i < h.extent(1); ++i) {
      const double e = h(j, i) - exact(j, i), x = exact(j, i);
      sums[0] += area * std::fabs(e), sums[1] += area * e * e;
      sums[2] += area * std::fabs(x), sums[3] += area * x * x;
      most = std::max(most, std::fabs(e)), largest = std::max(largest, std::fabs(x));
    }
  }
  return {sums[0] / sums[2], std::sqrt(sums[1] / sums[3]), most / largest};
}

/// The depth of the case at the centres.
template <class Case>
Values depth_of(const Case& of, std::size_t rows) {
  const double step = pi / static_cast<double>(rows);
  Values h("exact", rows, 2 * rows);
  for (std::size_t j = 0; j < rows; ++j)
    for (std::size_t i = 0; i < 2 * rows; ++i)
      h(j, i) = of.depth((static_cast<double>(j) + 0.5) * step - pi / 2,
                         (static_cast<double>(i) + 0.5) * step);
  return h;
}

bool same_bits(const Values& a, const Values& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// A case, and what is asked for.
template <class Case>
struct Test {
  Case of;
  const char* name;
  double step;    // in seconds, on 64 rows
  double factor;  // by which half the grid step divides the l2 error at least, on the finest pair
};

struct Result {
  Values h, u, v;
  double mass, energy;  // relative changes
};

class Program {
 public:
  Program(MPI_Comm world, int rows, double days, int grids, std::string only)
      : world_(world),
        rows_(rows),
        finest_(rows << (grids - 1)),
        days_(days),
        only_(std::move(only)) {
    MPI_Comm_rank(world, &rank_), MPI_Comm_size(world, &ranks_);
    if (rank_ == 0)
      std::printf("case             rows  h l1       l2         linf       mass      energy\n");
  }
  bool right() const { return right_; }

  template <class Case>
  void operator()(const Test<Case>& test) {
    if (!is_wanted(test.name)) return;
    const Result finest = run(test, world_, finest_, 1);
    double coarser      = 0;
    for (int n = rows_; n <= finest_; n *= 2) {
      const Result result = n == finest_ ? finest : run(test, world_, n, 1);
      expect(std::fabs(result.mass) < 1e-13, test.name, "mass");
      if (n == rows_) check_coarsest(test, result);
      if (rank_ != 0 || (n == finest_ && !test.of.has_answer())) continue;
      const auto size           = static_cast<std::size_t>(n);
      const auto exact          = test.of.has_answer() ? depth_of(test.of.at(days_ * day), size)
                                                       : coarsened(finest.h, size);
      const auto [l1, l2, most] = errors(result.h, exact);
      std::printf("%-15s  %4d  %.3e  %.3e  %.3e  %8.1e  %8.1e\n", test.name, n, l1, l2, most,
                  result.mass, result.energy);
      if (n > rows_ && n == (test.of.has_answer() ? finest_ : finest_ / 2))
        expect(l2 < coarser / test.factor, test.name, "the order of convergence");
      coarser = l2;
    }
  }

  /// The semi-implicit model, with steps that are `times` as long.
  template <class Case>
  void with_long_steps(const Test<Case>& test, double times) {
    if (!is_wanted(test.name)) return;
    const Result result = run(test, world_, rows_, times);
    check_bits(test, result, times);
    if (rank_ != 0) return;
    const auto [l1, l2, most] =
        errors(result.h, depth_of(test.of.at(days_ * day), static_cast<std::size_t>(rows_)));
    std::printf("%-15s  %4d  %.3e  %.3e  %.3e  %8.1e  %8.1e  steps of %.0f s\n", test.name, rows_,
                l1, l2, most, result.mass, result.energy, times * test.step * 64 / rows_);
    expect(std::fabs(result.mass) < 1e-13, test.name, "mass with long steps");
  }

  /// Errors of the surface on 72 rows beside a spectral model, at most 1.1 of ICON/GME's.
  void beside_published(const std::string& file) {
    struct Published {
      Test<Williamson> test;
      double days, l2;  // icon.enes.org/swm/gmeswm/node6.html, tables 4 and 5, 10242 nodes
    };
    constexpr std::size_t rows = 72;
    for (const auto& [test, days, l2] : {Published{{{5}, "5", 480, 0}, 15, 1.371e-3},
                                         Published{{{6}, "6", 240, 0}, 10, 9.015e-3}}) {
      // on every rank, so that all end where there is no such file
      const auto spectral = shard::read_safetensors<float>(file, std::string("case") + test.name);
      days_               = days;
      const Result result = run(test, world_, static_cast<int>(rows), 1);
      if (rank_ != 0) continue;
      Values exact("exact", rows, 2 * rows);
      for (std::size_t j = 0; j < rows; ++j)
        for (std::size_t i = 0; i < 2 * rows; ++i) {
          exact(j, i) = spectral.at(j * 2 * rows + i);
          result.h(j, i) += test.of.relief((static_cast<double>(j) + 0.5) * pi / rows - pi / 2,
                                           (static_cast<double>(i) + 0.5) * pi / rows);
        }
      const auto error = errors(result.h, exact);
      std::printf("%-15s  %4zu  %.3e  %.3e  %.3e  %8.1e  %8.1e  l2 / published %.2f\n", test.name,
                  rows, error[0], error[1], error[2], result.mass, result.energy, error[1] / l2);
      expect(error[1] < 1.1 * l2, test.name, "the error, beside the published one");
    }
  }

  /// All ranks begin a run and save it; each rank alone goes on from the file.
  void restart() {
    const std::string path = "latlon_" + std::to_string(ranks_) + ".ckpt";
    shard::index_t step    = 0;
    const Williamson of{5};
    LatLon model(world_, of, rows_), alone(MPI_COMM_SELF, of, rows_);
    const auto go = [&](LatLon& on) {
      for (int s = 0; s < 3; ++s) on.step(480.0 * 64 / rows_);
    };
    go(model);
    checkpoint_of(model, step).save(path);
    go(model);
    checkpoint_of(alone, step).load(path);
    go(alone);
    const Values all = model.gathered(model.h), one = alone.gathered(alone.h);
    MPI_Barrier(world_);  // all have read it
    if (rank_ == 0) std::remove(path.c_str());
    if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
      expect(rank_ != 0 || same_bits(all, one), "5", "the bits after a restart");
  }

 private:
  template <class Case>
  Result run(const Test<Case>& test, MPI_Comm comm, int n, double part_of_step) const {
    LatLon model(comm, test.of, n);
    const bool carries = is_carried(test.of);
    const auto before  = model.budget();
    const double step  = part_of_step * test.step * 64 / n;
    const int steps    = static_cast<int>(std::ceil(days_ * day / step));
    const double dt    = days_ * day / steps;
    std::optional<SemiImplicit> implicit;
    if (part_of_step > 1) implicit.emplace(model, dt);
    for (int s = 0; s < steps; ++s)
      implicit ? implicit->step() : carries ? model.advect(dt) : model.step(dt);
    const auto after = model.budget();
    return {model.gathered(model.h), model.gathered(model.u), model.gathered(model.v),
            after[0] / before[0] - 1, carries ? 0 : after[1] / before[1] - 1};
  }
  bool is_wanted(const std::string& name) const { return name.rfind(only_, 0) == 0; }
  /// Whether the depth is carried by a wind that doesn't change.
  static bool is_carried(const Williamson& of) { return of.number == 1; }
  template <class Case>
  static bool is_carried(const Case&) {
    return false;
  }

  /// One rank alone has the same bits, and half the step has 1/16 of the drift of energy: that of
  /// the time step, for in space the scheme has none.
  template <class Case>
  void check_coarsest(const Test<Case>& test, const Result& result) {
    check_bits(test, result, 1);
    const Result half = run(test, world_, rows_, 0.5);
    expect(std::fabs(half.energy) < std::fabs(result.energy) / 16 + 2e-12, test.name,
           "the drift of energy");
  }
  template <class Case>
  void check_bits(const Test<Case>& test, const Result& result, double part_of_step) {
    const Result alone = run(test, MPI_COMM_SELF, rows_, part_of_step);
    if constexpr (std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>)
      if (rank_ == 0)
        expect(same_bits(result.h, alone.h) && same_bits(result.u, alone.u) &&
                   same_bits(result.v, alone.v),
               test.name, "the bits of one rank");
  }
  void expect(bool is, const char* name, const char* what) {
    if (!is && rank_ == 0) std::printf("wrong in case %s: %s\n", name, what);
    right_ = right_ && is;
  }

  MPI_Comm world_;
  int rows_, finest_, rank_ = 0, ranks_ = 1;
  double days_;
  std::string only_;
  bool right_ = true;
};

constexpr const char* usage =
    R"(latlon [ROWS [DAYS [GRIDS [CASE]]]]: on ROWS (12), 2 ROWS, 4 ROWS ... rows, 3 grids; one day; the
cases whose names begin with CASE.
latlon published [FILE]: cases 5 and 6 on 72 rows beside FILE (spectral.safetensors), the answers
of a spectral model (spectral.py), and the published errors of ICON/GME.)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  if (argc > 1 && std::strcmp(argv[1], "published") == 0) {
    Program published(environment.world(), 72, 1, 1, "");
    published.beside_published(argc > 2 ? argv[2] : "spectral.safetensors");
    return published.right() ? 0 : 1;
  }
  Program program(environment.world(), argc > 1 ? std::atoi(argv[1]) : 12,
                  argc > 2 ? std::atof(argv[2]) : 1, argc > 3 ? std::atoi(argv[3]) : 3,
                  argc > 4 ? argv[4] : "");
  program(Test<Williamson>{{1, pi / 2}, "1, 90 degrees", 480, 1.5});
  program(Test<Williamson>{{2}, "2, 0 degrees", 480, 3.3});
  program(Test<Williamson>{{2, pi / 4}, "2, 45 degrees", 480, 3.5});
  for (const double times : {2.0, 4.0})
    program.with_long_steps(Test<Williamson>{{2, pi / 4}, "2, 45 degrees", 480, 0}, times);
  program(Test<Williamson>{{5}, "5", 480, 2});
  program(Test<Williamson>{{6}, "6", 240, 2});
  program(Test<Galewsky>{Galewsky(false), "Galewsky", 240, 2});
  program(Test<Laeuter>{{}, "Laeuter", 240, 3.5});
  program.restart();
  if (environment.rank() == 0 && program.right()) std::printf("the same bits as on one rank\n");
  return program.right() ? 0 : 1;
}
