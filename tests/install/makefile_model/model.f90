! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! A periodic row of numbers over all ranks, one exchange, and a look into the halo.
program model
  use mpi
  use shard
  implicit none
  integer, parameter :: n = 11
  type(shard_mesh) :: mesh
  type(shard_field) :: field
  type(shard_exchange) :: halos
  double precision, allocatable, target :: row(:)
  integer :: i, first, count, ierr

  call MPI_Init(ierr)
  call shard_initialize(MPI_COMM_WORLD)
  call mesh%create(MPI_COMM_WORLD, [0])
  call mesh%owned(1, n, first, count)
  allocate (row(0:count + 1), source=0d0)
  row(1:count) = [(dble(first + i), i=0, count - 1)]
  call field%wrap(mesh, row, [shard_dim(n, axis=1, halo=1, boundary=periodic())])
  call halos%plan([field])
  call halos%run()
  if (nint(row(0)) /= modulo(first - 2, n) + 1) error stop 'the lower halo is wrong'
  if (nint(row(count + 1)) /= modulo(first + count - 1, n) + 1) error stop 'the upper halo is wrong'

  call halos%release()
  call field%release()
  call mesh%release()
  call shard_finalize()
  call MPI_Finalize(ierr)
end program
