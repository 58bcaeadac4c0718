// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SOLVE_SPARSE_SUPPORT_HPP
#define SHARD_TESTS_SOLVE_SPARSE_SUPPORT_HPP

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "support/field_inputs.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sparse_matrix_test {

struct Ranks;
struct Node;
struct Cell;

using namespace shard;
using namespace shard::testing;
using Space       = Kokkos::DefaultExecutionSpace;
using Id          = std::int64_t;
using Square      = SparseMatrix<double, Ranks, Node>;
using Rectangular = SparseMatrix<float, Ranks, Node, Cell>;

inline int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

struct Member;
/// Calls check(mesh) for meshes with an axis Ranks: all ranks, in order and turned; replicas over
/// another axis behind and before it.
template <class Check>
void on_meshes(const Check& check) {
  const int all = ranks(), members = all % 2 == 0 ? 2 : 1;
  const auto turned = shard::testing::turned_ranks(all);
  check(Mesh<Ranks>(MPI_COMM_WORLD, {all}));
  check(Mesh<Ranks>(MPI_COMM_WORLD, {all}, {.order = turned}));
  check(Mesh<Ranks, Member>(MPI_COMM_WORLD, {all / members, members}));
  check(Mesh<Member, Ranks>(MPI_COMM_WORLD, {members, all / members}, {.order = turned}));
}

/// Ids 0 to n - 1 times three less five, each with a random owner of `parts`; those of `part`, in a
/// random order.
inline std::vector<Id> owned_ids(std::mt19937_64& random, int n, int parts = ranks(),
                                 int part = rank()) {
  std::vector<Id> mine;
  for (int i = 0; i < n; ++i)
    if (static_cast<int>(random() % static_cast<unsigned>(parts)) == part)
      mine.push_back(3 * i - 5);
  std::mt19937_64 own(random() + static_cast<unsigned>(part));
  std::shuffle(mine.begin(), mine.end(), own);
  return mine;
}

/// Entries that all ranks know, and who gives which: rows of its own or not, several of one place.
template <class T>
std::vector<MatrixEntry<T>> given_entries(std::mt19937_64& random, int rows, int columns, int count,
                                          std::vector<T>& dense, int parts = ranks(),
                                          int part = rank()) {
  std::vector<MatrixEntry<T>> mine;
  dense.assign(static_cast<std::size_t>(rows * columns), T(0));
  for (int e = 0; e < count; ++e) {
    const auto i = static_cast<int>(random() % static_cast<unsigned>(rows)),
               j = static_cast<int>(random() % static_cast<unsigned>(columns));
    const T v    = static_cast<T>(static_cast<int>(random() % 33) - 16);
    dense[static_cast<std::size_t>(i * columns + j)] += v;
    if (static_cast<int>(random() % static_cast<unsigned>(parts)) == part)
      mine.push_back({3 * i - 5, 3 * j - 5, v});
  }
  return mine;
}

inline int index_of(Id id) { return static_cast<int>((id + 5) / 3); }

/// Sets the owned elements to a function of their ids, the rest to what no product may read.
template <class F, class Value>
void fill(const F& f, const std::vector<Id>& ids, const Value& value) {
  const auto host = Kokkos::create_mirror_view(f.view());
  Kokkos::deep_copy(host, 1e30);
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = value(index_of(ids[i]));
  Kokkos::deep_copy(f.view(), host);
}
template <class F>
auto values(const F& f) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), f.view());
}

}  // namespace sparse_matrix_test

#endif
