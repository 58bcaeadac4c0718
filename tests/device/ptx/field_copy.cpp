// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel copies a ShardedView and stores through the copy. Were there a member with a destructor
// for the host only (a shared_ptr, a string), nvcc would drop the store without a word. expect:
// \.entry .*StoreThroughACopy expect: ^[[:space:]]*st(\.global)?\.(f64|b64)
#include <Kokkos_Core.hpp>

#include "shard/view/sharded_view.hpp"

struct X;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>>;

struct StoreThroughACopy {
  Field field;
  KOKKOS_FUNCTION void operator()(int i) const {
    const Field copy = field;
    copy(i, 1)       = 2.5 * i;
  }
};

void run(const Field& field) {
  const Kokkos::DefaultExecutionSpace space;
  Kokkos::parallel_for("store", Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace>(space, 0, 8),
                       StoreThroughACopy{field});
}
