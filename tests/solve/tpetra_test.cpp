// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of Tpetra with our matrices and vectors, in the same memory.
#include "shard/solve/tpetra.hpp"

#include <gtest/gtest.h>

#include "solve/peer_support.hpp"

namespace sparse_matrix_test {

// New values are seen.
TEST(Tpetra, ProductsAreOurs) {
  on_meshes([](const auto& mesh) {
    const ExactProduct p(32, 23, 31, mesh);
    const auto view = tpetra_view(p.a);
    auto from = tpetra_view(p.x), to = tpetra_view(p.z);
    for (const double factor : {1.0, 3.0}) {
      p.scale_values(factor);
      view->apply(from, to);
      p.expect_equal();
    }
    const auto level = p.level_of(p.a.columns());
    expect_parts(message_thrown_by<ArgumentError>([&] { tpetra_view(level); }),
                 {"tpetra_view", "stride of 3"});
  });
}

}  // namespace sparse_matrix_test
