/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A periodic row of numbers over all ranks, one exchange, and a look into the halo. */
#include <shard/c/shard.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int code) {
  if (code == shard_ok) return;
  fprintf(stderr, "%s\n", shard_error_message());
  exit(1);
}

int main(int argc, char** argv) {
  const int n = 11, sizes[1] = {0};
  int64_t first = 0, count = 0, local[1];
  double* row = NULL;
  int wrong   = 0;
  shard_mesh mesh;
  shard_field field;
  shard_exchange halos;
  shard_dimension dims[1] = {{0}};
  shard_boundary periodic = {0};

  MPI_Init(&argc, &argv);
  check(shard_initialize(MPI_COMM_WORLD));
  check(shard_mesh_create(MPI_COMM_WORLD, 1, sizes, &mesh));
  check(shard_mesh_owned(mesh, 0, n, &first, &count));
  row = malloc((size_t)(count + 2) * sizeof *row);
  for (int64_t i = 0; i < count; ++i) row[i + 1] = (double)(first + i);

  periodic.kind     = shard_periodic;
  dims[0].extent    = n;
  dims[0].halo_low  = 1;
  dims[0].halo_high = 1;
  dims[0].low       = periodic;
  dims[0].high      = periodic;
  local[0]          = count + 2;
  check(shard_field_wrap(mesh, "row", row, shard_double, shard_host, 1, dims, local, NULL, &field));
  check(shard_exchange_create(1, &field, NULL, &halos));
  check(shard_exchange_run(halos));
  wrong = row[0] != (double)((first + n - 1) % n) || row[count + 1] != (double)((first + count) % n);

  check(shard_exchange_release(&halos));
  check(shard_field_release(&field));
  check(shard_mesh_release(&mesh));
  check(shard_finalize());
  free(row);
  MPI_Finalize();
  return wrong;
}
