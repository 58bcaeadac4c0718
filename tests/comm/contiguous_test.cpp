// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// T14: what is handed to MPI lies in one piece. A strided slab as a derived type is packed by MPI,
// on a device one value at a time: 130 s a step where it had been 0.2 (uDALES #377).
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include "shard/shard.hpp"

struct X;
struct Y;

namespace {

int messages = 0;  // handed to MPI, or requests made for some
int strided  = 0;  // of them with a type that has holes

/// A type whose values lie one after the other is as long as its values together.
void look_at(MPI_Datatype type) {
  ++messages;
  int size       = 0;
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  PMPI_Type_size(type, &size);
  PMPI_Type_get_extent(type, &lower, &extent);
  PMPI_Type_get_true_extent(type, &true_lower, &true_extent);
  if (size != extent || size != true_extent || lower != 0 || true_lower != 0) ++strided;
}

}  // namespace

extern "C" {

int MPI_Send_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  look_at(type);
  return PMPI_Send_init(data, count, type, to, tag, comm, request);
}
int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  look_at(type);
  return PMPI_Recv_init(data, count, type, from, tag, comm, request);
}
int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  look_at(type);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  look_at(type);
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  look_at(type);
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  look_at(type);
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}

}  // extern "C"

namespace {

using namespace shard;

/// Cut along the fastest dimension and the slowest: faces of single values, and of long runs.
template <class Layout>
void exchange_both_faces() {
  using Field = ShardedView<double***, Layout, ShardDim<0, Y, Halo<2>, Periodic>,
                            ShardDim<2, X, Halo<1>, Periodic>>;
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Field t("t", mesh, {12, 5, 12});
  const Kokkos::DefaultExecutionSpace space;
  Tuning by_messages;
  by_messages.transport = TransportKind::mpi;
  messages = strided = 0;  // those of the mesh aside
  const Exchange halos(by_messages, t);
  halos(space);
  halos.adjoint(space);
  EXPECT_EQ(strided, 0);
  EXPECT_GE(messages, mesh.size() > 1 ? 2 : 0);
}

TEST(Contiguous, T14NoStridedTypeReachesMpi) {
  exchange_both_faces<Kokkos::LayoutRight>();
  exchange_both_faces<Kokkos::LayoutLeft>();
}

TEST(Contiguous, AStridedTypeIsRecognised) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Type_vector(4, 1, 3, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  strided = 0;
  look_at(column);
  EXPECT_EQ(strided, 1);
  look_at(MPI_DOUBLE);
  EXPECT_EQ(strided, 1);
  MPI_Type_free(&column);
}

}  // namespace
