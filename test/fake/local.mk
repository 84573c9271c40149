# SPDX-License-Identifier: BSD-3-Clause
include test/fake/gpu.mk
btl_conformance = test/fake/btl_conformance.h test/fake/btl_conformance.c \
	test/fake/btl_pair.h test/fake/btl_pair.c
check_PROGRAMS += test/fake/btl_test
test_fake_btl_test_SOURCES = test/fake/btl_test.c $(btl_conformance)
test_fake_btl_test_LDADD = $(unit_ldadd)
if WITH_VERBS
check_PROGRAMS += test/fake/btl_verbs_test test/fake/btl_verbs_fail_test test/fake/btl_verbs_limit_test
verbs_pair = test/fake/btl_verbs_pair.h test/fake/btl_pair.h test/fake/btl_pair.c
test_fake_btl_verbs_fail_test_SOURCES = test/fake/btl_verbs_fail_test.c $(verbs_pair)
test_fake_btl_verbs_fail_test_LDADD = $(unit_ldadd)
test_fake_btl_verbs_limit_test_SOURCES = test/fake/btl_verbs_limit_test.c $(verbs_pair)
test_fake_btl_verbs_limit_test_LDADD = $(unit_ldadd)
test_fake_btl_verbs_test_SOURCES = test/fake/btl_verbs_test.c $(btl_conformance)
test_fake_btl_verbs_test_LDADD = $(unit_ldadd)
# Preloaded, it registers the fake CUDA driver's memory with soft-RoCE.
fake_ib_dmabuf = test/fake/ib_dmabuf.so
check_DATA += $(fake_ib_dmabuf)
CLEANFILES += $(fake_ib_dmabuf)
$(fake_ib_dmabuf): test/fake/ib_dmabuf.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(filter-out -fsanitize% -fno-sanitize%,$(WEFT_CFLAGS) $(CFLAGS)) -fPIC -shared \
	  -Wl,-z,defs -o $@.tmp $(srcdir)/test/fake/ib_dmabuf.c -ldl && mv $@.tmp $@
else
EXTRA_DIST += test/fake/btl_verbs_test.c test/fake/btl_verbs_fail_test.c test/fake/btl_verbs_limit_test.c test/fake/btl_verbs_pair.h
endif
EXTRA_DIST += test/fake/ib_dmabuf.c
check_PROGRAMS += test/fake/btl_verbs_cm_test
if WITH_RDMACM
test_fake_btl_verbs_cm_test_SOURCES = test/fake/btl_verbs_cm_test.c $(verbs_pair)
test_fake_btl_verbs_cm_test_LDADD = $(unit_ldadd)
EXTRA_DIST += test/fake/btl_verbs_cm_none.c
else
test_fake_btl_verbs_cm_test_SOURCES = test/fake/btl_verbs_cm_none.c
EXTRA_DIST += test/fake/btl_verbs_cm_test.c
endif
check_PROGRAMS += test/fake/btl_fake_test
test_fake_btl_fake_test_SOURCES = test/fake/btl_fake_test.c test/fake/btl_fake.h \
	test/fake/btl_fake.c $(btl_conformance)
test_fake_btl_fake_test_LDADD = $(unit_ldadd)
cuda_pair = test/fake/cuda_pair.h test/fake/cuda_pair.c test/fake/cuda_case.h test/fake/btl_pair.h test/fake/btl_pair.c
check_PROGRAMS += test/fake/btl_cuda_test test/fake/btl_cuda_device_test
test_fake_btl_cuda_test_SOURCES = test/fake/btl_cuda_test.c $(cuda_pair)
test_fake_btl_cuda_test_LDADD = $(unit_ldadd) -ldl
test_fake_btl_cuda_device_test_SOURCES = test/fake/btl_cuda_device_test.c $(cuda_pair)
test_fake_btl_cuda_device_test_LDADD = $(unit_ldadd) -ldl
check-gpu: test/fake/btl_cuda_test test/fake/btl_cuda_device_test
check_PROGRAMS += test/fake/btl_tcp_test test/fake/btl_tcp_await_test test/fake/btl_tcp_pair_test
tcp_raw_peer = test/fake/tcp_raw_peer.h test/fake/tcp_raw_peer.c test/fake/btl_pair.h test/fake/btl_pair.c
test_fake_btl_tcp_test_SOURCES = test/fake/btl_tcp_test.c $(tcp_raw_peer)
test_fake_btl_tcp_await_test_SOURCES = test/fake/btl_tcp_await_test.c $(tcp_raw_peer)
test_fake_btl_tcp_await_test_LDADD = $(unit_ldadd)
test_fake_btl_tcp_test_LDADD = $(unit_ldadd)
test_fake_btl_tcp_pair_test_SOURCES = test/fake/btl_tcp_pair_test.c test/fake/btl_pair.h test/fake/btl_pair.c
test_fake_btl_tcp_pair_test_LDADD = $(unit_ldadd)
