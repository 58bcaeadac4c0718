// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transfer.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/device_messages.hpp"
#include "transfer_tables.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t kept_strides = 4;

/// The ranks in `whole` of a communicator's ranks.
std::vector<int> ranks_in(MPI_Comm whole, MPI_Comm part) {
  int size = 0;
  check_mpi(MPI_Comm_size(part, &size), "MPI_Comm_size");
  std::vector<int> own(static_cast<std::size_t>(size)), ranks(own.size());
  std::iota(own.begin(), own.end(), 0);
  MPI_Group of_whole = MPI_GROUP_NULL, of_part = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(whole, &of_whole), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(part, &of_part), "MPI_Comm_group");
  check_mpi(MPI_Group_translate_ranks(of_part, size, own.data(), of_whole, ranks.data()),
            "MPI_Group_translate_ranks");
  MPI_Group_free(&of_part);
  MPI_Group_free(&of_whole);
  return ranks;
}

}  // namespace

index_t message_limit() {
  constexpr index_t unset = index_t{1} << 30U;
  const auto limit        = environment_value("SHARD_MESSAGE_LIMIT");
  return limit ? static_cast<index_t>(*limit) : unset;
}

template <class Memory>
std::shared_ptr<TransferGroup<Memory>> TransferGroup<Memory>::of(MeshState& mesh, int axis) {
  constexpr bool host = std::is_same_v<Memory, Kokkos::HostSpace>;
  const PlanKey key   = PlanKey::of(KeyKind::transfer_group,
                                    static_cast<std::uint64_t>(axis + 1) << 1U | (host ? 0U : 1U));
  if (auto found = std::static_pointer_cast<TransferGroup>(mesh.find(key))) return found;
  const MPI_Comm comm = axis < 0 ? mesh.comm() : mesh.axis_comm(axis);
  const int rank      = axis < 0 ? mesh.rank() : mesh.coordinate(axis);
  std::shared_ptr<TransferGroup> made;
  if constexpr (!host && device_kind_of<Memory> != DeviceKind::other) {
    // only a call by all ranks can make a communicator
    const auto nccl = axis < 0 ? nccl_group_of(mesh) : made_nccl_group_of(mesh);
    if (nccl) made = std::make_shared<TransferGroup>(comm, rank, nccl, ranks_in(mesh.comm(), comm));
  }
  if (!made) {
    bool staged = false;
    if constexpr (!host) {
      constexpr DeviceKind kind = device_kind_of<Memory>;
      staged =
          !decide_device_messages(comm, kind, device_hints(comm, kind, {}), mesh.comm()).direct;
    }
    made = std::make_shared<TransferGroup>(comm, mesh.redistribution_tag(), rank, staged);
  }
  mesh.keep(KeptKind::one_of_its_kind, key, made);
  return made;
}

template <class Memory>
std::size_t TransferGroup<Memory>::bytes() const {
  std::size_t sum = bytes_.size() + staging_.size();
  for (const auto& entry : plans_) sum += entry.second->bytes();
  return sum;
}

template <class Memory>
void TransferGroup<Memory>::reserve(std::size_t bytes, std::size_t requests) {
  const auto grow = [&](auto& buffer) {
    using Buffer = std::decay_t<decltype(buffer)>;
    if (buffer.extent(0) >= bytes) return;
    buffer = Buffer();  // frees the old buffer first
    buffer = Buffer(Kokkos::view_alloc(Kokkos::WithoutInitializing, "shard::transferred"), bytes);
  };
  if (staged_)
    grow(staging_);
  else
    grow(bytes_);
  if (requests_.size() < requests) requests_.resize(requests, MPI_REQUEST_NULL);
}

template <class Memory>
std::shared_ptr<TransferPlan<Memory>> TransferGroup<Memory>::find(const PlanKey& key) {
  const auto found =
      std::find_if(plans_.begin(), plans_.end(), [&](const auto& p) { return p.first == key; });
  if (found == plans_.end()) return nullptr;
  std::rotate(found, found + 1, plans_.end());
  return plans_.back().second;
}

template <class Memory>
void TransferGroup<Memory>::keep(const MeshState& mesh, const PlanKey& key,
                                 std::shared_ptr<TransferPlan<Memory>> plan) {
  plans_.emplace_back(key, std::move(plan));
  if (static_cast<int>(plans_.size()) > mesh.kept_plans()) plans_.erase(plans_.begin());
}

template <class Memory>
TransferPlan<Memory>::TransferPlan(std::vector<TransferStep> steps, index_t limit)
    : steps_(std::move(steps)), limit_(limit) {
  // here `extent` is the end of a box
  const auto widen = [](PieceBox& reach, const std::array<index_t, max_rank>& begin,
                        const Piece& p) {
    for (std::size_t d = 0; d < max_rank; ++d)
      reach.extent[d] = std::max(reach.extent[d], begin[d] + p.extent[d]);
  };
  for (const TransferStep& s : steps_) {
    fields_              = std::max(fields_, static_cast<int>(s.route.fields.size()));
    const auto widen_all = [&](const std::vector<Piece>& pieces, bool reads, bool writes) {
      for (const Piece& p : pieces) {
        Reach& reach = reach_[p.field];
        if (reads) widen(reach.read, read_begin(s, p), p);
        if (writes) widen(reach.written, s.combines ? p.source : p.target, p);
      }
    };
    widen_all(s.route.sends, !s.combines, s.combines);
    widen_all(s.route.receives, s.combines, !s.combines);
    widen_all(s.route.locals, true, true);
    widen_all(s.route.fills, false, true);
  }
}

