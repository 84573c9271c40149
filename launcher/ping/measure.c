/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of weft_ping.  The lower rank of a pair leads: it sends commands of 8 bytes,
 * which the higher rank executes until the command to stop, so only the lower rank decides how long
 * to measure. */
#include "launcher/ping/ping.h"
#include "runtime/base/clock.h"

#include <mpi.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGE (4u << 20)  /* longest message; longer ones are faster on no network */
#define SMALL (64u << 10) /* first message; long messages to slow hosts would take minutes */
#define SAMPLES 400       /* of the latency */
#define STREAMS 3         /* measurements of the bandwidth; their median counts */
#define MEET_S 120.0      /* limit if the partner is late because it was paired with a slow host */

enum { TAG_HELLO = 1, TAG_MEET, TAG_COMMAND, TAG_DATA };
enum command { ECHO, TAKE, GIVE, STOP };

/* 8 bytes, also the payload of the latency measurement. */
struct order {
    uint32_t command, len;
};

static double now_s(void) { return (double)rt_now_ns() * 1e-9; }

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

/* Waits without occupying a core, which processes that are measured may need.  MPI_ERR_PENDING: the
 * operation did not complete in time. */
static int wait_until(MPI_Request *req, double end)
{
    int done = 0;
    for (int i = 0;; i++) {
        int err = MPI_Test(req, &done, MPI_STATUS_IGNORE);
        if (err || done)
            return err;
        if (now_s() > end)
            return MPI_ERR_PENDING;
        if (i > 100)
            nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
}

int ping_reach(int n, int me, double limit_s, bool *reached)
{
    char(*got)[8] = calloc((size_t)n, sizeof *got);
    MPI_Request *req = malloc((size_t)n * 2 * sizeof *req);
    static const char hello[8] = "hello";
    int err = got && req ? 0 : MPI_ERR_NO_MEM;

    for (int i = 0; !err && i < 2 * n; i++)
        req[i] = MPI_REQUEST_NULL;
    for (int i = 1; !err && i < n; i++) { /* each rank starts with another rank */
        int to = (me + i) % n;
        err = MPI_Irecv(got[to], 8, MPI_BYTE, to, TAG_HELLO, MPI_COMM_WORLD, &req[2 * to]);
        reached[to] = !err && !MPI_Issend(hello, 8, MPI_BYTE, to, TAG_HELLO, MPI_COMM_WORLD,
                                          &req[2 * to + 1]);
        err = 0; /* an unreachable rank is a result, not an error */
    }
    double end = now_s() + limit_s;
    for (int to = 0; !err && to < n; to++)
        for (int k = 0; k < 2 && to != me && reached[to]; k++)
            reached[to] = !wait_until(&req[2 * to + k], end);
    for (int i = 0; !err && i < 2 * n; i += 2)
        if (req[i] != MPI_REQUEST_NULL) { /* a send without a receive cannot be cancelled */
            MPI_Cancel(&req[i]);
            MPI_Request_free(&req[i]);
        }
    free(req);
    free(got);
    return err;
}

static int meet(int other)
{
    char mine = 0, theirs;
    MPI_Request req[2];
    int err = MPI_Irecv(&theirs, 1, MPI_BYTE, other, TAG_MEET, MPI_COMM_WORLD, &req[0]);
    if (!err)
        err = MPI_Isend(&mine, 1, MPI_BYTE, other, TAG_MEET, MPI_COMM_WORLD, &req[1]);
    double end = now_s() + MEET_S;
    for (int k = 0; k < 2 && !err; k++)
        err = wait_until(&req[k], end);
    return err;
}

static int give_order(int other, enum command command, uint32_t len)
{
    struct order o = { command, len };
    return MPI_Send(&o, sizeof o, MPI_BYTE, other, TAG_COMMAND, MPI_COMM_WORLD);
}

static int echo(int other)
{
    struct order o;
    int err = give_order(other, ECHO, 0);
    return err ? err
               : MPI_Recv(&o, sizeof o, MPI_BYTE, other, TAG_COMMAND, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE);
}

/* One long message and its acknowledgement; in one direction the message itself is the
 * acknowledgement. */
static int move(int other, enum command command, char *buf, uint32_t len)
{
    struct order o;
    int err = give_order(other, command, len);
    if (!err && command == GIVE)
        return MPI_Recv(buf, (int)len, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
    if (!err)
        err = MPI_Send(buf, (int)len, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD);
    return err ? err
               : MPI_Recv(&o, sizeof o, MPI_BYTE, other, TAG_COMMAND, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE);
}

static int latency(int other, double turn_s, double *us)
{
    double v[SAMPLES], end = 0;
    int err = 0, n = 0;
    for (int i = 0; i < 10 && !err && (!i || now_s() < end); i++) { /* warm-up */
        err = echo(other);
        end = i ? end : now_s() + turn_s / 4;
    }
    end = now_s() + turn_s;
    while (!err && n < SAMPLES && (n < 3 || now_s() < end)) {
        double start = now_s();
        err = echo(other);
        v[n++] = now_s() - start;
    }
    if (!err)
        *us = median(v, n) * 1e6 / 2;
    return err;
}

/* Sends messages one after the other for this time, at least `least` of them; returns the average
 * time of a message. */
static int stream(int other, struct order o, double for_s, int least, char *buf, double *each_s)
{
    double start = now_s(), took = 0;
    int err = 0, n = 0;
    for (; !err && (n < least || took < for_s); n++) {
        err = move(other, o.command, buf, o.len);
        took = now_s() - start;
    }
    *each_s = took / n;
    return err;
}

/* A link with a token bucket passes the content of the bucket at once, at the start and after each
 * pause.  So the first stream only empties the bucket.  One of the other streams may be measured
 * too fast, as one may be delayed. */
static int bandwidth(int other, enum command command, double turn_s, char *buf, double *mb_per_s)
{
    struct order o = { command, SMALL };
    double each[STREAMS], first;
    int err = 0;

    for (; !err; o.len *= 2) {
        double start = now_s();
        err = move(other, command, buf, o.len);
        if (o.len >= LARGE || now_s() - start > turn_s / 8)
            break;
    }
    if (!err)
        err = stream(other, o, turn_s / 4, 3, buf, &first);
    for (int i = 0; i < STREAMS && !err; i++)
        err = stream(other, o, turn_s / 4, 2, buf, &each[i]);
    if (!err)
        *mb_per_s = o.len / median(each, STREAMS) * 1e-6;
    return err;
}

static int lead(int other, double turn_s, char *buf, struct ping_cell *c)
{
    int err = latency(other, turn_s, &c->us);
    if (!err)
        err = bandwidth(other, TAKE, turn_s, buf, &c->out);
    if (!err)
        err = bandwidth(other, GIVE, turn_s, buf, &c->in);
    if (!err)
        err = give_order(other, STOP, 0);
    /* the same, as the partner sees it */
    double v[3] = { c->us, c->in, c->out };
    return err ? err : MPI_Send(v, 3, MPI_DOUBLE, other, TAG_DATA, MPI_COMM_WORLD);
}

static int follow(int other, char *buf, struct ping_cell *c)
{
    for (;;) {
        struct order o;
        int err = MPI_Recv(&o, sizeof o, MPI_BYTE, other, TAG_COMMAND, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
        if (err)
            return err;
        if (o.command == STOP)
            break;
        if (o.command == TAKE)
            err = MPI_Recv(buf, (int)o.len, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE);
        if (!err)
            err = o.command == GIVE
                      ? MPI_Send(buf, (int)o.len, MPI_BYTE, other, TAG_DATA, MPI_COMM_WORLD)
                      : MPI_Send(&o, sizeof o, MPI_BYTE, other, TAG_COMMAND, MPI_COMM_WORLD);
        if (err)
            return err;
    }
    double v[3];
    int err = MPI_Recv(v, 3, MPI_DOUBLE, other, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!err) {
        c->us = v[0];
        c->out = v[1];
        c->in = v[2];
    }
    return err;
}

int ping_pair(int me, int other, double turn_s, struct ping_cell *out)
{
    char *buf = malloc(LARGE);
    int err = buf ? 0 : MPI_ERR_NO_MEM;
    if (!err) {
        memset(buf, 1, LARGE); /* so that no page is first touched during a measurement */
        err = meet(other);
    }
    if (!err)
        err = me < other ? lead(other, turn_s, buf, out) : follow(other, buf, out);
    free(buf);
    return err;
}
