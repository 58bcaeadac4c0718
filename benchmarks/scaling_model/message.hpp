// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_MESSAGE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_MESSAGE_HPP

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "measure.hpp"

namespace scaling {

/// A message of so many bytes each way between the two ranks, written before it is sent and read
/// when it has come.
class Message {
 public:
  explicit Message(std::size_t bytes)
      : bytes_(bytes), mine_(bytes), send_(bytes), receive_(bytes), theirs_(bytes) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int n = static_cast<int>(bytes);
    MPI_Recv_init(receive_.data(), n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, requests_.data());
    MPI_Send_init(send_.data(), n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests_[1]);
  }
  Message(const Message&)            = delete;
  Message& operator=(const Message&) = delete;
  ~Message() {
    for (MPI_Request& r : requests_) MPI_Request_free(&r);
  }

  /// The whole; and its copies alone, which find memory as messages leave it.
  std::vector<Timed> functions() {
    const auto touch = [this] {
      for (std::size_t i = 0; i < bytes_; i += 64) ++mine_[i];
    };
    return {{[this] { exchange(); }, touch},
            {[this] { copy(send_, mine_); }, touch},
            {[this] { copy(theirs_, receive_); }, [this] { send(); }}};
  }

 private:
  using Bytes = std::vector<unsigned char>;

  void exchange() {
    MPI_Start(requests_.data());
    copy(send_, mine_);
    MPI_Start(&requests_[1]);
    MPI_Waitall(2, requests_.data(), MPI_STATUSES_IGNORE);
    copy(theirs_, receive_);
  }
  void send() {
    MPI_Startall(2, requests_.data());
    MPI_Waitall(2, requests_.data(), MPI_STATUSES_IGNORE);
  }
  /// In pieces as boxes have them: a copy of a megabyte would go past the caches.
  void copy(Bytes& to, const Bytes& from) const {
    constexpr std::size_t most = 65536;
    for (std::size_t first = 0; first < bytes_; first += most)
      std::memcpy(to.data() + first, from.data() + first, std::min(most, bytes_ - first));
  }

  std::size_t bytes_;
  Bytes mine_, send_, receive_, theirs_;
  std::array<MPI_Request, 2> requests_{};  // it comes, it goes
};

}  // namespace scaling

#endif
