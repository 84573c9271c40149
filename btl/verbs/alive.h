/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that answers pings, and pings to other processes. */
#ifndef BTL_VERBS_ALIVE_H
#define BTL_VERBS_ALIVE_H

#include "btl/verbs/lane.h"

/* Opens a datagram port on each rail and starts the thread.  0; -RT_ENOMEM; -RT_ESYS, logged. */
int verbs_alive_open(struct verbs *v);
void verbs_alive_close(struct verbs *v);
/* The key of pings and pongs, made from the key in the address of the process that is pinged. */
void verbs_alive_key(const uint8_t key[VERBS_KEY], uint8_t out[VERBS_KEY]);
void verbs_alive_ask(const struct verbs_lane *l); /* pings the lane's peer over the lane's rail */
/* Handles a datagram; false: it is not a pong. */
bool verbs_alive_answer(struct verbs *v, const void *data, size_t len);

#endif
