// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "imagined_ranks.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace {

int ranks_ = 0, rank_ = 0;
double in_mpi = 0;
std::vector<MPI_Comm> comms;

bool is_imagined(MPI_Comm comm) {
  return ranks_ > 0 && std::find(comms.begin(), comms.end(), comm) != comms.end();
}

double now() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <class Call>
int timed(const Call& call) {
  const double begin = now();
  const int code     = call();
  in_mpi += now() - begin;
  return code;
}

}  // namespace

namespace imagined {

void begin(int ranks, int rank) {
  ranks_ = ranks;
  rank_  = rank;
  comms  = {MPI_COMM_SELF};
}
void end() { ranks_ = 0; }
double time_in_mpi() { return std::exchange(in_mpi, 0.0); }

}  // namespace imagined

extern "C" {
int MPI_Comm_size(MPI_Comm comm, int* size) {
  if (!is_imagined(comm)) return PMPI_Comm_size(comm, size);
  *size = ranks_;
  return MPI_SUCCESS;
}
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  if (!is_imagined(comm)) return PMPI_Comm_rank(comm, rank);
  *rank = rank_;
  return MPI_SUCCESS;
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  const int code = PMPI_Comm_dup(comm, made);
  if (is_imagined(comm)) comms.push_back(*made);
  return code;
}
int MPI_Send_init(const void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  if (!is_imagined(comm)) return PMPI_Send_init(b, n, t, peer, tag, comm, r);
  *r = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
int MPI_Recv_init(void* b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm,
                  MPI_Request* r) {
  if (!is_imagined(comm)) return PMPI_Recv_init(b, n, t, peer, tag, comm, r);
  *r = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
int MPI_Allreduce(const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
  return timed([&] { return PMPI_Allreduce(from, to, n, t, op, comm); });
}
int MPI_Type_contiguous(int n, MPI_Datatype t, MPI_Datatype* made) {
  return timed([&] { return PMPI_Type_contiguous(n, t, made); });
}
int MPI_Type_commit(MPI_Datatype* t) {
  return timed([&] { return PMPI_Type_commit(t); });
}
int MPI_Type_free(MPI_Datatype* t) {
  return timed([&] { return PMPI_Type_free(t); });
}
}
