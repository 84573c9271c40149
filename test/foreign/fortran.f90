! SPDX-License-Identifier: BSD-3-Clause
! A Fortran program of another MPI's ABI: handles, special variables, statuses, callbacks, attributes, removed procedures.
! Compiled with that MPI's mpif.h, or with one that has its values (test/foreign/fortran).  One rank or several.
module callbacks
    implicit none
    include 'mpif.h'
    integer :: failed = 0, me = 0, n = 1
    integer :: ops = 0, errors = 0, copies = 0, deletes = 0, queries = 0, frees = 0, cancels = 0, object = -1, class = -1
    integer(MPI_ADDRESS_KIND) :: extra_seen = 0, deleted = 0

contains

    subroutine check(what, good)
        character(*), intent(in) :: what
        logical, intent(in) :: good
        if (good) return
        failed = failed + 1
        print '(a,i0,2a)', 'not ok rank ', me, ': ', what
    end subroutine

    ! Not commutative: the value of the lowest rank.
    subroutine lowest(in, inout, len, datatype)
        integer :: len, datatype, in(len), inout(len)
        inout = in
        ops = ops + merge(1, 1000, datatype == MPI_INTEGER)
    end subroutine

    subroutine on_error(handle, code)
        integer :: handle, code, ierr
        errors = errors + 1
        object = handle
        call MPI_Error_class(code, class, ierr)
    end subroutine

    subroutine copy_comm(comm, keyval, extra, in, out, flag, ierr)
        integer :: comm, keyval, ierr
        integer(MPI_ADDRESS_KIND) :: extra, in, out
        logical :: flag
        copies = copies + merge(1, 1000, comm == MPI_COMM_SELF)
        extra_seen = extra
        out = in + 1
        flag = .true.
        ierr = MPI_SUCCESS
    end subroutine

    subroutine delete_comm(comm, keyval, value, extra, ierr)
        integer :: comm, keyval, ierr
        integer(MPI_ADDRESS_KIND) :: value, extra
        deletes = deletes + merge(1, 1000, comm /= MPI_COMM_NULL)
        deleted = value
        ierr = MPI_SUCCESS
    end subroutine

    subroutine old_copy(comm, keyval, extra, in, out, flag, ierr)
        integer :: comm, keyval, extra, in, out, ierr
        logical :: flag
        copies = copies + 1
        out = in + extra
        flag = .true.
        ierr = MPI_SUCCESS
    end subroutine

    subroutine query(extra, status, ierr)
        integer(MPI_ADDRESS_KIND) :: extra
        integer :: status(MPI_STATUS_SIZE), ierr
        queries = queries + 1
        extra_seen = extra
        status(MPI_SOURCE) = MPI_PROC_NULL
        status(MPI_TAG) = 18
        call MPI_Status_set_elements(status, MPI_INTEGER, 19, ierr)
        call MPI_Status_set_cancelled(status, .false., ierr)
    end subroutine

    subroutine free_state(extra, ierr)
        integer(MPI_ADDRESS_KIND) :: extra
        integer :: ierr
        frees = frees + 1
        ierr = MPI_SUCCESS
    end subroutine

    subroutine cancel(extra, complete, ierr)
        integer(MPI_ADDRESS_KIND) :: extra
        logical :: complete
        integer :: ierr
        cancels = cancels + merge(1000, 1, complete)
        ierr = MPI_SUCCESS
    end subroutine
end module

