// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_PEERS_BARE_SHARED_HPP
#define SHARD_BENCHMARKS_PEERS_BARE_SHARED_HPP

#include <memory>
#include <vector>

#include "problem.hpp"
#include "support/handshake.hpp"

namespace peers {

/// What two cores can do without a library: two ranks that are each other's only neighbours copy
/// their halos straight out of the other's memory, line by line, and meet before and after. And the
/// transpose: each adds the other's halo to its own cells and sets it to zero.
class BareShared {
 public:
  BareShared()                             = default;
  BareShared(const BareShared&)            = delete;
  BareShared& operator=(const BareShared&) = delete;
  virtual ~BareShared()                    = default;

  virtual void exchange()  = 0;
  virtual void transpose() = 0;
  /// Another way of the transpose: all lines are added before the first of them is set to zero.
  virtual void transpose_late() = 0;
  /// And another: each rank sets its own halo to zero, once the other has read it.
  virtual void transpose_own() = 0;
};

/// Along dimension `d`, whose neighbours on both sides are the other rank; `other`: its problem,
/// with its fields' first owned cells as seen here. `handshake` stays the caller's.
std::unique_ptr<BareShared> make_bare_shared(const Problem& p, const Problem& other, int d,
                                             support::Handshake& handshake);

}  // namespace peers

#endif
