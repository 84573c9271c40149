! SPDX-License-Identifier: BSD-3-Clause
! Whether this compiler passes C descriptors as the library reads them (mpi/fortran/section.h).  Exit
! status 0: yes.  launcher/weft-mod compiles, links and runs it before it makes the module mpi_f08.
program weft_probe
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine weft_describe(x, out, absent) bind(C, name="weft_describe")
      import :: c_int64_t
      type(*), dimension(..), intent(in), asynchronous :: x
      integer(c_int64_t), intent(out) :: out(*)
      integer(c_int64_t), optional, intent(in) :: absent
    end subroutine
  end interface
  type pair
    integer(c_int32_t) :: i
    real(c_double) :: x
  end type
  integer(c_int64_t) :: d(64)
  real(c_double), target :: a(10, 12), s
  real(c_double), allocatable :: b(:, :, :)
  real(c_double), pointer :: p(:)
  character(5) :: c(4)
  complex(c_double) :: z(7)
  type(pair) :: q(6)
  integer(c_int16_t) :: r7(2, 3, 2, 3, 2, 3, 2)

  allocate (b(2:5, 3, 0:3))
  call weft_describe(a, d)
  call expect(8, [10, 12], [8, 80], c_loc(a))
  call weft_describe(a(2:8:2, 3:12:4), d)
  call expect(8, [4, 3], [16, 320], c_loc(a(2, 3)))
  call weft_describe(a(10:1:-3, 5), d)
  call expect(8, [4], [-24], c_loc(a(10, 5)))
  call weft_describe(s, d)
  call expect(8, [integer ::], [integer ::], c_loc(s))
  call weft_describe(a(4, 5), d)
  call expect(8, [integer ::], [integer ::], c_loc(a(4, 5)))
  call weft_describe(b(:, :, ::2), d)
  call expect(8, [4, 3, 2], [8, 32, 192], c_null_ptr)
  p => a(3, ::5)
  call weft_describe(p, d)
  call expect(8, [3], [400], c_loc(a(3, 1)))
  call weft_describe(c(1:4:3), d)
  call expect(5, [2], [15], c_null_ptr)
  call weft_describe(z%im, d)
  call expect(8, [7], [16], c_null_ptr)
  call weft_describe(q(2::2)%x, d)
  call expect(8, [3], [32], c_null_ptr)
  call weft_describe(q(::5), d)
  call expect(16, [2], [80], c_null_ptr)
  call weft_describe(r7(:, ::2, :, ::2, :, ::2, :), d)
  call expect(2, [2, 2, 2, 2, 2, 2, 2], [2, 8, 12, 48, 72, 288, 432], c_null_ptr)
  call shape_of(a(::3, 2:4))
  call size_of(a)
  deallocate (b)
contains
  subroutine expect(elem_len, extents, strides, base)
    integer, intent(in) :: elem_len, extents(:), strides(:)
    type(c_ptr), intent(in) :: base
    integer :: n
    n = size(extents)
    if (d(1) /= elem_len .or. d(2) /= n .or. d(4) /= 1) stop 1
    if (any(d(5:4 + n) /= extents) .or. any(d(20:19 + n) /= strides)) stop 2
    if (c_associated(base) .and. d(3) /= transfer(base, d(3))) stop 3
  end subroutine
  subroutine shape_of(x)
    real(c_double), intent(in), target :: x(:, :)
    call weft_describe(x, d)
    call expect(8, [4, 3], [24, 80], c_loc(x(1, 1)))
    call weft_describe(x(2:3, 1), d)
    call expect(8, [2], [24], c_loc(x(2, 1)))
  end subroutine
  subroutine size_of(x)
    real(c_double), intent(in), target :: x(10, *)
    call weft_describe(x, d)
    call expect(8, [10, -1], [8, 80], c_loc(x(1, 1)))
  end subroutine
end program
