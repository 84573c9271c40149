/* SPDX-License-Identifier: BSD-3-Clause */
/* A context in use: entering it, noticing its end, and calls of the driver that wait for it. */
#ifndef RT_GPU_CONTEXT_H
#define RT_GPU_CONTEXT_H

#include "runtime/base/list.h"
#include "runtime/gpu/devices.h"

struct rt_gpu; /* one CUDA context that this process uses: streams, kernels, staging; dev.c */

/* Makes g's context current when it is not.  Hand the answer to rt_gpu_leave(), on this thread:
 *     int in = rt_gpu_enter(g);
 *     if (in < 0)
 *         return in;
 *     ...
 *     rt_gpu_leave(in);
 * -RT_EGPU: not logged, because it may not matter, when the context is lost. */
int rt_gpu_enter(struct rt_gpu *g);
void rt_gpu_leave(int in);

const struct rt_gpu_info *rt_gpu_info(const struct rt_gpu *g);
/* Most blocks of a kernel, of which per_sm would run on each multiprocessor; the setting
 * gpu_multiprocessors limits it. */
unsigned rt_gpu_most_blocks(const struct rt_gpu *g, unsigned per_sm);
/* Several processes use this device: no polling kernel, because contexts take turns, and, without
 * MPS, copies within it of up to RT_GPU_BY_HOST bytes, or RT_GPU_BY_HOST_ALONE if no others wait,
 * go through pinned memory: bounce.c. */
void rt_gpu_set_shared(struct rt_gpu *g);
bool rt_gpu_in_turns(const struct rt_gpu *g); /* they do so, and take turns */
/* Names g's device among the processes of a host if contexts take turns on it; 0: they do not
 * (MPS), or there is one process at a time. */
uint64_t rt_gpu_turns_of(const struct rt_gpu *g);
#define RT_GPU_BY_HOST (64u << 10)
#define RT_GPU_BY_HOST_ALONE (2u << 20)
#define RT_GPU_TURN_NS 140000u /* H200, driver 580; for predictions */

/* Set by the code that puts work on the application's streams: whether some of that work may now
 * wait for another process.  Then no call is made that waits for an idle device, because the device
 * might wait for what this process's host does next; deferred calls stay deferred even when
 * memory runs out. */
extern bool (*rt_gpu_awaits)(void);

/* Calls of class WAITS (cu.h) wait for the application's kernels, which may wait for what this
 * process does next; so none is made inside a message.  An object that needs such a call embeds a
 * struct rt_gpu_deferred; fn(d) is called once, later:
 *   - from rt_gpu_fini();
 *   - when the driver has answered CU_ERROR_OUT_OF_MEMORY: driver.c calls rt_gpu_run_deferred() and
 *     repeats the call, because waiting is better than failing;
 *   - when a caller that has no other way calls rt_gpu_run_deferred();
 *   - when deferred calls hold more than 1/16 of the device's memory: unused memory is missing
 *     elsewhere, most of all in the process that has freed it.  Then all deferred calls are made,
 *     so that there is one wait for many.
 *
 * Only the first happens while rt_gpu_must_not_wait() holds.  rt_gpu_undefer(): d is in use again.
 *
 * fn is called with g's context current.  With g->lost it is called without a context, at once, and
 * makes no call of the driver.
 *
 * Why the calls do not wait for an idle device instead: the driver cannot be asked for that.  A
 * query of the default stream does not see non-blocking streams, and cuCtxRecordEvent, which does,
 * spoils every capture that is under way in the context, whatever the thread's mode (measured:
 * H200, driver 580).  A thread of its own does not help: while such a call waits, copies of other
 * threads wait for it.
 *
 * Calls that do not wait need none of this: unmapping and releasing VMM memory, destroying streams,
 * events and graphs, opening handles, registering and allocating memory (measured). */
struct rt_gpu_deferred {
    struct rt_list link;
    size_t nbytes; /* of memory, anywhere, that is free after fn() */
    void (*fn)(struct rt_gpu_deferred *d);
};
void rt_gpu_defer(struct rt_gpu *g, struct rt_gpu_deferred *d, size_t nbytes,
                  void (*fn)(struct rt_gpu_deferred *d));
void rt_gpu_undefer(struct rt_gpu *g, struct rt_gpu_deferred *d);
/* Whether a wait for the device could last for ever: the application's stream waits for a peer. */
static inline bool rt_gpu_must_not_wait(void) { return rt_gpu_awaits && rt_gpu_awaits(); }

/* Makes all deferred calls of g. */
void rt_gpu_make_deferred(struct rt_gpu *g);
extern uint64_t rt_gpu_nmade; /* deferred calls made so far */

/* Logs that g is lost, where it matters; returns -RT_EGPU. */
int rt_gpu_gone(const struct rt_gpu *g);

/* Reports that a call on g has returned r, a cu_result; if r means that the context has gone, g
 * becomes lost.  True when it is lost. */
bool rt_gpu_check_lost(struct rt_gpu *g, int r);

/* Whether the context for which g was made still exists.  The driver is asked at most once a
 * millisecond. */
bool rt_gpu_is_there(struct rt_gpu *g);

#endif
