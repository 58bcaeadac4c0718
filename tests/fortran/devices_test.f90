! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! Communicators of mpi_f08, and arrays as OpenACC and OpenMP give them to a call: on a host both are the array itself.
! Prints a line for each failure, and ends with an error if there was one.
program devices_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use shard
  implicit none
  integer, parameter :: nx = 12, ny = 7
  integer :: failures = 0, all_failures, ierr
  type(shard_mesh) :: mesh

  call MPI_Init()
  call shard_initialize(MPI_COMM_WORLD)
  call mesh%create(MPI_COMM_WORLD, [0, 0])
  call communicators()
  call openacc()
  call openmp()
  call mesh%release()
  call shard_finalize()
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all_failures > 0) error stop 1

contains

  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    failures = failures + 1
    print '(2a)', 'wrong: ', what
  end subroutine

  subroutine communicators()
    type(MPI_Comm) :: half
    type(shard_mesh) :: of_half
    type(shard_coupling) :: coupling
    integer :: me, ranks, size, coordinate
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_split(MPI_COMM_WORLD, mod(me, 2), -me, half)
    call MPI_Comm_size(half, ranks)
    call of_half%create(half, [0])
    call of_half%axis(1, size, coordinate)
    call expect(size == ranks, 'the ranks of a communicator of mpi_f08')
    call of_half%create(half%mpi_val, [0])
    call of_half%axis(1, size, coordinate)
    call expect(size == ranks, 'the ranks of its integer')
    call of_half%create(int(half%mpi_val, int64), [0])
    call of_half%axis(1, size, coordinate)
    call expect(size == ranks, 'the ranks of an integer of 8 bytes')
    call of_half%release()
    call MPI_Comm_free(half)

    call of_half%create(1.0, [0], ierr)
    call expect(ierr /= 0 .and. index(shard_message(), 'type(MPI_Comm)') > 0, 'a real number was taken')
    call of_half%create([MPI_COMM_WORLD], [0], ierr)
    call expect(ierr /= 0 .and. index(shard_message(), 'type(MPI_Comm)') > 0, 'an array was taken')
    call of_half%create(MPI_COMM_NULL, [0], ierr)
    call expect(ierr /= 0 .and. index(shard_message(), 'MPI_COMM_NULL') > 0, 'MPI_COMM_NULL was taken')
    call shard_initialize(.true., ierr)
    call expect(ierr /= 0 .and. index(shard_message(), 'type(MPI_Comm)') > 0, 'a logical was taken')
    call coupling%create(1.0, ierr=ierr)
    call expect(ierr /= 0 .and. index(shard_message(), 'type(MPI_Comm)') > 0, 'a coupling took a real number')
  end subroutine

  pure real(real64) function value(i, j)
    integer, intent(in) :: i, j
    value = real(modulo(i - 1, nx) + 100*min(max(j, 1), ny), real64)
  end function

  !> An array with the values of this rank's part, and halos of -1.
  subroutine make(t, first)
    real(real64), allocatable, intent(out) :: t(:, :)
    integer, intent(out) :: first(2)
    integer :: i, j, mx, my
    call mesh%owned(1, nx, first(1), mx)
    call mesh%owned(2, ny, first(2), my)
    allocate (t(0:mx + 1, 0:my + 1), source=-1._real64)
    do j = 1, my
      do i = 1, mx
        t(i, j) = value(first(1) + i - 1, first(2) + j - 1)
      end do
    end do
  end subroutine
  function dims()
    type(shard_dim) :: dims(2)
    dims(1) = shard_dim(nx, axis=1, halo=1, boundary=periodic())
    dims(2) = shard_dim(ny, axis=2, halo=1, boundary=clamp())
  end function
  subroutine check(t, first, what)
    real(real64), allocatable, intent(in) :: t(:, :)
    integer, intent(in) :: first(2)
    character(*), intent(in) :: what
    integer :: i, j
    do j = 0, ubound(t, 2)
      do i = 0, ubound(t, 1)
        call expect(abs(t(i, j) - value(first(1) + i - 1, first(2) + j - 1)) < 0.5_real64, what)
      end do
    end do
  end subroutine

  subroutine openacc()
    real(real64), allocatable, target :: t(:, :)
    type(shard_field) :: field
    type(shard_exchange) :: halos
    integer :: first(2)
    call make(t, first)
    !$acc enter data copyin(t)
    call wrap_openacc(field, t)
    call halos%plan([field])
    call halos%run()
    call shard_fence()
    !$acc exit data copyout(t)
    call check(t, first, 'the halo of an array of OpenACC')
  end subroutine

  !> gfortran takes no allocatable array in use_device, but a dummy argument.
  subroutine wrap_openacc(field, t)
    type(shard_field), intent(inout) :: field
    real(real64), intent(in), target :: t(0:, 0:)
    !$acc host_data use_device(t)
    call field%wrap(mesh, t, dims(), memory=shard_device)
    !$acc end host_data
  end subroutine

  subroutine openmp()
    real(real64), allocatable, target :: t(:, :)
    type(shard_field) :: field
    type(shard_exchange) :: halos
    integer :: first(2)
    call make(t, first)
    !$omp target enter data map(to: t)
    !$omp target data use_device_addr(t)
    call field%wrap(mesh, t, dims(), memory=shard_device)
    !$omp end target data
    call halos%plan([field])
    call halos%run()
    call shard_fence()
    !$omp target exit data map(from: t)
    call check(t, first, 'the halo of an array of OpenMP')
  end subroutine
end program
