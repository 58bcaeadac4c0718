// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// T7: kernels on instances that aren't the default one write what is exchanged, without a fence of
// the user's. On a GPU they are slow and run on streams of their own; a host's instances end their
// kernels before they return, so there it is the values that are tested, and that it compiles.
#include <gtest/gtest.h>
#include <mpi.h>

#include <type_traits>

#include "shard/shard.hpp"
#include "support/instances.hpp"
#include "support/support.hpp"

namespace producer_test {

struct X;
struct Y;

using namespace shard;
using shard::testing::another;

template <class Space>
using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Periodic>,
                          ShardDim<1, X, Halo<2, 1>, Clamp>, typename Space::memory_space>;

constexpr index_t rows = 9, columns = 10;

KOKKOS_INLINE_FUNCTION double value_at(int step, index_t row, index_t column) {
  return 1000.0 * step + 20.0 * static_cast<double>(row) + static_cast<double>(column);
}

/// A cell of a field by its number, from -1 and -2 on: the halo's too.
struct Cell {
  int i, j;
  template <class F>
  KOKKOS_FUNCTION Cell(const F& t, int n)
      : i(n / (static_cast<int>(t.extent(1)) + 3) - 1),
        j(n % (static_cast<int>(t.extent(1)) + 3) - 2) {}
  template <class F>
  static int count(const F& t) {
    return static_cast<int>((t.extent(0) + 2) * (t.extent(1) + 3));
  }
};

/// Writes all cells, the halo's with values of its own, after some rounds: long enough on a GPU for
/// whoever doesn't wait to be early.
template <class Space>
struct SlowProducer {
  Field<Space> t;
  int step;
  static constexpr int rounds = impl::is_host_space_v<Space> ? 10 : 1000000;

  KOKKOS_FUNCTION void operator()(int n) const {
    const Cell c(t, n);
    double x = 0.5;
    for (int r = 0; r < rounds; ++r) x = 3.9 * x * (1.0 - x);  // stays between 0 and 1
    const bool owned = c.i >= 0 && c.i < t.extent(0) && c.j >= 0 && c.j < t.extent(1);
    t(c.i, c.j) =
        x < 2.0 ? value_at(step, t.begin(0) + c.i, t.begin(1) + c.j) + (owned ? 0.0 : 0.5) : -1.0;
  }
};

/// Counts the cells, the halo's too, that aren't what the serial program has there.
template <class Space>
struct WrongCells {
  Field<Space> t;
  int step;

  KOKKOS_FUNCTION void operator()(int n, int& wrong) const {
    const Cell c(t, n);
    const index_t row    = (t.begin(0) + c.i + rows) % rows;
    const index_t column = Kokkos::clamp<index_t>(t.begin(1) + c.j, 0, columns - 1);
    wrong += t(c.i, c.j) != value_at(step, row, column) ? 1 : 0;
  }
};

template <class Space>
int wrong_cells(const Space& space, const Field<Space>& t, int step) {
  int wrong = 0;
  if (t.extent(0) > 0 && t.extent(1) > 0)
    Kokkos::parallel_reduce("wrong cells",
                            Kokkos::RangePolicy<Space, int>(space, 0, Cell::count(t)),
                            WrongCells<Space>{t, step}, wrong);
  return wrong;
}

template <class Space>
class Producer : public ::testing::Test {
 protected:
  const shard::testing::ScopedVariable unchecked{"SHARD_CHECK",
                                                 "0"};  // checks wait for the producer
  Mesh<Y, X> mesh{MPI_COMM_WORLD, {0, 0}};
  const Space instances[2] = {another<Space>(), another<Space>()};
  const Field<Space> t{"t", mesh, {rows, columns}}, u{"u", mesh, {rows, columns}};

  void produce(const Space& space, const Field<Space>& field, int step) {
    Kokkos::parallel_for("slow producer",
                         Kokkos::RangePolicy<Space, int>(space, 0, Cell::count(field)),
                         SlowProducer<Space>{field, step});
  }
};

using Spaces = std::conditional_t<
    std::is_same_v<Kokkos::DefaultExecutionSpace, Kokkos::DefaultHostExecutionSpace>,
    ::testing::Types<Kokkos::DefaultHostExecutionSpace>,
    ::testing::Types<Kokkos::DefaultExecutionSpace, Kokkos::DefaultHostExecutionSpace>>;
TYPED_TEST_SUITE(Producer, Spaces);

TYPED_TEST(Producer, T7_NoFenceBeforeAnExchange) {
  const Exchange halos(this->t);
  for (int step = 1; step <= 6; ++step) {
    const auto& space = this->instances[step % 2];
    this->produce(space, this->t, step);
    if (step % 3 == 0)
      exchange(space, this->t);
    else if (step % 3 == 1)
      halos(space);
    else
      halos.start(space).finish();
    EXPECT_EQ(wrong_cells(space, this->t, step), 0) << "step " << step;
  }
}

// T8 too: each instance has its own flight.
TYPED_TEST(Producer, T7_T8_TwoInstancesInFlight) {
  const auto &first = this->instances[0], &second = this->instances[1];
  const Exchange halos(this->t);
  for (int step = 1; step <= 4; ++step) {
    this->produce(first, this->t, step);
    this->produce(second, this->u, step + 10);
    auto a = halos.start(first);
    auto b = halos.start(second, this->u);
    a.finish();
    b.finish();
    EXPECT_EQ(wrong_cells(first, this->t, step), 0) << "step " << step;
    EXPECT_EQ(wrong_cells(second, this->u, step + 10), 0) << "step " << step;
  }
}

// The transpose, which takes what the producer left in halos: the same as after fences.
TYPED_TEST(Producer, T7_NoFenceBeforeATranspose) {
  using Space       = TypeParam;
  const auto& space = this->instances[0];
  const Exchange halos(this->t);
  for (int step = 1; step <= 3; ++step) {
    this->produce(space, this->t, step);
    halos.adjoint(space);
    const Space whole;
    this->produce(whole, this->u, step);
    whole.fence();
    halos.adjoint(whole, this->u);
    whole.fence();
    const auto a = create_mirror_view(this->t), b = create_mirror_view(this->u);
    deep_copy(space, a, this->t);
    deep_copy(space, b, this->u);
    space.fence();
    int wrong = 0;
    for (index_t i = 0; i < a.extent(0); ++i)
      for (index_t j = 0; j < a.extent(1); ++j) wrong += a(i, j) != b(i, j) ? 1 : 0;
    EXPECT_EQ(wrong, 0) << "step " << step;
  }
}

}  // namespace producer_test
