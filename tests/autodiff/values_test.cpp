// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a tape and a graph take for the same value, and whose state an operation has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operations.hpp"
#include "shard/autodiff/operation_graph.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Pair = std::tuple<Field, Field>;
using Set  = std::vector<Field>;

/// y = u v, of the first two parts of a tuple or a set.
struct ProductOfParts {
  template <class X>
  Field output(const X& x) const {
    return impl::part_at<0>(x).like("product");
  }
  template <class X>
  void apply(const Space& space, const Field& y, const X& x) const {
    product(space, y, 1.0, impl::part_at<0>(x), impl::part_at<1>(x));
  }
  template <class X>
  void pullback(const Space& space, const X& dx, const Field& dy, const X& x) const {
    product(space, impl::part_at<0>(dx), 1.0, dy, impl::part_at<1>(x));
    product(space, impl::part_at<1>(dx), 1.0, dy, impl::part_at<0>(x));
  }
};

/// y = x with its halo filled.
struct Exchanged {
  void apply(const Space& space, const Field& y, const Field& x) const {
    deep_copy(space, y, x);
    exchange(space, y);
  }
  void pullback(const Space& space, const Field& dx, const Field& dy) const {
    deep_copy(space, dx, dy);
    exchange_adjoint(space, dx);
  }
};
/// A Step of an x whose halo is filled: dx has a halo.
struct StepOfFilled {
  void apply(const Space& space, const Field& y, const Field& x) const {
    shard::parallel_for("step", space, owned_region(y), StepKernel<Field, Field>{y, x, 0.05});
  }
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    deep_copy(space, dx, 0.0);
    Kokkos::parallel_for("adjoint of a step", Kokkos::RangePolicy<Space>(space, 0, 1),
                         StepAdjointKernel{dx, dy, x, 0.05});
  }
};

/// (u, v) -> (step(v), u v)
struct Turn {
  void apply(const Space& space, const Pair& y, const Pair& x) const {
    Step{}.apply(space, std::get<0>(y), std::get<1>(x));
    ProductOfParts{}.apply(space, std::get<1>(y), x);
  }
  void pullback(const Space& space, const Pair& dx, const Pair& dy, const Pair& x) const {
    const Field dv = std::get<1>(x).like("dv");
    ProductOfParts{}.pullback(space, dx, std::get<1>(dy), x);
    Step{}.pullback(space, dv, std::get<0>(dy), std::get<1>(x));
    impl::add_value(space, std::get<1>(dx), dv);
  }
};

/// A Square that numbers its applies.
struct CountedSquare : Square {
  ApplyCount applies;

  std::uint64_t applied() const { return applies.value(); }
  void apply(const Space& space, const Field& y, const Field& x) const {
    applies.add();
    Square::apply(space, y, x);
  }
};

/// y = p x^2, with a parameter and its gradient.
struct Weighted {
  double* p;
  double* gradient;

  bool has_parameters() const { return true; }
  void apply(const Space& space, const Field& y, const Field& x) const {
    product(space, y, *p, x, x);
  }
  void pullback(const Space& space, const Field& dx, const Field& dy, const Field& x) const {
    const Field square = x.like("square");
    product(space, square, 1.0, x, x);
    *gradient += impl::dot_value(space, square, dy);
    product(space, dx, 2.0 * *p, x, dy);
  }
};

/// y = s in all points.
struct Spread {
  Field like;

  template <class S>
  Field output(const S&) const {
    return like.like("spread");
  }
  template <class S>
  void apply(const Space& space, const Field& y, const S& s) const {
    deep_copy(space, y, s());
  }
  template <class S>
  void pullback(const Space& space, const S& ds, const Field& dy) const {
    ds() = sum(space, dy);
  }
};

double dot_of(const Field& a, const Field& b) { return impl::dot_value(Space(), a, b); }

/// What a program that computes y from x on a tape has to do right.
struct Case {
  const char* name;
  std::function<Field(Tape<Space>&, const Field&)> run;
};

