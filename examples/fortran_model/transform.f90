! SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
!> A filter along x. It needs whole rows, and knows of no ranks.
module transform
  use shallow_water, only: wp
  implicit none
  private
  public :: low_pass

contains

  !> Keeps the waves 0 to `keep` of each row: a discrete Fourier transform and its inverse, by the formula.
  subroutine low_pass(rows, keep)
    real(wp), intent(inout) :: rows(:, :, :)
    integer, intent(in) :: keep
    real(wp) :: cosine(0:size(rows, 1) - 1), sine(0:size(rows, 1) - 1), kept(size(rows, 1)), a, b
    integer :: n, i, j, k, wave, angle
    n = size(rows, 1)
    do i = 0, n - 1
      cosine(i) = cos(2*acos(-1._wp)*i/n)
      sine(i) = sin(2*acos(-1._wp)*i/n)
    end do
    do k = 1, size(rows, 3)
      do j = 1, size(rows, 2)
        kept = sum(rows(:, j, k))/n
        do wave = 1, keep
          a = 0
          b = 0
          do i = 1, n
            angle = modulo(wave*(i - 1), n)
            a = a + rows(i, j, k)*cosine(angle)
            b = b + rows(i, j, k)*sine(angle)
          end do
          do i = 1, n
            angle = modulo(wave*(i - 1), n)
            kept(i) = kept(i) + 2*(a*cosine(angle) + b*sine(angle))/n
          end do
        end do
        rows(:, j, k) = kept
      end do
    end do
  end subroutine

end module