program main
    use callbacks
    implicit none
    integer :: ierr, provided, total
    logical :: yes

    call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided, ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
    call check('thread level', provided == MPI_THREAD_SERIALIZED .or. provided == MPI_THREAD_MULTIPLE)
    call handles()
    call messages()
    call requests()
    call reductions()
    call memory()
    call operation()
    call error_handlers()
    call keys()
    call old_keys()
    call predefined_attributes()
    call generalised()
    call strings()
    call topologies()
    call files()
    call removed()
    call check('time', MPI_Wtime() > 0d0 .and. MPI_Wtick() > 0d0)
    call MPI_Allreduce(failed, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call MPI_Finalize(ierr)
    call MPI_Finalized(yes, ierr)
    call check('finalized', yes)
    if (total + failed > 0) error stop 1
    if (me == 0) print '(a)', 'passed'

contains

    subroutine handles()
        integer :: comm, group, type, kind, ni, na, nt, ints(2), types(1), result, errh, color
        integer(MPI_ADDRESS_KIND) :: addresses(1)
        call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
        call check('a new handle', comm /= MPI_COMM_WORLD .and. comm /= MPI_COMM_SELF .and. comm /= MPI_COMM_NULL)
        call MPI_Comm_compare(comm, MPI_COMM_WORLD, result, ierr)
        call check('congruent', result == MPI_CONGRUENT)
        call MPI_Comm_free(comm, ierr)
        call check('MPI_COMM_NULL', comm == MPI_COMM_NULL)
        color = merge(MPI_UNDEFINED, 3, me == 0)
        call MPI_Comm_split(MPI_COMM_WORLD, color, 0, comm, ierr)
        call check('color', (comm == MPI_COMM_NULL) .eqv. me == 0)
        if (me /= 0) call MPI_Comm_free(comm, ierr)
        call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, comm, ierr)
        call check('split type', ierr == MPI_SUCCESS .and. comm /= MPI_COMM_NULL)
        call MPI_Comm_free(comm, ierr)
        call MPI_Comm_group(MPI_COMM_WORLD, group, ierr)
        call MPI_Group_rank(MPI_GROUP_EMPTY, result, ierr)
        call check('MPI_UNDEFINED', result == MPI_UNDEFINED)
        call MPI_Group_free(group, ierr)
        call check('MPI_GROUP_NULL', group == MPI_GROUP_NULL)
        call MPI_Type_contiguous(3, MPI_DOUBLE_PRECISION, type, ierr)
        call MPI_Type_get_envelope(type, ni, na, nt, kind, ierr)
        call check('envelope', ni == 1 .and. na == 0 .and. nt == 1 .and. kind == MPI_COMBINER_CONTIGUOUS)
        call MPI_Type_get_contents(type, ni, na, nt, ints, addresses, types, ierr)
        call check('contents', ints(1) == 3 .and. types(1) == MPI_DOUBLE_PRECISION)
        call MPI_Type_free(type, ierr)
        call check('MPI_DATATYPE_NULL', type == MPI_DATATYPE_NULL)
        call MPI_Comm_get_errhandler(MPI_COMM_WORLD, errh, ierr)
        call check('MPI_ERRORS_ARE_FATAL', errh == MPI_ERRORS_ARE_FATAL)
        call MPI_File_get_errhandler(MPI_FILE_NULL, errh, ierr)
        call check('MPI_ERRORS_RETURN', errh == MPI_ERRORS_RETURN)
    end subroutine

    subroutine messages()
        integer :: to, from, s(MPI_STATUS_SIZE), got(4), sent(4), count
        logical :: flag
        to = modulo(me + 1, n)
        from = modulo(me - 1, n)
        sent = [me, me + 1, me + 2, me + 3]
        got = -1
        s = 77
        call MPI_Sendrecv(sent, 3, MPI_INTEGER, to, 5, got, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, s, ierr)
        call check('status', s(MPI_SOURCE) == from .and. s(MPI_TAG) == 5 .and. s(MPI_ERROR) == 77)
        call MPI_Get_count(s, MPI_INTEGER, count, ierr)
        call check('count', count == 3 .and. all(got == [from, from + 1, from + 2, -1]))
        call MPI_Get_count(s, MPI_DOUBLE_PRECISION, count, ierr)
        call check('no count', count == MPI_UNDEFINED)
        call MPI_Test_cancelled(s, flag, ierr)
        call check('not cancelled', .not. flag)
        call MPI_Recv(got, 4, MPI_INTEGER, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, s, ierr)
        call check('MPI_PROC_NULL', s(MPI_SOURCE) == MPI_PROC_NULL .and. s(MPI_TAG) == MPI_ANY_TAG)
        call MPI_Sendrecv(sent, 4, MPI_INTEGER, to, 6, got, 4, MPI_INTEGER, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        call check('MPI_STATUS_IGNORE', all(got == [from, from + 1, from + 2, from + 3]))
        call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, flag, MPI_STATUS_IGNORE, ierr)
        call check('nothing is left', .not. flag)
    end subroutine

    subroutine requests()
        integer :: r(70), s(MPI_STATUS_SIZE, 70), x(70), y(70), i, index, indices(70), done
        logical :: flag
        y = [(100 * me + i, i=1, 70)]
        do i = 1, 35
            call MPI_Irecv(x(i), 1, MPI_INTEGER, modulo(me - 1, n), i, MPI_COMM_WORLD, r(i), ierr)
        end do
        do i = 1, 35
            call MPI_Isend(y(i), 1, MPI_INTEGER, modulo(me + 1, n), i, MPI_COMM_WORLD, r(35 + i), ierr)
        end do
        call MPI_Waitall(70, r, s, ierr)
        call check('waitall', all(r == MPI_REQUEST_NULL) .and. all(x(1:35) == y(1:35) + 100 * (modulo(me - 1, n) - me)))
        call check('statuses', all(s(MPI_TAG, 1:35) == [(i, i=1, 35)]))
        call MPI_Waitany(70, r, index, s, ierr)
        call check('no request', index == MPI_UNDEFINED)
        call MPI_Testsome(70, r, done, indices, MPI_STATUSES_IGNORE, ierr)
        call check('some of none', done == MPI_UNDEFINED)
        r(1) = MPI_REQUEST_NULL
        call MPI_Irecv(x, 1, MPI_INTEGER, me, 9, MPI_COMM_WORLD, r(2), ierr)
        call MPI_Send(y, 1, MPI_INTEGER, me, 9, MPI_COMM_WORLD, ierr)
        call MPI_Waitany(2, r, index, MPI_STATUS_IGNORE, ierr)
        call check('index', index == 2 .and. x(1) == y(1) .and. r(2) == MPI_REQUEST_NULL)
        call MPI_Send_init(y, 1, MPI_INTEGER, MPI_PROC_NULL, 9, MPI_COMM_WORLD, r(1), ierr)
        call MPI_Start(r(1), ierr)
        call MPI_Waitall(1, r, MPI_STATUSES_IGNORE, ierr)
        call check('persistent', r(1) /= MPI_REQUEST_NULL)
        call MPI_Request_free(r(1), ierr)
        call MPI_Testall(2, r, flag, MPI_STATUSES_IGNORE, ierr)
        call check('all', flag)
    end subroutine

    subroutine reductions()
        integer :: x(2), i, counts(n), displs(n), types(n), y(n), z(n)
        double precision :: d
        complex :: c
        logical :: l
        x = me + 1
        call MPI_Allreduce(MPI_IN_PLACE, x, 2, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
        call check('MPI_IN_PLACE', all(x == n))
        call MPI_Allreduce(dble(me), d, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
        call check('MPI_SUM', d == n * (n - 1) / 2)
        call MPI_Allreduce(cmplx(1, me), c, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
        call check('MPI_COMPLEX', c == cmplx(n, n * (n - 1) / 2))
        call MPI_Allreduce(me == 0, l, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
        call check('MPI_LAND', l .eqv. n == 1)
        call MPI_Allreduce(me == 0, l, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
        call check('MPI_LOR', l)
        call MPI_Allreduce([-me, me], x, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD, ierr)
        call check('MPI_MINLOC', all(x == [1 - n, n - 1]))
        counts = 1
        displs = [(4 * i, i=0, n - 1)]
        types = MPI_INTEGER
        y = [(10 * me + i, i=0, n - 1)]
        call MPI_Alltoallw(y, counts, displs, types, z, counts, displs, types, MPI_COMM_WORLD, ierr)
        call check('alltoallw', all(z == [(10 * i + me, i=0, n - 1)]))
        call MPI_Alltoallw(MPI_IN_PLACE, counts, displs, types, y, counts, displs, types, MPI_COMM_WORLD, ierr)
        call check('alltoallw in place', all(y == z))
    end subroutine

    ! MPI_BOTTOM with addresses; one-sided communication.
    subroutine memory()
        integer, save :: a(2), b(2)
        integer :: type, win, assertion
        integer(MPI_ADDRESS_KIND) :: at(2), zero = 0, size = 8
        a = [me, me + 1]
        b = -1
        call MPI_Get_address(a(1), at(1), ierr)
        call MPI_Get_address(a(2), at(2), ierr)
        call MPI_Type_create_struct(2, [1, 1], at, [MPI_INTEGER, MPI_INTEGER], type, ierr)
        call MPI_Type_commit(type, ierr)
        call MPI_Sendrecv(MPI_BOTTOM, 1, type, me, 1, b, 2, MPI_INTEGER, me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        call check('MPI_BOTTOM', all(a == b))
        call MPI_Type_free(type, ierr)
        call MPI_Win_create(a, size, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        assertion = ior(MPI_MODE_NOPRECEDE, MPI_MODE_NOSTORE)
        call MPI_Win_fence(assertion, win, ierr)
        b = 40 + me
        call MPI_Put(b, 1, MPI_INTEGER, modulo(me + 1, n), zero, 1, MPI_INTEGER, win, ierr)
        call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
        call check('put', a(1) == 40 + modulo(me - 1, n))
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win, ierr)
        call MPI_Accumulate([5], 1, MPI_INTEGER, me, zero, 1, MPI_INTEGER, MPI_REPLACE, win, ierr)
        call MPI_Win_unlock(me, win, ierr)
        call check('accumulate', a(1) == 5)
        call window_attributes(win)
        call MPI_Win_free(win, ierr)
        call check('MPI_WIN_NULL', win == MPI_WIN_NULL)
    end subroutine

    subroutine window_attributes(win)
        integer, intent(in) :: win
        integer(MPI_ADDRESS_KIND) :: value
        call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, yes, ierr)
        call check('MPI_WIN_SIZE', yes .and. value == 8)
        call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, yes, ierr)
        call check('MPI_WIN_DISP_UNIT', yes .and. value == 4)
        call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, yes, ierr)
        call check('MPI_WIN_CREATE_FLAVOR', yes .and. value == MPI_WIN_FLAVOR_CREATE)
        call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, yes, ierr)
        call check('MPI_WIN_MODEL', yes .and. (value == MPI_WIN_UNIFIED .or. value == MPI_WIN_SEPARATE))
    end subroutine

    subroutine operation()
        integer :: op, x(3)
        call MPI_Op_create(lowest, .false., op, ierr)
        call MPI_Allreduce([me + 1, me + 2, me + 3], x, 3, MPI_INTEGER, op, MPI_COMM_WORLD, ierr)
        call check('operation', all(x == [1, 2, 3]) .and. ops < 1000)
        call MPI_Op_free(op, ierr)
        call check('MPI_OP_NULL', op == MPI_OP_NULL)
    end subroutine

    subroutine error_handlers()
        integer :: errh, found, code, length, my_class
        character(MPI_MAX_ERROR_STRING) :: text
        call MPI_Comm_create_errhandler(on_error, errh, ierr)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, errh, ierr)
        call MPI_Send(me, 1, MPI_INTEGER, 5, 0, MPI_COMM_SELF, ierr)
        call check('error handler', errors == 1 .and. object == MPI_COMM_SELF .and. class == MPI_ERR_RANK)
        call check('IERROR', ierr /= MPI_SUCCESS)
        call MPI_Errhandler_free(errh, ierr)
        call check('MPI_ERRHANDLER_NULL', errh == MPI_ERRHANDLER_NULL)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
        call MPI_Comm_get_errhandler(MPI_COMM_SELF, found, ierr)
        call check('MPI_ERRORS_RETURN', found == MPI_ERRORS_RETURN)
        call MPI_Bcast(me, -1, MPI_INTEGER, 0, MPI_COMM_SELF, ierr)
        call MPI_Error_class(ierr, class, code)
        call check('MPI_ERR_COUNT', class == MPI_ERR_COUNT)
        call MPI_Add_error_class(my_class, ierr)
        call MPI_Add_error_code(my_class, code, ierr)
        call MPI_Add_error_string(code, 'of mine', ierr)
        call MPI_Error_string(code, text, length, ierr)
        call MPI_Error_class(code, class, ierr)
        call check('my error', text == 'of mine' .and. length == 7 .and. class == my_class .and. code > MPI_ERR_LASTCODE)
    end subroutine

    subroutine keys()
        integer :: key, dup, comm
        integer(MPI_ADDRESS_KIND) :: extra, value
        extra = 1234567890123_MPI_ADDRESS_KIND
        call MPI_Comm_create_keyval(copy_comm, delete_comm, key, extra, ierr)
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, dup, extra, ierr)
        value = -1234567890124_MPI_ADDRESS_KIND
        call MPI_Comm_set_attr(MPI_COMM_SELF, key, value, ierr)
        call MPI_Comm_set_attr(MPI_COMM_SELF, dup, value, ierr)
        call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
        call check('copy function', copies == 1 .and. extra_seen == extra)
        call MPI_Comm_get_attr(comm, key, value, yes, ierr)
        call check('copied', yes .and. value == -1234567890123_MPI_ADDRESS_KIND)
        call MPI_Comm_get_attr(comm, dup, value, yes, ierr)
        call check('duplicated', yes .and. value == -1234567890124_MPI_ADDRESS_KIND)
        call MPI_Comm_free(comm, ierr)
        call check('delete function', deletes == 1 .and. deleted == -1234567890123_MPI_ADDRESS_KIND)
        call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
        call check('deleted', deletes == 2)
        call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, yes, ierr)
        call check('no attribute', .not. yes)
        call MPI_Comm_delete_attr(MPI_COMM_SELF, dup, ierr)
        call MPI_Comm_free_keyval(key, ierr)
        call MPI_Comm_free_keyval(dup, ierr)
        call check('MPI_KEYVAL_INVALID', key == MPI_KEYVAL_INVALID .and. dup == MPI_KEYVAL_INVALID)
    end subroutine

    subroutine old_keys()
        integer :: key, comm, value, before
        before = copies
        call MPI_Keyval_create(old_copy, MPI_NULL_DELETE_FN, key, 7, ierr)
        call MPI_Attr_put(MPI_COMM_SELF, key, -5, ierr)
        call MPI_Comm_dup(MPI_COMM_SELF, comm, ierr)
        call MPI_Attr_get(comm, key, value, yes, ierr)
        call check('old attribute', yes .and. value == 2 .and. copies == before + 1)
        call MPI_Comm_free(comm, ierr)
        call MPI_Attr_delete(MPI_COMM_SELF, key, ierr)
        call MPI_Keyval_free(key, ierr)
    end subroutine

    subroutine predefined_attributes()
        integer(MPI_ADDRESS_KIND) :: value
        integer :: old
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, yes, ierr)
        call check('MPI_TAG_UB', yes .and. value >= 32767)
        call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, old, yes, ierr)
        call check('old MPI_TAG_UB', yes .and. old == value)
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, yes, ierr)
        call check('MPI_WTIME_IS_GLOBAL', .not. yes .or. value == 0 .or. value == 1)
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, value, yes, ierr)
        call check('MPI_IO', .not. yes .or. value == MPI_ANY_SOURCE .or. value == me)
        call MPI_Attr_get(MPI_COMM_WORLD, MPI_HOST, old, yes, ierr)
        call check('MPI_HOST', .not. yes .or. old == MPI_PROC_NULL)
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, value, yes, ierr)
        call check('MPI_LASTUSEDCODE', yes .and. value > MPI_ERR_LASTCODE)     ! error_handlers() added some
    end subroutine

    subroutine generalised()
        integer :: r, s(MPI_STATUS_SIZE), count
        integer(MPI_ADDRESS_KIND) :: extra = 4711
        call MPI_Grequest_start(query, free_state, cancel, extra, r, ierr)
        call MPI_Cancel(r, ierr)
        call MPI_Grequest_complete(r, ierr)
        call MPI_Wait(r, s, ierr)
        call MPI_Get_count(s, MPI_INTEGER, count, ierr)
        call check('generalised request', queries == 1 .and. frees == 1 .and. cancels == 1 .and. extra_seen == 4711)
        call check('its status', s(MPI_SOURCE) == MPI_PROC_NULL .and. s(MPI_TAG) == 18 .and. count == 19)
    end subroutine

    subroutine strings()
        character(MPI_MAX_PROCESSOR_NAME) :: name
        character(12) :: short
        integer :: length, info
        name = repeat('x', len(name))
        call MPI_Get_processor_name(name, length, ierr)
        call check('processor', length > 0 .and. name(length + 1:) == ' ' .and. name(length:length) /= ' ')
        call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierr)
        call check('name', name == 'MPI_COMM_WORLD' .and. length == 14)
        call MPI_Info_create(info, ierr)
        call MPI_Info_set(info, 'key ', ' value  ', ierr)
        call MPI_Info_get(info, ' key', 11, short, yes, ierr)
        call check('info', yes .and. short == 'value')
        call MPI_Info_free(info, ierr)
        call check('MPI_INFO_NULL', info == MPI_INFO_NULL)
    end subroutine

    subroutine topologies()
        integer :: comm, dims(1), status, in, out
        logical :: weighted
        dims = 0
        call MPI_Dims_create(n, 1, dims, ierr)
        call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, [.true.], .false., comm, ierr)
        call MPI_Topo_test(comm, status, ierr)
        call check('cartesian', status == MPI_CART .and. dims(1) == n)
        call MPI_Cart_shift(comm, 0, 1, in, out, ierr)
        call check('shift', in == modulo(me - 1, n) .and. out == modulo(me + 1, n))
        call MPI_Comm_free(comm, ierr)
        call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [me], MPI_UNWEIGHTED, 1, [me], MPI_UNWEIGHTED, MPI_INFO_NULL, &
                                            .false., comm, ierr)
        call MPI_Dist_graph_neighbors_count(comm, in, out, weighted, ierr)
        call check('MPI_UNWEIGHTED', in == 1 .and. out == 1 .and. .not. weighted)
        call MPI_Comm_free(comm, ierr)
        call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, dims, MPI_WEIGHTS_EMPTY, 0, dims, MPI_WEIGHTS_EMPTY, &
                                            MPI_INFO_NULL, .false., comm, ierr)
        call MPI_Dist_graph_neighbors_count(comm, in, out, weighted, ierr)
        call check('MPI_WEIGHTS_EMPTY', in == 0 .and. out == 0 .and. weighted)
        call MPI_Comm_free(comm, ierr)
    end subroutine

    subroutine files()
        integer :: file, errh, amode, s(MPI_STATUS_SIZE), got, before
        integer(MPI_OFFSET_KIND) :: at
        character(32) :: name
        write (name, '(a,i0)') 'fortran-file-', me
        amode = ior(ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_MODE_DELETE_ON_CLOSE)
        call MPI_File_open(MPI_COMM_SELF, name, amode, MPI_INFO_NULL, file, ierr)
        call check('open', ierr == MPI_SUCCESS .and. file /= MPI_FILE_NULL)
        call MPI_File_write(file, [7, 8], 2, MPI_INTEGER, s, ierr)
        at = -4
        call MPI_File_seek(file, at, MPI_SEEK_END, ierr)
        call MPI_File_read(file, got, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
        call check('read', got == 8)
        call MPI_File_create_errhandler(on_error, errh, ierr)
        call MPI_File_set_errhandler(file, errh, ierr)
        before = errors
        call MPI_File_seek(file, at, MPI_SEEK_SET, ierr)
        call check('error handler of a file', errors == before + 1 .and. object == file .and. ierr /= MPI_SUCCESS)
        call MPI_Errhandler_free(errh, ierr)
        call MPI_File_close(file, ierr)
        call check('MPI_FILE_NULL', file == MPI_FILE_NULL)
    end subroutine

    ! MPI-3.0 removed these procedures.
    subroutine removed()
        integer, save :: a(6), b(6)
        integer :: one, two, type, column, extent, errh, before
        a = [1, 2, 3, 4, 5, 6]
        b = 0
        call MPI_Address(a(1), one, ierr)
        call MPI_Address(a(2), two, ierr)
        call check('MPI_ADDRESS', two - one == 4)
        call MPI_Type_hvector(3, 1, 8, MPI_INTEGER, column, ierr)
        call MPI_Type_struct(2, [1, 1], [0, 24], [column, MPI_UB], type, ierr)
        call MPI_Type_commit(type, ierr)
        call MPI_Type_extent(type, extent, ierr)
        call check('MPI_UB', ierr == MPI_SUCCESS .and. extent == 24)
        call MPI_Sendrecv(a, 1, type, me, 1, b, 3, MPI_INTEGER, me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        call check('MPI_TYPE_STRUCT', all(b == [1, 3, 5, 0, 0, 0]))
        call MPI_Type_free(type, ierr)
        call MPI_Type_free(column, ierr)
        before = errors
        call MPI_Errhandler_create(on_error, errh, ierr)
        call MPI_Errhandler_set(MPI_COMM_SELF, errh, ierr)
        call MPI_Errhandler_free(errh, ierr)
        call MPI_Send(a, 1, MPI_INTEGER, 99, 1, MPI_COMM_SELF, ierr)
        call check('MPI_ERRHANDLER_SET', errors == before + 1)
        call MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL, ierr)
        call MPI_Errhandler_get(MPI_COMM_SELF, errh, ierr)
        call check('MPI_ERRHANDLER_GET', errh == MPI_ERRORS_ARE_FATAL)
    end subroutine
end program
