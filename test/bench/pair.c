/* SPDX-License-Identifier: BSD-3-Clause */
/* What the point-to-point benchmarks share: a ping-pong, and windows of messages one way or both
 * ways, between each rank and its partner (`peer`).  Ranks without a partner return at once. */
#include "test/bench/bench.h"
#include <stdlib.h>

enum { TAG_DATA = 100, TAG_BACK = 10, TAG_ANSWER = 101 };

void pair_pingpong(struct bench *b, void *nbytes, int n)
{
    int count = bench_count(b, *(size_t *)nbytes);

    if (b->peer < 0)
        return;
    for (int i = 0; i < n && b->rank < b->pairs; i++) {
        MPI_Send(b->sbuf, count, b->type, b->peer, TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(b->rbuf, count, b->type, b->peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < n && b->rank >= b->pairs; i++) {
        MPI_Recv(b->rbuf, count, b->type, b->peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(b->sbuf, count, b->type, b->peer, TAG_DATA, MPI_COMM_WORLD);
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
    size_t step = b->opt.many_bufs ? nbytes : 0;
    for (int i = 0; i < b->opt.window; i++)
        MPI_Isend(b->sbuf + (size_t)i * step, bench_count(b, nbytes), b->type, b->peer, tag,
                  MPI_COMM_WORLD, &reqs[i]);
}

static void post_recvs(struct bench *b, size_t nbytes, int tag, MPI_Request *reqs)
{
    size_t step = b->opt.many_bufs ? nbytes : 0;
    for (int i = 0; i < b->opt.window; i++)
        MPI_Irecv(b->rbuf + (size_t)i * step, bench_count(b, nbytes), b->type, b->peer, tag,
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

    for (int i = 0; i < bufs && b->peer >= 0; i++) {
        bench_fill(b, b->sbuf + (size_t)i * nbytes, nbytes, b->rank, b->peer);
        bench_poison(b, b->rbuf + (size_t)i * nbytes, nbytes);
    }
}

void pair_check(struct bench *b, size_t nbytes, bool at_sender)
{
    int bufs = b->opt.many_bufs ? b->opt.window : 1;

    if (b->peer < 0 || (b->rank < b->pairs && !at_sender))
        return;
    for (int i = 0; i < bufs; i++)
        bench_check(b, b->rbuf + (size_t)i * nbytes, nbytes, b->peer, b->rank);
}
