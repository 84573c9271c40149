# SPDX-License-Identifier: BSD-3-Clause
# Tests of mpirun, mpicc and weft_info: Python scripts, and a program that does what a rank may do.
check_PROGRAMS += test/launch/rank
test_launch_rank_SOURCES = test/launch/rank.c
test_launch_rank_LDADD = libweft_rt.la
check_PROGRAMS += test/launch/grow
test_launch_grow_SOURCES = test/launch/grow.c
test_launch_grow_LDADD = libweft_rt.la
EXTRA_DIST += test/launch/rsh_here test/launch/mpi1.c test/launch/fake_agent test/launch/harness.py test/launch/ends test/launch/io \
	test/launch/options test/launch/hosts test/launch/tools test/launch/gpu test/launch/gpu_real test/launch/foreign test/launch/pmi test/launch/spawn test/launch/abi test/launch/install test/launch/containers test/launch/doctor test/launch/packaging test/launch/waiter.py
