# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/inter_make test/mpi/inter_coll test/mpi/split_type test/mpi/coll_wrong test/mpi/inter_threads
EXTRA_DIST += test/mpi/inter.h
test_mpi_inter_make_LDADD = libmpi_abi.la
test_mpi_inter_coll_LDADD = libmpi_abi.la
test_mpi_split_type_LDADD = libmpi_abi.la
test_mpi_coll_wrong_LDADD = libmpi_abi.la
test_mpi_inter_threads_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/fake/coll_inter_test
test_fake_coll_inter_test_SOURCES = test/fake/coll_inter_test.c test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_inter_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/mpi/coll_random
test_mpi_coll_random_LDADD = libmpi_abi.la
