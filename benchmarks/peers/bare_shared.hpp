// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_PEERS_BARE_SHARED_HPP
#define SHARD_BENCHMARKS_PEERS_BARE_SHARED_HPP

#include <memory>
#include <vector>

#include "problem.hpp"
#include "support/handshake.hpp"

namespace peers {

/// What two cores can do without a library: two ranks that are each other's only neighbours copy
/// their halos straight out of the other's memory, box by box, and meet before and after. And the
/// transpose: each adds the other's halo to its own cells and sets it to zero. Along a dimension in
/// which a rank is its own neighbour it does the same with its own cells.
class BareShared {
 public:
  BareShared()                             = default;
  BareShared(const BareShared&)            = delete;
  BareShared& operator=(const BareShared&) = delete;
  virtual ~BareShared()                    = default;

  virtual void exchange()  = 0;
  virtual void transpose() = 0;
  /// Another way of the transpose: all boxes are added before the first of them is set to zero.
  virtual void transpose_late() = 0;
  /// And another: each rank sets its own halo to zero, once the other has read it.
  virtual void transpose_own() = 0;
  /// What the other is to read is packed into a buffer first, and its own halo set to zero then.
  virtual void exchange_packed()  = 0;
  virtual void transpose_packed() = 0;
  /// One field after the other, meeting for each.
  virtual void exchange_singly() = 0;
};

/// Windows to pack into, of each direction its own: one that the forward exchange has just used
/// would lie in the caches, as a plan's doesn't that reads directly forward.
struct BareWindows {
  Window forward, back;
};
/// `other`: the other rank's problem, with its fields' first owned cells as seen here. `handshake`
/// stays the caller's, and so does the windows' memory.
std::unique_ptr<BareShared> make_bare_shared(const Problem& p, const Problem& other,
                                             const BareWindows& windows,
                                             support::Handshake& handshake);

}  // namespace peers

#endif
