! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> Shallow water in a channel on a beta plane: periodic in x, walls in y. Fluxes of fourth order, which need a halo of
!! two cells, and three stages a step. What crosses ranks, halos and sums, is behind `halo_code`: by_hand.f90 has it
!! with MPI, with_shard.f90 with the library. All else is the same code for both.
module shallow_water
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  implicit none
  private
  public :: make_domain, start_model, step, energy_of

  integer, parameter, public :: wp = real64, halo = 2
  !> Thickness, and the momenta along x and y.
  integer, parameter, public :: variables = 3, ih = 1, iu = 2, iv = 3

  real(wp), parameter :: gravity = 9.81_wp, dx = 1e5_wp, dt = 200, f0 = 1e-4_wp, beta = 1.6e-11_wp
  real(wp), parameter :: diffusion = 0.25_wp*dx/(16*dt)  ! of fourth order, against waves of two cells
  integer, parameter :: stage = 3                        ! the time level between now and next

  !> The model's own decomposition: which cells of gx times gy this rank has.
  type, public :: domain
    integer :: comm, gx, gy
    integer :: px, py                               !< ranks along x and y
    integer, allocatable :: first_x(:), first_y(:)  !< the first cell of each of them
    integer :: x0, y0                               !< cells before this rank's
    integer :: nx, ny                               !< this rank's cells
  end type

  type, public :: model
    type(domain) :: d
    real(wp), allocatable :: q(:, :, :, :)          !< x and y with the halo, variable, time level
    integer :: now = 1, next = 2
  end type

  !> What crosses ranks.
  type, abstract, public :: halo_code
  contains
    procedure(fill_halos), deferred :: fill
    procedure(sum_up), deferred :: totals
  end type
  abstract interface
    !> Fills the halos of all variables of a time level, without the corners.
    subroutine fill_halos(halos, d, q)
      import halo_code, domain, wp, halo, variables
      class(halo_code), intent(inout) :: halos
      type(domain), intent(in) :: d
      real(wp), intent(inout), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    end subroutine
    !> The sums of thickness and energy over the cells of all ranks.
    subroutine sum_up(halos, d, q, mass, energy)
      import halo_code, domain, wp, halo, variables
      class(halo_code), intent(inout) :: halos
      type(domain), intent(in) :: d
      real(wp), intent(in), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
      real(wp), intent(out) :: mass, energy
    end subroutine
  end interface

