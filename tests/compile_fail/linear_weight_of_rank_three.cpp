// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear's weight has two dimensions
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = Kokkos::View<double**, Right>;
using W = Kokkos::View<double***, Right>;

void use(const X& y, const X& x, const W& w) { shard::linear(Space(), y, x, w); }
