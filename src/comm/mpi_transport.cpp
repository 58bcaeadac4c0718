// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/mpi_transport.hpp"

#include <chrono>
#include <limits>
#include <optional>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/in_flight.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t unit_bytes =
    16;  // bytes per element of a long message, so that counts reach 32 GiB
constexpr auto most_counted = static_cast<std::size_t>(std::numeric_limits<int>::max());

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

}  // namespace

MpiTransport::MpiTransport(MPI_Comm comm, int tag, const std::vector<Message>& sends,
                           std::byte* send_buffer, const std::vector<Message>& receives,
                           std::byte* receive_buffer) {
  Counting counting;
  requests_.reserve(receives.size() + sends.size());
  const auto add = [&](const Message& m, auto make, const char* name, std::byte*& buffer) {
    MPI_Request request = MPI_REQUEST_NULL;
    counting.count(m, [&](int count, MPI_Datatype type) {
      check_mpi(make(buffer, count, type, m.peer, tag, comm, &request), name);
    });
    requests_.push_back(request);
    peers_.push_back(m.peer);
    buffer += m.bytes;
  };
  for (const Message& m : receives) {
    incoming_.push_back(receive_buffer);
    add(m, MPI_Recv_init, "MPI_Recv_init", receive_buffer);
  }
  for (const Message& m : sends) {
    outgoing_.push_back(send_buffer);
    add(m, MPI_Send_init, "MPI_Send_init", send_buffer);
  }
}

MpiTransport::~MpiTransport() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  for (MPI_Request& request : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

void MpiTransport::begin(std::uint64_t) {
  if (!incoming_.empty())
    check_mpi(MPI_Startall(static_cast<int>(incoming_.size()), requests_.data()), "MPI_Startall");
}

void MpiTransport::start(Stream) {
  if (!outgoing_.empty())
    check_mpi(MPI_Startall(static_cast<int>(outgoing_.size()), requests_.data() + incoming_.size()),
              "MPI_Startall");
}

void MpiTransport::wait(Stream) {
  if (requests_.empty()) return;
  if (watchdog_is_on()) return wait_watched();
  InFlight::wait_all(static_cast<int>(requests_.size()), requests_.data());
}

/// Waits for one request after the other, so that the watchdog can name the missing one.
void MpiTransport::wait_watched() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    waiting_for_ = peers_[i];
    InFlight::wait_all(1, &requests_[i]);
  }
}

bool MpiTransport::ends_soon() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!are_there() && std::chrono::steady_clock::now() < end) {
  }
  ended_ = are_there();
  return ended_;
}

bool MpiTransport::are_there() {
  int done = 1;
  if (!requests_.empty())
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
  return done != 0;
}

}  // namespace shard::impl
