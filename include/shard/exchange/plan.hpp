// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_PLAN_HPP
#define SHARD_EXCHANGE_PLAN_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "shard/exchange/jobs.hpp"
#include "shard/exchange/plan_spec.hpp"
#include "shard/mesh/mesh_state.hpp"

namespace shard::impl {

/// Addresses of the fields of one call: of each field's first owned cell, read from and written to.
struct FieldAddresses {
  void* const* from = nullptr;
  void* const* to   = nullptr;
};

/// Direction of a plan: values to halos, or halo values back to their owners, where they are added.
enum class Direction : std::uint8_t { forward, adjoint };

struct BufferSetBase;

/// One started exchange: which of the plan's buffer sets it uses.
struct Flight {
  BufferSetBase* set  = nullptr;
  Direction direction = Direction::forward;
};

/// What moves between ranks for a list of fields: one pack kernel, one message per peer, one unpack
/// kernel, and the transpose of it. Knows no field types; built and run in src/. \tparam Memory
/// where the fields are: HostSpace or the default device's memory.
template <class Memory>
class Plan : public CachedPlan {
 public:
  /// Collective over the mesh: the same fields on every rank, else AgreementError on every rank.
  static std::shared_ptr<Plan> make(MeshState& mesh, std::vector<FieldSpec> fields);
  ~Plan() override;

  /// Collective: a plan for these fields. Throws ArgumentError if they are on several meshes,
  /// AgreementError as `make`.
  static std::shared_ptr<Plan> make_exchange(const FieldArgs* fields, int count);
  /// The plan for such fields that their mesh keeps; made, collectively, if there is none yet. It
  /// is asked for by what is the same on every rank. Strides need not be (a host model's arrays may
  /// be padded on some ranks only): a plan for other strides is made without asking the others.
  static std::shared_ptr<Plan> find_exchange(const FieldArgs* fields, int count);

  /// The plan that moves the owned cells of `from` to where `to` wants them, found again and made
  /// as by find_exchange. Throws ArgumentError if global extents differ.
  static std::shared_ptr<Plan> find_move(const FieldArgs& to, const FieldArgs& from);

  /// Packs and sends. Local; allocates only if every buffer set is in flight. `Space` is an enabled
  /// execution space that reaches Memory.
  template <class Space>
  Flight start(const Space& space, const FieldAddresses& addresses, Direction direction);
  /// Waits for the messages and unpacks. Local.
  template <class Space>
  void finish(const Space& space, const Flight& flight);

  const std::vector<FieldSpec>& fields() const { return fields_; }
  /// Messages that this rank sends and receives in one forward exchange, and their bytes.
  int sends() const { return static_cast<int>(send_layout_.size()); }
  int receives() const { return static_cast<int>(receive_layout_.size()); }
  std::size_t bytes_sent() const { return send_bytes_; }
  std::size_t bytes_received() const { return receive_bytes_; }

 private:
  struct BufferSet;
  struct MessageLayout {
    int peer          = 0;
    std::size_t first = 0, bytes = 0;
  };

  struct Family;

  Plan(MeshState& mesh, std::vector<FieldSpec> fields, std::uint32_t number,
       std::shared_ptr<std::uint64_t> sequence);
  template <class Specs, class Same>
  static std::shared_ptr<Plan> find(MeshState& mesh, const PlanKey& key, const Specs& specs,
                                    const Same& same);
  void build();
  BufferSet& free_set();
  void check_headers(BufferSet& set, Direction direction);

  MeshState* mesh_;
  std::vector<FieldSpec> fields_;
  std::uint32_t number_ = 0;
  std::shared_ptr<std::uint64_t> sequence_;  // shared by the plans of a family
  bool check_ = false;
  std::vector<MessageLayout> send_layout_, receive_layout_;
  std::size_t send_bytes_ = 0, receive_bytes_ = 0, local_bytes_ = 0;
  CopyJobs<Memory> pack_, unpack_, adjoint_pack_;
  SumJobs<Memory> sum_;
  Kokkos::View<std::byte*, Memory> constants_;
  std::vector<std::unique_ptr<BufferSet>> sets_;
};

/// The memory whose plan serves a field: the host's where the field's own execution space is one of
/// the host's.
template <class Field>
using PlanMemory = std::conditional_t<
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Field::memory_space>::accessible &&
        Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                                   typename Field::execution_space::memory_space>::accessible,
    Kokkos::HostSpace, typename Kokkos::DefaultExecutionSpace::memory_space>;

}  // namespace shard::impl

#endif
