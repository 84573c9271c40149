! SPDX-License-Identifier: BSD-3-Clause
! Callbacks and attributes in both directions: an object that Fortran makes is used by C, and the reverse
! (callbacks_c.c).  Attributes follow MPI-5.0 section 19.3.7.  One rank or several.
module callbacks
    use checks
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: ops = 0, copies = 0, deletes = 0, errors = 0, queries = 0, frees = 0, cancels = 0
    integer(MPI_ADDRESS_KIND) :: deleted, extra_seen
    integer(MPI_ADDRESS_KIND), parameter :: large = -1234567890123_MPI_ADDRESS_KIND

contains

    ! Not commutative: the digits of both, in the order of the ranks.
    subroutine digits(in, inout, len, datatype)
        type(c_ptr), value :: in, inout
        integer :: len
        type(MPI_Datatype) :: datatype
        integer, pointer :: a(:), b(:)
        call c_f_pointer(in, a, [len])
        call c_f_pointer(inout, b, [len])
        b = 10 * a + b
        ops = ops + merge(1, 1000, datatype == MPI_INTEGER)
    end subroutine

    subroutine digits_c(in, inout, len, datatype)
        type(c_ptr), value :: in, inout
        integer(MPI_COUNT_KIND) :: len
        type(MPI_Datatype) :: datatype
        call digits(in, inout, int(len), datatype)
    end subroutine

    subroutine copy_comm(oldcomm, keyval, extra_state, in, out, flag, ierror)
        type(MPI_Comm) :: oldcomm
        integer :: keyval, ierror
        integer(MPI_ADDRESS_KIND) :: extra_state, in, out
        logical :: flag
        copies = copies + 1
        extra_seen = extra_state
        out = in + 1
        flag = in /= 0
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete_comm(comm, keyval, value, extra_state, ierror)
        type(MPI_Comm) :: comm
        integer :: keyval, ierror
        integer(MPI_ADDRESS_KIND) :: value, extra_state
        deletes = deletes + 1
        deleted = value
        extra_seen = extra_state
        ierror = MPI_SUCCESS
    end subroutine

    subroutine copy_type(oldtype, keyval, extra_state, in, out, flag, ierror)
        type(MPI_Datatype) :: oldtype
        integer :: keyval, ierror
        integer(MPI_ADDRESS_KIND) :: extra_state, in, out
        logical :: flag
        copies = copies + 1
        out = in + extra_state
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete_type(datatype, keyval, value, extra_state, ierror)
        type(MPI_Datatype) :: datatype
        integer :: keyval, ierror
        integer(MPI_ADDRESS_KIND) :: value, extra_state
        deletes = deletes + 1
        deleted = value
        ierror = MPI_SUCCESS
    end subroutine

    subroutine refuse_delete(comm, keyval, value, extra_state, ierror)
        type(MPI_Comm) :: comm
        integer :: keyval, ierror
        integer(MPI_ADDRESS_KIND) :: value, extra_state
        ierror = MPI_ERR_OTHER
    end subroutine

    subroutine on_error(comm, error_code)
        type(MPI_Comm) :: comm
        integer :: error_code, class
        call MPI_Error_class(error_code, class)
        errors = errors + merge(1, 1000, class == MPI_ERR_RANK .and. comm == MPI_COMM_SELF)
    end subroutine

    subroutine on_win_error(win, error_code)
        type(MPI_Win) :: win
        integer :: error_code
        errors = errors + merge(1, 1000, win /= MPI_WIN_NULL .and. error_code /= MPI_SUCCESS)
    end subroutine

    subroutine query(extra_state, status, ierror)
        integer(MPI_ADDRESS_KIND) :: extra_state
        type(MPI_Status) :: status
        integer :: ierror
        queries = queries + 1
        extra_seen = extra_state
        status%MPI_SOURCE = 17
        status%MPI_TAG = 18
        call MPI_Status_set_elements(status, MPI_INTEGER, 19)
        call MPI_Status_set_cancelled(status, .false.)
        ierror = MPI_SUCCESS
    end subroutine

    subroutine free_state(extra_state, ierror)
        integer(MPI_ADDRESS_KIND) :: extra_state
        integer :: ierror
        frees = frees + 1
        ierror = MPI_SUCCESS
    end subroutine

    subroutine free_counted(extra_state, ierror)
        integer(MPI_ADDRESS_KIND) :: extra_state
        integer :: ierror
        extra_seen = extra_state
        extra_state = extra_state - 1
        ierror = MPI_SUCCESS
    end subroutine

    subroutine cancel(extra_state, complete, ierror)
        integer(MPI_ADDRESS_KIND) :: extra_state
        logical :: complete
        integer :: ierror
        cancels = cancels + merge(1000, 1, complete)
        ierror = MPI_SUCCESS
    end subroutine
