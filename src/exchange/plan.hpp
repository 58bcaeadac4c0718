// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_HPP
#define SHARD_SRC_EXCHANGE_PLAN_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan_messages.hpp"
#include "shard/exchange/impl/field_plan.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// A transport's name, as of its channel. And SHARD_TRANSPORT in the place of `automatic`, for
/// fields in device memory or not: returns what is wrong with the variable, or nothing. It may be
/// wrong on one rank only, so it is thrown when the ranks have compared it.
const char* name_of(TransportKind transport);
std::string take_from_environment(TransportKind& transport, bool device);

/// What a route becomes once: copy jobs, buffers, one message for each peer. `start` packs and
/// sends, `finish` receives and unpacks; the adjoint does the same backwards: it packs halos, sets
/// them to zero, and adds what it receives. Knows neither boundaries nor partitions.
/// \tparam Memory where the fields are: HostSpace or the default device's memory
template <class Memory>
class Plan {
 public:
  /// Collective over the mesh: the same route and tuning on every rank, as agreed before.
  static std::shared_ptr<Plan> make(MeshState& mesh, const Route& route,
                                    const std::vector<FieldStrides>& strides, const Tuning& tuning,
                                    std::uint32_t number);
  /// A plan of the same route for fields of other strides, with the same messages. Local.
  std::shared_ptr<Plan> sibling(const Route& route, const std::vector<FieldStrides>& strides) const;

  /// See FieldPlan.
  template <class Space>
  StartedExchange start(const Space& space, const FieldAddresses& addresses, Direction direction);
  template <class Space>
  unsigned fill_local(const Space& space, const StartedExchange& started);
  template <class Space>
  Progress advance(const Space& space, const StartedExchange& started);
  template <class Space>
  void finish(const Space& space, const StartedExchange& started);

  /// Ends an exchange in which this rank only sends packed values, without waiting for the readers.
  /// The plan must live until they have read them, and may not start again.
  void leave(const StartedExchange& started) const;
  /// Whether all that this rank sent has been read, so that the plan may end. Local.
  bool was_received() const;
  /// Never waits for readers again, nor frees what they may read.
  void abandon() const;

  PlanMessages<Memory>& messages() const { return *messages_; }
  /// Of its tables, without the messages' buffers.
  std::size_t table_bytes() const { return tables_.size(); }
  std::size_t bytes_sent() const;
  /// Whether peers would read fields in place, forward or adjoint.
  bool read_directly(Direction direction) const {
    return read_directly_[direction == Direction::forward ? 0 : 1];
  }

 private:
  Plan(std::shared_ptr<PlanMessages<Memory>> messages, const PlanLayout& layout, const Route& route,
       const std::vector<FieldStrides>& strides);
  void build(const PlanLayout& layout, const Route& route,
             const std::vector<FieldStrides>& strides);

  // the steps of start
  template <class Space>
  std::size_t take_set(const Space& space, const FieldAddresses& addresses);
  void post_receives(BufferSet<Memory>& set, const FieldAddresses& addresses, bool forward) const;
  template <class Space>
  void enter_addresses(const Space& space, BufferSet<Memory>& set, const FieldAddresses& addresses,
                       bool forward) const;
  template <class Space>
  void pack(const Space& space, BufferSet<Memory>& set, bool forward) const;
  template <class Space>
  void send(const Space& space, BufferSet<Memory>& set, bool forward);
  // the steps of finish
  template <class Space>
  void copy_local(const Space& space, BufferSet<Memory>& set, bool forward, bool asked) const;
  void receive(BufferSet<Memory>& set, bool forward);
  template <class Space>
  void unpack(const Space& space, BufferSet<Memory>& set, bool forward) const;
  void end(BufferSet<Memory>& set, bool forward) const;
  void wait_read(BufferSet<Memory>& set, bool forward) const;
  void abandon(BufferSet<Memory>& set, bool forward) const;
  static void unpack_if_arrived(void* plan, void* set);

  // under SHARD_CHECK=1
  template <class Space>
  void start_check(const Space& space, BufferSet<Memory>& set, bool forward) const;
  void check_peers(BufferSet<Memory>& set) const;
  template <class Space>
  void check_unchanged(const Space& space, const BufferSet<Memory>& set, bool forward) const;
  template <class Space>
  std::uint64_t checksum_of(const Space& space, const BufferSet<Memory>& set, bool forward) const;

  std::shared_ptr<PlanMessages<Memory>> messages_;  // shared by siblings
  unsigned awaited_      = 0;                       // sides whose halos come in messages
  bool strides_are_sent_ = true;  // the fields have the strides that this rank sent to its peers
  bool read_directly_[2] = {};    // whether peers read fields in place: forward, adjoint
  CopyJobs pack_owned_, unpack_, pack_halo_;
  // under SHARD_CHECK=1, what must not change between start and finish: owned cells that others
  // read, or that an adjoint adds to; of an adjoint also the halo
  CopyJobs read_, returned_;
  SumJobs sum_;
  const std::byte* constants_ = nullptr;
  Kokkos::View<const std::byte*, Memory> tables_;  // what all these point to
};

}  // namespace shard::impl

#endif
