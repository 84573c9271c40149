! SPDX-License-Identifier: BSD-3-Clause
! A program of Open MPI's module mpi_f08: its procedures, its handles, which are data of a library, and its callbacks.
! test/rig/foreign compiles it with that module.
module callbacks
    use mpi_f08
    implicit none
    integer :: calls = 0
contains
    subroutine on_error(comm, code)
        type(MPI_Comm) :: comm
        integer :: code
        calls = calls + merge(1, 1000, comm == MPI_COMM_SELF .and. code /= MPI_SUCCESS)
    end subroutine
end module

program main
    use mpi_f08
    use callbacks
    implicit none
    integer :: me, n, x, y, count, key, bytes, ierr
    integer(MPI_ADDRESS_KIND) :: value
    logical :: found
    type(MPI_Status) :: s
    type(MPI_Request) :: r(2)
    type(MPI_Comm) :: comm
    type(MPI_Errhandler) :: errh

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_size(MPI_COMM_WORLD, n)
    call MPI_Sendrecv(me, 1, MPI_INTEGER, modulo(me + 1, n), 4, y, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, s)
    call MPI_Get_count(s, MPI_INTEGER, count)
    if (count /= 1 .or. s%MPI_TAG /= 4 .or. s%MPI_SOURCE /= y .or. y /= modulo(me - 1, n)) error stop 2
    call MPI_Irecv(y, 1, MPI_INTEGER, me, 1, MPI_COMM_WORLD, r(1))
    call MPI_Isend(me, 1, MPI_INTEGER, me, 1, MPI_COMM_WORLD, r(2))
    call MPI_Waitall(2, r, MPI_STATUSES_IGNORE)
    if (r(1) /= MPI_REQUEST_NULL .or. y /= me) error stop 3
    x = me
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (x /= n * (n - 1) / 2) error stop 4
    call MPI_Comm_create_errhandler(on_error, errh)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, errh)
    call MPI_Send(x, 1, MPI_INTEGER, 7, 0, MPI_COMM_SELF, ierr)
    if (calls /= 1 .or. ierr == MPI_SUCCESS) error stop 5
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 5_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, 77_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_get_attr(comm, key, value, found)
    if (.not. found .or. value /= 77) error stop 6
    call MPI_Sizeof(1d0, bytes)
    if (bytes /= 8) error stop 7
    call MPI_Finalize()
    if (me == 0) print '(a)', 'passed'
end program
