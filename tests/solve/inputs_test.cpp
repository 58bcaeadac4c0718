// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What operators, preconditioners and solvers are given: every kind of memory, partition and mesh;
// vectors that don't fit; ranks that disagree.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shard/solve/bicgstab.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/chebyshev_solver.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "shard/solve/tridiagonal_lines.hpp"
#include "solve/solve_support.hpp"
#include "support/field_inputs.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Member;
using F                = Plane<Zero>;
constexpr index_t rows = 13, columns = 11;

double rough(index_t i, index_t j) {
  return std::sin(0.3 + 1.7 * static_cast<double>(i) + 2.3 * static_cast<double>(j));
}

/// The owned values of results by global index, beside those of other ranks, which are 0.
struct Results {
  std::vector<std::pair<std::string, std::vector<double>>> all;
  template <class Field>
  void add(const char* name, const Field& y) {
    Space().fence();
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    const auto host = create_mirror_view(y);
    deep_copy(Space(), host, y);
    Space().fence();
    for (int i = 0; i < host.extent(0); ++i)
      for (int j = 0; j < host.extent(1); ++j)
        values[static_cast<std::size_t>(y.to_global(0, i) * columns + y.to_global(1, j))] =
            host(i, j);
    all.emplace_back(name, values);
  }
};

/// What is made of the inputs. With strides of its own the field has another type: some of it.
template <class Field>
Results results_of(const Field& x, const Field& b, const Field& k, const Field& out) {
  constexpr bool strided = std::is_same_v<typename Field::layout, Kokkos::LayoutStride>;
  const Space space;
  Results results;
  const auto fill = [&](const Field& f, const auto& value) {
    const auto host = create_mirror_view(f);
    for (int i = 0; i < host.extent(0); ++i)
      for (int j = 0; j < host.extent(1); ++j)
        host(i, j) = value(f.to_global(0, i), f.to_global(1, j));
    deep_copy(space, f, host);
    space.fence();
  };
  const auto apply = [&](const char* name, const auto& op) {
    fill(x, rough);
    op.apply(space, out, x);
    results.add(name, out);
  };
  fill(b, [](index_t i, index_t j) { return rough(j, i); });
  fill(k, [](index_t i, index_t j) { return 1.5 + rough(i, 2 * j); });
  const Diffusion<Field, Field> a(x, k, {.spacing = {1.0, 0.7}, .shift = 0.01});
  apply("Diffusion", a);
  const Jacobi jacobi(space, x, a);
  apply("Jacobi", jacobi);
  apply("Multigrid", Multigrid(a, {.gather_below = 30, .cells_per_rank = 8, .bottom = 12}));
  const Diffusion uniform(x, {.shift = 0.1});
  apply("uniform", Multigrid(uniform, {.gather_below = 30, .cells_per_rank = 8, .bottom = 12}));
  a.diagonal(space, out);
  results.add("diagonal", out);
  const auto solve = [&](const char* name, auto solver) {
    fill(out, [](index_t, index_t) { return 0.0; });
    const SolveResult result = solver(space, out, b);
    EXPECT_TRUE(result) << name << ": " << result.text();
    results.add(name, out);
  };
  const SolveOptions options{.relative = 1e-9, .determinism = Determinism::ordered};
  solve("CG", CG(x, a, jacobi, options));
  if constexpr (!strided) {
    const StencilOperator<Field, Upwind, UpwindAdjoint> upwind(x, {}, UpwindAdjoint{});
    apply("StencilOperator", upwind);
    apply("its adjoint", adjoint_of(upwind));
    apply("Chebyshev", Chebyshev(space, x, a));
    fill(x, [](index_t, index_t) { return -1.0; });
    a.diagonal(space, out);
    apply("TridiagonalLines", tridiagonal_lines<1>(x, out, x));
    solve("PipelinedCG", PipelinedCG(x, a, options));
    solve("MINRES", MINRES(x, a, options));
    solve("ChebyshevSolver", ChebyshevSolver(x, a, jacobi, {0.002, 2.0}, options));
    solve("BiCGStab", BiCGStab(x, upwind, options));
    solve("GMRES", GMRES(x, upwind, options));
    solve("LSQR", LSQR(x, b, upwind, options));
  }
  return results;
}

