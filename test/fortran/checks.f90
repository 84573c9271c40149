! SPDX-License-Identifier: BSD-3-Clause
! What the Fortran test programs share: start, checks, end with the verdict of all ranks (fc.py reads it).
module checks
    use mpi_f08
    implicit none
    integer :: failed = 0, me, n

contains

    subroutine begin()
        call MPI_Init()
        call MPI_Comm_rank(MPI_COMM_WORLD, me)
        call MPI_Comm_size(MPI_COMM_WORLD, n)
    end subroutine

    subroutine check(what, good)
        character(*), intent(in) :: what
        logical, intent(in) :: good
        if (good) return
        failed = failed + 1
        print '(a,i0,2a)', 'not ok rank ', me, ': ', what
    end subroutine

    subroutine verdict()
        call MPI_Allreduce(MPI_IN_PLACE, failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call MPI_Finalize()
        if (failed > 0) error stop 1
        if (me == 0) print '(a)', 'passed'
    end subroutine
end module
