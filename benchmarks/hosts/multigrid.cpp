// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "checksum.hpp"
#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/multigrid.hpp"
#include "solve/poisson.hpp"
#include "workloads.hpp"

namespace {

struct Y;
struct X;
using shard::Halo;
using shard::ShardDim;
using Space = Kokkos::DefaultExecutionSpace;
using Field = shard::ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>>,
                                 ShardDim<1, X, Halo<1>>, ShardDim<2, shard::Unsharded, Halo<1>>>;

struct RightHandSide {
  Field b;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    b(i, j, k) = poisson::right_hand_side(b.to_global(0, i), b.to_global(1, j), k);
  }
};

/// Four iterations of the solver, from 0.
class Solve {
 public:
  Solve(MPI_Comm comm, const std::vector<int>& parts)
      : mesh_(comm, {0, 0}),
        x_("x", mesh_, {n * parts[0], n * parts[1], n}),
        b_(x_.like("b")),
        a_(x_, {.spacing = {1, 1, 1}}),
        cycle_(a_),
        cg_(x_, a_, cycle_,
            {.relative = 1e-300, .iterations = 4, .determinism = shard::Determinism::ordered}) {
    shard::parallel_for("b", space_, shard::owned_region(b_), RightHandSide{b_});
  }
  void step() {
    deep_copy(space_, x_, 0.0);
    static_cast<void>(cg_(space_, x_, b_));
    space_.fence("benchmark");
  }
  const Field& result() const { return x_; }

 private:
  static constexpr int n = 48;
  Space space_;
  shard::Mesh<Y, X> mesh_;
  Field x_, b_;
  shard::Diffusion<Field> a_;
  shard::Multigrid<Field> cycle_;
  shard::CG<Field, shard::Diffusion<Field>, shard::Multigrid<Field>> cg_;
};

}  // namespace

workloads::Run workloads::multigrid(MPI_Comm comm, int parts) {
  const auto solve = std::make_shared<Solve>(comm, shape_of(parts));
  return {[solve] { solve->step(); }, [solve, comm] { return checksum(comm, solve->result()); }};
}