/// Whether this rank's points have the bits of the same results on one rank.
template <class Field>
void expect_same(const std::string& what, const Results& here, const Results& serial,
                 const Field& x, double tolerance) {
  ASSERT_LE(here.all.size(), serial.all.size());
  for (const auto& [name, values] : here.all) {
    const auto found = std::find_if(serial.all.begin(), serial.all.end(),
                                    [&](const auto& other) { return other.first == name; });
    double most      = 0.0;
    for (int i = 0; i < x.extent(0); ++i)
      for (int j = 0; j < x.extent(1); ++j) {
        const auto at = static_cast<std::size_t>(x.to_global(0, i) * columns + x.to_global(1, j));
        const double off = std::abs(values[at] - found->second[at]);
        most             = off <= most ? most : std::isnan(off) ? 1e300 : off;
      }
    EXPECT_LE(most, tolerance) << what << ", " << name;
  }
}

TEST(SolveInputs, EveryMemoryPartitionAndMesh) {
  using Parts          = std::array<Partition, 2>;
  const auto inputs_on = [&](const auto& mesh, const Parts& parts) {
    return same_type_inputs<F>(mesh, parts);
  };
  const Grid one   = alone();
  const auto whole = inputs_on(one, {Partition::whole(rows), Partition::whole(columns)});
  const F natural  = whole.front().field;
  const Results serial =
      results_of(natural, natural.like("b"), natural.like("k"), natural.like("out"));
  // the oracle: the diffusion of one rank by a loop
  const auto at = [](index_t i, index_t j) {
    return i < 0 || j < 0 || i >= rows || j >= columns ? 0.0 : rough(i, j);
  };
  const auto k = [](index_t i, index_t j) { return 1.5 + rough(i, 2 * j); };
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < columns; ++j) {
      double sum = 0.01 * at(i, j);
      for (int side = 0; side < 4; ++side) {
        const index_t p   = i + (side == 0   ? -1
                                 : side == 1 ? 1
                                             : 0),
                      q   = j + (side == 2   ? -1
                                 : side == 3 ? 1
                                             : 0);
        const bool inside = p >= 0 && q >= 0 && p < rows && q < columns;
        const double face = inside ? 2 * k(i, j) * k(p, q) / (k(i, j) + k(p, q)) : 2 * k(i, j);
        sum += face * (at(i, j) - at(p, q)) / (side < 2 ? 1.0 : 0.49);
      }
      EXPECT_NEAR(serial.all[0].second[static_cast<std::size_t>(i * columns + j)], sum, 1e-11);
    }

  const auto check = [&](const auto& mesh, const std::string& name, const Parts& parts,
                         bool all_kinds) {
    const auto fields = inputs_on(mesh, parts);
    const auto size   = all_kinds ? fields.size() : std::size_t(1);
    for (std::size_t i = 0; i < size; ++i) {
      const auto kind = [&](std::size_t more) {
        return inputs_on(mesh, parts)[(i + more) % fields.size()].field;
      };
      // fields of one kind, and each of another kind
      const F x = fields[i].field, other = all_kinds ? kind(1) : x.like("b");
      expect_same(name + ", " + fields[i].name,
                  results_of(x, other, all_kinds ? kind(2) : x.like("k"),
                             all_kinds ? kind(3) : x.like("out")),
                  serial, x, 0.0);
    }
  };
  const Grid mesh = grid();
  const auto l = mesh.size<Lat>(), m = mesh.size<Lon>();
  check(mesh, "grid", {Partition::balanced(rows, l), Partition::balanced(columns, m)}, true);
  for (const auto& [name, rows_of] : partition_inputs(rows, l))
    check(mesh, name, {rows_of, partition_inputs(columns, m).back().second}, false);
  // replicas over another axis, and ranks in another order
  const int all = ranks(), members = all % 2 == 0 ? 2 : 1;
  const Mesh<Member, Lat, Lon> members_of(MPI_COMM_WORLD, {members, all / members, 1},
                                          {.order = turned_ranks(all)});
  check(members_of, "members",
        {Partition::balanced(rows, all / members), Partition::whole(columns)}, false);

  const auto level = [&] {
    return strided_input<F>(mesh, {Partition::balanced(rows, l), Partition::balanced(columns, m)});
  };
  const auto x = level();
  expect_same("strided", results_of(x, level(), level(), level()), serial, x, 1e-12);
}

