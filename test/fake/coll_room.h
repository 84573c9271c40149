/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for the buffers of collectives' cases, over a driver, the fake one or a real one:
 * one allocation, from which buffers are taken one after the other. */
#ifndef TEST_FAKE_COLL_ROOM_H
#define TEST_FAKE_COLL_ROOM_H

#include "runtime/gpu/gpu.h"
#include "test/fake/coll_case.h"

/* Opens the first device and allocates there; without a device, or without kernels, the test is
 * skipped.  Returns 0, or an error. */
int coll_room_open(size_t nbytes);
void coll_room_close(void);
extern struct rt_gpu *coll_room_gpu;
/* For coll_case_each(): returns the buffer's place on the device after copying the buffer to it
 * (in), or from it (out).  After coll_room_rewind() buffers get the same places again, in order. */
coll_case_fn coll_room_in, coll_room_out;
void coll_room_rewind(void);

#endif
