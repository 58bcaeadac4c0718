// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_IO_SCRATCH_FILE_HPP
#define SHARD_TESTS_IO_SCRATCH_FILE_HPP

#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "support/support.hpp"

namespace shard::testing {

/// A file that all ranks know and that goes when the test ends. Collective.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) {
    auto process = static_cast<long>(getpid());
    MPI_Bcast(&process, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    path_ = ::testing::TempDir() + "shard-" + std::to_string(process) + "-" + name;
  }
  ~ScratchFile() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::remove(path_.c_str());
  }
  ScratchFile(const ScratchFile&)            = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

  /// Gives it these bytes; complete on every rank afterwards.
  void write(const std::string& bytes) const {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::ofstream(path_, std::ios::binary) << bytes;
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  std::string path_;
};

/// Calls check(path, what it is) for things that are no files: a fifo, a socket, a folder, a
/// device. Collective.
template <class Check>
void for_special_files(const Check& check) {
  const ScratchFile fifo("fifo"), socket("socket");
  if (rank() == 0) {
    EXPECT_EQ(mkfifo(fifo.path().c_str(), 0600), 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(socket.path().size(), sizeof address.sun_path);
    socket.path().copy(address.sun_path, sizeof address.sun_path - 1);
    const int bound = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(bound);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  check(fifo.path(), "a fifo");
  check(socket.path(), "a socket");
  check(::testing::TempDir(), "a directory");
  check(std::string("/dev/zero"), "a device");
}

}  // namespace shard::testing

#endif