// One rank alone may have padded memory.
TEST(SolveInputs, StridesOfOneRank) {
  const Grid mesh   = grid();
  const auto inputs = same_type_inputs<F>(mesh, {Partition::balanced(rows, mesh.size<Lat>()),
                                                 Partition::balanced(columns, mesh.size<Lon>())});
  const F x = inputs[rank() == 0 ? 2 : 0].field, b = x.like("b"), y = b.like("y");
  const Diffusion a(inputs[0].field, {.shift = 0.1});
  set(y, [](const auto& i) { return rough(i[0], i[1]); });
  a.apply(Space(), b, y);
  const SolveResult result = CG(y, a, Multigrid(a), {.relative = 1e-12})(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LT(error_of(x, [](const auto& i) { return rough(i[0], i[1]); }), 1e-9);
}

// One rank alone has other elements: each rank knows it.
TEST(SolveInputs, SpacesOfOtherElementsWithEqualCounts) {
  struct Node;
  using Nodes = ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Lat, Indices<Node>>>;
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {0});
  const std::int64_t first = 2 * mesh.rank(), turn = mesh.rank() == mesh.size() - 1 ? 1 : 0;
  const IndexSpace<Node, Lat> own(mesh, by_global_ids({first, first + 1}, 2)),
      same(mesh, by_global_ids({first, first + 1, 0}, 2)),
      turned(mesh, by_global_ids({first + turn, first + 1 - turn}, 2));
  const Nodes x("x", mesh, {own}), y("y", mesh, {same}), z("z", mesh, {turned});
  deep_copy(Space(), x, 2.0);
  deep_copy(Space(), y, 3.0);
  EXPECT_EQ(dots(Space(), std::tie(x, y))[0], 12.0 * mesh.size());
  EXPECT_EQ(dot(Space(), x, y), 12.0 * mesh.size());
  expect_parts(message_thrown_by<ArgumentError>([&] { dots(Space(), std::tie(x, z)); }),
               {"dots", "other elements"});
  expect_parts(message_thrown_by<ArgumentError>([&] { (void)dot(Space(), x, z); }),
               {"dot", "other elements"});
  expect_parts(message_thrown_by<ArgumentError>([&] { axpby(Space(), z, 1.0, y, 0.0); }),
               {"update", "other elements"});
}

using Call = std::function<void(const F&, const F&)>;

