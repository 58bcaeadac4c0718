// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: Diffusion needs fields with a halo of at least 1 in each dimension
// expect: Diffusion needs the boundaries Zero (the value 0 at the wall), Symmetric or Clamp
// expect: this needs an operator with apply_adjoint, pullback or is_symmetric = true
// expect: dots are of vectors of one type
// expect: apply of the operator or of the preconditioner doesn't take the solver's
// expect: Jacobi computes the diagonal, so it needs an execution-space instance first:
// expect: Jacobian applies the operation, so it needs an execution-space instance first:
// expect: BiCGStab is for real vectors
// expect: BlockILU is for real matrices
#include <shard/shard.hpp>
#include <shard/solve/bicgstab.hpp>
#include <shard/solve/block_ilu.hpp>
#include <shard/solve/cg.hpp>
#include <shard/solve/diffusion.hpp>
#include <shard/solve/jacobian.hpp>
#include <shard/solve/preconditioners.hpp>

struct X;

template <class... Options>
using Field = shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, Options...>>;
const Kokkos::DefaultExecutionSpace space;

void bare(const Field<>& x) { shard::Diffusion(x, shard::DiffusionOptions{}); }
void mirror(const Field<shard::Halo<1>, shard::Reflect>& x) {
  shard::Diffusion(x, shard::DiffusionOptions{});
}
struct OneWay {
  template <class Y>
  void apply(const Kokkos::DefaultExecutionSpace&, const Y&, const Y&) const {}
};
void back(const Field<>& x) { shard::adjoint_of(OneWay{}).apply(space, x, x); }
auto mixed(const Field<>& x, const Field<shard::Halo<1>>& y) {
  return shard::dots(space, std::tie(x, y));
}

using Walled  = Field<shard::Halo<1>, shard::Symmetric>;
using OnWalls = shard::Diffusion<Walled>;
void other_vectors(const OnWalls& a, const Field<>& x) { shard::CG(x, a)(space, x, x); }
void diagonal(const OnWalls& a, const Walled& x) { shard::Jacobi(x, a); }
void derivative(const OneWay& step, const Field<>& x) { shard::Jacobian(step, x); }

using Complex      = Kokkos::complex<double>;
using ComplexField = shard::ShardedView<Complex*, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
constexpr auto complex_steps   = sizeof(shard::BiCGStab<ComplexField, OneWay>);
constexpr auto complex_factors = sizeof(shard::BlockILU<shard::SparseMatrix<Complex, X, X>>);