template <class Memory>
TransferPlan<Memory>::~TransferPlan() {}  // NOLINT(modernize-use-equals-default): hipcc

template <class Memory>
std::size_t TransferPlan<Memory>::bytes() const {
  std::size_t sum = 0;
  for (const auto& made : made_) sum += made->tables.size();
  return sum;
}

template <class Memory>
TransferTables<Memory>& TransferPlan<Memory>::tables_for(TransferGroup<Memory>& group,
                                                         const TransferField* fields) {
  std::array<TransferStrides, max_transfer_fields> wanted;
  for (int f = 0; f < fields_; ++f) {
    const TransferField& field = fields[f];
    const Reach& reach         = reach_[f];
    auto& w                    = wanted[static_cast<std::size_t>(f)];
    w.read                     = field.read_stride;
    w.written                  = field.written_stride;
    const auto end_of = [&](const std::byte* first, const PieceBox& box, const Strides& strides) {
      index_t last = 1;
      for (std::size_t d = 0; d < max_rank; ++d)
        if (box.extent[d] > 1) last += (box.extent[d] - 1) * strides[d];
      return first + last * steps_.front().route.fields.front().value_size;
    };
    if (field.read < end_of(field.written, reach.written, w.written) &&
        field.written < end_of(field.read, reach.read, w.read))
      w.distance = field.read - field.written;
  }
  for (auto made = made_.rbegin(); made != made_.rend(); ++made)
    if ((*made)->made_for == wanted) {
      std::rotate(made.base() - 1, made.base(), made_.end());
      return *made_.back();
    }
  auto made =
      std::make_unique<TransferTables<Memory>>(steps_, wanted, fields_, group.staged(), limit_);
  group.reserve(made->buffer, made->requests);
  if (made_.size() >= kept_strides) made_.erase(made_.begin());
  made_.push_back(std::move(made));
  return *made_.back();
}

template <class Memory>
template <class Space>
void TransferPlan<Memory>::run(const Space& space, TransferGroup<Memory>& group,
                               const TransferField* fields) {
  constexpr bool by_lines      = moves_lines_v<Memory, Space>;
  TransferTables<Memory>& made = tables_for(group, fields);
  group.reserve(made.buffer, made.requests);
  std::byte* const buffer = group.staged_ ? group.staging_.data() : group.bytes_.data();
  made.enter(fields, buffer);
  const bool has_tool        = group.tool_.is_attached();
  const Addresses& addresses = made.addresses;
  const auto sum             = [&](const SumJobs& jobs) {
    run_sums<by_lines>("shard::sum", has_tool, space, jobs, addresses, 0, items_of<by_lines>(jobs));
  };
  for (const typename TransferTables<Memory>::Step& step : made.steps) {
    run_copies<by_lines>("shard::pack", has_tool, space, step.pack, addresses);
    const bool talks = !step.sends.empty() || !step.receives.empty();
    int count        = 0;
    if (talks && group.nccl_) {
      const auto place = [&](const std::vector<PlacedMessage>& messages,
                             std::vector<PlacedBytes>& placed) {
        placed.clear();
        for (const PlacedMessage& m : messages)
          placed.push_back({group.peers_[static_cast<std::size_t>(m.peer)],
                            made.addresses[m.entry].bytes + m.first,
                            static_cast<std::size_t>(m.bytes)});
      };
      place(step.sends, group.outgoing_);
      place(step.receives, group.incoming_);
      group.nccl_->run(group.outgoing_, group.incoming_, stream_of(space));
    } else if (talks) {
      space.fence("shard::packed");
      const auto in_parts = [&](const PlacedMessage& m, const auto& post) {
        std::byte* const first = made.addresses[m.entry].bytes + m.first;
        for (index_t done = 0; done < m.bytes; done += limit_)
          post(first + done, static_cast<int>(std::min(limit_, m.bytes - done)),
               &group.requests_[static_cast<std::size_t>(count++)]);
      };
      for (const PlacedMessage& m : step.receives)
        in_parts(m, [&](std::byte* data, int bytes, MPI_Request* request) {
          check_mpi(MPI_Irecv(data, bytes, MPI_BYTE, m.peer, group.tag_, group.comm_, request),
                    "MPI_Irecv");
        });
      for (const PlacedMessage& m : step.sends)
        in_parts(m, [&](std::byte* data, int bytes, MPI_Request* request) {
          check_mpi(MPI_Isend(data, bytes, MPI_BYTE, m.peer, group.tag_, group.comm_, request),
                    "MPI_Isend");
        });
    }
    run_copies<by_lines>("shard::copy", has_tool, space, step.local, addresses);
    if (count > 0) {
      const Watched watched({.what = "the values of a transfer", .rank = group.rank_});
      await_requests(count, group.requests_.data());
    }
    run_copies<by_lines>("shard::unpack", has_tool, space, step.unpack, addresses);
    for (const SumJobs& jobs : step.sums) sum(jobs);
  }
  space.fence("shard::transferred");
}

#define SHARD_TRANSFER(Memory)          \
  template class TransferGroup<Memory>; \
  template class TransferPlan<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_TRANSFER)
#undef SHARD_TRANSFER
#define SHARD_TRANSFER(Memory, Space)                                           \
  template void TransferPlan<Memory>::run(const Space&, TransferGroup<Memory>&, \
                                          const TransferField*);
SHARD_FOR_EACH_SPACE(SHARD_TRANSFER)
#undef SHARD_TRANSFER

}  // namespace shard::impl
