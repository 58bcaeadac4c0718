// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/error.hpp"

#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

std::string text(index_t value) { return std::to_string(value); }
std::string text(std::string_view value) { return std::string(value); }

std::string text(const index_t* values, int count) {
  std::string words = "[";
  for (int i = 0; i < count; ++i) words += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return words + "]";
}

void throw_argument(std::string_view function, std::initializer_list<std::string> parts) {
  std::string message = "shard::" + std::string(function) + ": ";
  for (const std::string& part : parts) message += part;
  throw ArgumentError(message);
}

void check_mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw MpiError("shard: " + std::string(function) +
                 " failed: " + std::string(words, static_cast<std::size_t>(length)));
}

namespace {

/// Rank `root`'s text, on every rank.
std::string broadcast_text(MPI_Comm comm, int root, const std::string& mine) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  int length = static_cast<int>(mine.size());
  await_mpi("MPI_Bcast", MPI_Bcast, &length, 1, MPI_INT, root, comm);
  std::string words = rank == root ? mine : std::string(static_cast<std::size_t>(length), ' ');
  await_mpi("MPI_Bcast", MPI_Bcast, words.data(), length, MPI_CHAR, root, comm);
  return words;
}

/// The lowest rank for which `flag` holds, or the number of ranks, on every rank.
int lowest_rank_where(MPI_Comm comm, bool flag) {
  int rank = 0, size = 0, lowest = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const int mine = flag ? rank : size;
  await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &lowest, 1, MPI_INT, MPI_MIN, comm);
  return lowest;
}

}  // namespace

MPI_Comm require_communicator(MPI_Comm comm, std::string_view function) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0)
    throw_argument(function, {initialized == 0 ? "MPI is not initialized" : "MPI is finalized",
                              "; call it while a shard::Environment exists"});
  if (comm == MPI_COMM_NULL)
    throw_argument(function,
                   {"the communicator is MPI_COMM_NULL; pass one that contains this rank"});
  int between_groups = 0;
  check_mpi(MPI_Comm_test_inter(comm, &between_groups), "MPI_Comm_test_inter");
  if (between_groups != 0)
    throw_argument(function, {"the communicator is an intercommunicator; pass an "
                              "intracommunicator (MPI_Intercomm_merge makes one)"});
  return comm;
}

void require_agreement(MPI_Comm comm, std::string_view function, const std::string& description) {
  const std::uint64_t hash      = hash_bytes(description.data(), description.size(), hash_seed);
  const std::uint64_t bounds[2] = {hash, ~hash};
  std::uint64_t largest[2]      = {};
  await_mpi("MPI_Allreduce", MPI_Allreduce, bounds, largest, 2, MPI_UINT64_T, MPI_MAX, comm);
  if (largest[0] == ~largest[1]) return;
  const std::string first  = broadcast_text(comm, 0, description);
  const int other          = lowest_rank_where(comm, description != first);
  const std::string second = broadcast_text(comm, other, description);
  throw AgreementError("shard::" + std::string(function) + ": the ranks disagree: rank 0 has " +
                       first + ", rank " + std::to_string(other) + " has " + second +
                       "; call it with the same arguments on every rank");
}

void require_no_error(MPI_Comm comm, std::string_view function, const std::string& message) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const int lowest = lowest_rank_where(comm, !message.empty());
  if (lowest == size) return;
  throw ArgumentError("shard::" + std::string(function) + ": rank " + std::to_string(lowest) +
                      ": " + broadcast_text(comm, lowest, message));
}

std::uint64_t hash_bytes(const void* bytes, std::size_t count, std::uint64_t seed) {
  const auto* b = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) seed = (seed ^ b[i]) * 1099511628211ULL;
  return seed;
}

}  // namespace shard::impl
