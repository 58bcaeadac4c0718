/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a Fortran array is: its address, type, extents and strides, from the descriptor that Fortran
 * 2018 passes for type(*), dimension(..); and what a communicator is. Compiled by the C compiler that belongs to the Fortran
 * compiler, because the descriptor and its codes are the compiler's own. */
#include <ISO_Fortran_binding.h>

#include "shard/c/shard.h"

static int type_of(CFI_type_t type, size_t bytes) {
  if (type == CFI_type_float) return shard_float;
  if (type == CFI_type_double) return shard_double;
  if (type == CFI_type_float_Complex) return shard_complex_float;
  if (type == CFI_type_double_Complex) return shard_complex_double;
  if (type == CFI_type_int32_t || (type == CFI_type_int && bytes == 4)) return shard_int32;
  if (type == CFI_type_int64_t || (type == CFI_type_long && bytes == 8)) return shard_int64;
  return -1;
}

int shard_fortran_wrap(shard_mesh mesh, const char* name, CFI_cdesc_t* array, int memory, int rank,
                       const shard_dimension* dimensions, int blocked, shard_field* field) {
  int64_t local[CFI_MAX_RANK] = {0}, strides[CFI_MAX_RANK] = {0};
  int type = type_of(array->type, array->elem_len);
  for (int d = 0; d < array->rank; ++d) {
    local[d] = array->dim[d].extent;
    /* a section that elements can't count: refused as an unknown type, with a sentence */
    if (array->dim[d].sm % (CFI_index_t)array->elem_len != 0) type = -1;
    strides[d] = array->dim[d].sm / (CFI_index_t)array->elem_len;
  }
  if (blocked >= 0)
    return shard_field_wrap_blocked(mesh, name, array->base_addr, type, memory,
                                    array->rank == rank + 1 ? rank : -1, dimensions, blocked, local,
                                    strides, field);
  return shard_field_wrap(mesh, name, array->base_addr, type, memory,
                          array->rank == rank ? rank : -1, dimensions, local, strides, field);
}

int shard_field_rebind_checked(shard_field field, void* data, int type, int rank, const int64_t* local,
                               const int64_t* strides);

int shard_fortran_rebind(shard_field field, CFI_cdesc_t* array) {
  int64_t local[CFI_MAX_RANK] = {0}, strides[CFI_MAX_RANK] = {0};
  for (int d = 0; d < array->rank; ++d) {
    local[d]   = array->dim[d].extent;
    strides[d] = array->dim[d].sm / (CFI_index_t)array->elem_len;
  }
  return shard_field_rebind_checked(field, array->base_addr, type_of(array->type, array->elem_len),
                                    array->rank, local, strides);
}

int shard_fortran_gather(CFI_cdesc_t* array, shard_field field, int root) {
  int64_t strides[CFI_MAX_RANK] = {0};
  for (int d = 0; d < array->rank; ++d)
    strides[d] = array->dim[d].sm / (CFI_index_t)array->elem_len;
  return shard_gather(array->base_addr, strides, field, root);
}
int shard_fortran_scatter(shard_field field, CFI_cdesc_t* array, int root) {
  int64_t strides[CFI_MAX_RANK] = {0};
  for (int d = 0; d < array->rank; ++d)
    strides[d] = array->dim[d].sm / (CFI_index_t)array->elem_len;
  return shard_scatter(field, array->base_addr, strides, root);
}

int shard_argument_refused(const char* message);

/* An integer of `use mpi`, or a type(MPI_Comm) of `use mpi_f08`: that integer and nothing else. By the
 * descriptor the module knows both without a module of MPI, which would be one compiler's. */
int shard_fortran_comm(CFI_cdesc_t* comm, MPI_Fint* value) {
  const size_t bytes   = comm->elem_len;
  const int is_integer = type_of(comm->type, bytes) == shard_int32 || type_of(comm->type, bytes) == shard_int64;
  const int is_struct  = comm->type == CFI_type_struct || comm->type == CFI_type_other;
  if (comm->rank == 0 && (is_integer || is_struct) && bytes == sizeof(MPI_Fint))
    *value = *(const MPI_Fint*)comm->base_addr;
  else if (comm->rank == 0 && is_integer && bytes == sizeof(int64_t))
    *value = (MPI_Fint)*(const int64_t*)comm->base_addr;
  else
    return shard_argument_refused(
        "shard: the communicator is neither an integer of mpi nor a type(MPI_Comm) of mpi_f08");
  return shard_ok;
}
