// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of couplings share: groups of ranks, values of global indices, the transpose's
// test.
#ifndef SHARD_TESTS_COUPLING_SUPPORT_HPP
#define SHARD_TESTS_COUPLING_SUPPORT_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <optional>
#include <random>

#include "shard/redistribute/coupling.hpp"
#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace coupling_test {

struct A;
struct B;
struct C;
struct D;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

template <class Layout, class... Dims>
using Field   = ShardedView<double**, Layout, Dims..., Kokkos::HostSpace>;
using ToParts = Field<Kokkos::LayoutLeft, ShardDim<0, C>, Partial<D, Sum>>;

/// The world's ranks for which `in` holds, as a communicator; MPI_COMM_NULL on the others.
class Group {
 public:
  Group(bool in, int key) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, key, &comm_);
  }
  Group(const Group&)            = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

inline int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

template <class F, class Use>
void each(const F& f, const Use& use) {
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j) use(f(i, j), f.to_global(0, i), f.to_global(1, j));
}
inline double value_of(index_t i, index_t j, int salt = 0) {
  return static_cast<double>(1000 * i + j + 7 * salt);
}

template <class F>
const F* pointer(const std::optional<F>& field) {
  return field ? &*field : nullptr;
}

/// <to, coupling(from)> = <adjoint(to), from>, of whole numbers
template <class ToType, class FromType>
void expect_transpose(std::mt19937_64& random, Coupling<ToType, FromType>& coupling,
                      const std::optional<ToType>& to, const std::optional<FromType>& from,
                      const char* what) {
  using ToValue   = typename ToType::value_type;
  using FromValue = typename FromType::value_type;
  std::mt19937_64 own(random() + 31U * static_cast<unsigned>(rank()));
  const auto number = [&] { return static_cast<double>(own() % 17) - 8; };
  const auto x_of   = [](index_t i, index_t j) {
    return static_cast<double>((3 * i + j + 5 * rank()) % 11);
  };
  double sums[2] = {};
  if (from)
    each(*from,
         [&](FromValue& v, index_t i, index_t j) { v = static_cast<FromValue>(x_of(i, j)); });
  coupling(Space());
  if (to)
    each(*to, [&](ToValue& v, index_t, index_t) {
      const double dy = number();
      sums[0] += static_cast<double>(v) * dy;
      v = static_cast<ToValue>(dy);
    });
  if (from) Kokkos::deep_copy(from->view(), 0);
  coupling.adjoint(Space());
  if (from)
    each(*from, [&](FromValue v, index_t i, index_t j) {
      sums[1] += static_cast<double>(v) * x_of(i, j);
    });
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sums[0], sums[1]) << what << ", SHARD_SEED=" << shard::testing::seed();
}

}  // namespace coupling_test

#endif
