! SPDX-License-Identifier: BSD-3-Clause
! Array sections between several processes: messages, collectives of equal blocks (a datatype), collectives of other
! kinds (copied), one-sided calls, and calls that must refuse a section.
program ranks
    use checks
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: untouched = -7
    integer :: i

    call begin()
    if (MPI_SUBARRAYS_SUPPORTED) then
        call ring()
        call derived()
        call blocks()
        call blocks_nonblocking()
        call copied()
        call memory()
        call refused()
    end if
    call verdict()

contains

    ! Rows of a matrix go round, short and long, several requests at once; the last receive is shorter than its section.
    subroutine ring()
        integer, parameter :: lengths(3) = [5, 700, 100000]
        integer, allocatable, asynchronous :: a(:, :), b(:, :)
        type(MPI_Request) :: r(4)
        type(MPI_Status) :: s(4)
        integer :: k, m, count
        do k = 1, 3
            m = lengths(k)
            allocate (a(3, m), b(3, m))
            a = reshape([(me * 1000000 + i, i=1, 3 * m)], [3, m])
            b = untouched
            call MPI_Irecv(b(1, :), m, MPI_INTEGER, modulo(me - 1, n), 1, MPI_COMM_WORLD, r(1))
            call MPI_Irecv(b(3, m:1:-1), m, MPI_INTEGER, modulo(me - 1, n), 2, MPI_COMM_WORLD, r(2))
            call MPI_Isend(a(1, :), m, MPI_INTEGER, modulo(me + 1, n), 1, MPI_COMM_WORLD, r(3))
            call MPI_Isend(a(3, 2:m:2), m / 2, MPI_INTEGER, modulo(me + 1, n), 2, MPI_COMM_WORLD, r(4))
            call MPI_Waitall(4, r, s)
            if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(b)
            a = a + (modulo(me - 1, n) - me) * 1000000
            call check('a row went round', all(b(1, :) == a(1, :)) .and. all(b(2, :) == untouched))
            call MPI_Get_count(s(2), MPI_INTEGER, count)
            call check('count of a short message', count == m / 2)
            call check('a short message in a section', all(b(3, m:m - m / 2 + 1:-1) == a(3, 2:m:2)) .and. &
                       all(b(3, :m - m / 2) == untouched))
            deallocate (a, b)
        end do
    end subroutine

    ! A derived datatype, laid over the elements of a section.
    subroutine derived()
        integer, asynchronous :: a(4, 30), b(4, 30), want(30)
        type(MPI_Datatype) :: pairs
        type(MPI_Request) :: r(2)
        a = reshape([(me * 1000 + i, i=1, 120)], [4, 30])
        b = untouched
        call MPI_Type_vector(2, 2, 3, MPI_INTEGER, pairs) ! elements 1, 2, 4, 5
        call MPI_Type_commit(pairs)
        call MPI_Irecv(b(2, :), 3, pairs, modulo(me - 1, n), 3, MPI_COMM_WORLD, r(1))
        call MPI_Isend(a(2, :), 3, pairs, modulo(me + 1, n), 3, MPI_COMM_WORLD, r(2))
        call MPI_Type_free(pairs)
        call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
        want = untouched
        do i = 0, 2
            want([5 * i + 1, 5 * i + 2, 5 * i + 4, 5 * i + 5]) = &
                a(2, [5 * i + 1, 5 * i + 2, 5 * i + 4, 5 * i + 5]) + (modulo(me - 1, n) - me) * 1000
        end do
        call check('a derived datatype over a section', all(b(2, :) == want) .and. all(b(1, :) == untouched))
    end subroutine

    subroutine blocks()
        integer, asynchronous :: from(2, 4 * n), to(3, 4 * n), part(8), got(2, 4)
        from = untouched
        from(1, :) = [(1000 * me + i, i=1, 4 * n)]
        to = untouched
        call MPI_Alltoall(from(1, :), 4, MPI_INTEGER, to(2, :), 4, MPI_INTEGER, MPI_COMM_WORLD)
        call check('alltoall', all(to(2, :) == [(1000 * ((i - 1) / 4) + 4 * me + 1 + modulo(i - 1, 4), i=1, 4 * n)]) .and. &
                   all(to(1:3:2, :) == untouched))
        to = untouched
        part = [(10 * me + i, i=1, 8)]
        call MPI_Allgather(part(1:8:2), 4, MPI_INTEGER, to(3, 4 * n:1:-1), 4, MPI_INTEGER, MPI_COMM_WORLD)
        call check('allgather', all(to(3, 4 * n:1:-1) == [(10 * ((i - 1) / 4) + 2 * modulo(i - 1, 4) + 1, i=1, 4 * n)]) .and. &
                   all(to(:2, :) == untouched))
        to = untouched
        call MPI_Gather(part(2:8:2), 4, MPI_INTEGER, to(1, :), 4, MPI_INTEGER, n - 1, MPI_COMM_WORLD)
        if (me == n - 1) then
            call check('gather', all(to(1, :) == [(10 * ((i - 1) / 4) + 2 * modulo(i - 1, 4) + 2, i=1, 4 * n)]))
        else
            call check('gather, not the root', all(to == untouched))
        end if
        got = untouched
        call MPI_Scatter(from(1, :), 4, MPI_INTEGER, got(2, :), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
        call check('scatter', all(got(2, :) == [(4 * me + i, i=1, 4)]) .and. all(got(1, :) == untouched))
        call MPI_Bcast(got(2, 4:1:-1), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
        call check('bcast', all(got(2, :) == [(i, i=1, 4)]) .and. all(got(1, :) == untouched))
        call in_place()
    end subroutine

    subroutine in_place()
        integer :: to(2, 2 * n)
        to = untouched
        to(2, 2 * me + 1:2 * me + 2) = [me, -me]
        call MPI_Allgather(MPI_IN_PLACE, 2, MPI_INTEGER, to(2, :), 2, MPI_INTEGER, MPI_COMM_WORLD)
        call check('allgather in place', all(to(2, 1::2) == [(i, i=0, n - 1)]) .and. all(to(2, 2::2) == [(-i, i=0, n - 1)]) .and. &
                   all(to(1, :) == untouched))
    end subroutine

    subroutine blocks_nonblocking()
        integer, asynchronous :: from(2, 4 * n), to(3, 4 * n)
        type(MPI_Request) :: r
        integer :: round
        from(2, :) = [(1000 * me + i, i=1, 4 * n)]
        to = untouched
        call MPI_Ialltoall(from(2, :), 4, MPI_INTEGER, to(2, :), 4, MPI_INTEGER, MPI_COMM_WORLD, r)
        call MPI_Wait(r, MPI_STATUS_IGNORE)
        call check('nonblocking alltoall', &
                   all(to(2, :) == [(1000 * ((i - 1) / 4) + 4 * me + 1 + modulo(i - 1, 4), i=1, 4 * n)]))
        to = untouched
        call MPI_Allgather_init(from(2, ::n), 4, MPI_INTEGER, to(1, :), 4, MPI_INTEGER, MPI_COMM_WORLD, MPI_INFO_NULL, r)
        do round = 1, 2
            from(2, ::n) = [(100 * me + 10 * round + i, i=1, 4)]
            call MPI_Start(r)
            call MPI_Wait(r, MPI_STATUS_IGNORE)
            call check('persistent allgather', &
                       all(to(1, :) == [(100 * ((i - 1) / 4) + 10 * round + 1 + modulo(i - 1, 4), i=1, 4 * n)]) .and. &
                       all(to(2:, :) == untouched))
        end do
        call MPI_Request_free(r)
    end subroutine

    ! Blocking calls whose data no datatype describes.
    subroutine copied()
        integer :: a(2, 6), b(3, 6), counts(n), places(n), all_of(2, 3 * n)
        real(c_double) :: x(2, 4), y(2, 4)
        a = reshape([(100 * me + i, i=1, 12)], [2, 6])
        b = untouched
        call MPI_Allreduce(a(2, :), b(3, :), 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call check('allreduce', all(b(3, :) == [(50 * n * (n - 1) + n * 2 * i, i=1, 6)]) .and. all(b(:2, :) == untouched))
        x = me
        y = untouched
        call MPI_Scan(x(1, :), y(2, 4:1:-1), 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        call check('scan', all(y(2, :) == me * (me + 1) / 2) .and. all(y(1, :) == untouched))
        counts = 3
        places = [(3 * (n - i), i=1, n)]
        all_of = untouched
        call MPI_Allgatherv(a(1, ::2), 3, MPI_INTEGER, all_of(2, :), counts, places, MPI_INTEGER, MPI_COMM_WORLD)
        call check('allgatherv', all(all_of(2, :) == [(100 * (n - 1 - (i - 1) / 3) + 4 * modulo(i - 1, 3) + 1, i=1, 3 * n)]) .and. &
                   all(all_of(1, :) == untouched))
    end subroutine

    subroutine memory()
        integer, asynchronous :: a(2, 5)
        integer, pointer :: w(:)
        integer(MPI_ADDRESS_KIND) :: nbytes
        type(c_ptr) :: base
        type(MPI_Win) :: win
        integer :: one
        one = storage_size(one) / 8
        nbytes = 10 * one
        call MPI_Win_allocate(nbytes, one, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
        call c_f_pointer(base, w, [10])
        w = [(1000 * me + i, i=1, 10)]
        a = untouched
        a(1, :) = [(10 * me + i, i=1, 5)]
        call MPI_Win_fence(0, win)
        call MPI_Get(a(2, 5:1:-1), 5, MPI_INTEGER, modulo(me + 1, n), 5_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win)
        call MPI_Put(a(1, :), 5, MPI_INTEGER, modulo(me + 1, n), 0_MPI_ADDRESS_KIND, 5, MPI_INTEGER, win)
        call MPI_Win_fence(0, win)
        call check('get', all(a(2, 5:1:-1) == [(1000 * modulo(me + 1, n) + 5 + i, i=1, 5)]))
        call check('put', all(w(:5) == [(10 * modulo(me - 1, n) + i, i=1, 5)]))
        call MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win)
        one = 3
        call MPI_Fetch_and_op(one, a(1, 1), MPI_INTEGER, me, 9_MPI_ADDRESS_KIND, MPI_SUM, win)
        call MPI_Win_unlock(me, win)
        call check('fetch and op', a(1, 1) == 1000 * me + 10)
        call MPI_Win_free(win)
    end subroutine

    subroutine refused()
        integer, asynchronous :: a(2, 20), b(2, 20), counts(n), places(n)
        type(MPI_Request) :: r
        integer :: code
        a = 1
        b = 2
        counts = 1
        places = 0
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
        call MPI_Send(a(1, :), 21, MPI_INTEGER, me, 0, MPI_COMM_WORLD, code)
        call expect('more data than the section has', code)
        call MPI_Iallgatherv(a(1, :), 1, MPI_INTEGER, b(2, :), counts, places, MPI_INTEGER, MPI_COMM_WORLD, r, code)
        call expect('nonblocking allgatherv', code)
        call MPI_Reduce_init(a(1, :), b(2, :), 20, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, MPI_INFO_NULL, r, code)
        call expect('persistent reduce', code)
        call MPI_Iscan(a(1, :), b(2, :), 20, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, r, code)
        call expect('nonblocking scan', code)
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    end subroutine

    subroutine expect(what, code)
        character(*), intent(in) :: what
        integer, intent(in) :: code
        integer :: class
        class = MPI_SUCCESS
        if (code /= MPI_SUCCESS) call MPI_Error_class(code, class)
        call check('must be refused: ' // what, class == MPI_ERR_BUFFER)
    end subroutine
end program
