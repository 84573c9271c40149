! SPDX-License-Identifier: BSD-3-Clause
! MPI_KEYVAL_CREATE and its relatives, whose values are default INTEGERs, from mpif.h; with C as the other side.
subroutine old_style(bad)
    implicit none
    include 'mpif.h'
    integer :: bad
    integer :: key, c, d, value, ierr, op, x(2), got(2), n, me, i, want
    integer(MPI_ADDRESS_KIND) :: seen(2), as_int, wide
    logical :: found
    external :: old_copy, old_delete, old_digits
    integer :: copies, deletes
    common /counts/ copies, deletes
    copies = 0
    deletes = 0
    call MPI_KEYVAL_CREATE(old_copy, old_delete, key, 33, ierr)
    call MPI_COMM_DUP(MPI_COMM_SELF, c, ierr)
    call MPI_ATTR_PUT(c, key, -44, ierr)
    value = 0
    call MPI_ATTR_GET(c, key, value, found, ierr)
    call expect('MPI_ATTR_GET', found .and. value == -44)
    call MPI_COMM_GET_ATTR(c, key, wide, found, ierr)
    call expect('MPI_COMM_GET_ATTR of an INTEGER', found .and. wide == -44)
    call c_get(c, key, seen, as_int)
    call expect('an INTEGER attribute in C: a pointer to int', as_int == -44)
    call MPI_COMM_DUP(c, d, ierr)
    call MPI_ATTR_GET(d, key, value, found, ierr)
    call expect('copy function of INTEGERs', found .and. value == -11 .and. copies == 1)
    call MPI_COMM_FREE(d, ierr)
    call MPI_ATTR_DELETE(c, key, ierr)
    call expect('delete function of INTEGERs', deletes == 2)
    call c_set(c, key, -55_MPI_ADDRESS_KIND)
    call MPI_ATTR_GET(c, key, value, found, ierr)
    call expect('a value of C as INTEGER', found .and. value == -55)
    call MPI_COMM_FREE(c, ierr)
    call MPI_KEYVAL_FREE(key, ierr)
    call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, value, found, ierr)
    call expect('MPI_TAG_UB as INTEGER', found .and. value >= 32767)

    call MPI_COMM_SIZE(MPI_COMM_WORLD, n, ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, me, ierr)
    want = 0
    do i = 1, n
        want = 10 * want + i
    end do
    x = me + 1
    call MPI_OP_CREATE(old_digits, .false., op, ierr)
    call MPI_ALLREDUCE(x, got, 2, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
    call expect('operation of mpif.h', all(got == want))
    call c_reduce(op, MPI_COMM_WORLD, got)
    call expect('operation of mpif.h, used by C', all(got == want))
    call MPI_OP_FREE(op, ierr)

contains

    subroutine expect(what, good)
        character(*), intent(in) :: what
        logical, intent(in) :: good
        if (good) return
        bad = bad + 1
        print '(2a)', 'not ok mpif.h: ', what
    end subroutine
end subroutine

subroutine old_copy(comm, keyval, extra, in, out, flag, ierr)
    integer :: comm, keyval, extra, in, out, ierr, copies, deletes
    logical :: flag
    common /counts/ copies, deletes
    copies = copies + 1
    out = in + extra
    flag = .true.
    ierr = 0
end subroutine

subroutine old_delete(comm, keyval, value, extra, ierr)
    integer :: comm, keyval, value, extra, ierr, copies, deletes
    common /counts/ copies, deletes
    if (extra == 33 .and. (value == -11 .or. value == -44)) deletes = deletes + 1
    ierr = 0
end subroutine

subroutine old_digits(in, inout, len, datatype)
    integer :: len, datatype, in(len), inout(len)
    inout = 10 * in + inout
end subroutine
