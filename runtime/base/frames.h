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

/* The same in two steps, because finding the name takes 10 us: the address in the exported
 * procedure, and the return address of its call; both 0 outside of a call.  The name of the
 * procedure; "" if it has no symbol. */
void rt_frame_call(uint64_t *inner, uint64_t *caller);
const char *rt_frame_name(uint64_t inner);

struct rt_frame {  /* of a function of the program */
    uintptr_t low; /* the stack below belongs to the library and to functions that have returned */
    uint64_t pc;   /* where the function makes its call: a return address */
    uintptr_t cfa; /* canonical frame address */
    uintptr_t pointer; /* its frame pointer, if it keeps one */
};
/* The end of the variables of the program's function, among those that have led to this call, whose
 * stack frame contains p; 0: none, and only f->low is set. */
uintptr_t rt_frame_end(const void *p, struct rt_frame *f);

#endif
