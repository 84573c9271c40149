/* SPDX-License-Identifier: BSD-3-Clause */
/* A team inside one process: N ranks whose steps run one at a time in random order, messages that
 * arrive after random delays, shared memory that is plain memory.  A rank whose step got nowhere
 * sleeps until a message of its own completes or another rank wakes it, as a real one does: a
 * wake-up that an algorithm forgets shows as a hang. */
#ifndef TEST_FAKE_COLL_FAKE_H
#define TEST_FAKE_COLL_FAKE_H

#include "coll/coll.h"

struct fake;

/* `node`: the ranks share memory, of which at most `shm_room` bytes can be had after the team's own
 * area. */
struct fake *fake_create(int size, unsigned seed, bool node, size_t shm_room);
/* Ranks on several hosts: node_of[r], kept, says on which; those of a host share memory, of which
 * `shm_room` bytes can be had on all together; 0: no host has any for the team. */
struct fake *fake_create_nodes(int size, unsigned seed, const int *node_of, size_t shm_room);
/* Two teams with `p` and `q` ranks and an intercommunicator between them; ranks of the fake from p
 * on are the second team's. */
struct fake *fake_create_inter(int p, int q, unsigned seed);
/* Buffers of calls with a device's kind of memory are in g's; they go by coll_begin_device(). */
void fake_use_device(struct fake *f, struct rt_gpu *g);
/* Number of messages and receives left over, which should be none. */
int fake_destroy(struct fake *f);

/* Runs `ncalls` collectives on all ranks; call i of rank r has args[i * size + r].  A rank has up
 * to `window` calls under way and starts the next when the oldest is complete; ranks drift apart at
 * random.  0; -1 for a hang; an error of a task. */
int fake_run(struct fake *f, const struct coll_args *args, int ncalls, int window);
/* The same by persistent calls, made in order, each started once a round, in an order of the rank's
 * own but for what is further apart than the window. */
int fake_run_fixed(struct fake *f, const struct coll_args *args, int ncalls, int window,
                   int rounds);
/* From now on errors of tasks do not end a run but are counted, by rank. */
void fake_tolerate(struct fake *f);
int fake_errors(const struct fake *f, int rank);
/* The input of that rank is void in calls that it starts from now on; -1: nobody's. */
void fake_lose(struct fake *f, int rank);
/* A call that fails for lack of memory is made again; with a window of 1. */
void fake_repeat(struct fake *f);
/* No call is made as if its owner were elsewhere. */
void fake_blocking(struct fake *f);
/* What the last run over several hosts took, if messages between hosts take time and everything
 * else none; ranks run whenever they can.  A host's messages go out, and come in, one after the
 * other. */
struct fake_cost {
    int64_t time;
    int64_t messages, bytes; /* between hosts */
};
struct fake_cost fake_cost(const struct fake *f);
/* Time of a message: until it goes out and the next may, by bytes the same, and then on its way.
 * Before this is called 0, 0 and 1: the time is the longest chain of messages of which each was
 * sent after the one before had come. */
void fake_wire(struct fake *f, int64_t start, double byte, int64_t way);
const struct coll_team *fake_team(const struct fake *f, int rank);
unsigned fake_random(struct fake *f, unsigned below);

/* What teams made from now on have beside: operations on device memory and stage(), and something
 * that happens between the ranks' turns (whether anything did).  NULL: none. */
struct fake_more {
    struct coll_team_ops ops; /* those that are set */
    bool (*turn)(struct fake *f);
};
extern const struct fake_more *fake_more;
/* The rank's next turn will come, whatever its last one did. */
void fake_wake(struct fake *f, int rank);

#endif
