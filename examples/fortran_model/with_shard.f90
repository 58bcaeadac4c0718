! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> Halos and sums by the library, with the model's arrays and decomposition as they are.
module with_shard
  use shallow_water
  use shard
  implicit none
  private

  type, extends(halo_code), public :: halos_with_shard
    type(shard_mesh) :: mesh
    type(shard_field), allocatable :: of(:)
    type(shard_field) :: of_energy
    type(shard_exchange) :: plan
    real(wp), allocatable :: energy(:, :)
  contains
    procedure :: start
    procedure :: fill
    procedure :: totals
  end type

contains

  subroutine start(halos, d, q)
    class(halos_with_shard), intent(inout) :: halos
    type(domain), intent(in) :: d
    real(wp), intent(inout), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    character(2), parameter :: names(variables) = ['h ', 'hu', 'hv']
    type(shard_dim) :: dims(2)
    integer :: k
    call halos%mesh%create(d%comm, [d%px, d%py])
    allocate (halos%of(variables))
    dims(1) = shard_dim(d%gx, axis=1, halo=halo, boundary=periodic(), first=d%first_x)
    do k = 1, variables
      dims(2) = shard_dim(d%gy, axis=2, halo=halo, boundary=symmetric(odd=k == iv), first=d%first_y)
      call halos%of(k)%wrap(halos%mesh, q(:, :, k), dims, name=trim(names(k)))
    end do
    call halos%plan%plan(halos%of, faces=.true.)
    allocate (halos%energy(d%nx, d%ny))
    dims(1) = shard_dim(d%gx, axis=1, first=d%first_x)
    dims(2) = shard_dim(d%gy, axis=2, first=d%first_y)
    call halos%of_energy%wrap(halos%mesh, halos%energy, dims, name='energy')
  end subroutine

  subroutine fill(halos, d, q)
    class(halos_with_shard), intent(inout) :: halos
    type(domain), intent(in) :: d
    real(wp), intent(inout), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    integer :: k
    do k = 1, variables
      call halos%of(k)%rebind(q(:, :, k))
    end do
    call halos%plan%run()
  end subroutine

  subroutine totals(halos, d, q, mass, energy)
    class(halos_with_shard), intent(inout) :: halos
    type(domain), intent(in) :: d
    real(wp), intent(in), target :: q(1 - halo:d%nx + halo, 1 - halo:d%ny + halo, variables)
    real(wp), intent(out) :: mass, energy
    call energy_of(d, q, halos%energy)
    call halos%of(ih)%rebind(q(:, :, ih))
    mass = sum_of(halos%of(ih), ordered)
    energy = sum_of(halos%of_energy, ordered)
  end subroutine

end module
