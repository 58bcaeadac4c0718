// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages by MPI: any rank, anywhere.
#include "mpi_channel.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "progress_thread.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/comm/impl/in_flight.hpp"
#include "shard/comm/impl/shared_pool.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t unit_bytes =
    16;  // bytes per element of a long message, so that counts reach 32 GiB
constexpr auto most_counted = static_cast<std::size_t>(std::numeric_limits<int>::max());
/// Classes of network devices: InfiniBand, RoCE, Omni-Path and EFA; Slingshot.
constexpr const char* rdma_classes[] = {"infiniband", "cxi"};

/// The datatype of one unit. MPI frees it with the last request that uses it.
class UnitType {
 public:
  UnitType() {
    check_mpi(MPI_Type_contiguous(static_cast<int>(unit_bytes), MPI_BYTE, &type_),
              "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~UnitType() { MPI_Type_free(&type_); }
  UnitType(const UnitType&)            = delete;
  UnitType& operator=(const UnitType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// The MPI type and count of a message: bytes, which are fastest, or larger units for long
/// messages.
class Counting {
 public:
  /// Calls use(count, type).
  template <class Use>
  void count(const Message& message, const Use& use) {
    if (message.bytes <= most_counted) {
      use(static_cast<int>(message.bytes), MPI_BYTE);
      return;
    }
    const std::size_t units = message.bytes / unit_bytes;
    if (units > most_counted)
      throw_argument("Exchange", {"a message of ", text(static_cast<index_t>(message.bytes)),
                                  " bytes to rank ", text(message.peer),
                                  " is larger than MPI's counts allow; shard the field over more "
                                  "ranks or exchange fewer fields at once"});
    if (!unit_) unit_.emplace();
    use(static_cast<int>(units), unit_->get());
  }

 private:
  std::optional<UnitType> unit_;
};

/// The sizes of messages' parts. Both ends of a message agree.
struct Parts {
  std::size_t bytes = no_parts;             ///< a multiple of 16
  std::shared_ptr<const SharedPool> whole;  ///< its ranks get whole messages

  std::size_t most_bytes(int peer) const {
    return whole && whole->place_of(peer) >= 0 ? no_parts : bytes;
  }
};

/// Persistent MPI requests on host memory, or on device memory with a GPU-aware MPI.
class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int tag, const Parts& parts, const std::vector<Message>& sends,
               std::byte* send_buffer, const std::vector<Message>& receives,
               std::byte* receive_buffer) {
    Counting counting;
    const auto add = [&](const Message& m, auto make, const char* name, std::byte*& buffer,
                         std::vector<std::byte*>& places) {
      has_long_ = has_long_ || m.bytes > long_message;
      places.push_back(buffer);
      const std::size_t most_bytes = parts.most_bytes(m.peer);
      for (std::size_t left = m.bytes; left > 0;) {
        const Message part{m.peer, std::min(left, most_bytes)};
        MPI_Request request = MPI_REQUEST_NULL;
        counting.count(part, [&](int count, MPI_Datatype type) {
          check_mpi(make(buffer, count, type, m.peer, tag, comm, &request), name);
        });
        requests_.push_back(request);
        peers_.push_back(m.peer);
        buffer += part.bytes;
        left -= part.bytes;
      }
    };
    for (const Message& m : receives)
      add(m, MPI_Recv_init, "MPI_Recv_init", receive_buffer, incoming_);
    receives_ = requests_.size();
    for (const Message& m : sends) add(m, MPI_Send_init, "MPI_Send_init", send_buffer, outgoing_);
  }
  ~MpiTransport() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (MPI_Request& request : requests_)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }

  void post_receives(std::uint64_t) override { start_all(0, receives_); }
  std::byte* outgoing(std::size_t i) const override { return outgoing_[i]; }
  void send_all(Stream) override {
    start_all(receives_, requests_.size() - receives_);
    if (has_long_) on_their_way_.begin();
  }
  bool has_arrived() override {
    int done = 1;
    if (!requests_.empty())
      check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                            MPI_STATUSES_IGNORE),
                "MPI_Testall");
    return done != 0;
  }
  void wait(Stream) override {
    if (!watchdog_is_on()) {
      if (!requests_.empty())
        InFlight::wait_all(static_cast<int>(requests_.size()), requests_.data());
      return;
    }
    // one request after the other, so that the watchdog can name the missing one
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      waiting_for_ = peers_[i];
      InFlight::wait_all(1, &requests_[i]);
    }
  }
  const std::byte* incoming(std::size_t i) const override { return incoming_[i]; }
  void end() override { on_their_way_.end(); }
  /// Returns whether every message of this exchange is complete within a tenth of a second.
  bool abandon() override {
    on_their_way_.end();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!has_arrived())
      if (std::chrono::steady_clock::now() > end) return false;
    return true;
  }
  const int& waiting_for() const override { return waiting_for_; }

 private:
  void start_all(std::size_t first, std::size_t count) {
    if (count > 0)
      check_mpi(MPI_Startall(static_cast<int>(count), requests_.data() + first), "MPI_Startall");
  }

  int waiting_for_ = -1;
  std::vector<int> peers_;             // of the requests
  std::vector<MPI_Request> requests_;  // receives first
  std::size_t receives_ = 0;
  bool has_long_        = false;
  LongMessages on_their_way_;
  std::vector<std::byte*> outgoing_, incoming_;
};