end module

program main
    use callbacks
    implicit none
    interface ! callbacks_c.c
        subroutine c_reduce(op, comm, got)
            use mpi_f08
            type(MPI_Op) :: op
            type(MPI_Comm) :: comm
            integer :: got(2)
        end subroutine
        subroutine c_make_op(op)
            use mpi_f08
            type(MPI_Op) :: op
        end subroutine
        subroutine c_make_keyval(keyval)
            integer :: keyval
        end subroutine
        subroutine c_counts(copies, deletes, errors)
            integer :: copies, deletes, errors
        end subroutine
        subroutine c_set(comm, keyval, value)
            use mpi_f08
            type(MPI_Comm) :: comm
            integer :: keyval
            integer(MPI_ADDRESS_KIND) :: value
        end subroutine
        subroutine c_get(comm, keyval, value, as_int)
            use mpi_f08
            type(MPI_Comm) :: comm
            integer :: keyval
            integer(MPI_ADDRESS_KIND) :: value(2), as_int
        end subroutine
        subroutine c_dup(comm, made)
            use mpi_f08
            type(MPI_Comm) :: comm, made
        end subroutine
        subroutine c_make_errhandler(e)
            use mpi_f08
            type(MPI_Errhandler) :: e
        end subroutine
        subroutine c_fail()
        end subroutine
        subroutine c_wait(r, got)
            use mpi_f08
            type(MPI_Request) :: r
            integer :: got(4)
        end subroutine
        subroutine old_style(bad)
            integer :: bad
        end subroutine
    end interface

    call begin()
    call operations()
    call attributes()
    call attributes_from_c()
    call attributes_of_types()
    call predefined_attributes()
    call error_handlers()
    call requests()
    call old_style(failed)
    call verdict()

