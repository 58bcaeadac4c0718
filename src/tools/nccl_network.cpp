// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nccl_network.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "shard/base/error.hpp"
#include "shard/comm/nccl_transport.hpp"

namespace shard::tools {

namespace {

/// An empty file that ends with this object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const int file = mkstemp(path_.data());
    made_          = file != -1;
    if (made_) close(file);
  }
  ~TemporaryFile() {
    if (made_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&)            = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "shard-info-XXXXXX";  // a template
  bool made_        = false;
};

}  // namespace

std::string nccl_network(MPI_Comm comm) {
  int rank = 0;
  impl::check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  const TemporaryFile log;
  if (rank == 0) {
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
    setenv("NCCL_DEBUG_FILE", log.path(), 1);
  }
  { const impl::NcclGroup group(comm); }

  const std::string before = "Using network ";
  std::ifstream lines(log.path());
  std::string line, network;
  while (std::getline(lines, line))
    if (const std::size_t at = line.find(before); at != std::string::npos)
      network = line.substr(at + before.size());
  return network;
}

}  // namespace shard::tools