/// What was found out once for a mesh about its messages by MPI.
struct MessageAnswer : CachedPlan {
  explicit MessageAnswer(bool is) : yes(is) {}
  ~MessageAnswer() override {}  // NOLINT(modernize-use-equals-default): hipcc
  const bool yes;
};

/// Whether MPI takes device memory, if no plan says so itself.
bool mpi_takes(const ChannelRequest& request) {
  MeshState& mesh = request.mesh;
  if (request.mpi_takes_device_memory)
    return decide_device_messages(mesh.comm(), *request.device, request.mpi_takes_device_memory)
        .direct;
  const PlanKey key =
      PlanKey::of(KeyKind::device_messages, static_cast<std::uint64_t>(*request.device));
  const auto ask = [&] {
    return std::make_shared<MessageAnswer>(
        decide_device_messages(mesh.comm(), *request.device).direct);
  };
  return mesh.one_of_its_kind(key, ask)->yes;
}

/// The parts of a plan's messages. Collective over the mesh. By default messages of device memory
/// that MPI takes directly stay whole: MPI copies each part to the host by itself.
Parts parts_of(const ChannelRequest& request, bool direct) {
  if (request.message_part > 0)
    return {std::max(request.message_part / unit_bytes, std::size_t{1}) * unit_bytes, {}};
  if (direct || !sends_in_parts(request.mesh)) return {};
  return {eager_part, SharedPool::of(request.mesh)};
}

/// One persistent request for each message, or for each of its parts.
class MpiChannel final : public Channel {
 public:
  MpiChannel(bool staged, Parts parts) : staged_(staged), parts_(std::move(parts)) {}
  ~MpiChannel() override {}  // NOLINT(modernize-use-equals-default): hipcc
  Properties properties() const override { return {.staged = staged_}; }
  void connect(const ChannelMessages& messages) override { messages_ = messages; }
  std::array<std::unique_ptr<Transport>, 2> make(std::byte* send, std::byte* receive) override {
    const ChannelMessages& m = messages_;
    return {std::make_unique<MpiTransport>(m.comm, m.tags[0], parts_, m.sends, send, m.receives,
                                           receive),
            std::make_unique<MpiTransport>(m.comm, m.tags[1], parts_, m.receives, receive, m.sends,
                                           send)};
  }

 private:
  bool staged_;
  Parts parts_;
  ChannelMessages messages_;
};

}  // namespace

std::unique_ptr<Channel> open_mpi_channel(const ChannelRequest& request) {
  const bool direct = request.device && mpi_takes(request);
  return std::make_unique<MpiChannel>(request.device && !direct, parts_of(request, direct));
}

bool has_rdma_device(const std::string& classes) {
  return std::any_of(std::begin(rdma_classes), std::end(rdma_classes), [&](const char* name) {
    std::error_code none;
    return std::filesystem::directory_iterator(classes + "/" + name, none) !=
           std::filesystem::directory_iterator();
  });
}

bool sends_in_parts(MeshState& mesh) {
  if (mesh.size() == 1) return false;
  const auto ask = [&] {
    const std::shared_ptr<SharedPool> host = SharedPool::of(mesh);
    int rank                               = 0;
    while (rank < mesh.size() && host->place_of(rank) >= 0) ++rank;
    // either every rank has a peer on another host, or none
    int lacks = rank < mesh.size() && !has_rdma_device() ? 1 : 0;
    if (rank < mesh.size())
      await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX,
                mesh.comm());
    return std::make_shared<MessageAnswer>(lacks != 0);
  };
  return mesh.one_of_its_kind(PlanKey::of(KeyKind::message_parts), ask)->yes;
}

}  // namespace shard::impl