TEST(SolveInputs, VectorsThatDoNotFitAreErrors) {
  const Space space;
  const Grid mesh = grid();
  const auto part = Partition::balanced(rows, mesh.size<Lat>());
  const F x("x", mesh, {part, Partition::balanced(columns, mesh.size<Lon>())}), y = x.like("y");
  const F longer("longer", mesh, {rows + 1, columns});
  const F otherwise("otherwise", mesh,
                    {another_partition(part), another_partition(x.partition(1))});
  const Diffusion a(x, {.shift = 0.1});
  deep_copy(space, y, -1.0);
  deep_copy(space, x, 4.0);
  const auto lines = tridiagonal_lines<0>(y, x, y);
  const Jacobi jacobi(space, x, a);
  const Chebyshev chebyshev(space, x, a);
  const Multigrid multigrid(a, {.bottom = 12});
  const OperatorSum sum(a, a, x);
  const StencilOperator<F, Upwind, UpwindAdjoint> upwind(x, {}, UpwindAdjoint{});
  const SolveOptions few{.iterations = 2};
  CG cg(x, a, few);
  PipelinedCG pipelined(x, a, few);
  MINRES minres(x, a, few);
  BiCGStab bicgstab(x, a, few);
  GMRES gmres(x, a, few);
  LSQR lsqr(x, x, a, few);
  const auto call = [&](const auto& op) {
    return Call([&](const F& to, const F& from) { op.apply(space, to, from); });
  };
  const auto solves = [&](auto& solver) {
    return Call([&](const F& to, const F& from) { static_cast<void>(solver(space, to, from)); });
  };
  const auto shift                                             = shifted(a, 1.0);
  const std::vector<std::tuple<std::string, Call, bool>> calls = {
      {"axpby", [&](const F& to, const F& from) { axpby(space, to, 1.0, from, 1.0); }, true},
      {"update", [&](const F& to, const F& from) { update(space, to, 1.0, from, 1.0, to, 0.0); },
       true},
      {"dots", [&](const F& to, const F& from) { dots(space, std::tie(to, from)); }, true},
      {"weighted_dots",
       [&](const F& to, const F& from) { weighted_dots(space, to, std::tie(from, from)); }, true},
      {"Identity", call(Identity()), true},
      {"StencilOperator", call(upwind), false},
      {"its adjoint", [&](const F& to, const F& from) { upwind.apply_adjoint(space, to, from); },
       false},
      {"Diffusion", call(a), false},
      {"ShiftedOperator", call(shift), false},
      {"OperatorSum", call(sum), false},
      {"Jacobi", call(jacobi), true},
      {"Chebyshev", call(chebyshev), false},
      {"Multigrid", call(multigrid), false},
      {"TridiagonalLines", call(lines), true},
      {"CG", solves(cg), false},
      {"PipelinedCG", solves(pipelined), false},
      {"MINRES", solves(minres), false},
      {"BiCGStab", solves(bicgstab), false},
      {"GMRES", solves(gmres), false},
      {"LSQR", solves(lsqr), false},
      {"a Diffusion's k",
       [&](const F& to, const F& from) { const Diffusion<F, F> of_k(to, from, {}); }, true},
  };
  for (const auto& [name, function, in_place] : calls) {
    SCOPED_TRACE(name);
    const auto& run = function;
    function(y, x);
    message_thrown_by<ArgumentError>([&] { run(y, longer); });
    message_thrown_by<ArgumentError>([&] { run(longer, y); });
    if (ranks() > 1) {
      expect_parts(message_thrown_by<ArgumentError>([&] { run(y, otherwise); }), {"partition"});
      message_thrown_by<ArgumentError>([&] { run(otherwise, y); });
    }
    if (in_place)
      function(y, y);
    else
      expect_parts(message_thrown_by<ArgumentError>([&] { run(y, y); }), {"memory of the input"});
  }
}

// Parts of memory: levels of one array don't overlap, windows of it do.
TEST(SolveInputs, OverlapIsFound) {
  using Stack = ShardedView<double***, Kokkos::LayoutRight>;
  const Stack stack("stack", grid(), {3, 4, 5});
  const auto share = [](const auto& a, const auto& b) {
    return impl::share_points(impl::field_args(a), a.origin(), impl::field_args(b), b.origin());
  };
  using Kokkos::ALL;
  EXPECT_FALSE(share(subview(stack, ALL, ALL, 1), subview(stack, ALL, ALL, 2)));
  EXPECT_FALSE(share(subview(stack, ALL, ALL, 2), subview(stack, ALL, ALL, 1)));
  EXPECT_FALSE(share(subview(stack, ALL, 0, ALL), subview(stack, ALL, 3, ALL)));
  EXPECT_FALSE(share(subview(stack, 2, ALL, ALL), subview(stack, 0, ALL, ALL)));
  EXPECT_TRUE(share(subview(stack, ALL, ALL, 1), subview(stack, ALL, ALL, 1)));
  EXPECT_TRUE(share(stack, stack));
  const Stack long_lines("long", grid(), {3, 4, 6});
  EXPECT_FALSE(share(stack, long_lines));
}