std::vector<Case> cases(const Grid& mesh) {
  const Field k = field(mesh, 1.3, "k"), like = field(mesh, 0.0, "like");
  const CountedSquare square{{like.like("last")}, {}};
  const Square uncounted{like.like("last")};
  std::vector<Case> all;
  const auto add = [&](const char* name, auto run) { all.push_back({name, run}); };

  add("tuples that share a part", [=](auto& t, const Field& x) {
    const Field u = t.run(Step{}, x), v = t.run(Step{}, u);
    const Field a = t.run(ProductOfParts{}, Pair(x, u)), b = t.run(ProductOfParts{}, Pair(x, v));
    return t.run(Axpby{1.0, 3.0}, a, b);
  });
  add("sets that share a part", [=](auto& t, const Field& x) {
    const Field u = t.run(Step{}, x), v = t.run(Step{}, u);
    const Field a = t.run(ProductOfParts{}, Set{x, u}), b = t.run(ProductOfParts{}, Set{x, v});
    return t.run(Add{}, a, b);
  });
  add("an output becomes a second part",
      [=](auto& t, const Field& x) { return t.run(ProductOfParts{}, Pair(k, t.run(Step{}, x))); });
  add("a part by itself", [=](auto& t, const Field& x) {
    const Pair y = t.run(Turn{}, Pair(x, k));
    return t.run(Add{}, t.run(ProductOfParts{}, y), std::get<1>(y));
  });
  add("the same twice", [=](auto& t, const Field& x) {
    const Field u = t.run(Step{}, x);
    return t.run(ProductOfParts{}, Pair(u, t.run(Axpby{2.0, 0.5}, u, u)));
  });
  add("the same in both parts",
      [=](auto& t, const Field& x) { return t.run(ProductOfParts{}, Pair(x, x)); });
  add("gradients of a halo and of owned points alone", [=](auto& t, const Field& x) {
    const Field v = t.run(Exchanged{}, x);
    const Field a = t.run(Axpby{2.0, 1.0}, v, k), b = t.run(StepOfFilled{}, v),
                c = t.run(StepOfFilled{}, v);
    return t.run(Add{}, a, t.run(ProductOfParts{}, Pair(b, c)));
  });
  add("rebound", [=](auto& t, const Field& x) {
    const Field u = t.run(Step{}, x);
    const Field v = rebind(u, u.view());
    return t.run(ProductOfParts{}, Pair(t.run(Step{}, v), rebind(x, x.view())));
  });
  add("a constant part", [=](auto& t, const Field& x) {
    t.constant(k);
    const Field u = t.run(ProductOfParts{}, Pair(k, x));
    return t.run(ProductOfParts{}, Pair(t.run(Step{}, k), u));
  });
  add("a loop", [=](auto& t, const Field& x) {
    const Pair y = t.loop(Turn{}, Pair(x, t.run(Step{}, x)), 3, {.slots = 2});
    const Pair z = t.loop(Turn{}, Pair(std::get<1>(y), x), 2);
    return t.run(Add{}, std::get<0>(y), t.run(ProductOfParts{}, z));
  });
  add("a graph", [=](auto& t, const Field& x) {
    const auto graph =
        operation_graph<Space>(Pair(x, x), [&](auto& ops, const auto& u, const auto& v) {
          const auto joined = ops.run(Join{}, ops.run(square, u), ops.run(Step{}, v));
          const auto set    = ops.run(JoinSet{}, ops.run(Part<1>{}, joined), u);
          return std::tuple(ops.run(Add{}, ops.run(Part<0>{}, set), ops.run(Part<1>{}, set)),
                            ops.run(square, ops.run(Part<0>{}, joined)));
        });
    const Pair y = t.run(graph, Pair(x, t.run(square, x)));
    return t.run(ProductOfParts{}, t.run(graph, y));
  });
  add("an operation by itself and in chains", [=](auto& t, const Field& x) {
    const Field a = t.run(square, x);
    const Field b = t.run(chain(x, square, Step{}), a);
    const Field c = t.run(chain(x, Step{}, square, square), x);
    return t.run(ProductOfParts{}, Pair(b, c));
  });
  add("an operation that doesn't count", [=](auto& t, const Field& x) {
    return t.run(uncounted, t.run(chain(x, uncounted, Step{}), x));
  });
  add("an operation that is applied elsewhere", [=](auto& t, const Field& x) {
    const Field y = t.run(square, x), z = x.like("z");
    square.apply(Space(), z, k);
    return y;
  });
  add("norms and extrema in chains", [=](auto& t, const Field& x) {
    const GlobalNorm2<> norm;
    const GlobalMax greatest;
    const Field u = t.run(Step{}, x);
    const auto a = t.run(norm, x), b = t.run(chain(x, Step{0.3}, norm), x), c = t.run(greatest, u),
               d = t.run(chain(x, Step{0.2}, greatest), x);
    // a b + c d in all points
    const auto spread = t.run(Add{}, t.run(Axpby{1.5, 0.5}, a, b), t.run(Axpby{0.5, 2.0}, c, d));
    return t.run(Spread{like}, spread);
  });
  return all;
}

