// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_COUPLING_HPP
#define SHARD_REDISTRIBUTE_COUPLING_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/redistribute/impl/coupled_fields.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"
#include "shard/redistribute/redistribute.hpp"

/// \file
/// Couplings move fields between two meshes: of the same ranks in another shape (dynamics and
/// physics), or of other ranks (an atmosphere and an ocean, a model and its writers).

namespace shard {

/// Options of a Coupling, the same on every rank.
struct CouplingOptions {
  /// Dimension d of the `To` fields is dimension permute[d] of the `From` fields. Empty: both have
  /// their dimensions in the same order.
  std::vector<int> permute{};
  /// In the adjoint, every replica of a `From` field gets the sum over all receivers: the cotangent
  /// is replicated as the field is, and counts once.
  bool sums_replicas = false;
  Tuning tuning{};  ///< of its messages, except `transport = nccl` (see Coupling)
};

/// Copies the owned points of `From` fields on one mesh to `To` fields of the same global extents
/// on another. Either is a field or a set of fields, one of each for each pair. The meshes may have
/// the same ranks, some in common, or none; a rank that isn't on one side gives nullptr for it. Any
/// partitions, empty shards too, layouts and halo widths; replicated on either side. Values of two
/// types are converted, and sent as the shorter one. A Partial sum `From` is added in the order of
/// its ranks; of a Partial sum `To` the ranks at coordinate 0 get the values, the others zeros.
/// Fields over index spaces are matched by global ids, fields over tiles by tile, row and column.
///
/// Each rank finds what it shares with the other side from both sides' partitions, which travel
/// once, and sends one message to each rank that it shares points with. The fields' handles are
/// copied; they keep their memory alive.
///
/// Several couplings may send and receive in any order: no half waits for another coupling's. So
/// messages of fields in device memory go by MPI, direct or staged, never by NCCL, whose sends
/// block their stream until the receive has started. If NCCL is requested, the log says that MPI is
/// used; for fields in host memory that request is an ArgumentError, as for an Exchange. The calls
/// for one message, from `send` or `start_receive` to `receive` and `finish`, take the same
/// execution-space instance. A coupling that is destroyed while it receives finishes that, between
/// two fences of all instances. What it sent is kept until the other side has read it, at most
/// until Kokkos is finalized: nobody waits for a last message that nobody receives. MPI transfers a
/// large message only while the sender calls MPI. If it won't do so again, call `finish` before the
/// coupling ends.
///
/// \code
/// shard::Coupling<Surface, Surface> coupling(comm, is_ocean ? &sst_here : nullptr,
///                                            is_atmosphere ? &sst_there : nullptr);
/// coupling(space);                              // all ranks of both sides together, or
/// if (is_atmosphere) coupling.send(space);      // each side when it comes there
/// if (is_ocean) coupling.receive(space);
/// if (is_atmosphere) coupling.finish(space);    // before its next send
/// \endcode
template <FieldOrSet To, FieldOrSet From>
class Coupling {
  using ToField   = impl::FieldOf<To>;
  using FromField = impl::FieldOf<From>;
  using ToValue   = typename ToField::non_const_value_type;
  using FromValue = typename FromField::non_const_value_type;
  using Memory    = impl::PlanMemory<ToField>;
  static_assert(std::is_same_v<Memory, impl::PlanMemory<FromField>>,
                "a Coupling is between fields that are all in host memory or all on the device");
  static_assert(ToField::rank == FromField::rank, "a Coupling is between fields of the same rank");
  static_assert(std::is_same_v<ToValue, FromValue> || std::is_convertible_v<FromValue, ToValue>,
                "a Coupling converts values of types that convert to each other");
  static_assert(!std::is_const_v<typename ToField::value_type>,
                "a Coupling writes its first fields: they need a value type that isn't const");
  using Sent = impl::CommonValue<ToValue, FromValue>;

 public:
  /// An empty coupling, to be assigned later. Any use throws ArgumentError.
  Coupling() = default;
  /// Collective over `comm`, which has all ranks of both meshes. Throws, on every rank:
  /// ArgumentError if the sides differ in extents or in the number of fields, a side has no rank,
  /// or `comm` lacks a rank of a mesh; AgreementError if the ranks of a side give different fields.
  Coupling(MPI_Comm comm, const To* to, const From* from, const CouplingOptions& options = {})
      : to_(to), from_(from) {
    impl::CouplingRequest request{.is_to = to_.is_in(), .is_from = from_.is_in()};
    request.to            = to_.args();
    request.from          = from_.args();
    request.permute       = options.permute;
    request.tuning        = options.tuning;
    request.sums_replicas = options.sums_replicas;
    plan_                 = impl::CouplingPlan<Memory>::make(comm, request);
  }

