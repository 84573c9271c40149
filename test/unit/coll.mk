# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/fake/coll_alg_test test/fake/coll_mix_test test/unit/coll_args_test test/unit/board_test test/unit/select_test test/unit/tune_test test/unit/reduce_test
test_fake_coll_alg_test_SOURCES = test/fake/coll_alg_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h \
	test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_alg_test_LDADD = $(unit_ldadd)
test_fake_coll_mix_test_SOURCES = test/fake/coll_mix_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h \
	test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_mix_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/coll_wait_test
test_fake_coll_wait_test_SOURCES = test/fake/coll_wait_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h \
	test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_wait_test_LDADD = $(unit_ldadd)
test_unit_coll_args_test_SOURCES = test/unit/coll_args_test.c
test_unit_coll_args_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/agree_test
test_unit_agree_test_SOURCES = test/unit/agree_test.c
test_unit_agree_test_LDADD = $(unit_ldadd)
test_unit_board_test_SOURCES = test/unit/board_test.c
test_unit_board_test_LDADD = $(unit_ldadd) -lpthread
test_unit_select_test_SOURCES = test/unit/select_test.c
test_unit_select_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/node_choose_test
test_unit_node_choose_test_SOURCES = test/unit/node_choose_test.c
test_unit_node_choose_test_LDADD = $(unit_ldadd)
test_unit_tune_test_SOURCES = test/unit/tune_test.c
test_unit_tune_test_LDADD = $(unit_ldadd)
test_unit_reduce_test_SOURCES = test/unit/reduce_test.c
test_unit_reduce_test_LDADD = $(unit_ldadd)
# The sources of coll/node, compiled so that each access to shared memory is counted.
EXTRA_LTLIBRARIES = test/fake/libnode_costs.la
test_fake_libnode_costs_la_SOURCES = coll/node/node.c coll/node/choose.c coll/node/flat.c coll/node/grid.c \
	coll/node/direct.c coll/node/linear.c coll/node/block.c coll/node/cut.c coll/node/move.c \
	coll/node/move_plan.c coll/node/move_small.c coll/node/pace.c coll/node/ring.c
test_fake_libnode_costs_la_CPPFLAGS = $(AM_CPPFLAGS) -DNODE_COSTS -include $(srcdir)/test/fake/node_costs.h
check_PROGRAMS += test/fake/node_model_test
test_fake_node_model_test_SOURCES = test/fake/node_model_test.c test/fake/node_costs.c test/fake/node_costs.h \
	test/fake/node_machines.c test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_node_model_test_LDADD = $(test_fake_libnode_costs_la_OBJECTS) $(unit_ldadd)
check_PROGRAMS += test/fake/coll_order_test
test_fake_coll_order_test_SOURCES = test/fake/coll_order_test.c test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_order_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/coll_void_test
test_fake_coll_void_test_SOURCES = test/fake/coll_void_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_void_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/coll_gate_test
test_fake_coll_gate_test_SOURCES = test/fake/coll_gate_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h test/fake/coll_fake.c test/fake/coll_fake.h \
	test/fake/coll_devices.c test/fake/coll_devices.h \
	test/mpi/nomem_alloc.c test/mpi/nomem_alloc.h
test_fake_coll_gate_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/coll_again_test
test_fake_coll_again_test_SOURCES = test/fake/coll_again_test.c test/fake/coll_fake.c test/fake/coll_fake.h \
	test/fake/coll_devices.c test/fake/coll_devices.h
test_fake_coll_again_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/fake/coll_gpu_test test/fake/coll_hier_gpu_test
coll_room = test/fake/coll_room.c test/fake/coll_room.h test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_gpu_test_SOURCES = test/fake/coll_gpu_test.c $(coll_room)
test_fake_coll_gpu_test_LDADD = $(unit_ldadd) -ldl
test_fake_coll_hier_gpu_test_SOURCES = test/fake/coll_hier_gpu_test.c $(coll_room)
test_fake_coll_hier_gpu_test_LDADD = $(unit_ldadd) -ldl
check_PROGRAMS += test/fake/coll_hier_test
test_fake_coll_hier_test_SOURCES = test/fake/coll_hier_test.c test/fake/coll_case.c test/fake/coll_case.h \
	test/fake/neighbor_case.c test/fake/neighbor_case.h test/fake/coll_fake.c test/fake/coll_fake.h
test_fake_coll_hier_test_LDADD = $(unit_ldadd)
