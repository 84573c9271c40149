! SPDX-License-Identifier: BSD-3-Clause
! Calls sentinels.F90 in every form as part of the program, of a shared library, and of the plug-ins in the arguments.
program main
    use mpi_f08
    implicit none
    interface
        subroutine all_forms(bad)
            integer bad
        end subroutine
    end interface
    integer :: bad = 0, i
    character(500) :: file
    procedure(all_forms) :: main_mpif, main_mpi, main_f08, shared_mpif, shared_mpi, shared_f08
    call MPI_Init()
    call main_mpif(bad)
    call main_mpi(bad)
    call main_f08(bad)
    call shared_mpif(bad)
    call shared_mpi(bad)
    call shared_f08(bad)
    do i = 1, command_argument_count()
        call get_command_argument(i, file)
        call plugin(file, bad)
    end do
    call MPI_Finalize()
    if (bad > 0) error stop 1
    print '(a)', 'passed'
end program
