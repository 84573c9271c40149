/* SPDX-License-Identifier: BSD-3-Clause */
/* An NCCL that moves no data: every call succeeds at once.  With it osu_nccl_* and the table of
 * bench-gpu run without NCCL and without a GPU; its figures mean nothing. */
#include <stddef.h>
#include <string.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct fake_id {
    char bytes[128];
};

FAKE_EXPORT int ncclGetVersion(int *version);
FAKE_EXPORT int ncclGetUniqueId(struct fake_id *id);
FAKE_EXPORT int ncclCommInitRank(void **comm, int nranks, struct fake_id id, int rank);
FAKE_EXPORT int ncclCommDestroy(void *comm);
FAKE_EXPORT const char *ncclGetErrorString(int err);
FAKE_EXPORT int ncclAllReduce(const void *s, void *r, size_t n, int type, int op, void *comm,
                              void *stream);
FAKE_EXPORT int ncclReduce(const void *s, void *r, size_t n, int type, int op, int root, void *comm,
                           void *stream);
FAKE_EXPORT int ncclBroadcast(const void *s, void *r, size_t n, int type, int root, void *comm,
                              void *stream);
FAKE_EXPORT int ncclAllGather(const void *s, void *r, size_t n, int type, void *comm, void *stream);
FAKE_EXPORT int ncclReduceScatter(const void *s, void *r, size_t n, int type, int op, void *comm,
                                  void *stream);
FAKE_EXPORT int ncclSend(const void *s, size_t n, int type, int peer, void *comm, void *stream);
FAKE_EXPORT int ncclRecv(void *r, size_t n, int type, int peer, void *comm, void *stream);
FAKE_EXPORT int ncclGroupStart(void);
FAKE_EXPORT int ncclGroupEnd(void);

enum { FAKE_VERSION = 22809, FAKE_INVALID = 4, FAKE_MARK = 0x5a };
static int grouped, the_comm;

static int good(const void *comm, const void *stream)
{
    return comm == &the_comm && stream ? 0 : FAKE_INVALID;
}

int ncclGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return 0;
}

int ncclGetUniqueId(struct fake_id *id)
{
    memset(id, FAKE_MARK, sizeof *id);
    return 0;
}

/* The identifier must have reached every rank. */
int ncclCommInitRank(void **comm, int nranks, struct fake_id id, int rank)
{
    *comm = &the_comm;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        if (id.bytes[i] != FAKE_MARK)
            return FAKE_INVALID;
    }
    return rank < 0 || rank >= nranks ? FAKE_INVALID : 0;
}

int ncclCommDestroy(void *comm) { return comm == &the_comm ? 0 : FAKE_INVALID; }
const char *ncclGetErrorString(int err) { return err ? "invalid argument" : "no error"; }

int ncclAllReduce(const void *s, void *r, size_t n, int type, int op, void *comm, void *stream)
{
    (void)n, (void)type, (void)op;
    return s && r ? good(comm, stream) : FAKE_INVALID;
}

int ncclReduce(const void *s, void *r, size_t n, int type, int op, int root, void *comm,
               void *stream)
{
    (void)n, (void)type, (void)op, (void)root;
    return s && r ? good(comm, stream) : FAKE_INVALID;
}

int ncclBroadcast(const void *s, void *r, size_t n, int type, int root, void *comm, void *stream)
{
    (void)n, (void)type, (void)root;
    return s && r ? good(comm, stream) : FAKE_INVALID;
}

int ncclAllGather(const void *s, void *r, size_t n, int type, void *comm, void *stream)
{
    (void)n, (void)type;
    return s && r ? good(comm, stream) : FAKE_INVALID;
}

int ncclReduceScatter(const void *s, void *r, size_t n, int type, int op, void *comm, void *stream)
{
    (void)n, (void)type, (void)op;
    return s && r ? good(comm, stream) : FAKE_INVALID;
}

/* Outside a group, sends and receives of all ranks would wait for each other. */
int ncclSend(const void *s, size_t n, int type, int peer, void *comm, void *stream)
{
    (void)n, (void)type, (void)peer;
    return s && grouped ? good(comm, stream) : FAKE_INVALID;
}

int ncclRecv(void *r, size_t n, int type, int peer, void *comm, void *stream)
{
    (void)n, (void)type, (void)peer;
    return r && grouped ? good(comm, stream) : FAKE_INVALID;
}

int ncclGroupStart(void) { return grouped++ ? FAKE_INVALID : 0; }
int ncclGroupEnd(void) { return --grouped ? FAKE_INVALID : 0; }
