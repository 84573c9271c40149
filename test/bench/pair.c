/* SPDX-License-Identifier: BSD-3-Clause */
/* What the point-to-point benchmarks share: a ping-pong, and windows of messages one way or both
 * ways, between each rank and its partner (`peer`).  Ranks without a partner return at once. */
#include "test/bench/bench.h"
#include "test/bench/device.h"
#include <stdlib.h>

enum { TAG_DATA = 100, TAG_BACK = 10, TAG_ANSWER = 101, TAG_TOUCH = 102 };

/* With -D a vector of blocks, and what is left of the size as a shorter block after them. */
void pair_message(struct bench *b, size_t nbytes)
{
    size_t block = b->block ? b->block : nbytes, n = block ? nbytes / block : 0;
    size_t unit = b->type_len, rest = block ? nbytes % block : 0;
    MPI_Datatype part[2] = { MPI_DATATYPE_NULL, b->type };
    MPI_Aint at[2] = { 0, (MPI_Aint)(n * b->stride) };
    int len[2] = { 1, (int)(rest / unit) };

    b->msg_type = b->type;
    b->msg_count = (int)(nbytes / unit);
    if (nbytes <= block)
        return;
    b->msg_count = 1;
    MPI_Type_vector((int)n, (int)(block / unit), (int)(b->stride / unit), b->type, &part[0]);
    if (rest) {
        MPI_Type_create_struct(2, len, at, part, &b->msg_type);
        MPI_Type_free(&part[0]);
    } else {
        b->msg_type = part[0];
    }
    MPI_Type_commit(&b->msg_type);
}

void pair_message_free(struct bench *b)
{
    if (b->msg_type != b->type)
        MPI_Type_free(&b->msg_type);
}

void pair_touch_gpu(struct bench *b)
{
    enum { NBYTES = 4096 };
    char *p = device_alloc('D', 2 * (size_t)NBYTES);

    if (!p)
        MPI_Abort(MPI_COMM_WORLD, BENCH_NO_DEVICE);
    device_set(p, 1, 2 * (size_t)NBYTES);
    if (b->peer >= 0)
        MPI_Sendrecv(p, 8, MPI_CHAR, b->peer, TAG_TOUCH, p + NBYTES, 8, MPI_CHAR, b->peer,
                     TAG_TOUCH, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD); /* the memory is never freed: the process continues to use a GPU */
}

void pair_pingpong(struct bench *b, void *unused, int n)
{
    int count = b->msg_count;
    MPI_Datatype type = b->msg_type;

    (void)unused;
    if (b->peer < 0)
        return;
    for (int i = 0; i < n && b->rank < b->pairs; i++) {
        MPI_Send(b->sbuf, count, type, b->peer, TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(b->rbuf, count, type, b->peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < n && b->rank >= b->pairs; i++) {
        MPI_Recv(b->rbuf, count, type, b->peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(b->sbuf, count, type, b->peer, TAG_DATA, MPI_COMM_WORLD);
    }
}

static MPI_Request *requests(const struct bench *b)
{
    MPI_Request *r = malloc((size_t)b->opt.window * sizeof *r);
    if (!r)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return r;
}

static void post_sends(struct bench *b, size_t nbytes, int tag, MPI_Request *reqs)
{
    size_t step = b->opt.many_bufs ? bench_span(b, nbytes) : 0;
    for (int i = 0; i < b->opt.window; i++)
        MPI_Isend(b->sbuf + (size_t)i * step, b->msg_count, b->msg_type, b->peer, tag,
                  MPI_COMM_WORLD, &reqs[i]);
}

static void post_recvs(struct bench *b, size_t nbytes, int tag, MPI_Request *reqs)
{
    size_t step = b->opt.many_bufs ? bench_span(b, nbytes) : 0;
    for (int i = 0; i < b->opt.window; i++)
        MPI_Irecv(b->rbuf + (size_t)i * step, b->msg_count, b->msg_type, b->peer, tag,
                  MPI_COMM_WORLD, &reqs[i]);
}

/* Four bytes: the sender's clock may stop only when the receiver has all of the window. */
static void answer(struct bench *b, bool send)
{
    char word[4] = { 0 };

    if (send)
        MPI_Send(word, 4, MPI_CHAR, b->peer, TAG_ANSWER, MPI_COMM_WORLD);
    else
        MPI_Recv(word, 4, MPI_CHAR, b->peer, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void pair_window(struct bench *b, void *nbytes, int n)
{
    bool sender = b->rank < b->pairs;
    MPI_Request *reqs = requests(b);

    for (int i = 0; i < n && b->peer >= 0; i++) {
        if (sender)
            post_sends(b, *(size_t *)nbytes, TAG_DATA, reqs);
        else
            post_recvs(b, *(size_t *)nbytes, TAG_DATA, reqs);
        MPI_Waitall(b->opt.window, reqs, MPI_STATUSES_IGNORE);
        answer(b, !sender);
    }
    free(reqs);
}

void pair_window_both(struct bench *b, void *nbytes, int n)
{
    bool first = b->rank < b->pairs;
    MPI_Request *sends = requests(b), *recvs = requests(b);

    for (int i = 0; i < n && b->peer >= 0; i++) {
        post_recvs(b, *(size_t *)nbytes, first ? TAG_BACK : TAG_DATA, recvs);
        post_sends(b, *(size_t *)nbytes, first ? TAG_DATA : TAG_BACK, sends);
        MPI_Waitall(b->opt.window, sends, MPI_STATUSES_IGNORE);
        MPI_Waitall(b->opt.window, recvs, MPI_STATUSES_IGNORE);
    }
    free(sends);
    free(recvs);
}

/* With several buffers in a window each holds the same pattern; with one, so does that one. */
void pair_fill(struct bench *b, size_t nbytes)
{
    int bufs = b->opt.many_bufs ? b->opt.window : 1;
    size_t step = bench_span(b, nbytes);

    for (int i = 0; i < bufs && b->peer >= 0; i++) {
        bench_fill(b, b->sbuf + (size_t)i * step, nbytes, b->rank, b->peer);
        bench_poison(b, b->rbuf + (size_t)i * step, nbytes);
    }
}

void pair_check(struct bench *b, size_t nbytes, bool at_sender)
{
    int bufs = b->opt.many_bufs ? b->opt.window : 1;
    size_t step = bench_span(b, nbytes);

    if (b->peer < 0 || (b->rank < b->pairs && !at_sender))
        return;
    for (int i = 0; i < bufs; i++)
        bench_check(b, b->rbuf + (size_t)i * step, nbytes, b->peer, b->rank);
}