contains

  subroutine make_domain(d, comm, gx, gy)
    type(domain), intent(out) :: d
    integer, intent(in) :: comm, gx, gy
    integer :: ranks, me, sizes(2), place(2), ierr
    call MPI_Comm_size(comm, ranks, ierr)
    sizes = 0
    call MPI_Dims_create(ranks, 2, sizes, ierr)
    call MPI_Cart_create(comm, 2, sizes, [.true., .false.], .false., d%comm, ierr)
    call MPI_Comm_rank(d%comm, me, ierr)
    call MPI_Cart_coords(d%comm, me, 2, place, ierr)
    d%gx = gx
    d%gy = gy
    d%px = sizes(1)
    d%py = sizes(2)
    call divide(gx, d%px, place(1) + 1, d%first_x, d%x0, d%nx)
    call divide(gy, d%py, place(2) + 1, d%first_y, d%y0, d%ny)
  end subroutine

  !> Equal parts, and what is left over to the last.
  subroutine divide(cells, parts, mine, first, before, count)
    integer, intent(in) :: cells, parts, mine
    integer, allocatable, intent(out) :: first(:)
    integer, intent(out) :: before, count
    integer :: p
    first = [(1 + (p - 1)*(cells/parts), p=1, parts)]
    before = first(mine) - 1
    count = cells/parts
    if (mine == parts) count = cells - before
  end subroutine

  !> A jet along the channel with a bump on it.
  subroutine start_model(m, comm, gx, gy)
    type(model), intent(out) :: m
    integer, intent(in) :: comm, gx, gy
    real(wp) :: x, y, slope
    integer :: i, j
    call make_domain(m%d, comm, gx, gy)
    associate (d => m%d)
      allocate (m%q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables, 3), source=0._wp)
      do j = 1, d%ny
        y = (d%y0 + j - 0.5_wp*(gy + 1))/8
        slope = 50/(8*dx)/cosh(y)**2
        do i = 1, d%nx
          x = (d%x0 + i - 0.5_wp*(gx + 1))/8
          m%q(i, j, ih, 1) = 1000 - 50*tanh(y) + 20*exp(-x**2 - y**2)
          m%q(i, j, iu, 1) = m%q(i, j, ih, 1)*gravity/f0*slope
        end do
      end do
    end associate
  end subroutine

  subroutine step(m, halos)
    type(model), intent(inout), target :: m
    class(halo_code), intent(inout) :: halos
    associate (d => m%d, now => m%now, next => m%next)
      call halos%fill(d, m%q(:, :, :, now))
      call advance(d, m%q(:, :, :, now), m%q(:, :, :, now), m%q(:, :, :, next), dt/3)
      call halos%fill(d, m%q(:, :, :, next))
      call advance(d, m%q(:, :, :, now), m%q(:, :, :, next), m%q(:, :, :, stage), dt/2)
      call halos%fill(d, m%q(:, :, :, stage))
      call advance(d, m%q(:, :, :, now), m%q(:, :, :, stage), m%q(:, :, :, next), dt)
    end associate
    m%now = m%next
    m%next = 3 - m%now
  end subroutine

  !> to = from + dt times the tendencies at the state `at`, whose halos are filled.
  subroutine advance(d, from, at, to, dt)
    type(domain), intent(in) :: d
    real(wp), intent(in), dimension(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables) :: from, at
    real(wp), intent(inout), dimension(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables) :: to
    real(wp), intent(in) :: dt
    real(wp) :: east(0:d%nx, variables), north(d%nx, variables), south(d%nx, variables)
    real(wp) :: h, u, v, f
    integer :: i, j, k
    north = 0
    do j = 0, d%ny
      south = north
      do i = 1, d%nx
        h = middle(at(i, j - 1, ih), at(i, j, ih), at(i, j + 1, ih), at(i, j + 2, ih))
        u = middle(at(i, j - 1, iu), at(i, j, iu), at(i, j + 1, iu), at(i, j + 2, iu))
        v = middle(at(i, j - 1, iv), at(i, j, iv), at(i, j + 1, iv), at(i, j + 2, iv))
        north(i, ih) = v
        north(i, iu) = u*v/h
        north(i, iv) = v*v/h + gravity/2*h*h
      end do
      do k = 1, variables
        do i = 1, d%nx
          north(i, k) = north(i, k) + diffusion*third(at(i, j - 1, k), at(i, j, k), at(i, j + 1, k), at(i, j + 2, k))
        end do
      end do
      if (j == 0) cycle
      do i = 0, d%nx
        h = middle(at(i - 1, j, ih), at(i, j, ih), at(i + 1, j, ih), at(i + 2, j, ih))
        u = middle(at(i - 1, j, iu), at(i, j, iu), at(i + 1, j, iu), at(i + 2, j, iu))
        v = middle(at(i - 1, j, iv), at(i, j, iv), at(i + 1, j, iv), at(i + 2, j, iv))
        east(i, ih) = u
        east(i, iu) = u*u/h + gravity/2*h*h
        east(i, iv) = u*v/h
      end do
      do k = 1, variables
        do i = 0, d%nx
          east(i, k) = east(i, k) + diffusion*third(at(i - 1, j, k), at(i, j, k), at(i + 1, j, k), at(i + 2, j, k))
        end do
      end do
      f = f0 + beta*dx*(d%y0 + j - 0.5_wp*(d%gy + 1))
      do i = 1, d%nx
        to(i, j, ih) = from(i, j, ih) - dt/dx*(east(i, ih) - east(i - 1, ih) + north(i, ih) - south(i, ih))
        to(i, j, iu) = from(i, j, iu) - dt/dx*(east(i, iu) - east(i - 1, iu) + north(i, iu) - south(i, iu)) &
                       + dt*f*at(i, j, iv)
        to(i, j, iv) = from(i, j, iv) - dt/dx*(east(i, iv) - east(i - 1, iv) + north(i, iv) - south(i, iv)) &
                       - dt*f*at(i, j, iu)
      end do
    end do
  end subroutine

  !> The value at the face between the second and the third of four cells.
  elemental real(wp) function middle(a, b, c, d)
    real(wp), intent(in) :: a, b, c, d
    middle = (7*(b + c) - (a + d))/12
  end function
  elemental real(wp) function third(a, b, c, d)
    real(wp), intent(in) :: a, b, c, d
    third = (d - a) - 3*(c - b)
  end function

  !> Kinetic and potential energy of each cell.
  subroutine energy_of(d, q, energy)
    type(domain), intent(in) :: d
    real(wp), intent(in) :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    real(wp), intent(out) :: energy(d%nx, d%ny)
    integer :: i, j
    do j = 1, d%ny
      do i = 1, d%nx
        energy(i, j) = ((q(i, j, iu)**2 + q(i, j, iv)**2)/q(i, j, ih) + gravity*q(i, j, ih)**2)/2
      end do
    end do
  end subroutine

end module
