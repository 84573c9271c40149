! SPDX-License-Identifier: BSD-3-Clause
! mpirun --ft: the procedures of fault tolerance in the module mpi_f08 and, with external procedures, in mpif.h.  The last
! rank ends; the others find this, agree, revoke, and continue in a smaller communicator.
subroutine old_forms(n, bad)
    implicit none
    include 'mpif.h'
    integer, intent(in) :: n
    integer, intent(inout) :: bad
    integer :: comm, small, smaller, group, flag, acked, size, request, ierror
    logical :: revoked
    call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierror)
    call MPIX_COMM_IS_REVOKED(comm, revoked, ierror)
    if (revoked .or. ierror /= MPI_SUCCESS) bad = bad + 1
    call MPIX_COMM_GET_FAILED(MPI_COMM_WORLD, group, ierror)
    call MPI_GROUP_SIZE(group, size, ierror)
    if (size /= 1) bad = bad + 1
    call MPIX_COMM_ACK_FAILED(MPI_COMM_WORLD, size, acked, ierror)
    if (acked /= 1) bad = bad + 1
    call MPIX_COMM_FAILURE_ACK(MPI_COMM_WORLD, ierror)
    call MPIX_COMM_FAILURE_GET_ACKED(MPI_COMM_WORLD, group, ierror)
    call MPI_GROUP_SIZE(group, size, ierror)
    if (size /= 1) bad = bad + 1
    flag = -2
    call MPIX_COMM_AGREE(comm, flag, ierror)
    if (flag /= -2 .or. ierror /= MPI_SUCCESS) bad = bad + 1
    flag = 6
    call MPIX_COMM_IAGREE(comm, flag, request, ierror)
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierror)
    if (flag /= 6 .or. ierror /= MPI_SUCCESS) bad = bad + 1
    call MPIX_COMM_REVOKE(comm, ierror)
    call MPIX_COMM_IS_REVOKED(comm, revoked, ierror)
    if (.not. revoked) bad = bad + 1
    call MPI_COMM_SET_ERRHANDLER(comm, MPI_ERRORS_RETURN, ierror)
    call MPI_BARRIER(comm, ierror)
    if (ierror /= MPIX_ERR_REVOKED) bad = bad + 1
    call MPIX_COMM_SHRINK(comm, small, ierror)
    call MPIX_COMM_ISHRINK(comm, smaller, request, ierror)
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierror)
    call MPI_BARRIER(small, ierror)
    if (ierror /= MPI_SUCCESS) bad = bad + 1
    call MPI_BARRIER(smaller, ierror)
    if (ierror /= MPI_SUCCESS) bad = bad + 1
    call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierror)
    if (size /= n) bad = bad + 1
    call MPI_COMM_FREE(small, ierror)
    call MPI_COMM_FREE(smaller, ierror)
    call MPI_COMM_FREE(comm, ierror)
end subroutine

program faults
    use mpi_f08
    use, intrinsic :: iso_c_binding, only: c_int
    implicit none
    interface
        subroutine c_exit(code) bind(C, name='_exit')
            import :: c_int
            integer(c_int), value :: code
        end subroutine
    end interface
    type(MPI_Comm) :: small, smaller
    type(MPI_Group) :: group
    type(MPI_Request) :: request
    integer, asynchronous :: flag
    integer :: me, n, size, acked, code, class, bad, sum
    logical :: revoked
    bad = 0
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_size(MPI_COMM_WORLD, n)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    if (me == n - 1) call c_exit(3_c_int)
    flag = 7
    call MPI_Recv(flag, 1, MPI_INTEGER, n - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    call MPI_Error_class(code, class)
    if (class /= MPIX_ERR_PROC_FAILED .or. class == MPIX_ERR_PROC_FAILED_PENDING) bad = bad + 1
    call MPIX_Comm_get_failed(MPI_COMM_WORLD, group)
    call MPI_Group_size(group, size)
    if (size /= 1) bad = bad + 1
    flag = 5 + 2 * mod(me, 2)
    call MPIX_Comm_agree(MPI_COMM_WORLD, flag, code)
    call MPI_Error_class(code, class)
    if (class /= MPIX_ERR_PROC_FAILED .or. flag /= 5) bad = bad + 1
    call MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, acked)
    if (acked /= 1) bad = bad + 1
    call MPIX_Comm_failure_ack(MPI_COMM_WORLD)
    call MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, group)
    call MPI_Group_size(group, size)
    if (size /= 1) bad = bad + 1
    flag = 6 + mod(me, 2)
    call MPIX_Comm_iagree(MPI_COMM_WORLD, flag, request, code)
    if (code /= MPI_SUCCESS) bad = bad + 1
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    if (code /= MPI_SUCCESS .or. flag /= 6) bad = bad + 1
    call old_forms(n, bad)
    call MPIX_Comm_revoke(MPI_COMM_WORLD)
    call MPIX_Comm_is_revoked(MPI_COMM_WORLD, revoked)
    if (.not. revoked) bad = bad + 1
    call MPIX_Comm_shrink(MPI_COMM_WORLD, small, code)
    call MPIX_Comm_ishrink(small, smaller, request, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Allreduce(me, sum, 1, MPI_INTEGER, MPI_SUM, smaller)
    call MPI_Comm_size(smaller, size)
    if (size /= n - 1 .or. sum /= (n - 1) * (n - 2) / 2) bad = bad + 1
    call MPI_Comm_free(smaller)
    call MPI_Allreduce(bad, sum, 1, MPI_INTEGER, MPI_SUM, small)
    if (me == 0 .and. sum == 0) print '(a)', 'passed'
    call MPI_Comm_free(small)
    call MPI_Finalize()
    if (bad > 0) stop 1
end program
