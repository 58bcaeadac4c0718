// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HALO_CASE_HPP
#define SHARD_BENCHMARKS_HALO_CASE_HPP

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "peers/problem.hpp"

namespace halo {

using peers::index_t;

/// What a timed call does, and thereby what must be written before and read after it.
enum class Direction { forward, adjoint };

/// One of the ways in which a case's halos are filled, or transposed.
struct Way {
  std::string name;
  Direction direction = Direction::forward;
  std::function<void()> call;
  std::function<void()> deliver;  ///< puts the halos where they belong, if `call` doesn't
  std::function<void()> prepare;  ///< before a timed call, if anything
  bool fills         = true;      ///< false: the memcpy, which leaves the halos alone
  int messages       = 0;         ///< that a rank sends in shard's exchanges
  std::string tuning = {};        ///< of shard's plans
};

/// A case's fields on this rank, and shard's ways of exchanging them.
class Subject {
 public:
  Subject()                          = default;
  Subject(const Subject&)            = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject()                 = default;

  const peers::Problem& problem() const { return problem_; }
  const std::vector<Way>& ways() const { return ways_; }

 protected:
  peers::Problem problem_;
  std::vector<Way> ways_;
};

/// A row of the benchmark's grid.
struct Case {
  std::string name;  ///< extents/layout/type/width/fields/cut dimensions (or self and the one that
                     ///< needs no message), and the mesh if two are cut
  /// Collective. The text is a tuning for shard's plans; empty: they find one by measuring.
  std::function<std::unique_ptr<Subject>(MPI_Comm, const std::string&)> make;
  bool pullback = false;  ///< of a stencil, which others don't have: see stencils.cpp
};

/// Every case, in the order of the output. Mesh shapes depend on the number of ranks.
std::vector<Case> all_cases(int ranks);
void add_planes(std::vector<Case>& cases, int ranks);
void add_volumes_right(std::vector<Case>& cases, int ranks);
void add_volumes_left(std::vector<Case>& cases, int ranks);
void add_cubes(std::vector<Case>& cases, int ranks);
void add_selves(std::vector<Case>& cases, int ranks);
void add_stencils(std::vector<Case>& cases, int ranks);

}  // namespace halo

#endif
