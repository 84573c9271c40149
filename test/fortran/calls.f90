! SPDX-License-Identifier: BSD-3-Clause
! What a call from Fortran costs beside the same call from C: messages of one INTEGER to and from MPI_PROC_NULL; and a column
! of a matrix sent to this rank as a section, and as a vector type made by hand.  Each figure is the best of the rounds,
! which go through all ways in turn.  Prints name and nanoseconds a call.
program calls
    use mpi_f08
    implicit none
    integer, parameter :: count = 100000, rounds = 40, rows = 64, columns = 256
    character(*), parameter :: names(8) = [character(24) :: 'C send', 'C recv', 'mpif.h send', 'mpif.h recv', &
                                           'mpi_f08 send', 'mpi_f08 recv', 'section', 'vector type']
    double precision :: best(8), t
    integer :: way, round
    integer, asynchronous, save :: a(rows, columns), b(columns)     ! the same for both ways: addresses cost time too
    call MPI_Init()
    best = huge(t)
    do round = 1, rounds
        do way = 1, 8
            t = MPI_Wtime()
            select case (way)
            case (1); call c_send(count)
            case (2); call c_recv(count)
            case (3); call mpif_send(count)
            case (4); call mpif_recv(count)
            case (5); call f08_send(count)
            case (6); call f08_recv(count)
            case (7); call section(count / 100)
            case (8); call vector_type(count / 100)
            end select
            best(way) = min(best(way), (MPI_Wtime() - t) * 1d9 / merge(count, count / 100, way <= 6))
        end do
    end do
    print '(a,f9.2)', (names(way), best(way), way=1, 8)
    call MPI_Finalize()

contains

    subroutine f08_send(n)
        integer, intent(in) :: n
        integer :: i, x(4)
        x = 0
        do i = 1, n
            call MPI_Send(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD)
        end do
    end subroutine

    subroutine f08_recv(n)
        integer, intent(in) :: n
        integer :: i, x(4)
        do i = 1, n
            call MPI_Recv(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        end do
    end subroutine

    subroutine section(n)
        integer, intent(in) :: n
        integer :: i
        do i = 1, n
            call MPI_Sendrecv(a(3, :), columns, MPI_INTEGER, 0, 0, b, columns, MPI_INTEGER, 0, 0, MPI_COMM_SELF, &
                              MPI_STATUS_IGNORE)
        end do
    end subroutine

    subroutine vector_type(n)
        integer, intent(in) :: n
        type(MPI_Datatype) :: row
        integer :: i
        call MPI_Type_vector(columns, 1, rows, MPI_INTEGER, row)
        call MPI_Type_commit(row)
        do i = 1, n
            call MPI_Sendrecv(a(3:, 1), 1, row, 0, 0, b, columns, MPI_INTEGER, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
        end do
        call MPI_Type_free(row)
    end subroutine
end program

subroutine mpif_send(n)
    implicit none
    include 'mpif.h'
    integer :: n, i, x(4), ierror
    x = 0
    do i = 1, n
        call MPI_SEND(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, ierror)
    end do
end subroutine

subroutine mpif_recv(n)
    implicit none
    include 'mpif.h'
    integer :: n, i, x(4), ierror
    do i = 1, n
        call MPI_RECV(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    end do
end subroutine
