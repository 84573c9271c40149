# SPDX-License-Identifier: BSD-3-Clause
# Sources only: the programs are linked against libmpi_abi, and test/bench/compare builds them with other libraries too.
weftbench_common = test/bench/bench.h test/bench/driver.c test/bench/opts.c test/bench/data.c \
	test/bench/table.c test/bench/limits.c test/bench/report.c test/bench/plot.c test/bench/pair.c
weftbench_coll = test/bench/coll.h test/bench/coll.c test/bench/coll_kinds.c test/bench/icoll.c
weftbench_mains = test/bench/osu_latency.c test/bench/osu_bw.c test/bench/osu_bibw.c \
	test/bench/osu_mbw_mr.c test/bench/osu_multi_lat.c test/bench/osu_latency_mt.c \
	test/bench/osu_init.c test/bench/osu_hello.c test/bench/weft_bench_probe.c \
	test/bench/osu_allreduce.c test/bench/osu_bcast.c test/bench/osu_reduce.c \
	test/bench/osu_allgather.c test/bench/osu_alltoall.c test/bench/osu_gather.c \
	test/bench/osu_scatter.c test/bench/osu_barrier.c test/bench/osu_iallreduce.c \
	test/bench/osu_ibcast.c test/bench/osu_ireduce.c test/bench/osu_iallgather.c \
	test/bench/osu_ialltoall.c test/bench/osu_igather.c test/bench/osu_iscatter.c \
	test/bench/osu_ibarrier.c
EXTRA_DIST += $(weftbench_common) $(weftbench_coll) $(weftbench_mains)
EXTRA_DIST += test/bench/compare test/bench/selftest test/bench/bench_peers.py docs/BENCHMARKS.md
dist_man_MANS += test/bench/weft-bench.7
