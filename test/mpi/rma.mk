# SPDX-License-Identifier: BSD-3-Clause
# One-sided communication.
check_PROGRAMS += test/mpi/rma_random
test_mpi_rma_random_SOURCES = test/mpi/rma_random.c test/mpi/rma_random.h test/mpi/rma_model.h test/mpi/mpitest.h
test_mpi_rma_random_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_epochs
test_mpi_rma_epochs_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_spin
test_mpi_rma_spin_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_quick
test_mpi_rma_quick_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/rma_windows
test_mpi_rma_windows_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_atomic
test_mpi_rma_atomic_SOURCES = test/mpi/rma_atomic.c test/mpi/rma_model.h test/mpi/mpitest.h
test_mpi_rma_atomic_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_notify
test_mpi_rma_notify_SOURCES = test/mpi/rma_notify.c test/mpi/mpitest.h
test_mpi_rma_notify_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_helper
test_mpi_rma_helper_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_victim
test_mpi_rma_victim_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_leave
test_mpi_rma_leave_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/rma_path
test_mpi_rma_path_LDADD = libmpi_abi.la
EXTRA_DIST += test/mpi/rma_fault.py test/mpi/rma_path.py test/mpi/rma_mixed
