// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SWEEP_OPTIONS_HPP
#define SHARD_TESTS_SWEEP_OPTIONS_HPP

#include <gtest/gtest.h>
#include <mpi.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"

/// \file
/// Calls in which the last rank has another option than the others.

namespace sweep_options_test {

struct Lat;

using namespace shard;
using namespace shard::testing;
using Line  = Mesh<Lat>;
using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<2>, Periodic>,
                          Kokkos::HostSpace>;

/// Whether this is the rank whose option differs.
inline bool differs() { return rank() == ranks() - 1; }
/// `others`, but `mine` on the last rank.
template <class T>
T differ(T others, T mine) {
  return differs() ? mine : others;
}

inline Line line() { return Line(MPI_COMM_WORLD, {0}); }
inline Field field(const Line& mesh, index_t rows = 24) { return Field("f", mesh, {rows, 3}); }

/// An option, the parts that the message of the exception has, and the call.
struct Case {
  std::string option;
  std::vector<std::string> parts;
  std::function<void()> call;
};

/// What a call throws: "agreement", "argument", "other", or "nothing", and its message.
inline std::pair<std::string, std::string> thrown_by(const std::function<void()>& call) {
  try {
    call();
    return {"nothing", ""};
  } catch (const AgreementError& e) {
    return {"agreement", e.what()};
  } catch (const ArgumentError& e) {
    return {"argument", e.what()};
  } catch (const std::exception& e) {
    return {"other", e.what()};
  }
}

/// Expects an exception of this kind on every rank. Collective: a rank alone with its exception
/// shows as a failure if the others end, else as a hang.
inline void expect_refused(const char* kind, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.option);
    const auto [thrown, message] = thrown_by(c.call);
    EXPECT_EQ(thrown, kind) << message;
    for (const std::string& part : c.parts)
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in " << message;
    MPI_Barrier(MPI_COMM_WORLD);
  }
}
inline void expect_disagreement(const std::vector<Case>& cases) {
  expect_refused("agreement", cases);
}

}  // namespace sweep_options_test

#endif
