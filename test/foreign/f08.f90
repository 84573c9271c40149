! SPDX-License-Identifier: BSD-3-Clause
! A program of the module mpi_f08 of Open MPI or MPICH: procedures, handles, special variables, callbacks and array sections.
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
    integer :: me, n, x, y, count, key, bytes, ierr, i, a(10), b(10)
    character :: packed(40)
    integer(MPI_ADDRESS_KIND) :: at
    type(MPI_Datatype) :: type
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
    a = [(i, i = 1, 10)]
    call MPI_Sendrecv(a(1:9:2), 5, MPI_INTEGER, me, 8, a(2:10:2), 5, MPI_INTEGER, me, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (any(a(2:10:2) /= a(1:9:2)) .or. any(a(1:9:2) /= [1, 3, 5, 7, 9])) error stop 8
    call MPI_Allreduce(a(1:9:2), b, 5, MPI_INTEGER, MPI_MAX, MPI_COMM_SELF)
    if (any(b(:5) /= [1, 3, 5, 7, 9])) error stop 9
    at = 0
    call MPI_Pack_external('external32', a, 10, MPI_INTEGER, packed, 40_MPI_ADDRESS_KIND, at)
    if (at /= 40 .or. packed(4) /= char(1)) error stop 10
    at = 0
    call MPI_Unpack_external('external32', packed, 40_MPI_ADDRESS_KIND, at, b, 10, MPI_INTEGER)
    if (any(a /= b)) error stop 11
    call MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Type_create_struct(1, [1], [0_MPI_ADDRESS_KIND], [MPI_INTEGER], type)
    call MPI_Type_free(type)
    if (type /= MPI_DATATYPE_NULL) error stop 12
    call MPI_Dist_graph_create(MPI_COMM_SELF, 1, [0], [1], [0], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comm)
    call MPI_Dist_graph_neighbors_count(comm, x, y, found)
    if (x /= 1 .or. y /= 1 .or. found) error stop 13
    call MPI_Finalize()
    if (me == 0) print '(a)', 'passed'
end program