TEST(Values, GradientsOfAllKindsOfUses) {
  for (const bool along : {false, true}) {
    const Grid mesh = grid(along);
    const Field x = field(mesh, 0.1, "x"), tx = field(mesh, 0.2, "tx"), w = field(mesh, 0.3, "w");
    for (const Case& c : cases(mesh)) {
      const auto at = [&](double h) {
        const Field moved = x.like("moved");
        impl::copy_value(Space(), moved, x);
        impl::add_value(Space(), moved, tx, h);
        Tape<Space> tape;
        return dot_of(c.run(tape, moved), w);
      };
      const double h = 1e-4, expected = (at(h) - at(-h)) / (2.0 * h);
      Tape<Space> tape;
      const Field y = c.run(tape, x);
      for (const char* const again : {"", ", again"}) {
        const double found = dot_of(tape.pullback(y, w, x), tx);
        EXPECT_NEAR(found, expected, 1e-6 * (1.0 + std::abs(expected))) << c.name << again;
      }
    }
  }
}

TEST(Values, ParametersBehindAConstantHaveGradients) {
  const Grid mesh = grid(true);
  const Field x = field(mesh, 0.1, "x"), w = field(mesh, 0.3, "w");
  double p[] = {1.1, 0.9, 0.7}, gradients[] = {0.0, 0.0, 0.0};
  const Weighted first{&p[0], &gradients[0]}, second{&p[1], &gradients[1]},
      third{&p[2], &gradients[2]};
  const auto run = [&](Tape<Space>& tape) {
    tape.constant(x);
    const Field a = tape.run(Step{}, tape.loop(first, x, 3, {.slots = 2}));
    return tape.run(chain(x, Step{}, third), tape.run(second, a));
  };
  Tape<Space> tape;
  const Field y = run(tape);
  tape.pullback(y, w, y);
  for (std::size_t i = 0; i < 3; ++i) {
    double j[2];
    for (const double sign : {1.0, -1.0}) {
      p[i] += sign * 1e-5;
      Tape<Space> moved;
      j[sign > 0.0 ? 0 : 1] = dot_of(run(moved), w);
      p[i] -= sign * 1e-5;
    }
    const double expected = (j[0] - j[1]) / 2e-5;
    EXPECT_GT(std::abs(expected), 1e-3);
    EXPECT_NEAR(gradients[i], expected, 1e-6 * (1.0 + std::abs(expected))) << i;
  }
}

TEST(Values, AConstantThatIsGoneIsNoOther) {
  const Grid mesh = grid(false);
  const Field w   = field(mesh, 0.3, "w");
  Tape<Space> tape;
  for (int again = 0; again < 3; ++again) {
    tape.constant(field(mesh, 0.2, "gone"));
    const Field x = field(mesh, 0.1, "x");
    EXPECT_GT(dot_of(tape.pullback(tape.run(Step{}, x), w, x), w), 0.0);
  }
}

using Table = Kokkos::View<double**, Kokkos::LayoutRight>;
Table rows(const Table& table, int from, int to) {
  return Kokkos::subview(table, std::pair(from, to), Kokkos::ALL);
}
/// y is the memory of two rows of x.
struct MiddleRows {
  Table output(const Table& x) const { return rows(x, 1, 3); }
  void apply(const Space&, const Table&, const Table&) const {}
  void pullback(const Space& space, const Table& dx, const Table& dy) const {
    impl::zero_value(space, dx);
    impl::copy_value(space, rows(dx, 1, 3), dy);
  }
};
/// Returns its memory again.
struct InPlace : Step {
  Field memory;
  Field output(const Field&) const { return memory; }
};

