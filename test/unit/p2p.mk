# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/match_test
test_unit_match_test_SOURCES = test/unit/match_test.c test/check.h
test_unit_match_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/wait_test
test_unit_wait_test_SOURCES = test/unit/wait_test.c test/check.h
test_unit_wait_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/wait_model_test
test_unit_wait_model_test_SOURCES = test/unit/wait_model_test.c test/check.h
check_PROGRAMS += test/fake/p2p_engine_test test/fake/p2p_cancel_test test/fake/p2p_flow_test test/fake/p2p_malformed_test
p2p_world = test/fake/p2p_world.h test/fake/p2p_world.c test/fake/p2p_queues.h test/fake/p2p_queues.c test/check.h
test_fake_p2p_engine_test_SOURCES = test/fake/p2p_engine_test.c $(p2p_world)
test_fake_p2p_engine_test_LDADD = $(unit_ldadd)
test_fake_p2p_cancel_test_SOURCES = test/fake/p2p_cancel_test.c $(p2p_world)
test_fake_p2p_cancel_test_LDADD = $(unit_ldadd)
test_fake_p2p_flow_test_SOURCES = test/fake/p2p_flow_test.c $(p2p_world)
test_fake_p2p_flow_test_LDADD = $(unit_ldadd)
test_fake_p2p_malformed_test_SOURCES = test/fake/p2p_malformed_test.c test/unit/capture.h $(p2p_world)
test_fake_p2p_malformed_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/p2p_device_test
test_fake_p2p_device_test_SOURCES = test/fake/p2p_device_test.c test/check.h test/fake/btl_fake.h \
	test/fake/btl_fake.c
test_fake_p2p_device_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/pipe_test
test_unit_pipe_test_SOURCES = test/unit/pipe_test.c test/check.h
test_unit_pipe_test_LDADD = $(unit_ldadd)