// What is written has a stale halo: SHARD_CHECK=1 marks it with NaNs.
TEST(SolveInputs, HalosOfWhatIsWrittenAreStale) {
  const ScopedVariable checked("SHARD_CHECK", "1");
  const Space space;
  const Grid mesh = grid();
  using Ring      = Plane<Periodic>;
  const Ring x("x", mesh, {8, 8}), y = x.like("y");
  const ShardedView<const double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, Periodic>,
                    ShardDim<1, Lon, Halo<1>, Periodic>>
      constant = x;
  const Diffusion a(x, {.shift = 1.0});
  const Jacobi jacobi(space, x, a);
  const auto is_stale = [&](const char* name, const auto& write) {
    deep_copy(space, x, 1.0);
    deep_copy(space, y, 1.0);
    write();
    const auto host = create_mirror_view(y);
    deep_copy(space, host, y);
    space.fence();
    EXPECT_TRUE(std::isnan(host(-1, 0))) << name;
    if (y.extent(0) * y.extent(1) > 0) {
      EXPECT_EQ(host(0, 0), 1.0) << name;
    }
  };
  is_stale("axpby", [&] { axpby(space, y, 1.0, constant, 0.0); });
  is_stale("update", [&] { update(space, y, 0.5, x, 0.5, x, 0.0); });
  is_stale("Diffusion", [&] { a.apply(space, y, x); });
  is_stale("Identity", [&] { Identity().apply(space, y, x); });
  is_stale("Jacobi", [&] {
    axpby(space, x, 0.0, x, 5.0);
    jacobi.apply(space, y, x);
  });
}

TEST(SolveInputs, RanksThatDisagreeAreErrors) {
  if (ranks() == 1) return;
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {ranks(), 1});
  const F x("x", mesh, {rows, columns}), b = x.like("b");
  deep_copy(space, b, 1.0);
  const Diffusion a(x, {.shift = 0.1});
  const bool last    = rank() == ranks() - 1;
  const auto refused = [](const char* name, const auto& run) {
    SCOPED_TRACE(name);
    return message_thrown_by<AgreementError>(run);
  };
  const std::vector<std::pair<const char*, std::function<void(SolveOptions&)>>> options = {
      {"relative", [](SolveOptions& o) { o.relative = 1e-2; }},
      {"absolute", [](SolveOptions& o) { o.absolute = 1e-2; }},
      {"iterations", [](SolveOptions& o) { o.iterations = 7; }},
      {"restart", [](SolveOptions& o) { o.restart = 3; }},
      {"flexible", [](SolveOptions& o) { o.flexible = true; }},
      {"nullspace", [](SolveOptions& o) { o.nullspace = Nullspace::constant; }},
      {"determinism", [](SolveOptions& o) { o.determinism = Determinism::ordered; }},
  };
  for (const auto& [name, change] : options) {
    SolveOptions mine;
    if (last) change(mine);
    CG cg(x, a, mine);
    expect_parts(refused(name, [&] { static_cast<void>(cg(space, x, b)); }), {"CG", "relative"});
  }
  refused("steps of Chebyshev", [&] { Chebyshev(space, x, a, {.steps = last ? 2 : 3}); });
  refused("steps of eigenvalue_bounds",
          [&] { eigenvalue_bounds(space, x, a, Identity{}, last ? 2 : 3); });
  refused("bounds", [&] {
    ChebyshevSolver solver(x, a, {0.1, last ? 8.0 : 9.0});
    static_cast<void>(solver(space, x, b));
  });
  refused("shift", [&] { Diffusion(x, {.shift = last ? 0.1 : 0.2}); });
  refused("spacing", [&] { Diffusion(x, {.spacing = {1.0, last ? 0.1 : 0.2}}); });
  CG cg(x, a);
  refused("null spaces", [&] { cg.set_nullspace(space, std::vector<F>(last ? 2 : 1, b)); });
  LSQR lsqr(x, b, a, {.iterations = last ? 3 : 4});
  refused("LSQR", [&] { static_cast<void>(lsqr(space, x, b)); });
  const std::vector<std::pair<const char*, std::function<void(MultigridOptions&)>>> levels = {
      {"cycle", [](MultigridOptions& o) { o.cycle = MultigridCycle::w; }},
      {"smoothing", [](MultigridOptions& o) { o.smoothing = 3; }},
      {"gather_below", [](MultigridOptions& o) { o.gather_below = 3; }},
      {"cells_per_rank", [](MultigridOptions& o) { o.cells_per_rank = 3; }},
      {"bottom", [](MultigridOptions& o) { o.bottom = 3; }},
      {"levels", [](MultigridOptions& o) { o.levels = 1; }},
  };
  for (const auto& [name, change] : levels) {
    MultigridOptions mine;
    if (last) change(mine);
    refused(name, [&] { Multigrid(a, mine); });
  }
}

}  // namespace
}  // namespace shard::testing
