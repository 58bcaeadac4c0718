! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! The Fortran interface: halos by a formula, the dot-product test, sums, redistributions, errors, shared handles.
! Prints a line for each failure, and ends with an error if there was one.
module own_boundary
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  real(real64), allocatable, target :: h(:, :)  !< from 1 - 1 to the owned ones + 1
contains
  !> Twice the element at the edge.
  subroutine twice(name, adjoint, dimension, high, first, last)
    character(*), intent(in) :: name
    logical, intent(in) :: adjoint, high
    integer, intent(in) :: dimension, first(:), last(:)
    integer :: edge
    if (name /= 'h' .or. dimension /= 2) error stop 'another field or dimension'
    edge = merge(first(2) - 1, last(2) + 1, high)
    if (adjoint) then
      h(first(1):last(1), edge) = h(first(1):last(1), edge) + 2*h(first(1):last(1), first(2))
      h(first(1):last(1), first(2)) = 0
    else
      h(first(1):last(1), first(2)) = 2*h(first(1):last(1), edge)
    end if
  end subroutine
end module

!> Counts the copies of a communicator that were freed.
module freed_communicators
  use mpi
  implicit none
  integer(MPI_ADDRESS_KIND), parameter :: mark = 7
  integer :: freed = 0
contains
  subroutine count_freed(comm, key, value, extra, info)
    integer, intent(in) :: comm, key
    integer(MPI_ADDRESS_KIND), intent(in) :: value, extra
    integer, intent(out) :: info
    if (value == mark .and. extra == mark .and. comm /= MPI_COMM_NULL .and. key /= MPI_KEYVAL_INVALID) freed = freed + 1
    info = MPI_SUCCESS
  end subroutine
end module

program fortran_test
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use freed_communicators
  use mpi
  use own_boundary
  use shard
  implicit none
  integer, parameter :: nx = 12, ny = 10, nz = 3
  integer :: failures = 0, info, me, ranks, all_failures
  type(shard_mesh) :: mesh

  call MPI_Init(info)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, info)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, info)
  call shard_initialize(MPI_COMM_WORLD)
  call mesh%create(MPI_COMM_WORLD, [0, 0])
  call halos()
  call sections()
  call folds()
  call boundaries()
  call cells()
  call movements()
  call couplings()
  call files()
  call solvers()
  call networks()
  call shared_memory()
  call errors()
  call shared_handles()
  call last_shares()
  call mesh%release()
  call shard_finalize()
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, info)
  call MPI_Finalize(info)
  if (all_failures > 0) error stop 1
  if (me == 0) print '(a)', 'all right'

