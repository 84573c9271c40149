! SPDX-License-Identifier: BSD-3-Clause
! Array sections as gfortran passes them to the procedures of MPICH's module mpi_f08, with explicit interfaces in its place.
module interfaces
    implicit none
    integer, bind(C, name="MPIR_F08_MPI_IN_PLACE") :: in_place
    integer, bind(C, name="MPIR_F08_MPI_STATUS_IGNORE_OBJ") :: status_ignore(5)
    interface
        subroutine mpi_sendrecv_f08ts(sendbuf, n, type, dest, tag, recvbuf, m, rtype, from, rtag, comm, status, ierror)
            type(*), dimension(..), intent(in) :: sendbuf
            type(*), dimension(..) :: recvbuf
            integer :: n, type, dest, tag, m, rtype, from, rtag, comm, status(5)
            integer, optional :: ierror
        end subroutine
        subroutine mpi_allreduce_f08ts(sendbuf, recvbuf, n, type, op, comm, ierror)
            type(*), dimension(..), intent(in) :: sendbuf
            type(*), dimension(..) :: recvbuf
            integer :: n, type, op, comm
            integer, optional :: ierror
        end subroutine
        subroutine mpi_isend_f08ts(buf, n, type, dest, tag, comm, request, ierror)
            type(*), dimension(..), intent(in), asynchronous :: buf
            integer :: n, type, dest, tag, comm, request
            integer, optional :: ierror
        end subroutine
        subroutine mpi_recv_f08ts(buf, n, type, from, tag, comm, status, ierror)
            type(*), dimension(..) :: buf
            integer :: n, type, from, tag, comm, status(5)
            integer, optional :: ierror
        end subroutine
        subroutine mpi_pack_external_f08ts_large(datarep, inbuf, n, type, outbuf, outsize, at, ierror)
            character(len=*), intent(in) :: datarep
            type(*), dimension(..), intent(in) :: inbuf
            type(*), dimension(..) :: outbuf
            integer(8) :: n, outsize, at
            integer :: type
            integer, optional :: ierror
        end subroutine
        subroutine mpi_unpack_external_f08ts_large(datarep, inbuf, insize, at, outbuf, n, type, ierror)
            character(len=*), intent(in) :: datarep
            type(*), dimension(..), intent(in) :: inbuf
            type(*), dimension(..) :: outbuf
            integer(8) :: insize, at, n
            integer :: type
            integer, optional :: ierror
        end subroutine
    end interface
contains
    subroutine assumed(x, y, n)
        use iso_fortran_env
        include 'mpif.h'
        integer :: x(*), n
        integer :: y(:)
        call mpi_sendrecv_f08ts(x, n, MPI_INTEGER, 0, 1, y, n, MPI_INTEGER, 0, 1, MPI_COMM_SELF, status_ignore)
    end subroutine
end module

program main
    use interfaces
    implicit none
    include 'mpif.h'
    integer :: me, n, sum, request, status(5), i, ierror, a(10), m(4, 6), x(4), y(2, 3)
    integer, allocatable :: late(:)
    integer(8) :: at
    character :: packed(16)

    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, me, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)
    sum = me
    call mpi_allreduce_f08ts(in_place, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (sum /= n * (n - 1) / 2) error stop 1
    a = [(i, i = 1, 10)]
    call mpi_sendrecv_f08ts(a(9:1:-2), 5, MPI_INTEGER, 0, 1, a(2:10:2), 5, MPI_INTEGER, 0, 1, MPI_COMM_SELF, status)
    if (any(a(2:10:2) /= [9, 7, 5, 3, 1]) .or. status(3) /= 0 .or. status(4) /= 1) error stop 2
    m = reshape([(i, i = 1, 24)], [4, 6])
    call mpi_isend_f08ts(m(2:4:2, 1:6:2), 6, MPI_INTEGER, 0, 2, MPI_COMM_SELF, request)
    call mpi_recv_f08ts(y, 6, MPI_INTEGER, 0, 2, MPI_COMM_SELF, status_ignore)
    call MPI_Wait(request, status, ierror)
    if (any(y /= m(2:4:2, 1:6:2))) error stop 3
    allocate (late(0:3))
    late = [4, 3, 2, 1]
    call assumed(late, x, 4)
    if (any(x /= late)) error stop 4
    deallocate (late)
    call assumed(a, m(3, :), 6)
    if (any(m(3, :) /= a(:6))) error stop 5
    at = 0
    call mpi_pack_external_f08ts_large('external32', a(1:3), 3_8, MPI_INTEGER, packed, 16_8, at)
    if (at /= 12 .or. any(iachar(packed(1:3)) /= 0) .or. iachar(packed(4)) /= a(1)) error stop 6
    at = 4
    call mpi_unpack_external_f08ts_large('external32', packed, 16_8, at, x, 2_8, MPI_INTEGER, ierror)
    if (ierror /= 0 .or. at /= 12 .or. any(x(:2) /= a(2:3))) error stop 7
    call MPI_Finalize(ierror)
    if (me == 0) print '(a)', 'passed'
end program
