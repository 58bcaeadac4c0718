// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear's bias has one dimension
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = Kokkos::View<double**, Right>;

void use(const X& y, const X& x) { shard::linear(Space(), y, x, x, x); }
