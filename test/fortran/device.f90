! SPDX-License-Identifier: BSD-3-Clause
! Device memory from Fortran: the address that cuMemAlloc returned as a C_PTR becomes a Fortran pointer with
! c_f_pointer, and is the buffer of messages (contiguous and sections) and collectives.
program device
    use checks
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: m = 100000, untouched = -7
    interface
        integer(c_int) function cu_init(flags) bind(C, name='cuInit')
            import
            integer(c_int), value :: flags
        end function
        integer(c_int) function cu_retain(context, dev) bind(C, name='cuDevicePrimaryCtxRetain')
            import
            type(c_ptr), intent(out) :: context
            integer(c_int), value :: dev
        end function
        integer(c_int) function cu_set(context) bind(C, name='cuCtxSetCurrent')
            import
            type(c_ptr), value :: context
        end function
        integer(c_int) function cu_alloc(address, bytes) bind(C, name='cuMemAlloc_v2')
            import
            type(c_ptr), intent(out) :: address
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function cu_free(address) bind(C, name='cuMemFree_v2')
            import
            type(c_ptr), value :: address
        end function
        integer(c_int) function cu_copy(to, from, bytes) bind(C, name='cuMemcpy')
            import
            type(c_ptr), value :: to, from
            integer(c_size_t), value :: bytes
        end function
    end interface
    interface
        subroutine device_old(out, in, m, to, from)
            integer :: out(*), in(*), m, to, from
        end subroutine
    end interface
    integer, target :: host(2 * m)
    integer :: i
    type(c_ptr) :: context, out_address, in_address
    integer, pointer, contiguous, asynchronous :: out(:), in(:)

    call begin()
    call check('the driver starts', cu_init(0_c_int) == 0 .and. cu_retain(context, 0_c_int) == 0 .and. cu_set(context) == 0)
    call check('device memory', cu_alloc(out_address, c_sizeof(host)) == 0 .and. cu_alloc(in_address, c_sizeof(host)) == 0)
    call c_f_pointer(out_address, out, [2 * m])
    call c_f_pointer(in_address, in, [2 * m])
    call ring()
    if (MPI_SUBARRAYS_SUPPORTED) call sections()
    call collectives()
    call old_form()
    call check('freed', cu_free(out_address) == 0 .and. cu_free(in_address) == 0)
    call verdict()

contains

    ! The value that element i of a rank's buffer has.
    integer elemental function value(rank, i)
        integer, intent(in) :: rank, i
        value = rank * 1000000 + i
    end function

    ! This rank's values to one buffer, poison to the other.
    subroutine fill()
        host = value(me, [(i, i=1, 2 * m)])
        call check('copy to the device', cu_copy(out_address, c_loc(host), c_sizeof(host)) == 0)
        host = untouched
        call check('copy to the device', cu_copy(in_address, c_loc(host), c_sizeof(host)) == 0)
    end subroutine

    subroutine fetch()
        call check('copy from the device', cu_copy(c_loc(host), in_address, c_sizeof(host)) == 0)
    end subroutine

    ! Short and long messages; what lies behind the message stays.
    subroutine ring()
        integer, parameter :: lengths(3) = [1, 1000, m]
        type(MPI_Request) :: r(2)
        integer :: k
        do k = 1, 3
            call fill()
            call MPI_Irecv(in, lengths(k), MPI_INTEGER, modulo(me - 1, n), 1, MPI_COMM_WORLD, r(1))
            call MPI_Isend(out, lengths(k), MPI_INTEGER, modulo(me + 1, n), 1, MPI_COMM_WORLD, r(2))
            call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
            call fetch()
            call check('a message between devices', &
                       all(host(:lengths(k)) == value(modulo(me - 1, n), [(i, i=1, lengths(k))])))
            call check('what lies behind a message', all(host(lengths(k) + 1:) == untouched))
        end do
    end subroutine

    ! A section of device memory: the CPU must not copy its elements.
    subroutine sections()
        type(MPI_Request) :: r(2)
        call fill()
        call MPI_Irecv(in(2::2), m, MPI_INTEGER, modulo(me - 1, n), 2, MPI_COMM_WORLD, r(1))
        call MPI_Isend(out(1::2), m, MPI_INTEGER, modulo(me + 1, n), 2, MPI_COMM_WORLD, r(2))
        call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
        call fetch()
        call check('a section between devices', all(host(2::2) == value(modulo(me - 1, n), [(i, i=1, 2 * m, 2)])))
        call check('gaps of a section', all(host(1::2) == untouched))
    end subroutine

    subroutine collectives()
        integer :: k
        call fill()
        call MPI_Allreduce(out, in, m, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call fetch()
        call check('a sum', all(host(:m) == [(sum(value([(k, k=0, n - 1)], i)), i=1, m)]))
        call fill()
        call MPI_Bcast(out, m, MPI_INTEGER, n - 1, MPI_COMM_WORLD)
        call MPI_Sendrecv(out, m, MPI_INTEGER, me, 3, in, m, MPI_INTEGER, me, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call fetch()
        call check('a broadcast', all(host(:m) == value(n - 1, [(i, i=1, m)])))
        call fill()
        call MPI_Allgather(out, 10, MPI_INTEGER, in, 10, MPI_INTEGER, MPI_COMM_WORLD)
        call fetch()
        call check('gathered blocks', all(host(:10 * n) == [((value(k, i), i=1, 10), k=0, n - 1)]))
    end subroutine

    ! mpif.h: the buffer's address alone.
    subroutine old_form()
        call fill()
        call device_old(out, in, m, modulo(me + 1, n), modulo(me - 1, n))
        call fetch()
        call check('a message with mpif.h', all(host(:m) == value(modulo(me - 1, n), [(i, i=1, m)])))
    end subroutine
end program

subroutine device_old(out, in, m, to, from)
    implicit none
    include 'mpif.h'
    integer :: out(*), in(*), m, to, from, err
    call MPI_Sendrecv(out, m, MPI_INTEGER, to, 4, in, m, MPI_INTEGER, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
    if (err /= MPI_SUCCESS) error stop 1
end subroutine
