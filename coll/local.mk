# SPDX-License-Identifier: BSD-3-Clause
core_sources += coll/args.h coll/args.c coll/kinds.def coll/coll.h coll/begin.h coll/begin.c coll/board.h coll/board.c coll/wide.h coll/wide.c coll/blank.h coll/blank.c coll/names.h coll/names.c coll/select.h coll/select.c coll/tune.h coll/tune.c coll/tune.def coll/sched.h coll/sched_int.h coll/sched.c coll/sched_gpu.h coll/sched_gpu.c \
	coll/algo/algo.h coll/algo/barrier.h coll/algo/bcast.h coll/algo/reduce.h coll/algo/allreduce.h coll/algo/alltoall.h coll/algo/scan.h coll/algo/barrier.c coll/algo/bcast.c coll/algo/reduce.c coll/algo/allreduce.c coll/algo/gather.c \
	coll/algo/allgather.c coll/algo/alltoall.c coll/algo/reduce_scatter.c coll/algo/scan.c coll/algo/inter.c coll/algo/neighbor.c \
	coll/node/node.h coll/node/node.def coll/node/choose.h coll/node/choose.c coll/node/node.c coll/node/line.h coll/node/flat.c coll/node/grid.c coll/node/direct.c coll/node/linear.c coll/node/block.h coll/node/block.c coll/node/cut.c coll/node/move.c \
	coll/node/move.h coll/node/move_small.c coll/node/move_plan.c \
	coll/node/pace.c coll/node/ring.c \
	coll/gpu/plan.h coll/gpu/plan_int.h coll/gpu/plan.c coll/gpu/plan_own.c coll/gpu/plan_fold.c coll/gpu/plan_move.c coll/gpu/plan_engine.c coll/gpu/plan_turns.c coll/gpu/turns.c
core_sources += coll/gpu/plan_names.c
core_sources += coll/gpu/gate.h coll/gpu/gate.c coll/gpu/vote.c coll/gpu/persistent.c coll/gpu/ranges.h coll/gpu/ranges.c coll/gpu/mappings.c coll/gpu/staging.c coll/gpu/run.c
core_sources += coll/hier/hier.h coll/hier/team.h coll/hier/team.c coll/hier/local.h coll/hier/local.c coll/hier/on_device.h coll/hier/rooted.c coll/hier/allreduce.c \
	coll/hier/allgather.c coll/hier/alltoall.c coll/hier/gather.c coll/hier/reduce_scatter.c coll/hier/scan.c coll/hier/on_device.c
core_sources += coll/ft/agree.h coll/ft/agree.c
core_sources += coll/start/start.h coll/start/start.c coll/start/team.h coll/start/team.c coll/start/algs.c
