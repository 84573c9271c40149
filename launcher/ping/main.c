/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_ping: one process on each host; rank 0 prints.  Host names and results are exchanged through
 * PMIx, which also reaches hosts that messages do not reach.  Exit code 1 if two hosts do not reach
 * each other. */
#include "launcher/ping/ping.h"
#include "btl/btl.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define ALL_S 20.0  /* limit for all measurements of one host, seconds */
#define TURN_S 0.1  /* limit for one pair, seconds */
#define REACH_S 5.0 /* seconds added to the time in which a transport tries to connect */

static void name_transport(int rank, struct ping_cell *c)
{
    const struct wm_peer *p = wm_comm_world->peers[rank];
    if (p && p->eager)
        snprintf(c->by, sizeof c->by, "%s", p->eager->btl->ops->name);
}

static int measure(int n, int me, struct ping_cell *row)
{
    bool *reached = calloc((size_t)n, sizeof *reached);
    int rounds = ping_rounds(n), err = reached ? 0 : MPI_ERR_NO_MEM;
    double turn = ALL_S / 3 / (rounds ? rounds : 1);

    if (!err)
        err = ping_reach(n, me, cfg.net_timeout_s + REACH_S, reached);
    for (int r = 0; r < rounds && !err; r++) {
        int other = ping_partner(n, r, me);
        if (other < 0)
            continue;
        name_transport(other, &row[other]);
        row[other].ok = reached[other] &&
                        !ping_pair(me, other, turn < TURN_S ? turn : TURN_S, &row[other]);
    }
    free(reached);
    return err;
}

/* Collects the rows of all processes at rank 0.  A process that does not answer in time is marked
 * as missing. */
static int collect(struct ping_table *t, const struct ping_cell *mine)
{
    size_t nbytes = (size_t)t->n * sizeof *mine;
    for (int i = 0; i < t->n; i++) {
        struct rt_proc proc = { 0, (uint32_t)i };
        void *val;
        size_t len;
        if (i == 0)
            memcpy(t->cell, mine, nbytes);
        else if (rt_boot_get(proc, "weft.ping.row", &val, &len, 600) < 0)
            t->missing[i] = true;
        else {
            t->missing[i] = len != nbytes;
            memcpy(t->cell + (size_t)i * (size_t)t->n, val, len < nbytes ? len : nbytes);
            free(val);
        }
        snprintf(t->name[i], sizeof t->name[i], "rank %d", i);
        if (i == 0)
            snprintf(t->name[i], sizeof t->name[i], "%.63s", rt_boot.host);
        else if (rt_boot_get(proc, "weft.ping.name", &val, &len, 30) == 0) {
            snprintf(t->name[i], sizeof t->name[i], "%.*s", (int)(len < 63 ? len : 63),
                     (char *)val);
            free(val);
        }
    }
    return 0;
}

static long report(int n, const struct ping_cell *mine)
{
    struct ping_table t = { .n = n,
                            .name = calloc((size_t)n, sizeof *t.name),
                            .cell = calloc((size_t)n * (size_t)n, sizeof *t.cell),
                            .missing = calloc((size_t)n, sizeof *t.missing) };
    long bad = -1;
    if (t.name && t.cell && t.missing && collect(&t, mine) == 0)
        bad = ping_report(&t, stdout);
    else
        fprintf(stderr, "weft_ping: no memory for the table of %d hosts\n", n);
    free(t.name);
    free(t.cell);
    free(t.missing);
    return bad;
}

static int run(int n, int me)
{
    struct ping_cell *row = calloc((size_t)n, sizeof *row);
    if (!row || measure(n, me, row)) {
        fprintf(stderr, "weft_ping: rank %d could not start measuring\n", me);
        return 1;
    }
    long bad = 0;
    if (me == 0)
        bad = report(n, row);
    else if (rt_boot_put("weft.ping.name", rt_boot.host, strlen(rt_boot.host)) < 0 ||
             rt_boot_put("weft.ping.row", row, (size_t)n * sizeof *row) < 0 || rt_boot_commit() < 0)
        bad = 1;
    free(row);
    fflush(stdout);
    rt_boot_fence(); /* results stay available until rank 0 has read them */
    return bad != 0;
}

int main(int argc, char **argv)
{
    int n, me;
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = 1;
    if (n >= 2 && n <= PING_HOSTS_MAX)
        code = run(n, me);
    else if (me == 0)
        fprintf(stderr,
                "weft_ping: hosts: %d, expected 2 to %d; change them with -H or --hostfile\n", n,
                PING_HOSTS_MAX);
    MPI_Finalize();
    return code;
}
