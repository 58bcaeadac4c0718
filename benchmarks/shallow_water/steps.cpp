// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linear shallow water on a doubly periodic C-grid: the time of a step with 1, 2 and 4 steps per
// exchange, beside a plain loop of `exchange` and the kernel. All four have the same bits.
//
// steps [--points 128] [--turns 101] [--steps N] [--processor-time]
//   --points: of a rank, along each dimension; --steps: in a turn, rounded up to a multiple of 4
#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <shard/shard.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "roofline.hpp"

namespace {

struct Y;
struct X;
using Space = roofline::Space;
using Mesh  = shard::Mesh<Y, X>;
template <int Width>
using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Y, shard::Halo<Width>, shard::Periodic>,
                                 shard::ShardDim<1, X, shard::Halo<Width>, shard::Periodic>>;

/// Depths at points, velocities on the faces before them, along each dimension.
template <int Width>
struct State {
  Field<Width> h, v, u;
  explicit State(const Mesh& mesh, int points)
      : h("h", mesh, {points * mesh.template size<Y>(), points * mesh.template size<X>()}),
        v(h.like("v")),
        u(h.like("u")) {}
  std::tuple<const Field<Width>&, const Field<Width>&, const Field<Width>&> fields() const {
    return {h, v, u};
  }
};

template <int Width>
struct Start {
  State<Width> to;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    const auto y = static_cast<double>(to.h.to_global(0, i)),
               x = static_cast<double>(to.h.to_global(1, j));
    to.h(i, j)   = Kokkos::sin(0.3 * y) * Kokkos::cos(0.2 * x);
    to.v(i, j)   = 0;
    to.u(i, j)   = 0.1 * Kokkos::sin(0.1 * (x + y));
  }
};

/// A forward-backward step, whose reach is one point: depths from velocities, then velocities from
/// the new depths. Those of the points before it are computed again.
template <int Width>
struct Step {
  State<Width> now, next;
  KOKKOS_FUNCTION double depth(int i, int j) const {
    return now.h(i, j) - 0.1 * (now.v(i + 1, j) - now.v(i, j) + now.u(i, j + 1) - now.u(i, j));
  }
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    constexpr double quarter_turn = 0.25e-3;  // a quarter of the turn by the earth's rotation
    const auto &u = now.u, &v = now.v;
    const double here = depth(i, j);
    next.h(i, j)      = here;
    next.v(i, j)      = v(i, j) - 0.1 * (here - depth(i - 1, j)) -
                   quarter_turn * (u(i - 1, j) + u(i - 1, j + 1) + u(i, j) + u(i, j + 1));
    next.u(i, j) = u(i, j) - 0.1 * (here - depth(i, j - 1)) +
                   quarter_turn * (v(i, j - 1) + v(i + 1, j - 1) + v(i, j) + v(i + 1, j));
  }
};

/// The plain loop.
class Plain {
 public:
  Plain(const Mesh& mesh, int points) : now(mesh, points), next_(mesh, points) {
    shard::parallel_for("start", Space(), shard::owned_region(now.h), Start<1>{now});
  }
  void step() {
    shard::exchange(Space(), now.h, now.v, now.u);
    shard::parallel_for("step", Space(), shard::owned_region(now.h), Step<1>{now, next_});
    std::swap(now, next_);
  }
  State<1> now;

 private:
  State<1> next_;
};

/// N steps per exchange.
template <int N>
class Several {
 public:
  Several(const Mesh& mesh, int points)
      : now(mesh, points),
        next_(mesh, points),
        loop_(shard::steps_per_exchange<N>(shard::Reach<shard::Halo<1>, shard::Halo<1>>{}, now.h,
                                           now.v, now.u)) {
    shard::parallel_for("start", Space(), shard::owned_region(now.h), Start<N>{now});
  }
  void step() {
    loop_.step("step", Space(), Step<N>{now, next_}, now.fields(), next_.fields());
    std::swap(now, next_);
  }
  State<N> now;

 private:
  State<N> next_;
  shard::StepsPerExchange<N, shard::Reach<shard::Halo<1>, shard::Halo<1>>, Field<N>, Field<N>,
                          Field<N>>
      loop_;
};

template <class A, class B>
struct Differs {
  A a;
  B b;
  KOKKOS_FUNCTION double operator()(int i, int j) const {
    return a.h(i, j) != b.h(i, j) || a.v(i, j) != b.v(i, j) || a.u(i, j) != b.u(i, j) ? 1 : 0;
  }
};
/// Points of all ranks whose values differ.
template <class A, class B>
double differences(const A& a, const B& b) {
  return shard::reduce<shard::Sum>(Space(), a.h, Differs<A, B>{a, b});
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  roofline::Options o{.size = 128, .turns = 101, .steps = 0};
  if (!o.read(argc, argv, "--points")) return 2;
  if (o.steps == 0) o.steps = static_cast<int>(4e5 / o.size / o.size);
  o.steps = std::max(1, (o.steps + 3) / 4) * 4;

  const Mesh mesh(environment.world(), {0, 0});
  Plain plain(mesh, o.size);
  Several<1> one(mesh, o.size);
  Several<2> two(mesh, o.size);
  Several<4> four(mesh, o.size);
  const std::vector<std::function<void()>> loops{[&] { plain.step(); }, [&] { one.step(); },
                                                 [&] { two.step(); }, [&] { four.step(); }};
  const auto run = [&](std::size_t way, int steps) {
    for (int s = 0; s < steps; ++s) loops[way]();
  };
  for (std::size_t way = 0; way < loops.size(); ++way) run(way, 12);
  const double wrong = differences(plain.now, one.now) + differences(plain.now, two.now) +
                       differences(plain.now, four.now);

  std::vector<std::vector<double>> times(loops.size()), ratios(loops.size());
  for (int turn = 0; turn < o.turns && wrong == 0; ++turn) {
    for (std::size_t k = 0; k < loops.size(); ++k) {
      const std::size_t way = (k + static_cast<std::size_t>(turn)) % loops.size();
      times[way].push_back(
          roofline::seconds(mesh.communicator(), o.clock, [&] { run(way, o.steps); }) / o.steps);
    }
    for (std::size_t way = 0; way < loops.size(); ++way)
      ratios[way].push_back(times[way].back() / times[0].back());
  }
  if (mesh.rank() == 0) {
    std::printf("%d x %d points a rank, %d ranks", o.size, o.size, mesh.size());
    if (wrong > 0)
      std::printf(": %.0f points differ from the plain loop's\n", wrong);
    else
      std::printf(", us a step: plain loop %.2f", 1e6 * support::median(times[0]));
    const char* names[] = {"", "1", "2", "4"};
    for (std::size_t way = 1; way < loops.size() && wrong == 0; ++way)
      std::printf("; %s per exchange %.2f (%.2f)%s", names[way], 1e6 * support::median(times[way]),
                  support::median(ratios[way]), way == 3 ? "\n" : "");
  }
  return wrong == 0 ? 0 : 1;
}
