! SPDX-License-Identifier: BSD-3-Clause
! Array sections of rank 1 to 7 in blocking, nonblocking and persistent calls, against Fortran's own copy of the
! section.  One rank sends to itself.  Elements outside the section must stay as they were.
program sections
    use checks
    use mpi_f08
    implicit none
    integer, parameter :: untouched = -7

    call begin()
    if (MPI_SUBARRAYS_SUPPORTED) then
        call rank1()
        call rank2()
        call rank3()
        call rank4()
        call rank5()
        call rank6()
        call rank7()
        call random()
        call empty()
        call assigned()
        call collectives()
    end if
    call verdict()

contains

    ! Each way of a message: from a section to a contiguous array, then from there to a section.
    subroutine transfer_all(what, from, flat, to)
        character(*), intent(in) :: what
        integer, intent(in), asynchronous :: from(..)
        integer, intent(inout), asynchronous :: flat(:)
        integer, intent(inout), asynchronous :: to(..)
        integer :: way
        type(MPI_Request) :: r(2)
        integer :: keep(size(flat))
        keep = flat
        do way = 1, 3
            flat = untouched
            select case (way)
            case (1)
                call MPI_Sendrecv(from, size(flat), MPI_INTEGER, 0, 1, flat, size(flat), MPI_INTEGER, 0, 1, &
                                  MPI_COMM_SELF, MPI_STATUS_IGNORE)
                call MPI_Sendrecv(flat, size(flat), MPI_INTEGER, 0, 1, to, size(flat), MPI_INTEGER, 0, 1, &
                                  MPI_COMM_SELF, MPI_STATUS_IGNORE)
            case (2)
                call MPI_Irecv(flat, size(flat), MPI_INTEGER, 0, 2, MPI_COMM_SELF, r(1))
                call MPI_Isend(from, size(flat), MPI_INTEGER, 0, 2, MPI_COMM_SELF, r(2))
                call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
                call MPI_Irecv(to, size(flat), MPI_INTEGER, 0, 2, MPI_COMM_SELF, r(1))
                call MPI_Isend(flat, size(flat), MPI_INTEGER, 0, 2, MPI_COMM_SELF, r(2))
                call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
            case (3)
                call MPI_Recv_init(flat, size(flat), MPI_INTEGER, 0, 3, MPI_COMM_SELF, r(1))
                call MPI_Send_init(from, size(flat), MPI_INTEGER, 0, 3, MPI_COMM_SELF, r(2))
                call twice(r)
                call MPI_Recv_init(to, size(flat), MPI_INTEGER, 0, 3, MPI_COMM_SELF, r(1))
                call MPI_Send_init(flat, size(flat), MPI_INTEGER, 0, 3, MPI_COMM_SELF, r(2))
                call twice(r)
            end select
            call check(what // trim(merge(', blocking   ', merge(', nonblocking', ', persistent ', way == 2), &
                                           way == 1)), all(flat == keep))
        end do
    end subroutine

    subroutine twice(r)
        type(MPI_Request), intent(inout) :: r(2)
        integer :: i
        do i = 1, 2
            call MPI_Startall(2, r)
            call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
        end do
        call MPI_Request_free(r(1))
        call MPI_Request_free(r(2))
    end subroutine

    subroutine rank1()
        integer, asynchronous :: a(20), b(20), want(20), flat(7)
        integer :: i
        a = [(i, i=1, 20)]
        flat = a(2:20:3)
        b = untouched
        want = untouched
        want(2:20:3) = flat
        call transfer_all('rank 1, stride 3', a(2:20:3), flat, b(2:20:3))
        call check('rank 1, elements outside', all(b == want))
        flat = a(20:2:-3)
        b = untouched
        want = untouched
        want(20:2:-3) = flat
        call transfer_all('rank 1, stride -3', a(20:2:-3), flat, b(20:2:-3))
        call check('rank 1, stride -3, elements outside', all(b == want))
    end subroutine

    subroutine rank2()
        integer, asynchronous :: a(8, 9), b(8, 9), want(8, 9), flat(15)
        integer :: i
        a = reshape([(i, i=1, 72)], [8, 9])
        flat = reshape(a(2:6:2, 1:9:2), [15])
        b = untouched
        want = untouched
        want(2:6:2, 1:9:2) = reshape(flat, [3, 5])
        call transfer_all('rank 2', a(2:6:2, 1:9:2), flat, b(2:6:2, 1:9:2))
        call check('rank 2, elements outside', all(b == want))
    end subroutine

    ! A whole dimension above one with a stride.
    subroutine rank3()
        integer, asynchronous :: a(6, 4, 5), b(6, 4, 5), want(6, 4, 5), flat(36)
        integer :: i
        a = reshape([(i, i=1, 120)], [6, 4, 5])
        flat = reshape(a(1:6:2, :, 1:5:2), [36])
        b = untouched
        want = untouched
        want(1:6:2, :, 1:5:2) = reshape(flat, [3, 4, 3])
        call transfer_all('rank 3', a(1:6:2, :, 1:5:2), flat, b(1:6:2, :, 1:5:2))
        call check('rank 3, elements outside', all(b == want))
    end subroutine

    subroutine rank4()
        integer, asynchronous :: a(5, 4, 3, 6), b(5, 4, 3, 6), want(5, 4, 3, 6), flat(54)
        integer :: i
        a = reshape([(i, i=1, 360)], shape(a))
        flat = reshape(a(1:5:2, 4:2:-1, :, 1:4:3), [54])
        b = untouched
        want = untouched
        want(1:5:2, 4:2:-1, :, 1:4:3) = reshape(flat, [3, 3, 3, 2])
        call transfer_all('rank 4', a(1:5:2, 4:2:-1, :, 1:4:3), flat, b(1:5:2, 4:2:-1, :, 1:4:3))
        call check('rank 4, elements outside', all(b == want))
    end subroutine

    ! Contiguous in the first two dimensions, and one dimension of a single element.
    subroutine rank5()
        integer, asynchronous :: a(3, 4, 3, 5, 3), b(3, 4, 3, 5, 3), want(3, 4, 3, 5, 3), flat(72)
        integer :: i
        a = reshape([(i, i=1, 540)], shape(a))
        flat = reshape(a(:, :, 3:1:-2, 2:2, 1:3), [72])
        b = untouched
        want = untouched
        want(:, :, 3:1:-2, 2:2, 1:3) = reshape(flat, [3, 4, 2, 1, 3])
        call transfer_all('rank 5', a(:, :, 3:1:-2, 2:2, 1:3), flat, b(:, :, 3:1:-2, 2:2, 1:3))
        call check('rank 5, elements outside', all(b == want))
    end subroutine

    subroutine rank6()
        integer, asynchronous :: a(2, 3, 2, 3, 2, 5), b(2, 3, 2, 3, 2, 5), want(2, 3, 2, 3, 2, 5), flat(128)
        integer :: i
        a = reshape([(i, i=1, 360)], shape(a))
        flat = reshape(a(2:1:-1, 1:3:2, :, 3:1:-2, :, 2:5), [128])
        b = untouched
        want = untouched
        want(2:1:-1, 1:3:2, :, 3:1:-2, :, 2:5) = reshape(flat, [2, 2, 2, 2, 2, 4])
        call transfer_all('rank 6', a(2:1:-1, 1:3:2, :, 3:1:-2, :, 2:5), flat, b(2:1:-1, 1:3:2, :, 3:1:-2, :, 2:5))
        call check('rank 6, elements outside', all(b == want))
    end subroutine

    subroutine rank7()
        integer, asynchronous :: a(3, 3, 3, 3, 3, 3, 3), b(3, 3, 3, 3, 3, 3, 3), want(3, 3, 3, 3, 3, 3, 3), flat(288)
        integer :: i
        a = reshape([(i, i=1, 2187)], shape(a))
        flat = reshape(a(1:3:2, :, 2:3, 1:3:2, 3:1:-1, 1:2, 1:3:2), [288])
        b = untouched
        want = untouched
        want(1:3:2, :, 2:3, 1:3:2, 3:1:-1, 1:2, 1:3:2) = reshape(flat, [2, 3, 2, 2, 3, 2, 2])
        call transfer_all('rank 7', a(1:3:2, :, 2:3, 1:3:2, 3:1:-1, 1:2, 1:3:2), flat, &
                          b(1:3:2, :, 2:3, 1:3:2, 3:1:-1, 1:2, 1:3:2))
        call check('rank 7, elements outside', all(b == want))
    end subroutine

    ! The first k elements of sections of rank 4 whose bounds and strides are random (a fixed seed).
    subroutine random()
        integer, target, asynchronous :: a(7, 5, 6, 4), b(7, 5, 6, 4), want(7, 5, 6, 4)
        integer, pointer, asynchronous :: from(:, :, :, :), to(:, :, :, :), expected(:, :, :, :)
        integer, allocatable, asynchronous :: flat(:), got(:)
        integer :: i, k, bad, seeds
        real :: x
        call random_seed(size=seeds)
        call random_seed(put=[(i, i=1, seeds)])
        a = reshape([(i, i=1, 840)], shape(a))
        bad = 0
        do i = 1, 300
            call sections_of(a, b, want, from, to, expected)
            flat = reshape(from, [size(from)])
            call random_number(x)
            k = int(x * (size(flat) + 1))
            got = flat
            got(:k) = untouched
            call MPI_Sendrecv(from, k, MPI_INTEGER, 0, 1, got, k, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
            bad = bad + merge(0, 1, all(got == flat))
            b = untouched
            want = untouched
            got(k + 1:) = untouched
            expected = reshape(got, shape(expected))
            call MPI_Sendrecv(flat, k, MPI_INTEGER, 0, 1, to, k, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
            bad = bad + merge(0, 1, all(b == want))
        end do
        call check('300 random sections', bad == 0)
    end subroutine

    ! The same random section of three arrays.
    subroutine sections_of(a, b, c, pa, pb, pc)
        integer, target, intent(in) :: a(:, :, :, :), b(:, :, :, :), c(:, :, :, :)
        integer, pointer, intent(out) :: pa(:, :, :, :), pb(:, :, :, :), pc(:, :, :, :)
        integer :: d, f(4), l(4), s(4)
        real :: x(3)
        do d = 1, 4
            call random_number(x)
            f(d) = 1 + int(x(1) * size(a, d))
            l(d) = 1 + int(x(2) * size(a, d))
            s(d) = merge(1, -1, f(d) <= l(d)) * (1 + int(x(3) * 3))
        end do
        pa => a(f(1):l(1):s(1), f(2):l(2):s(2), f(3):l(3):s(3), f(4):l(4):s(4))
        pb => b(f(1):l(1):s(1), f(2):l(2):s(2), f(3):l(3):s(3), f(4):l(4):s(4))
        pc => c(f(1):l(1):s(1), f(2):l(2):s(2), f(3):l(3):s(3), f(4):l(4):s(4))
    end subroutine

    subroutine empty()
        integer, asynchronous :: a(10), b(10), flat(0)
        a = 1
        b = untouched
        call transfer_all('no elements', a(5:4:2), flat, b(5:4:2))
        call check('no elements, elements outside', all(b == untouched))
    end subroutine

    ! gfortran 12 sets no stride in the descriptor of an array that is assigned from RESHAPE, PACK or MATMUL.
    subroutine assigned()
        integer(MPI_ADDRESS_KIND), parameter :: before(4) = [0_MPI_ADDRESS_KIND, 3_MPI_ADDRESS_KIND, &
                                                             77777_MPI_ADDRESS_KIND, huge(0_MPI_ADDRESS_KIND)]
        integer :: i
        logical :: good
        good = .true.
        do i = 1, size(before)
            call fill_stack(before(i))
            call send_assigned(good)
        end do
        call check('arrays assigned from RESHAPE, PACK and MATMUL', good)
    end subroutine

    subroutine fill_stack(x)
        integer(MPI_ADDRESS_KIND), intent(in) :: x
        integer(MPI_ADDRESS_KIND) :: a(4000)
        a = x
        call MPI_F_sync_reg(a)
    end subroutine

    subroutine send_assigned(good)
        logical, intent(inout) :: good
        integer, allocatable :: a(:, :), b(:), c(:)
        integer :: x(6), got(6), i
        x = [(i, i=1, 6)]
        a = reshape(x, [3, 2])
        got = untouched
        call MPI_Sendrecv(a, 6, MPI_INTEGER, 0, 1, got, 6, MPI_INTEGER, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
        good = good .and. all(got == x)
        b = pack(x, x > 2)
        got = untouched
        call MPI_Allreduce(b, got, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF)
        good = good .and. all(got(:4) == [3, 4, 5, 6])
        c = matmul(a, [1, 1])
        got = untouched
        call MPI_Allgather(c, 3, MPI_INTEGER, got, 3, MPI_INTEGER, MPI_COMM_SELF)
        good = good .and. all(got(:3) == [5, 7, 9])
    end subroutine

    ! No datatype can stand for these sections: copied in and out when the call blocks, refused otherwise.
    subroutine collectives()
        integer, asynchronous :: a(10), b(10)
        type(MPI_Request) :: r
        integer :: i, code, class
        a = [(i, i=1, 10)]
        b = untouched
        call MPI_Allreduce(a(1:9:2), b(2:10:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF)
        call check('allreduce of sections', all(b(2:10:2) == a(1:9:2)) .and. all(b(1:9:2) == untouched))
        b = a
        call MPI_Allreduce(MPI_IN_PLACE, b(1:9:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF)
        call check('allreduce of a section in place', all(b == a))
        b = untouched
        call MPI_Gatherv(a(1:9:2), 5, MPI_INTEGER, b(10:2:-2), [5], [0], MPI_INTEGER, 0, MPI_COMM_SELF)
        call check('gatherv of sections', all(b(10:2:-2) == a(1:9:2)) .and. all(b(1:9:2) == untouched))
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
        r = MPI_REQUEST_NULL
        call MPI_Iallreduce(a(1:9:2), b(2:10:2), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, r, code)
        call MPI_Error_class(code, class)
        call check('nonblocking allreduce of sections is refused', class == MPI_ERR_BUFFER)
    end subroutine
end program
