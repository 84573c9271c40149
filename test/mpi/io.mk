# SPDX-License-Identifier: BSD-3-Clause
# Files: chapter 14.
EXTRA_DIST += test/mpi/iotest.h test/mpi/io_fault.py test/mpi/io_jobs.py test/mpi/io_full.py test/mpi/io_man.py
check_PROGRAMS += test/mpi/io_basic test/mpi/io_model test/mpi/io_large test/mpi/io_shared test/mpi/io_atomic test/mpi/io_datarep \
	test/mpi/io_collective test/mpi/io_outstanding test/mpi/io_victim test/mpi/io_survivor test/mpi/io_stripes test/mpi/io_errors test/mpi/io_jobs test/mpi/io_full test/mpi/io_cores test/mpi/io_nomem test/mpi/io_gaps test/mpi/io_holes test/mpi/io_beside
test_mpi_io_basic_LDADD = libmpi_abi.la
test_mpi_io_model_LDADD = libmpi_abi.la
test_mpi_io_shared_LDADD = libmpi_abi.la
test_mpi_io_datarep_LDADD = libmpi_abi.la
test_mpi_io_atomic_LDADD = libmpi_abi.la
test_mpi_io_collective_LDADD = libmpi_abi.la
test_mpi_io_survivor_LDADD = libmpi_abi.la
test_mpi_io_outstanding_LDADD = libmpi_abi.la
test_mpi_io_victim_LDADD = libmpi_abi.la
test_mpi_io_large_LDADD = libmpi_abi.la
test_mpi_io_stripes_SOURCES = test/mpi/io_stripes.c test/mpi/iofake.c test/mpi/iofake.h test/mpi/iotest.h test/mpi/mpitest.h
test_mpi_io_stripes_LDADD = libmpi_abi.la
test_mpi_io_errors_SOURCES = test/mpi/io_errors.c test/mpi/iofake.c test/mpi/iofake.h test/mpi/iotest.h test/mpi/mpitest.h
test_mpi_io_errors_LDADD = libmpi_abi.la
test_mpi_io_jobs_LDADD = libmpi_abi.la
test_mpi_io_full_LDADD = libmpi_abi.la
test_mpi_io_cores_LDADD = libmpi_abi.la
test_mpi_io_gaps_LDADD = libmpi_abi.la
test_mpi_io_holes_LDADD = libmpi_abi.la
test_mpi_io_beside_LDADD = libmpi_abi.la
test_mpi_io_nomem_SOURCES = test/mpi/io_nomem.c test/mpi/nomem_alloc.c test/mpi/nomem_alloc.h test/mpi/nomem_walk.h test/mpi/iotest.h test/mpi/mpitest.h
test_mpi_io_nomem_LDADD = libmpi_abi.la
