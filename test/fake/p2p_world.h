/* SPDX-License-Identifier: BSD-3-Clause */
/* Message engines in one process, over the transport of p2p_queues.h, with a communicator. */
#ifndef TEST_FAKE_P2P_WORLD_H
#define TEST_FAKE_P2P_WORLD_H

#include "mpi/base/comm.h"
#include "mpi/p2p/engine.h"
#include "test/fake/p2p_queues.h"

extern struct wm_domain *dom[N];
extern struct wm_comm comm[N];

void world_up(struct knobs k);
void pump(void); /* each engine makes progress once */
void pump_until(const struct rt_req *r);
/* Checks that nothing is left. */
void world_down(void);
/* The same if a lost peer leaves unfinished messages behind. */
void world_drop(void);

#endif
