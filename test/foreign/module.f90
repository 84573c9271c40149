! SPDX-License-Identifier: BSD-3-Clause
! A program of the module mpi of another MPI; test/rig/foreign compiles it with that module.
program main
    use mpi
    implicit none
    integer :: me, n, x, y, count, bytes, s(MPI_STATUS_SIZE), ierr
    double precision :: array(4)

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
    call MPI_Sendrecv(me, 1, MPI_INTEGER, modulo(me + 1, n), 4, y, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, &
                      MPI_COMM_WORLD, s, ierr)
    call MPI_Get_count(s, MPI_INTEGER, count, ierr)
    if (count /= 1 .or. s(MPI_TAG) /= 4 .or. s(MPI_SOURCE) /= y .or. y /= modulo(me - 1, n)) error stop 2
    x = me
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (x /= n * (n - 1) / 2) error stop 3
    call MPI_Sendrecv(me, 1, MPI_INTEGER, me, 4, y, 1, MPI_INTEGER, me, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (y /= me) error stop 4
    call MPI_Sizeof(array, bytes, ierr)
    if (bytes /= 8) error stop 5
    call MPI_Sizeof(bytes, bytes, ierr)
    if (bytes /= 4) error stop 6
    call MPI_Finalize(ierr)
    if (me == 0) print '(a)', 'passed'
end program
