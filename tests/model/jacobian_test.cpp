// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The derivative of a model at a state, as a solver uses it.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "model_support.hpp"
#include "shard/solve/jacobian.hpp"
#include "support/support.hpp"

namespace {

using namespace shard;
using namespace shard::testing;

struct Tendency {
  Conv3 in{2, 4};
  SiLU act{};
  Conv3 out{4, 2};
  auto operator()(auto& m, const auto& x) const {
    return m.run(Axpby{1.0, 0.1}, x, m.run(out, m.run(act, m.run(in, x))));
  }
};

/// y of a model at x + step t.
template <class Net, class X>
std::vector<double> moved(const Net& net, const X& x, const X& t, double step) {
  const auto shifted = x.like("x + step t");
  Axpby{1.0, step}.apply(Space(), shifted, x, t);
  const auto y = net.output(shifted);
  net.apply(Space(), y, shifted);
  return world(y);
}

template <class Net>
void check(const Net& net) {
  const Space space;
  const auto x = net.input("x", {1, 2, 13, 11}), tx = x.like("tx"), dx = x.like("dx");
  fill(x, 0.1);
  fill(tx, 0.2);
  const Jacobian j(space, net, x);
  const auto ty = j.output().like("ty"), dy = j.output().like("dy");
  fill(dy, 0.3);
  j.apply(space, ty, tx);
  j.apply_adjoint(space, dx, dy);
  EXPECT_NEAR(dot(space, ty, dy), dot(space, tx, dx), 1e-12);
  const double step = 1e-6;
  const auto more = moved(net, x, tx, step), less = moved(net, x, tx, -step);
  std::vector<double> slope = more;
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (more[i] - less[i]) / (2.0 * step);
  expect_near(world(ty), slope, 1e-8);
  // it is of the state that it was made for, though the model has run on others
  const auto before = world(ty);
  j.apply(space, ty, tx);
  EXPECT_EQ(world(ty), before);
}

TEST(Jacobian, OfModelsOnAMesh) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  check(domain_parallel<Lat, Lon>(model<double>(Tendency{}), mesh));
  check(domain_parallel<Lat, Lon>(sequential<double>(Conv3{2, 4}, SiLU{}, Conv3{4, 2}), mesh));
}

}  // namespace
