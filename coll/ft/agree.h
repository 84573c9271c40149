/* SPDX-License-Identifier: BSD-3-Clause */
/* An agreement of processes on one value, although some of them die: the protocol alone.  It knows
 * ranks, messages and deaths; the caller sends, and reports what arrives and who has died.  One
 * thread at a time. */
#ifndef COLL_FT_AGREE_H
#define COLL_FT_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum agree_kind { AGREE_STATE, AGREE_ASK, AGREE_PROPOSE, AGREE_ACK, AGREE_DECIDE, AGREE_KINDS };
struct agree_msg {
    uint32_t kind;
    int32_t ballot; /* STATE: of the value that the sender has accepted, -1: none; else the leader's
                       rank */
    char value[];   /* of the agreement's length; ASK, ACK: none */
};

struct agree_ops {
    /* Does not call back. */
    void (*send)(void *arg, int to, const struct agree_msg *m, size_t len);
    /* Combines two contributions: commutative, associative. */
    void (*merge)(void *inout, const void *in, size_t len);
    /* Adds to the combined contributions, before they are proposed, that `rank` is dead. */
    void (*died)(void *inout, size_t len, int rank);
};

/* One process in one agreement.  Allocated by the caller, agree_nbytes() long; without pointers
 * into itself. */
struct agree {
    const struct agree_ops *ops;
    void *arg;
    int n, me;
    size_t len;
    int accepted; /* ballot of the value, -1: `value` is this process's contribution */
    int best;     /* leader: highest ballot in the answers, -1: none */
    bool leads, proposed, decided;
    _Alignas(
        8) char data[]; /* value, gathered value, message; dead, answered: a byte for each rank */
};

size_t agree_nbytes(int n, size_t len);
/* Begins with a contribution; dead[n]: a byte for each rank, 1 if it is known to be dead.  After
 * this call: */
void agree_start(struct agree *a, const struct agree_ops *ops, void *arg, int n, int me, size_t len,
                 const void *contribution, const uint8_t *dead);
void agree_died(struct agree *a, int rank);
/* A message, also one that has arrived before the start, in the order of its sender.  False: it is
 * malformed. */
bool agree_take(struct agree *a, int from, const struct agree_msg *m, size_t len);
/* The value; NULL: not yet.  A process that has it must still take messages, until it knows that
 * all living ones have it. */
const void *agree_value(const struct agree *a);

#endif
