// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_FIELD_PLAN_HPP
#define SHARD_EXCHANGE_IMPL_FIELD_PLAN_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/impl/host_space.hpp"
#include "shard/exchange/impl/field_spec.hpp"
#include "shard/exchange/tuning.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// Addresses of the fields of one call: of the first owned point of each source and target.
struct FieldAddresses {
  void* const* from               = nullptr;
  void* const* to                 = nullptr;
  const Geometry* const* geometry = nullptr;  ///< of those that are read, for messages; or null
};

/// Direction of one run of a plan: values to halos, or halo values back to their owners, where they
/// are added.
enum class Direction : std::uint8_t { forward, adjoint };

/// One started exchange: which of the plan's buffer sets it uses.
struct StartedExchange {
  int set             = -1;
  Direction direction = Direction::forward;
};

/// The result of `advance`.
enum class Progress : std::uint8_t {
  may_advance,
  needs_calls,  ///< long messages of MPI move only while it is called
  filled,
  needs_finish,
  finished
};

template <class Memory>
class Plan;

/// A plan for fields. It makes their route, compares it with the other ranks, and adds to the plain
/// plan: measuring, messages by dimension, the search for stale halos under SHARD_CHECK=1.
/// Type-erased; built and run in src/. \tparam Memory the fields' memory: HostSpace or the default
/// device's memory
template <class Memory>
class FieldPlan : public CachedPlan {
 public:
  /// Collective over the mesh: the same fields and tuning on every rank, else AgreementError on
  /// every rank.
  static std::shared_ptr<FieldPlan> make(MeshState& mesh, std::vector<FieldSpec> fields,
                                         const Tuning& tuning = {});
  // user-provided, because hipcc makes defaulted destructors for the device too
  ~FieldPlan() override;

  /// Collective: a plan for these fields, null for none. Throws ArgumentError if they are on
  /// several meshes, AgreementError as `make`. If `tuning.measured`, trial exchanges fill these
  /// fields' halos.
  static std::shared_ptr<FieldPlan> make_exchange(const FieldArgs* fields, int count,
                                                  const Tuning& tuning,
                                                  const FieldAddresses& addresses);
  /// The mesh's cached plan for such fields, null for none; made, collectively, if there isn't one.
  /// The key has only what is the same on every rank. Strides may differ (a host model's arrays may
  /// be padded on some ranks), so a plan for other strides is made locally.
  static std::shared_ptr<FieldPlan> find_exchange(const FieldArgs* fields, int count);
  /// The same for one part of a field's halo.
  static std::shared_ptr<FieldPlan> find_part(const FieldArgs& field, HaloPart part);

  /// `plan`, or one with the same messages for these fields, whose strides are others: made when it
  /// is first needed, and kept by `plan`. Local. Throws ArgumentError unless the extents and begins
  /// are those of the plan, and for other strides if it sends by dimension.
  static const std::shared_ptr<FieldPlan>& for_fields(const char* function,
                                                      const std::shared_ptr<FieldPlan>& plan,
                                                      const FieldArgs* fields);

  /// The plan that moves the owned points of from[f] to to[f]; `dims` has a Reindexing for each
  /// dimension of each field. Cached as by find_exchange. Its transpose doesn't change its source.
  /// Throws ArgumentError if global extents differ where indices don't. Collective where the plan,
  /// or the move between two index spaces, has to be made.
  static std::shared_ptr<FieldPlan> find_move(const char* function, const FieldArgs* to,
                                              const FieldArgs* from, int count,
                                              const Reindexing* dims);

  /// Packs and sends. Local; allocates only if every buffer set is in progress. `Space` is an
  /// enabled execution space that can access Memory.
  template <class Space>
  StartedExchange start(const Space& space, const FieldAddresses& addresses, Direction direction);
  /// Fills the halos that need no message in an exchange in progress (not of an adjoint). Returns
  /// the sides whose halos need messages, as in region.hpp. Local.
  template <class Space>
  unsigned fill_local(const Space& space, const StartedExchange& started);
  /// Of messages in shared memory, and of MPI's if some are long: lets them progress, unpacks them
  /// if all have arrived, and finishes if the neighbours have read this rank's. Never waits. Local.
  /// Throws MpiError; then nothing is left to finish.
  template <class Space>
  Progress advance(const Space& space, const StartedExchange& started);
  /// Waits for the messages and unpacks. Not collective.
  template <class Space>
  void finish(const Space& space, const StartedExchange& started);

  const std::vector<FieldSpec>& fields() const { return fields_; }
  const Tuning& tuning() const { return tuning_; }
  /// The tuning and the measured candidates, a line each.
  std::string report() const;
  /// Messages that this rank sends and receives in one forward exchange, on any transport, and the
  /// bytes sent.
  int sends() const;
  int receives() const;
  std::size_t bytes_sent() const;
  std::size_t bytes() const override;
  bool may_end() override;
  /// Whether peers would read this rank's fields directly if they were in shared memory. None, on
  /// all ranks of the node, if no messages use shared memory.
  std::optional<bool> wants_shared() const;

 private:
  struct Family;
  struct Tried {
    Tuning tuning;
    double seconds;
  };

  FieldPlan(std::vector<FieldSpec> fields, const Tuning& tuning);
  static std::shared_ptr<FieldPlan> make_measured(MeshState& mesh,
                                                  const std::vector<FieldSpec>& fields,
                                                  const Tuning& asked,
                                                  const FieldAddresses& addresses);
  template <class Specs, class Same>
  static std::shared_ptr<FieldPlan> find(MeshState& mesh, const PlanKey& key, const Specs& specs,
                                         const Same& same);
  std::shared_ptr<FieldPlan> sibling(std::vector<FieldSpec> fields) const;

  std::vector<FieldSpec> fields_;
  Tuning tuning_;
  std::vector<std::shared_ptr<Plan<Memory>>> forward_;  // one, or one for each dimension, in turn
  std::shared_ptr<Plan<Memory>>
      at_once_;                     // sends all at once; forward_ has it too unless by dimension
  std::vector<std::string> stale_;  // under SHARD_CHECK=1, by the forward plan's buffer sets:
                                    // points that were computed from a halo out of date
  std::vector<Tried> tried_;
  std::vector<std::shared_ptr<FieldPlan>> siblings_;  // of for_fields
};

/// The memory of a field's plan: the host's if the field's execution space is a host space.
template <class Field>
using PlanMemory = std::conditional_t<
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Field::memory_space>::accessible &&
        is_host_space_v<typename Field::execution_space>,
    Kokkos::HostSpace, typename Kokkos::DefaultExecutionSpace::memory_space>;

}  // namespace shard::impl

#endif
