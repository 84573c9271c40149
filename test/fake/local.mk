# SPDX-License-Identifier: BSD-3-Clause
btl_conformance = test/fake/btl_conformance.h test/fake/btl_conformance.c \
	test/fake/btl_pair.h test/fake/btl_pair.c
check_PROGRAMS += test/fake/btl_test
test_fake_btl_test_SOURCES = test/fake/btl_test.c $(btl_conformance)
test_fake_btl_test_LDADD = $(unit_ldadd)
if WITH_VERBS
check_PROGRAMS += test/fake/btl_verbs_test test/fake/btl_verbs_fail_test
test_fake_btl_verbs_fail_test_SOURCES = test/fake/btl_verbs_fail_test.c test/fake/btl_pair.h \
	test/fake/btl_pair.c
test_fake_btl_verbs_fail_test_LDADD = $(unit_ldadd)
test_fake_btl_verbs_test_SOURCES = test/fake/btl_verbs_test.c $(btl_conformance)
test_fake_btl_verbs_test_LDADD = $(unit_ldadd)
else
EXTRA_DIST += test/fake/btl_verbs_test.c test/fake/btl_verbs_fail_test.c
endif
check_PROGRAMS += test/fake/btl_fake_test
test_fake_btl_fake_test_SOURCES = test/fake/btl_fake_test.c test/fake/btl_fake.h \
	test/fake/btl_fake.c $(btl_conformance)
test_fake_btl_fake_test_LDADD = $(unit_ldadd)
include test/fake/gpu.mk
cuda_pair = test/fake/cuda_pair.h test/fake/cuda_pair.c test/fake/cuda_case.h test/fake/btl_pair.h test/fake/btl_pair.c
check_PROGRAMS += test/fake/btl_cuda_test test/fake/btl_cuda_device_test
test_fake_btl_cuda_test_SOURCES = test/fake/btl_cuda_test.c $(cuda_pair)
test_fake_btl_cuda_test_LDADD = $(unit_ldadd) -ldl
test_fake_btl_cuda_device_test_SOURCES = test/fake/btl_cuda_device_test.c $(cuda_pair)
test_fake_btl_cuda_device_test_LDADD = $(unit_ldadd) -ldl
check-gpu: test/fake/btl_cuda_test test/fake/btl_cuda_device_test
check_PROGRAMS += test/fake/btl_tcp_test test/fake/btl_tcp_pair_test
test_fake_btl_tcp_test_SOURCES = test/fake/btl_tcp_test.c test/fake/tcp_raw_peer.h \
	test/fake/tcp_raw_peer.c test/fake/btl_pair.h test/fake/btl_pair.c
test_fake_btl_tcp_test_LDADD = $(unit_ldadd)
test_fake_btl_tcp_pair_test_SOURCES = test/fake/btl_tcp_pair_test.c test/fake/btl_pair.h test/fake/btl_pair.c
test_fake_btl_tcp_pair_test_LDADD = $(unit_ldadd)
