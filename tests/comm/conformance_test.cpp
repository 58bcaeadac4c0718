// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/conformance.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shard::testing {
namespace {

using impl::Stream;

/// The plainest transport there is: it shows that the suite asks for no more than MPI gives.
class PlainTransport {
 public:
  static constexpr bool stream_ordered      = false;
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = false;

  PlainTransport(MPI_Comm comm, int tag, std::vector<Message> sends, std::vector<Message> receives)
      : comm_(comm), tag_(tag), sends_(std::move(sends)), receives_(std::move(receives)) {
    for (const Message& m : sends_) outgoing_.emplace_back(m.bytes);
    for (const Message& m : receives_) incoming_.emplace_back(m.bytes);
    requests_.resize(sends_.size() + receives_.size(), MPI_REQUEST_NULL);
  }

  void begin(std::uint64_t) {
    for (std::size_t i = 0; i < receives_.size(); ++i)
      MPI_Irecv(incoming_[i].data(), static_cast<int>(receives_[i].bytes), MPI_BYTE,
                receives_[i].peer, tag_, comm_, &requests_[i]);
  }
  std::byte* outgoing(std::size_t i) const { return const_cast<std::byte*>(outgoing_[i].data()); }
  void start(Stream) {
    for (std::size_t i = 0; i < sends_.size(); ++i)
      MPI_Isend(outgoing_[i].data(), static_cast<int>(sends_[i].bytes), MPI_BYTE, sends_[i].peer,
                tag_, comm_, &requests_[receives_.size() + i]);
  }
  void wait(Stream) {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  const std::byte* incoming(std::size_t i) const { return incoming_[i].data(); }
  void release() {}

 private:
  MPI_Comm comm_;
  int tag_;
  std::vector<Message> sends_, receives_;
  std::vector<std::vector<std::byte>> outgoing_, incoming_;
  std::vector<MPI_Request> requests_;
};

struct PlainFactory : HostFactory {
  using Transport                  = PlainTransport;
  static constexpr bool takes_self = true;
  static std::string unusable(MPI_Comm) { return {}; }

  struct Held {
    PlainTransport transport;
  };

  explicit PlainFactory(MPI_Comm comm) : comm_(comm) {}
  std::unique_ptr<Held> make(int tag, const std::vector<Message>& sends,
                             const std::vector<Message>& receives) {
    return std::make_unique<Held>(Held{PlainTransport(comm_, tag, sends, receives)});
  }

 private:
  MPI_Comm comm_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Plain, TransportConformance, PlainFactory);

}  // namespace
}  // namespace shard::testing
