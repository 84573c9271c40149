/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for the buffers of collectives' cases, over a driver, the fake one or a real one:
 * one piece, from which buffers are taken one after the other. */
#ifndef TEST_FAKE_COLL_ROOM_H
#define TEST_FAKE_COLL_ROOM_H

#include "runtime/gpu/gpu.h"
#include "test/fake/coll_case.h"

/* Opens the first device, on which the memory is; without one, or without kernels, the test ends
 * as skipped.  0, or an error. */
int coll_room_open(size_t nbytes);
void coll_room_close(void);
extern struct rt_gpu *coll_room_gpu;
/* For coll_case_each(): the buffer's place on the device, after it was filled from the buffer, or
 * the buffer from it.  After coll_room_rewind() they are at the same places again, in order. */
coll_case_fn coll_room_in, coll_room_out;
void coll_room_rewind(void);

#endif
