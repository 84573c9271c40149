# SPDX-License-Identifier: BSD-3-Clause
# Unit tests: one program per source file, linked with the archives, so that internal functions can be called.  Each area
# has a fragment.
unit_ldadd = libweft_core.la libweft_rt.la
include test/unit/base.mk
include test/unit/p2p.mk
include test/unit/btl.mk
include test/unit/api.mk
include test/unit/coll.mk
include test/unit/coll_plan.mk
include test/unit/core.mk
include test/unit/gpu.mk
include test/unit/ib.mk
include test/unit/gpu_move.mk
include test/unit/gpu_pack.mk
include test/unit/launch.mk
include test/unit/io.mk
