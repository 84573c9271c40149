/* SPDX-License-Identifier: BSD-3-Clause */
/* Notes of WEFT_CHECK: what a rank reports about one collective call. */
#ifndef WM_COLL_CHECK_NOTE_H
#define WM_COLL_CHECK_NOTE_H

#include "mpi/coll/call.h"

/* The data of a call: its bytes, and a hash of the sequence of its basic types; hash 0 (MPI_PACKED)
 * matches any hash. */
struct check_sig {
    uint64_t hash;
    int64_t nbytes;
};
static inline bool check_sig_same(struct check_sig a, struct check_sig b)
{
    return a.nbytes == b.nbytes && (a.hash == b.hash || !a.hash || !b.hash || !a.nbytes);
}

#define CHECK_SEND 1u     /* `send` describes what this rank sends */
#define CHECK_RECV 2u     /* `recv` describes what it expects */
#define CHECK_SENDS 4u    /* one `send` per rank follows the note */
#define CHECK_RECVS 8u    /* one `recv` per rank follows the note, after the sends */
#define CHECK_UNIFORM 16u /* `send` and `recv` must be the same on all ranks */
#define CHECK_LAST 32u    /* no call follows on this communicator */
#define CHECK_NO_ROOT INT32_MIN

struct check_note { /* the message format */
    char name[40];
    uint32_t number; /* of the call on its communicator */
    int32_t rank, root;
    uint32_t op;   /* handle of a predefined operation, or CHECK_USER_OP; 0: none */
    uint32_t has;  /* CHECK_... */
    int32_t n;     /* entries of each vector */
    int64_t nmore; /* bytes after the vectors: accesses to a window (mpi/check/accesses.h) */
    struct check_sig send, recv;
    struct check_sig vec[]; /* sends, then recvs */
};
#define CHECK_USER_OP 0x80000000u /* | 1 if it is commutative */

static inline const struct check_sig *check_sends(const struct check_note *a)
{
    return a->has & CHECK_SENDS ? a->vec : NULL;
}
static inline const struct check_sig *check_recvs(const struct check_note *a)
{
    return a->has & CHECK_RECVS ? a->vec + (a->has & CHECK_SENDS ? a->n : 0) : NULL;
}
static inline size_t check_note_nbytes(const struct check_note *a)
{
    size_t nvec = (a->has & CHECK_SENDS ? 1u : 0u) + (a->has & CHECK_RECVS ? 1u : 0u);
    return sizeof *a + nvec * (size_t)a->n * sizeof a->vec[0] + (size_t)a->nmore;
}
static inline const void *check_accesses_of(const struct check_note *a)
{
    return a && a->nmore ? (const char *)a + check_note_nbytes(a) - a->nmore : NULL;
}

/* malloc'ed; NULL if out of memory. */
struct check_note *check_note_make(const struct wm_call *call);
struct check_note *check_note_named(const char *name);
/* Writes how two notes of one call differ; false if they agree.  Both may be the same note, to
 * check it against itself. */
bool check_differ(const struct check_note *a, const struct check_note *b, char *text, size_t len);

#endif
