// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transfer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>

#include "plan_layout.hpp"
#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/device_messages.hpp"
#include "upload.hpp"

namespace shard::impl {

/// Entries of the address table of a transfer.
struct TransferEntries {
  int fields = 0;
  int read(int field) const { return field; }
  int written(int field) const { return fields + field; }
  int buffer() const { return 2 * fields; }
  int constants() const { return 2 * fields + 1; }
};
static_assert(2 * max_transfer_fields + 2 <= Addresses::most);

/// A message of a step: where it is, and its bytes.
struct PlacedMessage {
  int peer = 0, entry = 0;
  index_t first = 0, bytes = 0;
  bool in_place = false, repeats = false;  // repeats: its bytes are those of an earlier one
};

namespace {

constexpr index_t apart            = std::numeric_limits<index_t>::min();  // no common memory
constexpr std::size_t kept_strides = 4;

Elements read_of(const TransferStep& s, const Piece& p, int entry, const Strides& strides) {
  const RouteField& field = s.route.fields[static_cast<std::size_t>(p.field)];
  return s.combines ? target_elements(field, p, entry, strides)
                    : source_elements(field, p, entry, strides);
}
Elements written_of(const TransferStep& s, const Piece& p, int entry, const Strides& strides) {
  const RouteField& field = s.route.fields[static_cast<std::size_t>(p.field)];
  return s.combines ? source_elements(field, p, entry, strides)
                    : target_elements(field, p, entry, strides);
}
/// What a step sends and what it receives: the other way if the route is run backwards.
const PlanLayout::Side& out_of(const TransferStep& s, const PlanLayout& layout) {
  return s.combines ? layout.receive : layout.send;
}
const PlanLayout::Side& in_of(const TransferStep& s, const PlanLayout& layout) {
  return s.combines ? layout.send : layout.receive;
}
const std::array<index_t, max_rank>& read_begin(const TransferStep& s, const Piece& p) {
  return s.combines ? p.target : p.source;
}

/// Marks jobs of contiguous lines for non-temporal stores, if all jobs together are larger than the
/// caches.
void stream_if_large(CopyJobList& list) {
  constexpr index_t more_than_caches = index_t{1} << 25U, short_row = 128;  // bytes
  if (list.bytes < more_than_caches) return;
  for (CopyJob& job : list.jobs) {
    const index_t* const extent = list.numbers.data() + job.first_number;
    const index_t size = job.value_size, line = extent[0] * size;
    job.streams = extent[job.dims] == size && extent[2 * job.dims] == size && line >= short_row;
  }
}

/// One side's messages of a step, in the order of peers, and their places in the buffer from `end`
/// on. For a message of one piece, in_place(piece) returns its elements in a View if it is sent or
/// received there, else nothing.
template <class InPlace>
std::vector<PlacedMessage> place_messages(const TransferStep& s, const PlanLayout::Side& side,
                                          bool sent, int buffer, index_t& end,
                                          const InPlace& in_place) {
  const std::vector<PeerMessage>& messages = side.messages;
  const std::vector<PackedPiece>& pieces   = side.pieces;
  std::vector<PlacedMessage> placed(messages.size());
  std::vector<std::size_t> first_piece(messages.size(), pieces.size()), count(messages.size(), 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t m = pieces[i].message;
    first_piece[m]      = std::min(first_piece[m], i);
    ++count[m];
    const RouteField& field = s.route.fields[static_cast<std::size_t>(pieces[i].piece->field)];
    placed[m].peer          = pieces[i].piece->peer;
    placed[m].bytes =
        pieces[i].offset + count_of(field, *pieces[i].piece) * index_t{field.value_size};
  }
  const auto same = [&](std::size_t a, std::size_t b) {
    bool is_same = count[a] == count[b];
    for (std::size_t i = 0; i < count[a] && is_same; ++i) {
      const Piece &p = *pieces[first_piece[a] + i].piece, &q = *pieces[first_piece[b] + i].piece;
      is_same = p.field == q.field && p.extent == q.extent && read_begin(s, p) == read_begin(s, q);
    }
    return is_same;
  };
  for (std::size_t m = 0; m < placed.size(); ++m) {
    PlacedMessage& message = placed[m];
    if (count[m] == 1) {
      const Elements there = in_place(*pieces[first_piece[m]].piece);
      if (there.entry >= 0) {
        message.entry    = there.entry;
        message.first    = there.first;
        message.in_place = true;
        continue;
      }
    }
    message.entry = buffer;
    for (std::size_t e = 0; e < m && sent && !message.repeats; ++e)
      if (!placed[e].in_place && !placed[e].repeats && same(e, m)) {
        message.repeats = true;
        message.first   = placed[e].first;
      }
    if (message.repeats) continue;
    message.first = end;
    end += (message.bytes + index_t{value_alignment} - 1) / index_t{value_alignment} *
           index_t{value_alignment};
  }
  return placed;
}

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

TransferSize size_of(const TransferStep& step) {
  const PlanLayout layout(step.route, {}, {});
  const auto nowhere = [](const Piece&) { return Elements{}; };
  TransferSize size;
  const auto sent     = place_messages(step, out_of(step, layout), true, 0, size.buffer, nowhere);
  const auto received = place_messages(step, in_of(step, layout), false, 0, size.buffer, nowhere);
  for (const PlacedMessage& m : sent) size.sent += m.bytes;
  for (const PlacedMessage& m : received) size.received += m.bytes;
  size.messages = static_cast<int>(sent.size());
  return size;
}

template <class Memory>
std::shared_ptr<TransferGroup<Memory>> TransferGroup<Memory>::of(MeshState& mesh, int axis) {
  constexpr bool host = std::is_same_v<Memory, Kokkos::HostSpace>;
  const PlanKey key{0x7472616e73666572ULL,
                    static_cast<std::uint64_t>(axis + 1) << 1U | (host ? 0U : 1U)};
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
    if constexpr (!host) staged = !decide_device_messages(comm, device_kind_of<Memory>).direct;
    made = std::make_shared<TransferGroup>(comm, mesh.movement_tag(), rank, staged);
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

/// The tables of all steps for Views of these strides. The memory that is read and the memory that
/// is written are apart, or overlap in one way.
template <class Memory>
struct TransferPlan<Memory>::Made {
  /// What it was made for. `distance`: bytes from the written to the read View, if their memory
  /// overlaps.
  struct For {
    Strides read{}, written{};
    index_t distance                               = apart;
    friend bool operator==(const For&, const For&) = default;
  };
  struct Step {
    CopyJobs pack, local, unpack;
    std::array<SumJobs, max_transfer_fields> sums;
    std::vector<PlacedMessage> sends, receives;
  };
  struct Lists {
    CopyJobList pack, local, unpack;
    std::array<SumJobList, max_transfer_fields> sums;
  };

  std::array<For, max_transfer_fields> made_for;
  std::vector<Step> steps;
  std::size_t buffer = 0, requests = 0;
  const std::byte* constants = nullptr;
  Kokkos::View<const std::byte*, Memory> tables;
  Addresses addresses;

  Made(const std::vector<TransferStep>& of, const std::array<For, max_transfer_fields>& fields,
       int count, bool staged, index_t limit)
      : made_for(fields), entries_{count}, staged_(staged) {
    Tables all;
    std::size_t widest = value_alignment;
    steps.resize(of.size());  // the tables refer to them
    auto step = steps.begin();
    for (const TransferStep& s : of) {
      for (int f = 0; f < count; ++f) crosses_[static_cast<std::size_t>(f)] = crosses(s, f);
      for (const RouteField& field : s.route.fields)
        widest = std::max(widest, static_cast<std::size_t>(field.value_size));
      Lists lists;
      build(s, *step, lists);
      if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
        for (CopyJobList* list : {&lists.pack, &lists.local, &lists.unpack}) stream_if_large(*list);
      all.add(lists.pack, step->pack);
      all.add(lists.local, step->local);
      all.add(lists.unpack, step->unpack);
      for (std::size_t f = 0; f < max_transfer_fields; ++f) all.add(lists.sums[f], step->sums[f]);
      std::size_t messages = 0;
      for (const auto* list : {&step->sends, &step->receives})
        for (const PlacedMessage& m : *list)
          messages += static_cast<std::size_t>((m.bytes + limit - 1) / limit);
      requests = std::max(requests, messages);
      ++step;
    }
    const std::size_t zeros = all.add(std::vector<std::byte>(widest, std::byte{0}));
    tables                  = all.template upload<Memory>("shard::transfer");
    constants               = tables.data() + zeros;
  }

  void enter(const TransferField* fields, std::byte* messages) {
    for (int f = 0; f < entries_.fields; ++f) {
      addresses.entries[entries_.read(f)].bytes    = fields[f].read;
      addresses.entries[entries_.written(f)].bytes = fields[f].written;
    }
    addresses.entries[entries_.buffer()].bytes    = messages;
    addresses.entries[entries_.constants()].bytes = const_cast<std::byte*>(constants);
  }

 private:
  Elements read(const TransferStep& s, const Piece& p) const {
    return read_of(s, p, entries_.read(p.field), made_for[static_cast<std::size_t>(p.field)].read);
  }
  Elements written(const TransferStep& s, const Piece& p) const {
    return written_of(s, p, entries_.written(p.field),
                      made_for[static_cast<std::size_t>(p.field)].written);
  }

  /// Whether a step might read an element after it was overwritten. It can't if the Views are
  /// apart. It can't either if every element that the step keeps stays where it is, and the step
  /// sends nothing from memory that it receives in.
  bool crosses(const TransferStep& s, int f) const {
    const For& field = made_for[static_cast<std::size_t>(f)];
    if (field.distance == apart || static_cast<std::size_t>(f) >= s.route.fields.size())
      return false;
    const int rank = s.route.fields[static_cast<std::size_t>(f)].rank;
    for (const Piece& p : s.route.locals) {
      if (p.field != f) continue;
      const Elements from = read(s, p), to = written(s, p);
      if (from.first + field.distance != to.first) return true;
      for (int d = 0; d < rank; ++d)
        if (const auto i = Geometry::at(d); p.extent[i] > 1 && from.stride[i] != to.stride[i])
          return true;
    }
    if (s.combines) return false;  // it writes after all messages were sent
    const auto is_kept = [&](const Piece& sent) {
      return std::any_of(s.route.locals.begin(), s.route.locals.end(), [&](const Piece& p) {
        const PieceBox a{sent.source, sent.extent};
        return p.field == f && intersection(a, {p.source, p.extent}, rank) == a;
      });
    };
    const auto of_field = [&](const Piece& p) { return p.field == f; };
    return std::any_of(s.route.receives.begin(), s.route.receives.end(), of_field) &&
           !std::all_of(s.route.sends.begin(), s.route.sends.end(),
                        [&](const Piece& p) { return p.field != f || is_kept(p); });
  }

  void build(const TransferStep& s, Step& step, Lists& lists) {
    const PlanLayout layout(s.route, {}, {});
    const PlanLayout::Side &out = out_of(s, layout), &in = in_of(s, layout);
    const auto field_of = [&](const Piece& p) -> const RouteField& {
      return s.route.fields[static_cast<std::size_t>(p.field)];
    };
    const auto place_of = [&](const Piece& p, const Elements& there) {
      const RouteField& field = field_of(p);
      const auto bytes =
          static_cast<std::size_t>(count_of(field, p)) * static_cast<std::size_t>(field.value_size);
      const bool in_place = !staged_ && !crosses_[static_cast<std::size_t>(p.field)] &&
                            run_of(field, p, there, packed_elements(field, p, 0, 0)) == bytes;
      return in_place ? there : Elements{};
    };
    index_t end   = 0;
    step.sends    = place_messages(s, out, true, entries_.buffer(), end,
                                   [&](const Piece& p) { return place_of(p, read(s, p)); });
    step.receives = place_messages(s, in, false, entries_.buffer(), end, [&](const Piece& p) {
      return s.combines ? Elements{} : place_of(p, written(s, p));
    });
    for (const PackedPiece& p : out.pieces) {
      const PlacedMessage& m = step.sends[p.message];
      if (!m.in_place && !m.repeats)
        add_copy(field_of(*p.piece), *p.piece, read(s, *p.piece),
                 packed_elements(field_of(*p.piece), *p.piece, m.entry, m.first + p.offset),
                 lists.pack);
    }
    for (const Piece& p : s.route.fills)
      add_copy(field_of(p), p, {entries_.constants()}, written(s, p), lists.local);

    std::array<std::vector<Summand>, max_transfer_fields> summands;
    for (const Piece& p : s.route.locals) {
      const RouteField& field = field_of(p);
      const auto f            = static_cast<std::size_t>(p.field);
      Elements from           = read(s, p);
      if (crosses_[f]) {
        const Elements held = packed_elements(field, p, entries_.buffer(), end);
        end += (count_of(field, p) * field.value_size + index_t{value_alignment} - 1) /
               index_t{value_alignment} * index_t{value_alignment};
        add_copy(field, p, from, held, lists.pack);
        from = held;
      }
      if (s.combines)
        summands[f].push_back({&p, from, {}, true});
      else if (crosses_[f])
        add_copy(field, p, from, written(s, p), lists.unpack);
      else if (made_for[f].distance == apart)
        add_copy(field, p, from, written(s, p), lists.local);
    }
    for (const PackedPiece& p : in.pieces) {
      const PlacedMessage& m = step.receives[p.message];
      if (m.in_place) continue;
      const Elements from =
          packed_elements(field_of(*p.piece), *p.piece, m.entry, m.first + p.offset);
      if (s.combines)
        summands[static_cast<std::size_t>(p.piece->field)].push_back({p.piece, from, {}, false});
      else
        add_copy(field_of(*p.piece), *p.piece, from, written(s, *p.piece), lists.unpack);
    }
    for (int f = 0; f < entries_.fields && s.combines; ++f) {
      const auto i = static_cast<std::size_t>(f);
      if (i >= s.route.fields.size()) break;
      SumJobList received;
      add_sums(s.route.fields[i], summands[i], entries_.written(f), made_for[i].written, received,
               lists.sums[i], &s.reduction);
      lists.sums[i].append(received);
    }
    buffer = std::max(buffer, static_cast<std::size_t>(end));
  }

  TransferEntries entries_;
  bool staged_;
  std::array<bool, max_transfer_fields> crosses_{};
};

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
typename TransferPlan<Memory>::Made& TransferPlan<Memory>::made_for(TransferGroup<Memory>& group,
                                                                    const TransferField* fields) {
  std::array<typename Made::For, max_transfer_fields> wanted;
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
  auto made = std::make_unique<Made>(steps_, wanted, fields_, group.staged(), limit_);
  group.reserve(made->buffer, made->requests);
  if (made_.size() >= kept_strides) made_.erase(made_.begin());
  made_.push_back(std::move(made));
  return *made_.back();
}

template <class Memory>
template <class Space>
void TransferPlan<Memory>::run(const Space& space, TransferGroup<Memory>& group,
                               const TransferField* fields) {
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  Made& made              = made_for(group, fields);
  group.reserve(made.buffer, made.requests);
  std::byte* const buffer = group.staged_ ? group.staging_.data() : group.bytes_.data();
  made.enter(fields, buffer);
  const bool seen            = group.tool_.is_attached();
  const Addresses& addresses = made.addresses;
  const auto sum             = [&](const SumJobs& jobs) {
    run_sums<by_lines>("shard::sum", seen, space, jobs, addresses, 0, items_of<by_lines>(jobs));
  };
  for (const typename Made::Step& step : made.steps) {
    run_copies<by_lines>("shard::pack", seen, space, step.pack, addresses);
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
    run_copies<by_lines>("shard::copy", seen, space, step.local, addresses);
    if (count > 0) {
      const Watched watched({.what = "the values of a transfer", .rank = group.rank_});
      await_mpi("MPI_Waitall", MPI_Waitall, count, group.requests_.data(), MPI_STATUSES_IGNORE);
    }
    run_copies<by_lines>("shard::unpack", seen, space, step.unpack, addresses);
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
