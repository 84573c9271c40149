/* SPDX-License-Identifier: BSD-3-Clause */
/* Where this thread is: the exported procedure of this library that the program has called, and the
 * return addresses outwards from its caller.  Any thread.  Takes no lock, allocates nothing and
 * asks the loader nothing, because other threads may hold its lock while they wait for this one. */
#ifndef RT_BASE_FRAMES_H
#define RT_BASE_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/* Stores the name in `call` ("MPI_Recv"; "" if the thread is in none, or it has no symbol), and at
 * most `max` addresses in `out`; returns their number.  Costs about 1 us a frame. */
int rt_frames(uint64_t *out, int max, char *call, size_t len);

#endif
