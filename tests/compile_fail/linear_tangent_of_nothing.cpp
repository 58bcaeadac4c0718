// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear's tangent is that of its input, of its parameters, or of both
#include <shard/shard.hpp>

using View = Kokkos::View<double**, Kokkos::LayoutRight>;

void use(const View& y, const View& x) {
  const shard::Linear layer{4, 4};
  layer.pushforward(Kokkos::DefaultExecutionSpace(), shard::make_parameters<double>(layer, "p"),
                    shard::not_wanted, y, shard::not_wanted, x);
}