  /// An error that says what is expected.
  template <class A, class B>
  requires((!std::is_convertible_v<const A&, const To*> && !std::is_integral_v<A>) ||
           (!std::is_convertible_v<const B&, const From*> &&
            !std::is_integral_v<B>))  // NULL is one
      Coupling(MPI_Comm, const A&, const B&, const CouplingOptions& = {}) {
    static_assert(!std::is_same_v<A, A>,
                  "Coupling<To, From>(comm, to, from) takes pointers: first to the `To` fields, "
                  "which it writes, then to the `From` fields; nullptr on a rank that isn't on "
                  "that side");
  }

  /// Puts other fields of the same mesh, partitions and strides, such as swapped time levels, in
  /// the place of a side's fields; nullptr leaves them. Local. Throws ArgumentError on this rank,
  /// and changes nothing, for fields that differ in these, a side that the rank isn't on, and while
  /// a message is under way.
  void set_fields(const To* to, const From* from) {
    const bool is_under_way = plan().is_under_way();
    if (to != nullptr) to_.require_in_place(*to, is_under_way);
    if (from != nullptr) from_.require_in_place(*from, is_under_way);
    if (to != nullptr) to_.set(*to);
    if (from != nullptr) from_.set(*from);
  }

  /// Moves the fields: `send`, `receive` and `finish` on every rank. Waits for the ranks that it
  /// shares points with.
  template <class Space>
  void operator()(const Space& space) {
    plan();
    if (from_.is_in()) send(space);
    if (to_.is_in()) receive(space);
    finish(space);
  }
  /// Packs and sends this rank's part of the `From` fields, which may change afterwards. On a rank
  /// on both sides they, and the `To` fields, are in use until `receive`. Doesn't wait for other
  /// ranks; fields in device memory are packed when it returns. Throws ArgumentError on a rank that
  /// isn't on that side, and if the message before is under way: call `finish` (on a rank on both
  /// sides `receive`) in between.
  template <class Space>
  void send(const Space& space) {
    prepare(space);
    plan().send(space, to_.addresses().data(), from_.addresses().data());
  }
  /// set_fields of the `From` fields, then send.
  template <class Space>
  void send(const Space& space, const From& from) {
    set_fields(nullptr, &from);
    send(space);
  }
  /// Waits until the last message that was sent has left this rank. Does nothing if none is under
  /// way.
  template <class Space>
  void finish(const Space& space) {
    plan().finish(space);
  }
  /// Lets messages arrive before `receive`, on a rank that is on the receiving side alone. Until
  /// then the `To` fields are in use. Doesn't wait for other ranks. `receive` takes the same
  /// `space`. Throws ArgumentError if it is called twice before `receive`.
  template <class Space>
  void start_receive(const Space& space) {
    prepare(space);
    plan().start_receive(space, to_.addresses().data(), from_.addresses().data());
  }
  /// Waits for the messages of one `send` and writes the `To` fields, in the order of `space`. A
  /// rank on both sides calls `send` first. Errors as `send`.
  template <class Space>
  void receive(const Space& space) {
    prepare(space);
    plan().receive(space, to_.addresses().data(), from_.addresses().data());
    to_.template take<false>(space);
    for (const ToField& field : to_.fields()) impl::mark_moved(space, field);
  }
  /// set_fields of the `To` fields, then receive. Not after start_receive, nor on a rank on both
  /// sides: there call set_fields before the message is started.
  template <class Space>
  void receive(const Space& space, const To& to) {
    set_fields(&to, nullptr);
    receive(space);
  }
  /// The transpose of a coupling of cotangents: adds what each point of the `To` fields holds to
  /// the point of the `From` fields that it is a copy of. Where `From` is replicated, the
  /// contributions of several receivers are on the replica that sent to them: the cotangent is a
  /// Partial sum over the replicas (but see CouplingOptions::sums_replicas). Where `From` is
  /// Partial, the cotangent is replicated: each of its ranks gets what its contribution went to.
  /// Collective over the ranks of both sides. Throws ArgumentError if a message is under way.
  template <class Space>
  void adjoint(const Space& space) {
    static_assert(impl::can_add_v<FromField>,
                  "the adjoint of a coupling adds: it needs arithmetic value types");
    plan();
    to_.fill(space);
    from_.clear(space);
    plan().adjoint(space, to_.addresses().data(), from_.addresses().data());
    from_.template take<true>(space);
  }

  /// Messages that this rank sends and receives in one run.
  int sends() const { return plan().sends(); }
  int receives() const { return plan().receives(); }  ///< as above

 private:
  /// Before a message: fills what is sent; zeroes that to which a sum is added, or nothing comes.
  template <class Space>
  void prepare(const Space& space) const {
    if (plan().is_under_way()) return;
    from_.fill(space);
    if (plan().adds() || ToField::partial_axes::count > 0) impl::zero_owned(space, to_.sent());
  }
  impl::CouplingPlan<Memory>& plan() const {
    if (!plan_) impl::throw_no_coupling();
    return *plan_;
  }

  impl::CoupledFields<ToField, Sent> to_;
  impl::CoupledFields<FromField, Sent> from_;
  std::unique_ptr<impl::CouplingPlan<Memory>> plan_;
};

}  // namespace shard

#endif
