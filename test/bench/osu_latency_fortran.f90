! SPDX-License-Identifier: BSD-3-Clause
! Latency of a ping-pong between two ranks, from mpi_f08: the twin of osu_latency.  Options: -m MIN:MAX (bytes),
! -i ITERATIONS, -x WARM-UP ROUNDS.  The largest messages get a tenth of the iterations.
program osu_latency_fortran
    use mpi_f08
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none
    integer, parameter :: tag = 1
    character, allocatable, asynchronous :: out(:), in(:)
    integer :: me, ranks, smallest = 1, largest = 4194304, rounds = 10000, warm = 200, bytes
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    if (ranks /= 2) call give_up('this program needs two ranks, not ' // text(ranks))
    call options()
    allocate (out(largest), in(largest))
    out = 'a'
    in = 'b'
    if (me == 0) print '(a)', '# OSU MPI Latency Test, Fortran (mpi_f08)', '# Size       Avg Latency(us)'
    bytes = smallest
    do while (bytes <= largest)
        call one_size(bytes, merge(rounds, max(rounds / 10, 1), bytes <= 8192))
        bytes = merge(2 * bytes, 1, bytes > 0)
    end do
    deallocate (out, in)
    call MPI_Finalize()

contains

    subroutine one_size(n, count)
        integer, intent(in) :: n, count
        double precision :: start
        integer :: i
        start = 0
        do i = 1 - warm, count
            if (i == 1) start = MPI_Wtime()
            if (me == 0) then
                call MPI_Send(out, n, MPI_CHARACTER, 1, tag, MPI_COMM_WORLD)
                call MPI_Recv(in, n, MPI_CHARACTER, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            else
                call MPI_Recv(in, n, MPI_CHARACTER, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                call MPI_Send(out, n, MPI_CHARACTER, 0, tag, MPI_COMM_WORLD)
            end if
        end do
        if (me == 0) print '(i0,t12,f17.2)', n, (MPI_Wtime() - start) * 1d6 / (2 * count)
        if (any(in(:n) /= 'a')) call give_up('wrong data in a message of ' // text(n) // ' bytes')
    end subroutine

    subroutine options()
        character(32) :: name, value
        integer :: i, colon, err
        err = 0
        do i = 1, command_argument_count() - 1, 2
            call get_command_argument(i, name)
            call get_command_argument(i + 1, value)
            colon = index(value, ':')
            select case (name)
            case ('-m')
                if (colon > 1) read (value(:colon - 1), *, iostat=err) smallest
                if (err == 0) read (value(colon + 1:), *, iostat=err) largest
            case ('-i')
                read (value, *, iostat=err) rounds
            case ('-x')
                read (value, *, iostat=err) warm
            case default
                err = 1
            end select
            if (err /= 0) call give_up('unknown option or value: ' // trim(name) // ' ' // trim(value))
        end do
        if (modulo(command_argument_count(), 2) /= 0) call give_up('each option has a value: -m MIN:MAX -i N -x N')
        if (smallest < 0 .or. largest < smallest .or. rounds < 1 .or. warm < 0) call give_up('an option is out of range')
    end subroutine

    function text(i) result(t)
        integer, intent(in) :: i
        character(:), allocatable :: t
        character(12) :: digits
        write (digits, '(i0)') i
        t = trim(digits)
    end function

    subroutine give_up(why)
        character(*), intent(in) :: why
        if (me == 0) write (error_unit, '(2a)') 'osu_latency_fortran: ', why
        flush (error_unit)
        call MPI_Abort(MPI_COMM_WORLD, 2)
    end subroutine
end program
