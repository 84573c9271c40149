/* SPDX-License-Identifier: BSD-3-Clause */
/* A team inside one process: N ranks whose steps run one at a time in random order, messages that
 * arrive after random delays, shared memory that is plain memory.  Like a real rank, a rank whose
 * step made no progress sleeps until one of its messages completes or another rank wakes it, so a
 * wake-up that an algorithm forgets shows as a hang. */
#ifndef TEST_FAKE_COLL_FAKE_H
#define TEST_FAKE_COLL_FAKE_H

#include "coll/coll.h"

struct fake;

/* Of teams created from now on. */
extern struct coll_override fake_override;

/* `node`: the ranks share memory, of which at most `shm_room` bytes are available after the team's
 * own area. */
struct fake *fake_create(int size, unsigned seed, bool node, size_t shm_room);
/* Ranks on several hosts: node_of[r] (kept) is the host of rank r.  The ranks of a host share
 * memory, of which `shm_room` bytes are available to all teams together; 0: no host has any for the
 * team. */
struct fake *fake_create_nodes(int size, unsigned seed, const int *node_of, size_t shm_room);
/* Two teams with `p` and `q` ranks and an intercommunicator between them; ranks of the fake from p
 * on belong to the second team. */
struct fake *fake_create_inter(int p, int q, unsigned seed);
/* Buffers of calls with device memory are g's; such calls use coll_begin_device(). */
void fake_use_device(struct fake *f, struct rt_gpu *g);
/* Returns the number of messages and receives left over, which must be 0. */
int fake_destroy(struct fake *f);

/* Runs `ncalls` collectives on all ranks; call i of rank r has args[i * size + r].  A rank has up
 * to `window` calls in progress and starts the next when the oldest is complete; ranks drift apart
 * at random.  Returns 0; -1 for a hang; or an error of a task. */
int fake_run(struct fake *f, const struct coll_args *args, int ncalls, int window);
/* The same with persistent calls, created in order.  Each is started once per round.  Each rank has
 * its own random order, within blocks of `window` calls. */
int fake_run_fixed(struct fake *f, const struct coll_args *args, int ncalls, int window,
                   int rounds);
/* From now on errors of tasks do not end a run but are counted, by rank. */
void fake_tolerate(struct fake *f);
int fake_errors(const struct fake *f, int rank);
/* The input of that rank is poisoned in calls that it starts from now on; -1: of no rank. */
void fake_lose(struct fake *f, int rank);
/* A call that fails for lack of memory is repeated; with a window of 1. */
void fake_repeat(struct fake *f);
/* No call is in the background from now on. */
void fake_blocking(struct fake *f);
/* The cost of the last run over several hosts, if messages between hosts take time and everything
 * else takes none; ranks run whenever they can.  A host's messages go out, and come in, one after
 * the other. */
struct fake_cost {
    int64_t time;
    int64_t messages, bytes; /* between hosts */
};
struct fake_cost fake_cost(const struct fake *f);
/* Time of a message: a fixed and a per-byte part until it has gone out and the next may go, then
 * its latency.  Before this is called, 0, 0 and 1: the time is the longest chain of messages, each
 * sent after the previous one had arrived. */
void fake_wire(struct fake *f, int64_t start, double byte, int64_t way);
struct coll_team *fake_team(struct fake *f, int rank);
unsigned fake_random(struct fake *f, unsigned below);

/* Additions to teams created from now on: operations on device memory, stage(), shm_wake(),
 * peer_...() and events between the ranks' turns (returns whether anything happened).  NULL:
 * none. */
struct fake_more {
    struct coll_team_ops ops; /* only the members that are set */
    bool (*turn)(struct fake *f);
};
extern const struct fake_more *fake_more;
/* The rank gets its next turn, whatever its last turn did. */
void fake_wake(struct fake *f, int rank);

#endif