contains

    subroutine operations()
        type(MPI_Op) :: op, from_c
        integer :: got(2), want, i, x(2)
        logical :: commutes
        want = 0
        do i = 1, n
            want = 10 * want + i
        end do
        call MPI_Op_create(digits, .false., op)
        x = me + 1
        call MPI_Allreduce(x, got, 2, MPI_INTEGER, op, MPI_COMM_WORLD)
        call check('operation in Fortran, used by Fortran', all(got == want))
        call c_reduce(op, MPI_COMM_WORLD, got)
        call check('operation in Fortran, used by C', all(got == want))
        call MPI_Reduce_local(x, x, 0, MPI_INTEGER, op)
        call MPI_Op_commutative(op, commutes)
        call check('does not commute', .not. commutes)
        call MPI_Op_free(op)
        call check('freed', op == MPI_OP_NULL)
        call MPI_Op_create_c(digits_c, .false., op)
        call MPI_Allreduce(x, got, 2_MPI_COUNT_KIND, MPI_INTEGER, op, MPI_COMM_WORLD)
        call check('operation with large counts', all(got == want))
        call MPI_Op_free(op)
        call c_make_op(from_c)
        call MPI_Allreduce(x, got, 2, MPI_INTEGER, from_c, MPI_COMM_WORLD)
        call check('operation in C, used by Fortran', all(got == want))
        call MPI_Op_free(from_c)
        call MPI_Allreduce(MPI_IN_PLACE, ops, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
        call check('calls, with their datatype', ops < 1000 .and. (n == 1 .or. ops > 0))
    end subroutine

    subroutine attributes()
        type(MPI_Comm) :: c, d
        integer :: key, bad_key, code
        integer(MPI_ADDRESS_KIND) :: value, seen(2), as_int
        logical :: found
        call MPI_Comm_create_keyval(copy_comm, delete_comm, key, 987654321012_MPI_ADDRESS_KIND)
        call MPI_Comm_dup(MPI_COMM_SELF, c)
        call MPI_Comm_get_attr(c, key, value, found)
        call check('no attribute yet', .not. found)
        call MPI_Comm_set_attr(c, key, large)
        call MPI_Comm_get_attr(c, key, value, found)
        call check('attribute in Fortran', found .and. value == large)
        call c_get(c, key, seen, as_int)
        call check('attribute of Fortran, in C: a pointer to the value', seen(1) == large .and. seen(2) == large)
        call MPI_Comm_set_attr(c, key, 5_MPI_ADDRESS_KIND)
        call check('delete function when replaced', deletes == 1 .and. deleted == large)
        call c_dup(c, d)
        call check('copy function, called by C', copies == 1 .and. extra_seen == 987654321012_MPI_ADDRESS_KIND)
        call MPI_Comm_get_attr(d, key, value, found)
        call check('copied value', found .and. value == 6)
        call c_get(d, key, seen, as_int)
        call check('copied value in C', seen(1) == 6)
        call MPI_Comm_set_attr(c, key, 0_MPI_ADDRESS_KIND)
        call MPI_Comm_free(d)
        call check('delete function when freed', deletes == 3 .and. deleted == 6)
        call MPI_Comm_dup(c, d)
        call MPI_Comm_get_attr(d, key, value, found)
        call check('a copy function that copies nothing', .not. found .and. copies == 2)
        call MPI_Comm_free(d)
        call MPI_Comm_free_keyval(key)
        call check('key freed', key == MPI_KEYVAL_INVALID)
        call MPI_Comm_free(c) ! the key lives on in the attribute
        call check('delete function after the key', deletes == 4 .and. deleted == 0)
        call predefined_functions()
        call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_delete, bad_key, 0_MPI_ADDRESS_KIND)
        call MPI_Comm_dup(MPI_COMM_SELF, c)
        call MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN)
        call MPI_Comm_set_attr(c, bad_key, 1_MPI_ADDRESS_KIND)
        call MPI_Comm_delete_attr(c, bad_key, code)
        call check('error of a delete function', code /= MPI_SUCCESS)
    end subroutine

    subroutine predefined_functions()
        type(MPI_Comm) :: c, d
        integer :: dup_key, null_key
        integer(MPI_ADDRESS_KIND) :: value
        logical :: found
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, dup_key, 0_MPI_ADDRESS_KIND)
        call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, null_key, 0_MPI_ADDRESS_KIND)
        call MPI_Comm_dup(MPI_COMM_SELF, c)
        call MPI_Comm_set_attr(c, dup_key, large)
        call MPI_Comm_set_attr(c, null_key, large)
        call MPI_Comm_dup(c, d)
        call MPI_Comm_get_attr(d, dup_key, value, found)
        call check('MPI_COMM_DUP_FN', found .and. value == large)
        call MPI_Comm_get_attr(d, null_key, value, found)
        call check('MPI_COMM_NULL_COPY_FN', .not. found)
        call MPI_Comm_free(c)
        call MPI_Comm_get_attr(d, dup_key, value, found)
        call check('the copy outlives the original', found .and. value == large)
        call MPI_Comm_free(d)
        call MPI_Comm_free_keyval(dup_key)
        call MPI_Comm_free_keyval(null_key)
    end subroutine

    ! Keys that C makes.
    subroutine attributes_from_c()
        type(MPI_Comm) :: c, d
        integer :: key, calls(3)
        integer(MPI_ADDRESS_KIND) :: value, seen(2), as_int
        logical :: found
        call c_make_keyval(key)
        call MPI_Comm_dup(MPI_COMM_SELF, c)
        call c_set(c, key, large)
        call MPI_Comm_get_attr(c, key, value, found)
        call check('attribute of C, in Fortran: the pointer as an integer', found .and. value == large)
        call MPI_Comm_set_attr(c, key, large + 1)
        call MPI_Comm_get_attr(c, key, value, found)
        call check('Fortran value of a key of C', found .and. value == large + 1)
        call c_get(c, key, seen, as_int)
        call check('Fortran value of a key of C, in C', seen(1) == large + 1)
        call c_set(c, key, large + 2)
        call MPI_Comm_dup(c, d)
        call MPI_Comm_get_attr(d, key, value, found)
        call check('copy function in C, called by Fortran', found .and. value == large + 3)
        call MPI_Comm_free(d)
        call MPI_Comm_free(c)
        call c_counts(calls(1), calls(2), calls(3))
        call check('calls of functions in C', calls(1) == 1 .and. calls(2) == 4)
        call MPI_Comm_free_keyval(key)
    end subroutine

    subroutine attributes_of_types()
        type(MPI_Datatype) :: t, u
        integer :: key, before
        integer(MPI_ADDRESS_KIND) :: value
        logical :: found
        before = deletes
        call MPI_Type_create_keyval(copy_type, delete_type, key, 100_MPI_ADDRESS_KIND)
        call MPI_Type_contiguous(3, MPI_INTEGER, t)
        call MPI_Type_set_attr(t, key, 11_MPI_ADDRESS_KIND)
        call MPI_Type_dup(t, u)
        call MPI_Type_get_attr(u, key, value, found)
        call check('attribute of a copied datatype', found .and. value == 111)
        call MPI_Type_delete_attr(t, key)
        call MPI_Type_free(u)
        call check('deletes of a datatype', deletes == before + 2 .and. deleted == 111)
        call MPI_Type_free_keyval(key)
        call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
        call MPI_Type_set_attr(t, key, large)
        call MPI_Type_dup(t, u)
        call MPI_Type_get_attr(u, key, value, found)
        call check('MPI_TYPE_DUP_FN', found .and. value == large)
        call MPI_Type_free(u)
        call MPI_Type_free(t)
        call MPI_Type_free_keyval(key)
    end subroutine

    subroutine predefined_attributes()
        integer(MPI_ADDRESS_KIND) :: value, base
        integer, target :: memory(10)
        type(MPI_Win) :: win
        logical :: found
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, found)
        call check('MPI_TAG_UB', found .and. value >= 32767)
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, found)
        call check('MPI_WTIME_IS_GLOBAL', found .and. (value == 0 .or. value == 1))
        call MPI_Win_create(memory, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, win)
        call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, found)
        call check('MPI_WIN_SIZE', found .and. value == 40)
        call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, found)
        call check('MPI_WIN_DISP_UNIT', found .and. value == 4)
        call MPI_Win_get_attr(win, MPI_WIN_BASE, value, found)
        call MPI_Get_address(memory, base)
        call check('MPI_WIN_BASE', found .and. value == base)
        call MPI_Win_free(win)
    end subroutine

    subroutine error_handlers()
        type(MPI_Errhandler) :: e
        type(MPI_Win) :: win
        integer :: x, code, calls(3)
        x = 1
        call MPI_Comm_create_errhandler(on_error, e)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, e)
        call MPI_Errhandler_free(e)
        call MPI_Send(x, 1, MPI_INTEGER, 7, 0, MPI_COMM_SELF, code)
        call check('error handler in Fortran, error in Fortran', errors == 1 .and. code /= MPI_SUCCESS)
        call c_fail()
        call check('error handler in Fortran, error in C', errors == 2)
        call c_make_errhandler(e)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, e)
        call MPI_Errhandler_free(e)
        call MPI_Send(x, 1, MPI_INTEGER, 7, 0, MPI_COMM_SELF, code)
        call c_counts(calls(1), calls(2), calls(3))
        call check('error handler in C, error in Fortran', calls(3) == 1 .and. errors == 2)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL)
        call MPI_Win_create(x, 4_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, MPI_COMM_SELF, win)
        call MPI_Win_create_errhandler(on_win_error, e)
        call MPI_Win_set_errhandler(win, e)
        call MPI_Win_fence(0, win)
        call MPI_Put(x, 1, MPI_INTEGER, 7, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, code)
        call check('error handler of a window', errors == 3 .and. code /= MPI_SUCCESS)
        call MPI_Win_fence(0, win)
        call MPI_Win_free(win)
        call MPI_Errhandler_free(e)
    end subroutine

    subroutine requests()
        type(MPI_Request) :: r
        type(MPI_Status) :: s
        integer :: got(4), count
        logical :: flag
        call MPI_Grequest_start(query, free_state, cancel, large, r)
        call MPI_Test(r, flag, s)
        call check('a request that is not complete', .not. flag)
        call MPI_Cancel(r)
        call check('cancel function', cancels == 1)
        call MPI_Grequest_complete(r)
        call MPI_Wait(r, s)
        call MPI_Get_count(s, MPI_INTEGER, count)
        call check('generalised request, waited for in Fortran', s%MPI_SOURCE == 17 .and. s%MPI_TAG == 18 .and. count == 19)
        call check('query and free functions', queries == 1 .and. frees == 1 .and. extra_seen == large)
        call MPI_Grequest_start(query, free_state, cancel, 5_MPI_ADDRESS_KIND, r)
        call MPI_Grequest_complete(r)
        call c_wait(r, got)
        call check('generalised request, waited for in C', all(got(:3) == [17, 18, 19]) .and. queries == 2 .and. frees == 2)
        call check('the request is gone', r == MPI_REQUEST_NULL)
        call states()
    end subroutine

    ! A callback changes its extra_state: that of a variable, of one with another value since, of a constant, of an expression.
    subroutine states()
        integer(MPI_ADDRESS_KIND), volatile :: state
        type(MPI_Request) :: r
        state = 4
        call MPI_Grequest_start(query, free_counted, cancel, state, r)
        call finish(r)
        call check('a changed extra_state', state == 3 .and. extra_seen == 4)
        call MPI_Grequest_start(query, free_counted, cancel, state, r)
        state = 70
        call finish(r)
        call check('extra_state of a variable with another value', state == 70 .and. extra_seen == 3)
        call MPI_Grequest_start(query, free_counted, cancel, 5_MPI_ADDRESS_KIND, r)
        call finish(r)
        call check('extra_state of a constant', extra_seen == 5)
        call MPI_Grequest_start(query, free_counted, cancel, state + 6, r)
        call finish(r)
        call check('extra_state of an expression', extra_seen == 76)
    end subroutine

    subroutine finish(r)
        type(MPI_Request) :: r
        call MPI_Grequest_complete(r)
        call MPI_Wait(r, MPI_STATUS_IGNORE)
    end subroutine
end program
