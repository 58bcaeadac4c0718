! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> Halos and sums as the model had them: buffers, messages, walls.
module by_hand
  use mpi
  use shallow_water
  implicit none
  private

  type, extends(halo_code), public :: halos_by_hand
    integer :: west, east, south, north
    real(wp), allocatable, dimension(:, :, :) :: to_west, to_east, to_south, to_north
    real(wp), allocatable, dimension(:, :, :) :: from_west, from_east, from_south, from_north
    real(wp), allocatable :: energy(:, :)
  contains
    procedure :: start
    procedure :: fill
    procedure :: totals
  end type

contains

  subroutine start(halos, d)
    class(halos_by_hand), intent(inout) :: halos
    type(domain), intent(in) :: d
    integer :: ierr
    call MPI_Cart_shift(d%comm, 0, 1, halos%west, halos%east, ierr)
    call MPI_Cart_shift(d%comm, 1, 1, halos%south, halos%north, ierr)
    allocate (halos%to_west(halo, d%ny, variables), halos%to_east(halo, d%ny, variables))
    allocate (halos%from_west(halo, d%ny, variables), halos%from_east(halo, d%ny, variables))
    allocate (halos%to_south(d%nx, halo, variables), halos%to_north(d%nx, halo, variables))
    allocate (halos%from_south(d%nx, halo, variables), halos%from_north(d%nx, halo, variables))
    allocate (halos%energy(d%nx, d%ny))
  end subroutine

  subroutine fill(halos, d, q)
    class(halos_by_hand), intent(inout) :: halos
    type(domain), intent(in) :: d
    real(wp), intent(inout), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    integer :: requests(8), k, ierr
    associate (nx => d%nx, ny => d%ny)
      call MPI_Irecv(halos%from_west, size(halos%from_west), MPI_DOUBLE_PRECISION, halos%west, 1, d%comm, requests(1), ierr)
      call MPI_Irecv(halos%from_east, size(halos%from_east), MPI_DOUBLE_PRECISION, halos%east, 2, d%comm, requests(2), ierr)
      call MPI_Irecv(halos%from_south, size(halos%from_south), MPI_DOUBLE_PRECISION, halos%south, 3, d%comm, requests(3), &
                     ierr)
      call MPI_Irecv(halos%from_north, size(halos%from_north), MPI_DOUBLE_PRECISION, halos%north, 4, d%comm, requests(4), &
                     ierr)
      halos%to_west(:, :, :) = q(1:halo, 1:ny, :)
      call MPI_Isend(halos%to_west, size(halos%to_west), MPI_DOUBLE_PRECISION, halos%west, 2, d%comm, requests(5), ierr)
      halos%to_east(:, :, :) = q(nx - halo + 1:nx, 1:ny, :)
      call MPI_Isend(halos%to_east, size(halos%to_east), MPI_DOUBLE_PRECISION, halos%east, 1, d%comm, requests(6), ierr)
      if (halos%south /= MPI_PROC_NULL) halos%to_south(:, :, :) = q(1:nx, 1:halo, :)
      call MPI_Isend(halos%to_south, size(halos%to_south), MPI_DOUBLE_PRECISION, halos%south, 4, d%comm, requests(7), ierr)
      if (halos%north /= MPI_PROC_NULL) halos%to_north(:, :, :) = q(1:nx, ny - halo + 1:ny, :)
      call MPI_Isend(halos%to_north, size(halos%to_north), MPI_DOUBLE_PRECISION, halos%north, 3, d%comm, requests(8), ierr)
      call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierr)
      q(1 - halo:0, 1:ny, :) = halos%from_west
      q(nx + 1:nx + halo, 1:ny, :) = halos%from_east
      if (halos%south /= MPI_PROC_NULL) then
        q(1:nx, 1 - halo:0, :) = halos%from_south
      else
        do k = 1, halo
          q(1:nx, 1 - k, :) = q(1:nx, k, :)
          q(1:nx, 1 - k, iv) = -q(1:nx, k, iv)
        end do
      end if
      if (halos%north /= MPI_PROC_NULL) then
        q(1:nx, ny + 1:ny + halo, :) = halos%from_north
      else
        do k = 1, halo
          q(1:nx, ny + k, :) = q(1:nx, ny + 1 - k, :)
          q(1:nx, ny + k, iv) = -q(1:nx, ny + 1 - k, iv)
        end do
      end if
    end associate
  end subroutine

  subroutine totals(halos, d, q, mass, energy)
    class(halos_by_hand), intent(inout) :: halos
    type(domain), intent(in) :: d
    real(wp), intent(in), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    real(wp), intent(out) :: mass, energy
    real(wp) :: of_all(2)
    integer :: ierr
    call energy_of(d, q, halos%energy)
    of_all = [sum(q(1:d%nx, 1:d%ny, ih)), sum(halos%energy)]
    call MPI_Allreduce(MPI_IN_PLACE, of_all, 2, MPI_DOUBLE_PRECISION, MPI_SUM, d%comm, ierr)
    mass = of_all(1)
    energy = of_all(2)
  end subroutine

end module