contains

  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    failures = failures + 1
    print '(a, i0, 2a)', 'rank ', me, ': wrong: ', what
  end subroutine

  !> What the element with these global indices holds; x is periodic, y clamped.
  pure real(real64) function value(i, j, k)
    integer, intent(in) :: i, j, k
    value = real(modulo(i - 1, nx) + 100*min(max(j, 1), ny) + 10000*k, real64)
  end function

  !> The model's own decomposition: uneven, from 1.
  function begins(n, parts)
    integer, intent(in) :: n, parts
    integer :: begins(parts), p
    do p = 1, parts
      begins(p) = 1 + (n*(p - 1)*(p + 1))/(parts*(parts + 1))
    end do
  end function

  subroutine part(axis, n, first, last)
    integer, intent(in) :: axis, n
    integer, intent(out) :: first, last
    integer :: size, coordinate
    integer, allocatable :: from(:)
    call mesh%axis(axis, size, coordinate)
    from = [begins(n, size), n + 1]
    first = from(coordinate + 1)
    last = from(coordinate + 2) - 1
  end subroutine

  !> The dimensions of a field with the model's decomposition, halo 2 in x and 1 in y.
  function dims()
    type(shard_dim) :: dims(3)
    integer :: px, py, c
    call mesh%axis(1, px, c)
    call mesh%axis(2, py, c)
    dims(1) = shard_dim(nx, axis=1, halo=2, boundary=periodic(), first=begins(nx, px))
    dims(2) = shard_dim(ny, axis=2, halo=1, boundary=clamp(), first=begins(ny, py))
    dims(3) = shard_dim(nz)
  end function

  subroutine halos()
    real(real64), allocatable, target :: t(:, :, :), u(:, :, :), dt(:, :, :), v(:, :, :)
    real(real32), allocatable, target :: s(:, :, :)
    type(shard_field) :: of_t, of_s
    type(shard_exchange) :: plan
    integer :: i, j, k, i0, i1, j0, j1, first, count
    real(real64) :: left, right, total
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (t(i0 - 2:i1 + 2, j0 - 1:j1 + 1, nz), source=-1._real64)
    allocate (s(i0 - 2:i1 + 2, j0 - 1:j1 + 1, nz), source=-1._real32)
    do k = 1, nz
      do j = j0, j1
        do i = i0, i1
          t(i, j, k) = value(i, j, k)
          s(i, j, k) = real(value(i, j, k), real32)
        end do
      end do
    end do
    call of_t%wrap(mesh, t, dims(), name='t')
    call of_s%wrap(mesh, s, dims(), name='s')
    call of_t%owned(1, first, count)
    call expect(first == i0 .and. count == i1 - i0 + 1, 'owned')
    call plan%plan([of_t, of_s])
    call plan%run()
    do k = 1, nz
      do j = j0 - 1, j1 + 1
        do i = i0 - 2, i1 + 2
          call expect(t(i, j, k) == value(i, j, k), 'halo of t')
          call expect(s(i, j, k) == real(value(i, j, k), real32), 'halo of s')
        end do
      end do
    end do

    ! the same fields one by one
    block
      type(shard_exchange) :: set
      integer :: ierr
      call set%add(of_t)
      call set%add(of_s)
      t(:i0 - 1, :, :) = -1
      s(:i0 - 1, :, :) = -1
      call set%run()
      call expect(t(i0 - 1, j0, 1) == value(i0 - 1, j0, 1), 'halo of t in a set')
      call expect(s(i0 - 1, j0, 1) == real(value(i0 - 1, j0, 1), real32), 'halo of s in a set')
      call set%remove('t')
      t(:i0 - 1, :, :) = -1
      call set%run()
      call expect(all(t(:i0 - 1, :, :) == -1), 'a field that was removed')
      t(:i0 - 1, :, :) = 0
      call set%remove('t', ierr)
      call expect(ierr == 1 .and. index(shard_message(), 'no field "t"') > 0, 'a field that isn''t there')
      call plan%run()
    end block

    ! <H u, v> = <u, H' v>, of t alone; another array in the place of t
    call plan%plan([of_t])
    allocate (u, dt, v, mold=t)
    u = t
    v = 0.25_real64*t + 1
    dt = v
    call of_t%rebind(u)
    call plan%start()
    call plan%advance()
    call plan%advance()
    call plan%finish()
    left = sum(u*v)
    call of_t%rebind(dt)
    call plan%adjoint()
    right = sum(t(i0:i1, j0:j1, :)*dt(i0:i1, j0:j1, :))
    call expect(all(dt(:i0 - 1, :, :) == 0), 'the adjoint zeroes the halo')
    call MPI_Allreduce(MPI_IN_PLACE, left, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, info)
    call MPI_Allreduce(MPI_IN_PLACE, right, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, info)
    call expect(abs(left - right) < 1e-12_real64*abs(left), 'the dot-product test')

    call of_t%rebind(t)
    total = 0
    do k = 1, nz
      do j = 1, ny
        do i = 1, nx
          total = total + value(i, j, k)
        end do
      end do
    end do
    call expect(sum_of(of_t) == total .and. sum_of(of_t, ordered) == total, 'sum')
    call expect(min_of(of_t) == value(1, 1, 1) .and. max_of(of_t) == value(nx, ny, nz), 'extrema')
    call expect(abs(dot_of(of_t, of_s, ordered)/total - 1) > 0, 'dot')
    call expect(checksum_of(of_t) == checksum_of(of_t) .and. checksum_of(of_t) /= 0_int64, 'checksum')
  end subroutine

  !> A section of a larger array is used as it is.
  subroutine sections()
    real(real64), allocatable, target :: state(:, :, :, :)
    type(shard_field) :: of_second
    type(shard_exchange) :: plan
    integer :: i, j, k, i0, i1, j0, j1
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (state(2, i0 - 2:i1 + 2, j0 - 1:j1 + 1, nz), source=-1._real64)
    do k = 1, nz
      do j = j0, j1
        do i = i0, i1
          state(2, i, j, k) = value(i, j, k)
        end do
      end do
    end do
    call of_second%wrap(mesh, state(2, :, :, :), dims())
    call plan%plan([of_second])
    call plan%run()
    do k = 1, nz
      do j = j0 - 1, j1 + 1
        do i = i0 - 2, i1 + 2
          call expect(state(2, i, j, k) == value(i, j, k), 'halo of a section')
        end do
      end do
    end do
    call expect(all(state(1, :, :, :) == -1), 'beside a section')
  end subroutine

  !> A pole fold names its longitude by the dimension's number.
  subroutine folds()
    real(real64), allocatable, target :: t(:, :)
    type(shard_field) :: of_t
    type(shard_exchange) :: plan
    integer :: i, j, i0, i1, j0, j1
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (t(i0:i1, j0 - 1:j1 + 1), source=-1._real64)
    do j = j0, j1
      do i = i0, i1
        t(i, j) = value(i, j, 0)
      end do
    end do
    block
      type(shard_dim) :: two(2)
      two = dims_of_fold()
      call of_t%wrap(mesh, t, two)
    end block
    call plan%plan([of_t])
    call plan%run()
    if (i1 < i0 .or. j1 < j0) return
    do i = i0, i1
      if (j0 == 1) call expect(t(i, 0) == -value(i + nx/2, 1, 0), 'beyond the southern pole')
      if (j1 == ny) call expect(t(i, ny + 1) == -value(i + nx/2, ny, 0), 'beyond the northern pole')
    end do
  end subroutine
  function dims_of_fold() result(two)
    type(shard_dim) :: two(2)
    integer :: px, py, c
    call mesh%axis(1, px, c)
    call mesh%axis(2, py, c)
    two(1) = shard_dim(nx, axis=1, boundary=periodic(), first=begins(nx, px))
    two(2) = shard_dim(ny, axis=2, halo=1, boundary=pole_fold(1, between_rows, odd=.true.), first=begins(ny, py))
  end function

  subroutine boundaries()
    type(shard_field) :: of_h
    type(shard_exchange) :: plan
    integer :: i, j, nx_own, ny_own, first_x, first_y
    call mesh%owned(1, nx, first_x, nx_own)
    call mesh%owned(2, ny, first_y, ny_own)
    allocate (h(nx_own, 0:ny_own + 1), source=-1._real64)
    h(:, 1:ny_own) = 1
    call of_h%wrap(mesh, h, [shard_dim(nx, axis=1, boundary=periodic()), shard_dim(ny, axis=2, halo=1, boundary=given())], &
                   name='h')
    call plan%plan([of_h])
    call plan%set_boundary(twice)
    call plan%run()
    do j = 0, ny_own + 1
      do i = 1, nx_own
        call expect(h(i, j) == merge(1, 2, first_y + j > 1 .and. first_y + j <= ny + 1), 'a boundary of one''s own')
      end do
    end do
    h = 1
    call plan%adjoint()
    do j = 1, ny_own
      do i = 1, nx_own
        ! what lies inside of the neighbours' halos comes back too
        call expect(h(i, j) == 1 + merge(2, merge(1, 0, j == 1), first_y + j - 1 == 1) &
                    + merge(2, merge(1, 0, j == ny_own), first_y + j - 1 == ny) &
                    .or. ny_own == 1, 'its adjoint')
      end do
    end do
    deallocate (h)
  end subroutine

  !> A ring of cells by their ids.
  subroutine cells()
    integer, parameter :: own = 4
    type(shard_mesh) :: line
    type(shard_space) :: space
    type(shard_field) :: field
    type(shard_exchange) :: plan
    real(real64), target :: x(own + 2)
    integer(int64) :: ids(own + 2)
    integer :: i
    ids(:own) = [(int(me*own + i, int64), i=1, own)]
    ids(own + 1) = modulo(me*own - 1, ranks*own) + 1
    ids(own + 2) = modulo((me + 1)*own, ranks*own) + 1
    call line%create(MPI_COMM_WORLD, [ranks])
    call space%create(line, 1, ids, own)
    x = real(ids, real64)
    x(own + 1:) = -1
    call field%wrap(line, x, [shard_dim(axis=1, space=space)])
    call plan%plan([field])
    call plan%run()
    call expect(all(x == real(ids, real64)), 'halo of cells')
    call blocks(line, space, ids, own)
  end subroutine

  !> The same cells in blocks (nproma, level, block) as ICON's and IFS' are, the last one short.
  subroutine blocks(line, space, ids, own)
    type(shard_mesh), intent(in) :: line
    type(shard_space), intent(in) :: space
    integer(int64), intent(in) :: ids(:)
    integer, intent(in) :: own
    integer :: nproma, nblocks, c, k, lane, block
    real(real64), allocatable, target :: x(:, :, :)
    type(shard_field) :: field
    type(shard_exchange) :: plan
    do nproma = 1, 7
      nblocks = (size(ids) + nproma - 1)/nproma
      if (allocated(x)) deallocate (x)
      allocate (x(nproma, nz, nblocks), source=-1._real64)
      do c = 1, own
        lane = modulo(c - 1, nproma) + 1
        block = (c - 1)/nproma + 1
        x(lane, :, block) = [(real(ids(c), real64) + 1000*k, k=1, nz)]
      end do
      call field%wrap(line, x, [shard_dim(axis=1, space=space, blocked=.true.), shard_dim(nz)])
      call plan%plan([field])
      call plan%run()
      do c = 1, nproma*nblocks
        lane = modulo(c - 1, nproma) + 1
        block = (c - 1)/nproma + 1
        do k = 1, nz
          if (c <= size(ids)) then
            call expect(x(lane, k, block) == real(ids(c), real64) + 1000*k, 'halo of blocks')
          else
            call expect(x(lane, k, block) == -1, 'beyond the short block')
          end if
        end do
      end do
      call expect(sum_of(field) == sum([((real(c, real64) + 1000*k, c=1, ranks*own), k=1, nz)]), 'sum of blocks')
      call plan%adjoint()
      do k = 1, nz
        ! each rank's first and last cell is in the halo of two ranks, or of itself
        call expect(x(1, k, 1) == 2*(real(ids(1), real64) + 1000*k), 'the transpose of blocks')
      end do
    end do
  end subroutine

  subroutine movements()
    real(real64), allocatable, target :: t(:, :, :), columns(:, :, :), whole(:, :, :)
    type(shard_field) :: of_t, of_columns
    integer :: i, j, k, i0, i1, j0, j1, first, count
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (t(i0 - 2:i1 + 2, j0 - 1:j1 + 1, nz), source=0._real64)
    do k = 1, nz
      do j = j0, j1
        do i = i0, i1
          t(i, j, k) = value(i, j, k)
        end do
      end do
    end do
    call of_t%wrap(mesh, t, dims())
    call mesh%owned(1, ny, first, count)
    block
      integer :: first_z, count_z
      call mesh%owned(2, nz, first_z, count_z)
      allocate (columns(nx, first:first + count - 1, first_z:first_z + count_z - 1))
      call of_columns%wrap(mesh, columns, [shard_dim(nx), shard_dim(ny, axis=1), shard_dim(nz, axis=2)])
      call redistribute(of_columns, of_t)
      do k = first_z, first_z + count_z - 1
        do j = first, first + count - 1
          do i = 1, nx
            call expect(columns(i, j, k) == value(i, j, k), 'redistributed')
          end do
        end do
      end do
    end block
    t = 0
    call redistribute_adjoint(of_t, of_columns)
    call expect(all(t(i0:i1, j0:j1, :) == reshape([(((value(i, j, k), i=i0, i1), j=j0, j1), k=1, nz)], &
                                                  [i1 - i0 + 1, j1 - j0 + 1, nz])), 'its transpose')
    if (me == ranks - 1) then
      allocate (whole(nx, ny, nz))
    else
      allocate (whole(0, 0, 0))
    end if
    call gather(whole, of_t, ranks - 1)
    if (me == ranks - 1) call expect(whole(nx, ny, nz) == value(nx, ny, nz) .and. whole(1, 2, 3) == value(1, 2, 3), &
                                     'gathered')
    t = 0
    call scatter(of_t, whole, ranks - 1)
    if (i1 >= i0 .and. j1 >= j0) call expect(t(i0, j1, 2) == value(i0, j1, 2), 'scattered')
  end subroutine

  !> From the first ranks to the last ones, some of which are in both; back by the transpose.
  subroutine couplings()
    type(shard_mesh) :: here, there
    type(shard_field) :: of_a, of_b
    type(shard_coupling) :: coupling
    real(real64), allocatable, target :: a(:, :), b(:, :)
    integer :: i, j, first, count, color, comm_a, comm_b, in_a, in_b
    first = 1
    count = 0
    in_a = (ranks + 2)/2  ! ranks 0 to in_a - 1
    in_b = (ranks + 1)/2  ! the last ones
    color = merge(0, MPI_UNDEFINED, me < in_a)
    call MPI_Comm_split(MPI_COMM_WORLD, color, me, comm_a, info)
    color = merge(0, MPI_UNDEFINED, me >= ranks - in_b)
    call MPI_Comm_split(MPI_COMM_WORLD, color, me, comm_b, info)
    if (me < in_a) then
      call here%create(comm_a, [in_a])
      call here%owned(1, nx, first, count)
      allocate (a(first:first + count - 1, ny))
      do j = 1, ny
        do i = first, first + count - 1
          a(i, j) = value(i, j, 1)
        end do
      end do
      call of_a%wrap(here, a, [shard_dim(nx, axis=1), shard_dim(ny)])
    else
      allocate (a(0, 0))
    end if
    if (me >= ranks - in_b) then
      call there%create(comm_b, [in_b])
      call there%owned(1, ny, first, count)
      allocate (b(nx, first:first + count - 1), source=-1._real64)
      call of_b%wrap(there, b, [shard_dim(nx), shard_dim(ny, axis=1)])
    else
      allocate (b(0, 0))
    end if
    if (me < in_a .and. me >= ranks - in_b) then
      call coupling%create(MPI_COMM_WORLD, to=[of_b], from=[of_a])
    else if (me < in_a) then
      call coupling%create(MPI_COMM_WORLD, from=[of_a])
    else
      call coupling%create(MPI_COMM_WORLD, to=[of_b])
    end if
    if (me < in_a) call coupling%put()
    if (me >= ranks - in_b) then
      call coupling%get()
      do j = first, first + count - 1
        do i = 1, nx
          call expect(b(i, j) == value(i, j, 1), 'coupled')
        end do
      end do
    end if
    call coupling%finish()
    call coupling%adjoint()
    if (me < in_a) then
      call here%owned(1, nx, first, count)
      do j = 1, ny
        do i = first, first + count - 1
          call expect(a(i, j) == 2*value(i, j, 1), 'the transpose of a coupling')
        end do
      end do
    end if
    call coupling%release()
    call of_a%release()
    call of_b%release()
    call here%release()
    call there%release()
    if (comm_a /= MPI_COMM_NULL) call MPI_Comm_free(comm_a, info)
    if (comm_b /= MPI_COMM_NULL) call MPI_Comm_free(comm_b, info)
  end subroutine

  !> A checkpoint and a NetCDF file, read back.
  subroutine files()
    real(real64), allocatable, target :: t(:, :, :), again(:, :, :)
    type(shard_field) :: of_t, of_again
    type(shard_output) :: out
    real(real64) :: numbers(2)
    character(40) :: path
    integer :: i, j, k, i0, i1, j0, j1, ierr
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (t(i0 - 2:i1 + 2, j0 - 1:j1 + 1, nz), source=-1._real64)
    do k = 1, nz
      do j = j0, j1
        do i = i0, i1
          t(i, j, k) = value(i, j, k)
        end do
      end do
    end do
    again = t
    call of_t%wrap(mesh, t, dims(), name='t')
    call of_again%wrap(mesh, again, dims(), name='t')
    write (path, '(a, i0)') 'fortran_test_', ranks
    call save_checkpoint(trim(path)//'.st', [of_t], [7._real64, 0.5_real64])
    again = 0
    numbers = 0
    call load_checkpoint(trim(path)//'.st', [of_again], numbers)
    call expect(all(again(i0:i1, j0:j1, :) == t(i0:i1, j0:j1, :)), 'a checkpoint')
    call expect(all(numbers == [7._real64, 0.5_real64]), 'its numbers')
    call load_checkpoint(trim(path)//'.none', [of_again], numbers, ierr)
    call expect(ierr == 6, 'no checkpoint')

    call out%create(mesh, trim(path)//'.nc', ierr=ierr)
    if (ierr == 5) return  ! a build without NetCDF
    call expect(ierr == 0, 'a NetCDF file')
    call out%time('days since 2000-01-01')
    call out%coordinate('lon', [(30._real64*i, i=0, nx - 1)])
    call out%coordinate('lat', [(10._real64*j, j=1, ny)])
    call out%dimension('level', nz)
    call out%variable('t', ['lon  ', 'lat  ', 'level', 'time '], long_name='temperature', units='K')
    call out%write('time', 1.5_real64, 1)
    call out%write('t', of_t, 1)
    call out%write('none', of_t, 1, ierr)
    call expect(ierr == 1, 'a variable that isn''t there')
    call out%close()
    call out%release()
  end subroutine

  !> -div grad x + x = b by its five points.
  subroutine solvers()
    real(real64), allocatable, target :: x(:, :), b(:, :), centre(:, :), side(:, :)
    type(shard_field) :: of_x, of_b, of_centre, of_side
    type(shard_dim) :: two(2)
    type(shard_solver) :: solver
    integer :: i, j, i0, i1, j0, j1, iterations
    logical :: converged
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (x(i0 - 2:i1 + 2, j0 - 1:j1 + 1), source=0._real64)
    allocate (b, centre, side, mold=x)
    centre = 5
    side = -1
    do j = j0, j1
      do i = i0, i1
        x(i, j) = value(i, j, 0)
      end do
    end do
    two(1:2) = dims_of_two()
    call of_x%wrap(mesh, x, two)
    call of_b%wrap(mesh, b, two)
    call of_centre%wrap(mesh, centre, two)
    call of_side%wrap(mesh, side, two)
    call solver%create(of_x, reshape([0, 0, 1, 0, -1, 0, 0, 1, 0, -1], [2, 5]), &
                       [of_centre, of_side, of_side, of_side, of_side], method=cg, preconditioner=jacobi, &
                       relative=1e-12_real64)
    call solver%apply(of_b, of_x)
    do j = j0, j1
      do i = i0, i1
        call expect(b(i, j) == 5*value(i, j, 0) - value(i + 1, j, 0) - value(i - 1, j, 0) - value(i, j + 1, 0) &
                    - value(i, j - 1, 0), 'an operator of fields')
      end do
    end do
    x = 0
    call solver%solve(of_x, of_b, converged, iterations)
    call expect(converged .and. iterations > 3, 'it converges')
    call solver%create(of_x, reshape([0, 0, 1, 0, -1, 0, 0, 1, 0, -1], [2, 5]), &
                       [of_centre, of_side, of_side, of_side, of_side], preconditioner=multigrid, relative=1e-12_real64)
    call solver%update()
    x = 0
    call solver%solve(of_x, of_b, converged, iterations)
    call expect(converged .and. iterations > 1, 'multigrid converges')
    do j = j0, j1
      do i = i0, i1
        call expect(abs(x(i, j) - value(i, j, 0)) < 1e-8, 'a solution')
      end do
    end do
  end subroutine
  !> An array in memory that the node shares.
  subroutine shared_memory()
    type(shard_allocation) :: memory, same
    type(shard_field) :: of_x
    type(shard_exchange) :: plan
    real(real64), pointer :: flat(:), x(:, :)
    integer :: i0, i1, j0, j1, i, j
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    call memory%create(mesh, 8_int64*(i1 - i0 + 5)*(j1 - j0 + 3))
    same = memory
    call memory%release()
    call c_f_pointer(same%address(), flat, [(i1 - i0 + 5)*(j1 - j0 + 3)])
    call expect(all(flat == 0), 'zeros')
    x(i0 - 2:i1 + 2, j0 - 1:j1 + 1) => flat
    do j = j0, j1
      do i = i0, i1
        x(i, j) = value(i, j, 0)
      end do
    end do
    call of_x%wrap(mesh, x, dims_of_two())
    call plan%plan([of_x])
    call plan%run()
    if (i1 >= i0 .and. j1 > j0) call expect(x(i1 + 1, j0) == value(modulo(i1, nx) + 1, j0, 0), 'halo of an allocated array')
    call plan%release()
    call of_x%release()
    call same%release()
  end subroutine

  !> A convolution along the second dimension, as a shift by one row, then trained.
  subroutine networks()
    interface
      subroutine register_networks() bind(c)
      end subroutine
    end interface
    real(real64), allocatable, target :: x(:, :), y(:, :), dx(:, :)
    real(real64), pointer :: weights(:), gradients(:)
    real(real32), pointer :: none(:)
    real(real64) :: norm, error, before
    type(shard_field) :: of_x, of_y, of_dx
    type(shard_dim) :: two(2)
    type(shard_network) :: network
    integer :: i, j, i0, i1, j0, j1, step, ierr
    call part(1, nx, i0, i1)
    call part(2, ny, j0, j1)
    allocate (x(i0 - 2:i1 + 2, j0 - 1:j1 + 1), source=0._real64)
    allocate (y, dx, mold=x)
    do j = j0, j1
      do i = i0, i1
        x(i, j) = value(i, j, 0)
      end do
    end do
    two(1:2) = dims_of_two()
    call of_x%wrap(mesh, x, two)
    call of_y%wrap(mesh, y, two)
    call of_dx%wrap(mesh, dx, two)
    call register_networks()
    call network%open(mesh, 'rows')
    call network%parameters(weights, gradients)
    call expect(size(weights) == 4, 'three weights and a bias')
    call network%parameters(none)
    call expect(.not. associated(none), 'of another kind')
    weights = [0, 0, 1, 0]
    call network%apply(of_y, of_x)
    do j = j0, j1
      do i = i0, i1
        call expect(y(i, j) == merge(value(i, j + 1, 0), 0._real64, j < ny), 'the next row')
        y(i, j) = value(i, j, 0)
      end do
    end do
    call network%pullback(of_y, of_dx)
    do j = j0, j1
      do i = i0, i1
        call expect(dx(i, j) == merge(value(i, j - 1, 0), 0._real64, j > 1), 'its transpose')
      end do
    end do
    gradients = 0
    weights = [0.1_real64, 0.7_real64, 0.1_real64, 0._real64]
    call network%set_optimiser(adam, learning_rate=0.05_real64)
    before = huge(before)
    do step = 1, 40
      call network%apply(of_y, of_x)
      do j = j0, j1
        do i = i0, i1
          y(i, j) = y(i, j) - x(i, j)  ! of half the square
        end do
      end do
      error = dot_of(of_y, of_y)
      if (step == 1) before = error
      call network%pullback(of_y)
      call network%step(norm=norm)
      call expect(norm > 0 .and. all(gradients == 0), 'a step')
    end do
    call expect(error < 0.02*before, 'it learns')
    call expect(index(network%describe(), '"rows" of 4 parameters') > 0, 'described')
    call expect(len(of_x%describe()) > 20, 'a field described')
    call network%open(mesh, 'no such', ierr=ierr)
    call expect(ierr == 1 .and. index(shard_message(), '"rows"') > 0, 'a wrong name')
  end subroutine
  function dims_of_two() result(two)
    type(shard_dim) :: two(2)
    integer :: px, py, c
    call mesh%axis(1, px, c)
    call mesh%axis(2, py, c)
    two(1) = shard_dim(nx, axis=1, halo=2, boundary=periodic(), first=begins(nx, px))
    two(2) = shard_dim(ny, axis=2, halo=1, boundary=clamp(), first=begins(ny, py))
  end function

  subroutine errors()
    real(real64), target :: t(3, 4) = 0, wide(6, 4) = 0
    logical, target :: flags(4, 4)
    type(shard_field) :: field
    type(shard_exchange) :: plan
    integer :: ierr
    call field%wrap(mesh, t, [shard_dim(1000, axis=1), shard_dim(4)], ierr=ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'has extent 3 in dimension 0') > 0, 'other extents')
    call field%wrap(mesh, t, [shard_dim(12)], ierr=ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'rank') > 0, 'other rank')
    call field%wrap(mesh, flags, [shard_dim(4), shard_dim(4)], ierr=ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'type') > 0, 'other type')
    call field%wrap(mesh, t, [shard_dim(3), shard_dim(4)], ierr=ierr)
    call field%rebind(t(:, :3), ierr)
    call expect(ierr == 1 .and. index(shard_message(), '3 elements in dimension 1, not 4') > 0, 'rebound to fewer')
    call field%rebind(wide(::2, :), ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'stride 2 in dimension 0, not 1') > 0, 'rebound to a section')
    call field%rebind(real(t), ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'another type') > 0, 'rebound to another type')
    call field%rebind(wide(2:4, :), ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'stride 6 in dimension 1, not 3') > 0, 'rebound to a part')
    call field%rebind(t, ierr)
    call expect(ierr == 0, 'rebound')
    call shard_set_stream(c_null_ptr, ierr)
    call expect(ierr == 0, 'the default stream')
    call shard_set_stream(c_loc(t), ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'no device') > 0, 'a stream without a device')
    call shard_fence()
    call plan%run(ierr)
    call expect(ierr == 1 .and. index(shard_message(), 'null') > 0, 'a plan that was not made')
  end subroutine

  !> Each of these copies shares the handle, whatever a compiler finalises.
  subroutine shared_handles()
    type(shard_field) :: a, b, list(2)
    type(shard_exchange) :: plan
    real(real64), target :: x(4)
    type :: holder
      type(shard_field), allocatable :: field
    end type
    type(holder) :: kept
    x = 1
    a = made(x)
    b = a
    a = b
    list = [a, b]
    allocate (kept%field)
    kept%field = list(1)
    a = made(x)
    b = a
    call plan%plan([kept%field, list(2)])
    deallocate (kept%field)
    list(1) = a
    list(2) = b
    call plan%run()
    call expect(sum_of(list(1)) >= 4, 'shared handles')
  end subroutine
  !> A mesh ends with the last of its fields, which are components of another type.
  subroutine last_shares()
    integer :: comm, key, before, of_mesh
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, info)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, count_freed, key, mark, info)
    call MPI_Comm_set_attr(comm, key, mark, info)
    before = freed
    call leave_fields(comm)
    of_mesh = freed - before
    call MPI_Comm_free(comm, info)
    ! Open MPI 5 now and then calls no Fortran callback of a key, then not for this free either
    call expect(of_mesh == freed - before - of_mesh, 'the last of shares')
    call MPI_Comm_free_keyval(key, info)
  end subroutine
  subroutine leave_fields(comm)
    integer, intent(in) :: comm
    real(real64), target :: x(4)
    type :: model
      type(shard_mesh) :: mesh
      type(shard_field) :: both(2)
      type(shard_exchange) :: plans(2)
      type(shard_space) :: spaces(2)
    end type
    type(model) :: m
    integer :: i
    call m%mesh%create(comm, [0])
    do i = 1, 2
      call m%both(i)%wrap(m%mesh, x, [shard_dim(size(x))])
      call m%plans(i)%plan([m%both(i)])
      call m%spaces(i)%create(m%mesh, 1, [int(me, int64)], 1)
    end do
  end subroutine
  function made(x) result(field)
    real(real64), intent(in), target :: x(:)
    type(shard_field) :: field
    call field%wrap(mesh, x, [shard_dim(size(x))])
  end function

end program
