! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! Halo exchange and its adjoint from Fortran, beside Atlas' StructuredColumns: a shifted latitude-longitude grid in bands
! of rows, levels fastest, poles folded, longitude periodic. Both in turns, in one program; every halo value is checked.
! SHARD_TRANSPORT=mpi for messages by MPI, as Atlas sends them; else ours go through shared memory.
!   mpiexec -n 2 atlas_halo [COLUMNS ROWS LEVELS HALO TURNS]
module atlas_comparison
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use atlas_module
  use shard, only: shard_initialize, shard_finalize, shard_mesh, shard_field, shard_exchange, shard_dim, periodic, &
    pole_fold, between_rows
  implicit none
  integer :: columns = 512, rows = 256, levels = 10, width = 1, turns = 41
  integer :: ierr, me

contains

  subroutine argument(place, value)
    integer, intent(in) :: place
    integer, intent(inout) :: value
    character(20) :: text
    integer :: status
    if (command_argument_count() < place) return
    call get_command_argument(place, text)
    read (text, *, iostat=status) value
    if (status /= 0 .or. value < 1) error stop 'atlas_halo: an argument is no positive integer'
  end subroutine

  !> What a point holds, from 1; beyond a pole that of the other side.
  pure real(real64) function expected(i, j, level)
    integer, intent(in) :: i, j, level
    integer :: row, column
    row = j
    column = i
    if (j < 1) then
      row = 1 - j
    else if (j > rows) then
      row = 2*rows + 1 - j
    end if
    if (row /= j) column = i + columns/2
    expected = 1000*row + modulo(column - 1, columns) + level/1000._real64
  end function

  subroutine compare(count)
    integer, intent(in) :: count
    type(atlas_StructuredGrid) :: grid
    type(atlas_functionspace_StructuredColumns) :: space
    type(atlas_Field), allocatable :: of_atlas(:)
    type(atlas_FieldSet) :: set
    real(real64), pointer :: values(:, :)
    type(shard_mesh) :: mesh
    type(shard_field) :: of_shard(count)
    type(shard_exchange) :: halos
    type(shard_dim) :: dims(3)
    real(real64), allocatable, target :: t(:, :, :, :)
    real(real64) :: times(4, turns), of(4)
    character(20) :: name
    integer :: f, i, j, n, k, first, mine, turn, way, wrong

    write (name, '(a, i0, a, i0)') 'S', columns, 'x', rows
    grid = atlas_StructuredGrid(trim(name))
    space = atlas_functionspace_StructuredColumns(grid, atlas_Partitioner('equal_bands'), halo=width, levels=levels)
    set = atlas_FieldSet('set')
    allocate (of_atlas(count))
    do f = 1, count
      write (name, '(a, i0)') 'f', f
      of_atlas(f) = space%create_field(name=trim(name), kind=atlas_real(real64))
      call of_atlas(f)%data(values)
      values = -1
      do j = space%j_begin(), space%j_end()
        do i = space%i_begin(j), space%i_end(j)
          values(:, space%index(i, j)) = [(expected(i, j, k), k=1, levels)]
        end do
      end do
      call set%add(of_atlas(f))
    end do

    call mesh%create(MPI_COMM_WORLD, [0])
    call mesh%owned(1, rows, first, mine)
    allocate (t(levels, 1 - width:columns + width, first - width:first + mine - 1 + width, count), source=-1._real64)
    dims(1) = shard_dim(levels)
    dims(2) = shard_dim(columns, halo=width, boundary=periodic())
    dims(3) = shard_dim(rows, axis=1, halo=width, boundary=pole_fold(2, between_rows))
    do f = 1, count
      do j = first, first + mine - 1
        do i = 1, columns
          t(:, i, j, f) = [(expected(i, j, k), k=1, levels)]
        end do
      end do
      write (name, '(a, i0)') 'f', f
      call of_shard(f)%wrap(mesh, t(:, :, :, f), dims, name=trim(name))
    end do
    call halos%plan(of_shard)

    call once(1)
    call once(2)
    wrong = 0
    do f = 1, count
      call of_atlas(f)%data(values)
      do j = space%j_begin_halo(), space%j_end_halo()
        do i = space%i_begin_halo(j), space%i_end_halo(j)
          n = space%index(i, j)
          if (any(abs(values(:, n) - [(expected(i, j, k), k=1, levels)]) > 1e-9_real64)) wrong = wrong + 1
        end do
      end do
      do j = first - width, first + mine - 1 + width
        do i = 1 - width, columns + width
          if (any(abs(t(:, i, j, f) - [(expected(i, j, k), k=1, levels)]) > 1e-9_real64)) wrong = wrong + 1
        end do
      end do
    end do
    if (wrong > 0) error stop 'atlas_halo: a halo has a wrong value'

    do turn = 1, turns
      do way = 1, 4
        times(way, turn) = slowest(way)
      end do
    end do
    do way = 1, 4
      of(way) = median(times(way, :))
    end do
    if (me == 0) print '(i6, 2f10.1, f15.2, f20.1, f10.1, f15.2)', count, of(1), of(2), of(1)/of(2), of(3), of(4), of(3)/of(4)

    call halos%release()
    do f = 1, count
      call of_shard(f)%release()
      call of_atlas(f)%final()
    end do
    call mesh%release()
    call set%final()
    call space%final()
    call grid%final()

  contains

    subroutine once(way)
      integer, intent(in) :: way
      integer :: g
      select case (way)
      case (1)
        do g = 1, count
          call of_atlas(g)%set_dirty()  ! or it has nothing to do
        end do
        call space%halo_exchange(set)
      case (2)
        call halos%run()
      case (3)
        do g = 1, count
          call of_atlas(g)%set_dirty()
        end do
        call space%adjoint_halo_exchange(set)
      case (4)
        call halos%adjoint()
      end select
    end subroutine

    !> Microseconds of a call, those of the slowest rank.
    real(real64) function slowest(way)
      integer, intent(in) :: way
      integer, parameter :: calls = 3
      integer :: c
      real(real64) :: start
      call MPI_Barrier(MPI_COMM_WORLD, ierr)
      start = MPI_Wtime()
      do c = 1, calls
        call once(way)
      end do
      slowest = 1e6_real64*(MPI_Wtime() - start)/calls
      call MPI_Allreduce(MPI_IN_PLACE, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    end function
  end subroutine

  real(real64) function median(values)
    real(real64), intent(in) :: values(:)
    real(real64) :: sorted(size(values)), held
    integer :: i, j
    sorted = values
    do i = 2, size(sorted)
      held = sorted(i)
      j = i - 1
      do while (j >= 1)
        if (sorted(j) <= held) exit
        sorted(j + 1) = sorted(j)
        j = j - 1
      end do
      sorted(j + 1) = held
    end do
    median = sorted((size(sorted) + 1)/2)
  end function
end module

program atlas_halo
  use atlas_comparison
  implicit none
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call argument(1, columns)
  call argument(2, rows)
  call argument(3, levels)
  call argument(4, width)
  call argument(5, turns)
  call atlas_initialize()
  call shard_initialize(MPI_COMM_WORLD)
  if (me == 0) print '(a)', 'fields  Atlas us  shard us  times as fast   adjoint: Atlas us  shard us  times as fast'
  call compare(1)
  call compare(8)
  call shard_finalize()
  call atlas_finalize()
  call MPI_Finalize(ierr)
end program
