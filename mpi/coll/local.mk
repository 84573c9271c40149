# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/coll/call.h mpi/coll/call.c mpi/coll/api.c mpi/coll/team.h mpi/coll/team.c mpi/coll/team_dev.c mpi/coll/exch.h mpi/coll/exch.c mpi/coll/alive.h mpi/coll/alive.c
core_sources += mpi/coll/device.h mpi/coll/device.c mpi/coll/stage.h mpi/coll/stage.c
core_sources += mpi/coll/check.h mpi/coll/check_int.h mpi/coll/check_note.h mpi/coll/check_end.h mpi/coll/check_bufs.h mpi/coll/check_bufs.c mpi/coll/check.c mpi/coll/check_note.c mpi/coll/check_end.c
