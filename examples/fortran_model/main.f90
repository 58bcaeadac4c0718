! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
! A Fortran model with its own MPI code, and the same with the module shard (docs/fortran.md).
!
!   fortran_model                        both beside a run on one rank: the same bits; then what the library adds
!   fortran_model time NX NY N ROUNDS    time of N steps of both, in turn
program fortran_model
  use, intrinsic :: iso_fortran_env, only: int64
  use mpi
  use by_hand
  use columns
  use shallow_water
  use shard
  use transform
  use with_shard
  implicit none
  integer, parameter :: gx = 53, gy = 31, steps = 12, waves = 6
  integer :: me, ranks, failures = 0, ierr

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call shard_initialize(MPI_COMM_WORLD)
  if (command_argument_count() > 0) then
    call time_both()
  else
    call compare()
  end if
  call shard_finalize()
  call MPI_Finalize(ierr)
  if (failures > 0) error stop 1

contains

  !> One line for each thing that is right on all ranks or wrong on one.
  subroutine expect(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    logical :: all_right
    call MPI_Allreduce(right, all_right, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
    if (.not. all_right) failures = failures + 1
    if (me == 0) print '(a6, 2x, a)', merge('right ', 'WRONG ', all_right), what
  end subroutine

  elemental logical function same(a, b)
    real(wp), intent(in) :: a, b
    same = transfer(a, 0_int64) == transfer(b, 0_int64)
  end function

  !> Whether this rank's cells have the same bits as those of a model on one rank.
  logical function agrees(m, alone)
    type(model), intent(in) :: m, alone
    associate (d => m%d)
      agrees = all(same(m%q(1:d%nx, 1:d%ny, :, m%now), &
                        alone%q(d%x0 + 1:d%x0 + d%nx, d%y0 + 1:d%y0 + d%ny, :, alone%now)))
    end associate
  end function

  subroutine compare()
    type(model), target :: alone, hand, with, single  ! the first and the last on one rank
    type(halos_by_hand) :: of_alone, of_hand
    type(halos_with_shard) :: of_with, of_single
    real(wp) :: mass(4), energy(4), mass_before, energy_before
    integer :: n
    call start_model(alone, MPI_COMM_SELF, gx, gy)
    call start_model(hand, MPI_COMM_WORLD, gx, gy)
    call start_model(with, MPI_COMM_WORLD, gx, gy)
    call start_model(single, MPI_COMM_SELF, gx, gy)
    call of_alone%start(alone%d)
    call of_hand%start(hand%d)
    call of_with%start(with%d, with%q(:, :, :, 1))
    call of_single%start(single%d, single%q(:, :, :, 1))
    call of_with%totals(with%d, with%q(:, :, :, with%now), mass_before, energy_before)
    do n = 1, steps
      call step(alone, of_alone)
      call step(hand, of_hand)
      call step(with, of_with)
      call step(single, of_single)
    end do
    call expect(agrees(hand, alone), 'halos by hand: the bits of one rank')
    call expect(agrees(with, alone), 'halos with shard: the bits of one rank')
    call expect(agrees(single, alone), 'halos with shard on one rank: the bits of those by hand')

    call of_alone%totals(alone%d, alone%q(:, :, :, alone%now), mass(1), energy(1))
    call of_hand%totals(hand%d, hand%q(:, :, :, hand%now), mass(2), energy(2))
    call of_with%totals(with%d, with%q(:, :, :, with%now), mass(3), energy(3))
    call of_single%totals(single%d, single%q(:, :, :, single%now), mass(4), energy(4))
    call expect(all(abs(mass/mass_before - 1) < 1e-12_wp), 'mass is kept')
    call expect(all(abs(energy/energy_before - 1) < 1e-4_wp), 'energy nearly')
    call expect(same(mass(3), mass(4)) .and. same(energy(3), energy(4)), 'ordered sums: the bits of one rank')
    call expect(checksum_of(of_with%of(iv)) == checksum_of(of_single%of(iv)), 'checksum: that of one rank')
    call expect(maxval(abs(alone%q(1:gx, 1:gy, iv, alone%now))) > 100, 'the jet moves')

    call check_adjoint(with, of_with)
    call check_transform(with, of_with, alone)
    call of_alone%fill(alone%d, alone%q(:, :, :, alone%now))
    call of_with%fill(with%d, with%q(:, :, :, with%now))
    call check_columns(with, alone)
    call check_network(with, of_with)
  end subroutine

  !> <H u, v> = <u, H' v> for the exchange H. Whole numbers, so that both sums are exact.
  subroutine check_adjoint(m, halos)
    type(model), intent(in) :: m
    type(halos_with_shard), intent(inout) :: halos
    real(wp), allocatable, target :: u(:, :, :), v(:, :, :), w(:, :, :)
    real(wp) :: products(2)
    integer :: i, j, k
    associate (nx => m%d%nx, ny => m%d%ny)
      allocate (u(1 - halo:nx + halo, 1 - halo:ny + halo, variables))
      allocate (v, w, mold=u)
      do k = 1, variables
        do j = 1 - halo, ny + halo
          do i = 1 - halo, nx + halo
            u(i, j, k) = modulo(7*i + 5*j + 11*k + me, 13) - 6
            v(i, j, k) = modulo(3*i + 8*j + 2*k + 5*me, 17) - 8
          end do
        end do
      end do
      v([(i, i=1 - halo, 0), (i, i=nx + 1, nx + halo)], [(j, j=1 - halo, 0), (j, j=ny + 1, ny + halo)], :) = 0
      w(:, :, :) = u
      call halos%fill(m%d, u)
      products(1) = sum(u*v)
      do k = 1, variables
        call halos%of(k)%rebind(v(:, :, k))
      end do
      call halos%plan%adjoint()
      products(2) = sum(w(1:nx, 1:ny, :)*v(1:nx, 1:ny, :))
    end associate
    call MPI_Allreduce(MPI_IN_PLACE, products, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
    call expect(same(products(1), products(2)), 'the adjoint of the exchange: equal dot products')
  end subroutine

  !> Whole rows for a filter along x, and back: x is divided no more, the variables are in its place.
  subroutine check_transform(m, halos, alone)
    type(model), intent(inout), target :: m, alone
    type(halos_with_shard), intent(in) :: halos
    type(shard_field) :: of_state, of_rows
    type(shard_dim) :: dims(3)
    real(wp), allocatable, target :: rows(:, :, :)
    integer :: first, count
    associate (d => m%d)
      dims(1) = shard_dim(gx, axis=1, halo=halo, first=d%first_x)
      dims(2) = shard_dim(gy, axis=2, halo=halo, first=d%first_y)
      dims(3) = shard_dim(variables)
      call of_state%wrap(halos%mesh, m%q(:, :, :, m%now), dims, name='state')
      call halos%mesh%owned(1, variables, first, count)
      allocate (rows(gx, d%ny, first:first + count - 1))
      dims(1) = shard_dim(gx)
      dims(2) = shard_dim(gy, axis=2, first=d%first_y)
      dims(3) = shard_dim(variables, axis=1)
      call of_rows%wrap(halos%mesh, rows, dims, name='rows')
    end associate
    call redistribute(of_rows, of_state)
    call low_pass(rows, waves)
    call redistribute(of_state, of_rows)
    call low_pass(alone%q(1:gx, 1:gy, :, alone%now), waves)
    call expect(agrees(m, alone), 'a filter of whole rows, and back: the bits of one rank')
  end subroutine

  !> Columns in blocks of each length: the bits of one rank, in the halo too.
  subroutine check_columns(m, alone)
    type(model), intent(in) :: m, alone
    real(wp) :: total, of_alone
    integer(int64) :: checksum, sum_of_alone
    integer :: lengths(4), n
    logical :: right
    character(80) :: what
    lengths = [1, 8, 32, m%d%nx*m%d%ny + 2*(m%d%nx + m%d%ny)]  ! the last: one block for all
    call run_columns(alone, gx*gy, of_alone, sum_of_alone, right)
    call expect(right, 'columns on one rank')
    do n = 1, size(lengths)
      call run_columns(m, lengths(n), total, checksum, right)
      write (what, '(a, i0, a)') 'columns in blocks of ', lengths(n), ': the bits of one rank, in the halo too'
      call expect(right .and. same(total, of_alone) .and. checksum == sum_of_alone, trim(what))
    end do
  end subroutine

  !> The column code in blocks of nproma. The neighbours' cells are computed here, and then fetched from their owners.
  subroutine run_columns(m, nproma, total, checksum, right)
    type(model), intent(in) :: m
    integer, intent(in) :: nproma
    real(wp), intent(out) :: total
    integer(int64), intent(out) :: checksum
    logical, intent(out) :: right
    type(shard_mesh) :: line
    type(shard_space) :: cells
    type(shard_field) :: of_heat
    type(shard_exchange) :: plan
    real(wp), allocatable, target :: heat(:, :, :)
    real(wp), allocatable :: depth(:, :), computed(:, :, :)
    integer, allocatable :: at(:, :)
    integer(int64), allocatable :: ids(:)
    integer :: own, blocks, b, c, k, lane
    call list_cells(m%d, own, at, ids)
    blocks = (size(ids) + nproma - 1)/nproma
    allocate (heat(nproma, levels, blocks), depth(nproma, blocks), source=0._wp)
    do c = 1, size(ids)
      b = (c - 1)/nproma + 1
      lane = c - (b - 1)*nproma
      depth(lane, b) = m%q(at(1, c), at(2, c), ih, m%now)
      do k = 1, levels
        heat(lane, k, b) = 280 + 5*k + 1e-4_wp*m%q(at(1, c), at(2, c), iu, m%now)
      end do
    end do
    do b = 1, blocks
      call diffuse(min(nproma, size(ids) - (b - 1)*nproma), nproma, depth(:, b), heat(:, :, b))
    end do

    computed = heat
    do c = own + 1, size(ids)
      b = (c - 1)/nproma + 1
      heat(c - (b - 1)*nproma, :, b) = -1
    end do
    call line%create(m%d%comm, [0])
    call cells%create(line, 1, ids, own)
    call of_heat%wrap(line, heat, [shard_dim(axis=1, space=cells, blocked=.true.), shard_dim(levels)], name='heat')
    call plan%plan([of_heat])
    call plan%run()
    right = all(same(heat, computed))
    total = sum_of(of_heat, ordered)
    checksum = checksum_of(of_heat)
  end subroutine

  !> A network in the loop: it sees the depth after each step and learns what a diffusion would make of it.
  subroutine check_network(m, halos)
    type(model), intent(inout), target :: m
    type(halos_with_shard), intent(inout) :: halos
    interface
      subroutine register_networks() bind(c)
      end subroutine
    end interface
    type(shard_network) :: network
    type(shard_field) :: of_x, of_y
    type(shard_exchange) :: plan
    type(shard_dim) :: dims(2)
    real(wp), allocatable, target :: x(:, :), y(:, :)
    real(wp), pointer :: parameters(:)
    real(wp) :: error, first_error, largest(2)
    integer :: i, j, n
    associate (d => m%d)
      allocate (x(1 - halo:d%nx + halo, 1 - halo:d%ny + halo), y(d%nx, d%ny))
      dims(1) = shard_dim(gx, axis=1, halo=halo, boundary=periodic(), first=d%first_x)
      dims(2) = shard_dim(gy, axis=2, halo=halo, boundary=reflect(), first=d%first_y)
      call of_x%wrap(halos%mesh, x, dims, name='x')
      dims(1) = shard_dim(gx, axis=1, first=d%first_x)
      dims(2) = shard_dim(gy, axis=2, first=d%first_y)
      call of_y%wrap(halos%mesh, y, dims, name='y')
      call plan%plan([of_x], faces=.true.)
      call register_networks()
      call network%open(halos%mesh, 'smoother')
      call network%set_optimiser(adam, learning_rate=0.01_wp)
      do n = 1, 60
        call step(m, halos)
        x(1:d%nx, 1:d%ny) = m%q(1:d%nx, 1:d%ny, ih, m%now)
        x = x - sum_of(of_x, ordered)/(gx*gy)
        x = x/max(-min_of(of_x), max_of(of_x))
        call plan%run()
        call network%apply(of_y, of_x)
        do j = 1, d%ny
          do i = 1, d%nx
            y(i, j) = y(i, j) - 0.6_wp*x(i, j) - 0.1_wp*(x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1))
          end do
        end do
        error = dot_of(of_y, of_y)/(gx*gy)
        if (n == 1) first_error = error
        y = y/(gx*gy)                    ! d(error/2)/dy
        call network%pullback(of_y)
        call network%step()
      end do
    end associate
    call expect(error < 0.02_wp*first_error, 'a network learns in the loop')
    call network%parameters(parameters)
    largest = [maxval(parameters), -maxval(parameters)]
    call MPI_Allreduce(MPI_IN_PLACE, largest, 2, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    call expect(same(largest(1), -largest(2)), 'and has the same parameters on every rank')
  end subroutine

  !> Time of a step and of an update of the halos, of both versions in turn: of one model, whose memory is the same.
  subroutine time_both()
    type(model), target :: m
    type(halos_by_hand) :: of_hand
    type(halos_with_shard) :: of_with
    real(wp), allocatable :: steps_of(:, :), halos_of(:, :)
    integer :: sizes(4), r, n, turn
    character(20) :: text
    do n = 1, size(sizes)
      call get_command_argument(n + 1, text)
      read (text, *) sizes(n)
    end do
    call start_model(m, MPI_COMM_WORLD, sizes(1), sizes(2))
    call of_hand%start(m%d)
    call of_with%start(m%d, m%q(:, :, :, 1))
    allocate (steps_of(sizes(4), 2), halos_of(sizes(4), 2))
    do r = 1, sizes(4)
      do turn = r, r + 1
        if (modulo(turn, 2) == 0) then
          call time_one(m, of_hand, sizes(3), steps_of(r, 1), halos_of(r, 1))
        else
          call time_one(m, of_with, sizes(3), steps_of(r, 2), halos_of(r, 2))
        end if
      end do
    end do
    if (me > 0) return
    print '(i0, " x ", i0, " cells, ", i0, " ranks (", i0, " x ", i0, ")")', sizes(1:2), ranks, m%d%px, m%d%py
    print '(a)', '          by hand   with shard   ratio   median of the rounds'' ratios (least of the rounds, microseconds)'
    call print_times('step  ', steps_of)
    call print_times('halos ', halos_of)
  end subroutine

  subroutine time_one(m, halos, steps, of_step, of_halos)
    type(model), intent(inout), target :: m
    class(halo_code), intent(inout) :: halos
    integer, intent(in) :: steps
    real(wp), intent(out) :: of_step, of_halos
    real(wp) :: begin
    integer :: n
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    begin = MPI_Wtime()
    do n = 1, steps
      call step(m, halos)
    end do
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    of_step = (MPI_Wtime() - begin)/steps
    begin = MPI_Wtime()
    do n = 1, 3*steps
      call halos%fill(m%d, m%q(:, :, :, m%now))
    end do
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    of_halos = (MPI_Wtime() - begin)/(3*steps)
  end subroutine

  subroutine print_times(what, times)
    character(*), intent(in) :: what
    real(wp), intent(in) :: times(:, :)
    associate (hand => 1e6_wp*minval(times(:, 1)), with => 1e6_wp*minval(times(:, 2)))
      print '(a, f11.2, f13.2, 2f8.2)', what, hand, with, hand/with, median(times(:, 1)/times(:, 2))
    end associate
  end subroutine

  real(wp) function median(values)
    real(wp), intent(in) :: values(:)
    integer :: i
    median = values(1)
    do i = 2, size(values)
      if (count(values < median) <= size(values)/2 .and. count(values > median) <= size(values)/2) return
      median = values(i)
    end do
  end function

end program
