// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shared_file.hpp"

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {
namespace impl {
namespace {

/// Throws IoError on every rank if some rank has opened another file than the first rank.
void require_same_file(const std::string& path, std::uint64_t number, MPI_Comm comm) {
  std::uint64_t first = number;
  broadcast_bytes(comm, &first, sizeof first);
  on_every_rank(comm, [&] {
    if (number != first)
      throw_io(path,
               "it isn't the file that the first rank has opened: its folder isn't shared by all "
               "ranks, or another program has replaced it meanwhile");
  });
}

}  // namespace

void throw_everywhere(MPI_Comm comm, int kind, std::string message) {
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  int mine = kind == 0 ? size : rank, root = size;
  await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &root, 1, MPI_INT, MPI_MIN, comm);
  if (root == size) return;
  if (root > 0) message += " (rank " + std::to_string(rank) + ")";
  int header[2] = {kind, static_cast<int>(message.size())};
  await_mpi("MPI_Bcast", MPI_Bcast, header, 2, MPI_INT, root, comm);
  message.resize(static_cast<std::size_t>(header[1]));
  await_mpi("MPI_Bcast", MPI_Bcast, message.data(), header[1], MPI_CHAR, root, comm);
  if (header[0] == 1) throw ArgumentError(message);
  if (header[0] == 2) throw IoError(message);
  throw Error(message);
}

void require_same_path(const char* function, const std::string& path, MPI_Comm comm) {
  require_agreement(comm, function, "file \"" + path + "\"");
}

std::unique_ptr<NewFile> create_on_all(const char* function, const std::string& path,
                                       MPI_Comm comm) {
  require_same_path(function, path, comm);
  std::unique_ptr<NewFile> file;
  on_first_rank(comm, [&] { file = std::make_unique<NewFile>(path, throw_io); });
  std::string part     = file == nullptr ? "" : file->part();
  std::uint64_t length = part.size();
  broadcast_bytes(comm, &length, sizeof length);
  part.resize(static_cast<std::size_t>(length));
  broadcast_bytes(comm, part.data(), part.size());
  std::uint64_t number = 0;
  on_every_rank(comm, [&] {
    if (file == nullptr) file = std::make_unique<NewFile>(path, part, throw_io);
    number = file->number();
  });
  require_same_file(path, number, comm);
  return file;
}

std::unique_ptr<File> open_on_all(const std::string& path, MPI_Comm comm) {
  std::unique_ptr<File> file;
  std::uint64_t number = 0;
  on_every_rank(comm, [&] {
    file   = std::make_unique<File>(path);
    number = file->number();
  });
  require_same_file(path, number, comm);
  return file;
}

void broadcast_bytes(MPI_Comm comm, void* bytes, std::size_t count, int root) {
  constexpr std::size_t most = std::size_t{1} << 28;
  auto* from                 = static_cast<char*>(bytes);
  for (; count > 0; from += std::min(count, most), count -= std::min(count, most))
    await_mpi("MPI_Bcast", MPI_Bcast, from, static_cast<int>(std::min(count, most)), MPI_BYTE, root,
              comm);
}

std::uint64_t sum_on_first_rank(MPI_Comm comm, std::uint64_t value) {
  std::uint64_t sum = 0;
  await_mpi("MPI_Reduce", MPI_Reduce, &value, &sum, 1, MPI_UINT64_T, MPI_SUM, 0, comm);
  return sum;
}

}  // namespace impl

void require_writable(const std::string& path, MPI_Comm comm) {
  impl::require_same_path("require_writable", path, comm);
  impl::on_first_rank(comm, [&] { const impl::NewFile probe(path, impl::throw_io); });
}

}  // namespace shard
