// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_RAW_MESSAGES_HPP
#define SHARD_BENCHMARKS_SUPPORT_RAW_MESSAGES_HPP

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace support {

/// As many bytes in as many persistent messages as an exchange between two ranks has, each way, and
/// nothing else: what MPI itself takes.
class RawMessages {
 public:
  RawMessages(MPI_Comm comm, int other, std::size_t bytes, int count)
      : send_(bytes), receive_(bytes), requests_(2 * static_cast<std::size_t>(count)) {
    const auto all = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < all; ++i) {
      const std::size_t first = bytes * i / all, end = bytes * (i + 1) / all;
      const int n = static_cast<int>(end - first);
      MPI_Recv_init(receive_.data() + first, n, MPI_BYTE, other, 0, comm, &requests_[i]);
      MPI_Send_init(send_.data() + first, n, MPI_BYTE, other, 0, comm, &requests_[all + i]);
    }
  }
  RawMessages(const RawMessages&)            = delete;
  RawMessages& operator=(const RawMessages&) = delete;
  ~RawMessages() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }

  void exchange() {
    const int all = static_cast<int>(requests_.size());
    MPI_Startall(all, requests_.data());
    MPI_Waitall(all, requests_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  std::vector<std::byte> send_, receive_;
  std::vector<MPI_Request> requests_;
};

}  // namespace support

#endif
