# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/assign_test
test_unit_assign_test_SOURCES = test/unit/assign_test.c launcher/abi/words.c launcher/options/hostlist.c launcher/options/hostfile.c \
	launcher/options/hosts.c launcher/options/allocation.c launcher/options/assign.c launcher/strings.c \
	launcher/options/options.c launcher/options/parse.c launcher/options/pingjob.c launcher/options/policy.c
test_unit_assign_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/explain_source_test
test_unit_explain_source_test_SOURCES = test/unit/explain_source_test.c $(stack_sources) launcher/abi/needed.c launcher/abi/search.c \
	launcher/abi/elf.c launcher/abi/words.c
test_unit_explain_source_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/frame_test
test_unit_frame_test_SOURCES = test/unit/frame_test.c launcher/tree/describe.c launcher/tree/tree.c \
	launcher/tree/rsh.c launcher/tree/relay.c launcher/strings.c
test_unit_frame_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/job_end_test
test_unit_job_end_test_SOURCES = test/unit/job_end_test.c launcher/mpirun/job_end.c launcher/mpirun/deaths.c launcher/abi/words.c launcher/abi/needed.c \
	launcher/abi/search.c launcher/abi/elf.c
test_unit_job_end_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/explain_test
test_unit_explain_test_SOURCES = test/unit/explain_test.c test/unit/explain_job.h $(explain_sources)
test_unit_explain_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/explain_python_test
test_unit_explain_python_test_SOURCES = test/unit/explain_python_test.c launcher/explain/python.h launcher/explain/python.c
test_unit_explain_python_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/explain_kinds_test
test_unit_explain_kinds_test_SOURCES = test/unit/explain_kinds_test.c test/unit/explain_job.h $(explain_sources)
test_unit_explain_kinds_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/explain_merge_test
test_unit_explain_merge_test_SOURCES = test/unit/explain_merge_test.c $(explain_sources) launcher/explain/merge.h launcher/explain/merge.c
test_unit_explain_merge_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/tree_test
test_unit_tree_test_SOURCES = test/unit/tree_test.c launcher/tree/tree.c launcher/tree/rsh.c \
	launcher/strings.c
test_unit_tree_test_LDADD = $(unit_ldadd)
