! SPDX-License-Identifier: BSD-3-Clause
! A program of MPI-1: every procedure that MPI-3.0 removed.
      program main
      implicit none
      include 'mpif.h'
      external failed
      integer errors
      common /count/ errors
      integer ierr, rank, ranks, to, from, handler, found, t, i
      integer ones(3), at(3), types(3), out(4), in(4), lb, ub, extent
      data ones /1, 1, 1/
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
      errors = 0
      call MPI_ERRHANDLER_CREATE(failed, handler, ierr)
      call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, handler, ierr)
      call MPI_ERRHANDLER_GET(MPI_COMM_WORLD, found, ierr)
      call check(found .eq. handler, 'MPI_ERRHANDLER_GET')
      call MPI_SEND(out, 0, MPI_INTEGER, -5, 0, MPI_COMM_WORLD, ierr)
      call check(errors .eq. 1, 'MPI_ERRHANDLER_CREATE')

      call MPI_ADDRESS(out(1), at(1), ierr)
      call MPI_ADDRESS(out(3), at(2), ierr)
      at(2) = at(2) - at(1)
      at(1) = 0
      at(3) = 4 * at(2)
      types(1) = MPI_INTEGER
      types(2) = MPI_INTEGER
      types(3) = MPI_UB
      call MPI_TYPE_STRUCT(3, ones, at, types, t, ierr)
      call MPI_TYPE_COMMIT(t, ierr)
      call MPI_TYPE_LB(t, lb, ierr)
      call MPI_TYPE_UB(t, ub, ierr)
      call MPI_TYPE_EXTENT(t, extent, ierr)
      call check(lb .eq. 0 .and. ub .eq. at(3) .and. extent .eq. at(3),
     &           'MPI_TYPE_STRUCT')
      to = mod(rank + 1, ranks)
      from = mod(rank + ranks - 1, ranks)
      do i = 1, 4
        out(i) = 10 * rank + i
        in(i) = -1
      end do
      call MPI_SENDRECV(out, 1, t, to, 0, in, 1, t, from, 0,
     &                  MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      call check(in(1) .eq. 10 * from + 1 .and. in(2) .eq. -1 .and.
     &           in(3) .eq. 10 * from + 3, 'message')
      call MPI_TYPE_FREE(t, ierr)
      call MPI_TYPE_HVECTOR(2, 1, 100, MPI_BYTE, t, ierr)
      call MPI_TYPE_EXTENT(t, extent, ierr)
      call check(extent .eq. 101, 'MPI_TYPE_HVECTOR')
      call MPI_TYPE_FREE(t, ierr)
      call MPI_TYPE_HINDEXED(3, ones, at, MPI_BYTE, t, ierr)
      call MPI_TYPE_EXTENT(t, extent, ierr)
      call check(extent .eq. at(3) + 1, 'MPI_TYPE_HINDEXED')
      call MPI_TYPE_FREE(t, ierr)
      call MPI_FINALIZE(ierr)
      if (rank .eq. 0) print '(a)', 'passed'
      end

      subroutine failed(comm, code)
      integer comm, code, errors
      common /count/ errors
      errors = errors + 1
      end

      subroutine check(good, what)
      logical good
      character*(*) what
      if (good) return
      print '(2a)', 'not ok ', what
      stop 1
      end
