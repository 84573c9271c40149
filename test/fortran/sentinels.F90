! SPDX-License-Identifier: BSD-3-Clause
! MPI_BOTTOM, MPI_IN_PLACE and the like, as one object sees them.  Compiled for mpif.h, mpi and mpi_f08 (FORM 1, 2, 3) and for
! each place in a process: NAME(bad) adds the number of failed checks to `bad`.
      subroutine NAME(bad)
#if FORM == 2
      use mpi
#elif FORM == 3
      use mpi_f08
      use, intrinsic :: iso_c_binding
#endif
      implicit none
#if FORM == 1
      include 'mpif.h'
#endif
      integer bad
#if FORM == 3
      type(MPI_Request) r(2)
      type(MPI_Datatype) t
      type(MPI_Comm) c, self
      type(MPI_Info) infos(1)
      type(C_PTR) buffer
#else
      integer r(2), t, c, self, infos(1)
      integer(MPI_ADDRESS_KIND) buffer
#endif
      integer ierr, err, a(2), b(2), in, out, none(1)
      integer(MPI_ADDRESS_KIND) at(1)
      logical weighted
      character(8) commands(1)
      a = (/ 3, 4 /)
      none = 1
      self = MPI_COMM_SELF
      call MPI_Allreduce(MPI_IN_PLACE, a, 2, MPI_INTEGER, MPI_SUM, self, ierr)
      call check('MPI_IN_PLACE', ierr == 0 .and. all(a == (/ 3, 4 /)))
      b = 0
      call MPI_Get_address(a, at(1), ierr)
      call MPI_Type_create_hindexed(1, (/ 2 /), at, MPI_INTEGER, t, ierr)
      call MPI_Type_commit(t, ierr)
      call MPI_Irecv(b, 2, MPI_INTEGER, 0, 5, self, r(1), ierr)
      call MPI_Isend(MPI_BOTTOM, 1, t, 0, 5, self, r(2), ierr)
      call MPI_Waitall(2, r, MPI_STATUSES_IGNORE, ierr)
      call check('MPI_BOTTOM', all(b == a))
      call MPI_Type_free(t, ierr)
      b = 0
      call MPI_Sendrecv(a, 2, MPI_INTEGER, 0, 5, b, 2, MPI_INTEGER, 0, 5, self, MPI_STATUS_IGNORE, ierr)
      call check('MPI_STATUS_IGNORE', all(b == a))
      call c_ignored(MPI_STATUS_IGNORE, in)
      call c_all_ignored(MPI_STATUSES_IGNORE, in)
      call check('MPI_F_STATUS_IGNORE in C', in == 0)
      call MPI_Dist_graph_create_adjacent(self, 1, (/ 0 /), MPI_UNWEIGHTED, 1, (/ 0 /), MPI_UNWEIGHTED, MPI_INFO_NULL, .false., &
                                          c, ierr)
      weighted = .true.
      call MPI_Dist_graph_neighbors_count(c, in, out, weighted, ierr)
      call check('MPI_UNWEIGHTED', ierr == 0 .and. in == 1 .and. .not. weighted)
      call MPI_Comm_free(c, ierr)
      call MPI_Dist_graph_create_adjacent(self, 0, none, MPI_WEIGHTS_EMPTY, 0, none, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., &
                                          c, ierr)
      call MPI_Dist_graph_neighbors_count(c, in, out, weighted, ierr)
      call check('MPI_WEIGHTS_EMPTY', ierr == 0 .and. in == 0 .and. weighted)
      call MPI_Comm_free(c, ierr)
      call MPI_Comm_attach_buffer(self, MPI_BUFFER_AUTOMATIC, 0, ierr)
      call MPI_Bsend(a, 2, MPI_INTEGER, 0, 6, self, ierr)
      call MPI_Recv(b, 2, MPI_INTEGER, 0, 6, self, MPI_STATUS_IGNORE, ierr)
      call check('MPI_BUFFER_AUTOMATIC', ierr == 0 .and. all(b == a))
      call MPI_Comm_detach_buffer(self, buffer, in, ierr)
      ! sentinels_c.c carries these out: 0 if C gets its own constants.
      err = -1
      call MPI_Comm_spawn('x', MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, self, c, MPI_ERRCODES_IGNORE, err)
      call check('MPI_ARGV_NULL and MPI_ERRCODES_IGNORE', err == 0)
      err = -1
      commands = 'x'
      infos = MPI_INFO_NULL
      call MPI_Comm_spawn_multiple(1, commands, MPI_ARGVS_NULL, none, infos, 0, self, c, MPI_ERRCODES_IGNORE, err)
      call check('MPI_ARGVS_NULL', err == 0)
      contains
      subroutine check(what, good)
      character(*), intent(in) :: what
      logical, intent(in) :: good
      if (good) return
      bad = bad + 1
      print '(4a)', 'not ok ', PLACE, ': ', what
      end subroutine
      end subroutine