TEST(Values, MemoryThatOverlapsIsAnError) {
  const Space space;
  const Table table("table", 4, 6);
  Tape<Space> tape;
  tape.run(Add{}, rows(table, 0, 2), rows(table, 2, 4));  // rows of their own
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { tape.run(Add{}, rows(table, 1, 3), rows(table, 1, 3)); }),
               {"Tape", "overlaps the memory", "by an operation"});
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.constant(table); }), {"overlaps"});
  // an operation may take a part, without a copy
  tape.clear();
  const Table middle = tape.run(MiddleRows{}, table);
  const Table twice  = tape.run(Add{}, middle, rows(table, 1, 3));
  Kokkos::deep_copy(twice, 1.0);
  const auto found =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tape.pullback(twice, twice, table));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found(i, 5), i == 0 || i == 3 ? 0.0 : 2.0) << i;

  const Grid mesh   = grid(false);
  const Field x     = field(mesh, 0.1, "x");
  const auto reused = InPlace{{}, x.like("memory")};
  const Field y     = tape.run(reused, x);
  const Field z     = field(mesh, 0.2, "z");
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 tape.run(InPlace{{}, y}, z);
               }),
               {"memory", "must return new memory"});
}

/// Also where a rank has no points, so that both have one address.
TEST(Values, PartsOfOneArrayAreValuesOfTheirOwn) {
  using Both      = ShardedView<double**, Kokkos::LayoutRight, ShardDim<1, Lat>>;
  const Grid mesh = grid(false);
  const Space space;
  const Both both("both", mesh, {2, 3});
  const auto row = [&](index_t k) { return subview(both, k, Kokkos::ALL); };
  Tape<Space> tape;
  tape.constant(row(0));
  const auto y = tape.run(Axpby{2.0, 3.0}, row(0), row(1));
  deep_copy(space, y, 1.0);
  const auto found = on_host(tape.pullback(y, y, row(1)));
  for (index_t i = 0; i < found.extent(0); ++i) EXPECT_EQ(found(i), 3.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { tape.gradient(row(0)); }), {"depends on"});
}

/// Boxes with random strides, against all of their addresses.
TEST(Values, SharedMemoryIsFoundExactly) {
  std::mt19937 random(7);
  const auto below = [&](int n) {
    return static_cast<index_t>(random() % static_cast<unsigned>(n));
  };
  static const std::vector<char> memory(4096);
  const auto box = [&] {
    impl::PartMemory m;
    m.bytes = std::size_t{2} << below(2);
    m.data  = memory.data() + 2 * below(150);
    m.rank  = static_cast<std::size_t>(below(4));
    for (std::size_t d = 0; d < m.rank; ++d) {
      m.extents[d] = 1 + below(4);
      m.strides[d] = d == 0 ? below(3) : below(40);
    }
    return m;
  };
  const auto addresses = [](const impl::PartMemory& m) {
    std::vector<const char*> all{static_cast<const char*>(m.data)};
    const auto times = [&](index_t n, index_t stride) {
      const std::vector<const char*> before = all;
      for (index_t i = 1; i < n; ++i)
        for (const char* const a : before) all.push_back(a + i * stride);
    };
    times(static_cast<index_t>(m.bytes), 1);
    for (std::size_t d = 0; d < m.rank; ++d)
      times(m.extents[d], m.strides[d] * static_cast<index_t>(m.bytes));
    std::sort(all.begin(), all.end());
    return all;
  };
  int shared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const impl::PartMemory a = box(), b = box();
    const auto p = addresses(a), q = addresses(b);
    std::vector<const char*> both;
    std::set_intersection(p.begin(), p.end(), q.begin(), q.end(), std::back_inserter(both));
    EXPECT_EQ(impl::share_memory(a, b), !both.empty()) << trial;
    shared += both.empty() ? 0 : 1;
  }
  EXPECT_GT(shared, 20);
  EXPECT_LT(shared, 380);
}

}  // namespace
