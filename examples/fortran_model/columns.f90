! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> A column code as those of ICON and IFS: arrays (nproma, level, block), the last block short. It knows of no ranks.
module columns
  use, intrinsic :: iso_fortran_env, only: int64
  use shallow_water, only: wp, domain
  implicit none
  private
  public :: list_cells, diffuse

  integer, parameter, public :: levels = 6

contains

  !> The model's cells as a list: where they are in its arrays, and their global ids. This rank's own come first, then
  !! those of the neighbours that share an edge with them.
  subroutine list_cells(d, own, at, ids)
    type(domain), intent(in) :: d
    integer, intent(out) :: own
    integer, allocatable, intent(out) :: at(:, :)
    integer(int64), allocatable, intent(out) :: ids(:)
    integer :: i, j, c
    own = d%nx*d%ny
    at = reshape([((i, j, i=1, d%nx), j=1, d%ny), (0, j, d%nx + 1, j, j=1, d%ny)], [2, own + 2*d%ny])
    if (d%y0 > 0) at = reshape([at, [(i, 0, i=1, d%nx)]], [2, size(at, 2) + d%nx])
    if (d%y0 + d%ny < d%gy) at = reshape([at, [(i, d%ny + 1, i=1, d%nx)]], [2, size(at, 2) + d%nx])
    allocate (ids(size(at, 2)))
    do c = 1, size(ids)
      ids(c) = modulo(d%x0 + at(1, c) - 1, d%gx) + 1 + d%gx*(d%y0 + at(2, c) - 1)
    end do
  end subroutine

  !> Heat diffuses up and down in the first `lanes` columns of a block: an implicit step, by elimination.
  subroutine diffuse(lanes, nproma, depth, heat)
    integer, intent(in) :: lanes, nproma
    real(wp), intent(in) :: depth(nproma)
    real(wp), intent(inout) :: heat(nproma, levels)
    real(wp) :: upper(nproma, levels), rate(nproma), pivot
    integer :: k, lane
    do lane = 1, lanes
      rate(lane) = 1e4_wp*(levels/depth(lane))**2
      upper(lane, 1) = rate(lane)/(1 + rate(lane))
      heat(lane, 1) = heat(lane, 1)/(1 + rate(lane))
    end do
    do k = 2, levels
      do lane = 1, lanes
        pivot = 1 + merge(1, 2, k == levels)*rate(lane) - rate(lane)*upper(lane, k - 1)
        upper(lane, k) = rate(lane)/pivot
        heat(lane, k) = (heat(lane, k) + rate(lane)*heat(lane, k - 1))/pivot
      end do
    end do
    do k = levels - 1, 1, -1
      do lane = 1, lanes
        heat(lane, k) = heat(lane, k) + upper(lane, k)*heat(lane, k + 1)
      end do
    end do
  end subroutine

end module
