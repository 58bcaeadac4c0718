// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Redistribution of fields in device memory: its kernels are instantiated in src/, here are the
// templates before them.
#include <shard/redistribute/coupling.hpp>
#include <shard/redistribute/distribute.hpp>
#include <shard/redistribute/rearrange.hpp>
#include <shard/collectives/operations.hpp>

#include "../../src/exchange/sum_kernel.hpp"

// 16-bit floats, which hosts don't have, are added in 32 bits
static_assert(std::is_same_v<shard::impl::Accumulated<Kokkos::Experimental::half_t>::type, float>);
static_assert(std::is_same_v<shard::impl::Accumulated<Kokkos::Experimental::bhalf_t>::type, float>);

struct X;
struct Y;

namespace device_redistribution {

using namespace shard;
using Space = Kokkos::DefaultExecutionSpace;
using Rows  = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, X>>;
using Part  = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<1, Y>, Partial<X, Sum>>;

using Doubles = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<1, X, Halo<1>>>;

struct Wave {
  KOKKOS_FUNCTION float operator()(index_t i, index_t j) const { return static_cast<float>(i - j); }
};

void use_redistribution(const Mesh<X, Y>& mesh) {
  const Space space;
  const Rows rows("rows", mesh, {4, 5});
  const Part part = redistribute<Part>(space, rows);
  redistribute(space, rows, part);
  redistribute_adjoint(space, part, rows);
  redistribution_report(space, rows, part);
  Redistribute{}.pullback(space, rows, rows, part);
  distribute(space, part, Wave());
  const Kokkos::View<float**, Kokkos::LayoutRight, Space> array("array", 4, 5);
  distribute(space, rows, array);
  gather(space, array, part);
  broadcast<Y>(space, rows);
  const Roll roll(0, 2);
  const Rows rolled = roll.output(rows);
  roll.apply(space, rolled, rows);
  roll.pullback(space, rows, rolled);
  const Split split(0, {1, 3});
  const auto parts = split.output(rows);
  split.apply(space, parts, rows);
  Concatenate(0).apply(space, rows, std::make_tuple(parts[0], parts[1]));
}

void use_couplings(const Mesh<X, Y>& mesh) {
  const Space space;
  const Rows rows("rows", mesh, {4, 5});
  const Doubles doubles("doubles", mesh, {4, 5});
  Coupling<Doubles, Rows> coupling(mesh.communicator(), &doubles, &rows);
  coupling(space);
  coupling.adjoint(space);
  const std::vector<Rows> some{rows}, others{rows.like("others")};
  redistribute(space, others, some);
}

}  // namespace device_redistribution
