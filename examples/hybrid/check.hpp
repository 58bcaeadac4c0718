// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_HYBRID_CHECK_HPP
#define SHARD_EXAMPLES_HYBRID_CHECK_HPP

#include "sphere.hpp"

namespace hybrid {

/// The checks, on a small grid: adjoints, the gradient of the loss, the same numbers on all ranks
/// as on one, mass, and that training decreases the loss. Returns whether all are right.
bool check(const Space& space, const Mesh& mesh, bool root);

}  // namespace hybrid

#endif
