/* SPDX-License-Identifier: BSD-3-Clause */
/* Random sequences of collectives on buffers of all kinds of memory, against results that each rank
 * computes alone (collcall.h): blocking calls; nonblocking calls in progress together and completed
 * in any order; persistent calls started in a different order on every rank; on several
 * communicators.
 *     coll_random [seed=N] [calls=N] [max=BYTES] [only=NAME] [type=NAME] [device] [mask=N]
 *                 [verbose]
 * only: this kind of collective; type: the type of each reduction; device: nothing that keeps a
 * call from going from device to device; mask=N: each rank sees only one of N devices.  The first
 * wrong byte ends the program with a message that names the call. */
#include <sched.h>
#include <unistd.h>
#include "test/gpu/collcall.h"
#include "test/mpi/mpitest.h"

enum { PENDING = 5, LIVE = 4, COMMS = 6 };

static unsigned seed = 1, ncalls = 150, max_bytes = 100000, ncall;
static const char *only = "", *only_type = "";
static bool verbose, all_device;
static struct cc_comm comms[COMMS];
static struct cc_call *pending[PENDING]; /* on the heap: the library uses their vectors */
static int npending;
static struct {
    bool used;         /* the same on all ranks */
    struct cc_call *c; /* NULL: this rank is not in the call's communicator */
} live[LIVE];          /* persistent calls */
static char now[600];

/* ---- choosing a call ---- */

/* Lengths in bytes around those at which something changes. */
static int length(int unit, unsigned most)
{
    static const int at[11] = { 1 << 10,   4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10,
                                256 << 10, 1 << 20, 5 << 20, 20 << 20, 70 << 20 };
    int n, i = (int)cc_alike(9) < 6 ? (int)cc_alike(6) : (int)cc_alike(11);

    switch (cc_alike(8)) {
    case 0:
        n = (int)cc_alike(2) * unit;
        break;
    case 1:
        n = (int)(1 + cc_alike(8)) * unit;
        break;
    case 2:
        n = (int)cc_alike(300) * unit;
        break;
    default:
        n = at[i] + (int)cc_alike(3) * unit - unit + (cc_alike(4) ? 0 : (int)cc_alike(999) * unit);
    }
    while ((unsigned)n > most)
        n = n / 2 + n / 7 - 1;
    return n / unit;
}

/* The mix of kinds of memory: most calls go between device buffers, as in programs. */
static void kinds(struct cc_call *c)
{
    static const enum gt_kind shared[] = { GT_CUDA, GT_CUDA, GT_VMM, GT_POOL };
    uint32_t mix = cc_alike(all_device ? 11 : 20), odd = cc_alike((uint32_t)mt_size);

    c->skind = shared[cc_own(4)];
    c->rkind = shared[cc_own(4)];
    if (mix >= 11 && mix < 16) {
        c->skind = (enum gt_kind)cc_own(GT_ALL_KINDS);
        c->rkind = (enum gt_kind)cc_own(GT_ALL_KINDS);
    } else if (mix == 16 || (mix == 17 && (uint32_t)mt_rank == odd))
        c->skind = c->rkind = cc_own(2) ? GT_HOST : GT_PINNED;
    else if (mix == 18)
        c->skind = GT_HOST;
    else if (mix == 19)
        c->rkind = GT_HOST;
    c->sdev = c->rdev = mt_rank % gt_ndevices();
    if (all_device)
        return;
    if (!cc_own(5))
        c->sdev = (int)cc_own((uint32_t)gt_ndevices());
    if (!cc_own(5))
        c->rdev = (int)cc_own((uint32_t)gt_ndevices());
}

static void reduction(struct cc_call *c)
{
    static const char *const usual[] = { "MPI_FLOAT", "MPI_DOUBLE", "MPI_INT", "MPI_INT64_T" };
    uint32_t how = cc_alike(all_device ? 3 : 10);

    c->op = how < 3 ? CR_SUM : (enum cr_code)cc_alike(CR_CODES);
    c->rt = cr_type_named(*only_type ? only_type : usual[cc_alike(4)]);
    while (*only_type && !cr_allowed(c->rt, c->op))
        c->op = (enum cr_code)cc_alike(CR_CODES);
    if (*only_type)
        return;
    while (how >= 2 || !cr_allowed(c->rt, c->op)) {
        c->rt = &cr_types[cc_alike((uint32_t)cr_ntypes)];
        if (cr_allowed(c->rt, c->op))
            break;
    }
}

/* Draws a call; false: this rank is not in its communicator. */
static bool draw(struct cc_call *c, enum cc_form form)
{
    int which = (int)cc_alike(COMMS + 4), blocks;
    bool temporary = which == COMMS;

    *c = (struct cc_call){ .kind = (enum cc_kind)cc_alike(CC_KINDS), .form = form, .id = ncall++ };
    while (*only && !strstr(cc_name(c->kind), only))
        c->kind = (enum cc_kind)((c->kind + 1) % CC_KINDS);
    c->comm = &comms[temporary ? (int)cc_alike(COMMS - 1) : which < COMMS ? which : 0];
    if (mt_size > 1 && which == COMMS - 1 &&
        (c->kind >= CC_N_ALLGATHER || c->kind == CC_SCAN || c->kind == CC_EXSCAN))
        c->comm = &comms[0]; /* not between groups */
    c->key = cr_mix(seed, c->id);
    c->root_side = (int)cc_alike(2);
    c->root = (int)cc_alike(27720);
    c->in_place = cc_alike(3) == 0;
    c->unit = (int)cc_alike(5);
    c->derived = cc_alike(3) == 0 && !all_device;
    reduction(c);
    blocks = c->kind >= CC_ALLGATHER || c->kind == CC_REDUCE_SCATTER ||
                     c->kind == CC_REDUCE_SCATTER_BLOCK || c->kind == CC_GATHER ||
                     c->kind == CC_GATHERV || c->kind == CC_SCATTER || c->kind == CC_SCATTERV
                 ? mt_size
                 : 1;
    c->n = cc_reduces(c->kind) ? length(c->rt->extent, max_bytes / (unsigned)blocks)
                               : length(1 << c->unit, max_bytes / (unsigned)blocks) & ~1;
    kinds(c);
    if (!c->comm->n)
        return false;
    if (temporary && c->kind < CC_N_ALLGATHER)
        c->comm = cc_comm_copy(c->comm);
    c->root %= c->comm->inter ? c->comm->sides[c->root_side] : c->comm->n;
    c->in_place = c->in_place && cc_may_be_in_place(c);
    if (c->in_place && cc_in_place_is_own(c))
        c->in_place = cc_own(4) > 0;
    return true;
}

/* ---- executing it ---- */

static void stop(const struct cc_call *c, const char *what)
{
    char text[600];

    cc_describe(c, text, sizeof(text));
    printf("# rank %d: %s: %s\n# rerun: coll_random seed=%u calls=%u max=%u with %d ranks\n",
           mt_rank, what, text, seed, ncalls, max_bytes, mt_size);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static void good(const struct cc_call *c, const char *what, int rc)
{
    char text[MPI_MAX_ERROR_STRING + 80], error[MPI_MAX_ERROR_STRING] = "";
    int len;

    if (rc == MPI_SUCCESS)
        return;
    MPI_Error_string(rc, error, &len);
    snprintf(text, sizeof(text), "%s gives %d, %s", what, rc, error);
    stop(c, text);
}

static void note(const char *what, const struct cc_call *c)
{
    int n = snprintf(now, sizeof(now), "%s ", what);

    cc_describe(c, now + n, sizeof(now) - (size_t)n);
    if (verbose)
        fprintf(stderr, "rank %d: %s\n", mt_rank, now);
}

static void post(struct cc_call *c)
{
    note("in", c);
    good(c, "the call", cc_post(c));
    cc_comm_release(c->comm); /* a copy is from here on used by this call only */
}

static void check(struct cc_call *c)
{
    if (!cc_right(c))
        stop(c, "wrong data");
}

static void wait_for(struct cc_call *c)
{
    int done = 0;

    note("waiting for", c);
    if (cc_own(2))
        good(c, "MPI_Wait", MPI_Wait(&c->req, MPI_STATUS_IGNORE));
    else
        for (; !done; sched_yield())
            good(c, "MPI_Test", MPI_Test(&c->req, &done, MPI_STATUS_IGNORE));
    c->active = false;
    check(c);
}

static void finish(int i)
{
    wait_for(pending[i]);
    cc_drop(pending[i]);
    free(pending[i]);
    pending[i] = pending[--npending];
}

/* A rank is late, or tests calls in progress. */
static void delay(void)
{
    int done, i;

    if (!cc_own(8))
        usleep(cc_own(400));
    while (npending && cc_own(2)) {
        i = (int)cc_own((uint32_t)npending);
        MPI_Request_get_status(pending[i]->req, &done, MPI_STATUS_IGNORE);
        if (done)
            finish(i);
    }
}

static void plain_call(void)
{
    enum cc_form form = cc_alike(5) < 2 ? CC_NONBLOCKING : CC_BLOCKING;
    struct cc_call *c = malloc(sizeof(*c));

    if (!c)
        abort();
    if (!draw(c, form)) {
        free(c);
        return;
    }
    cc_make(c);
    cc_contents(c);
    delay();
    if (form == CC_NONBLOCKING && npending == PENDING)
        finish((int)cc_own(PENDING));
    post(c);
    if (form == CC_NONBLOCKING) {
        pending[npending++] = c;
        return;
    }
    check(c);
    cc_drop(c);
    free(c);
}

/* ---- persistent calls ---- */

static void end_round(void)
{
    int i, k, first = (int)cc_own(LIVE);

    for (k = 0; k < LIVE; k++) {
        i = (first + k) % LIVE;
        if (live[i].c && live[i].c->active)
            wait_for(live[i].c);
    }
}

static void start_all(const int *order, int n)
{
    MPI_Request reqs[LIVE];
    int i;

    for (i = 0; i < n; i++)
        reqs[i] = live[order[i]].c->req;
    note("starting all, first", live[order[0]].c);
    good(live[order[0]].c, "MPI_Startall", MPI_Startall(n, reqs));
}

/* Starts some of the persistent calls, in this rank's order. */
static void one_round(void)
{
    int order[LIVE], n = 0, i, k;
    uint32_t which = cc_alike(15) + 1;
    uint64_t key = cc_alike(1000000);
    bool end = cc_alike(2); /* else they continue while other calls are made */

    end_round();
    for (i = 0; i < LIVE; i++) {
        if (!(which >> i & 1) || !live[i].c)
            continue;
        k = (int)cc_own((uint32_t)n + 1);
        order[n++] = order[k];
        order[k] = i;
        live[i].c->key = cr_mix(key, live[i].c->id);
        live[i].c->active = true;
        cc_contents(live[i].c);
    }
    delay();
    if (n && cc_own(2))
        start_all(order, n);
    else
        for (i = 0; i < n; i++) {
            note("starting", live[order[i]].c);
            good(live[order[i]].c, "MPI_Start", MPI_Start(&live[order[i]].c->req));
            delay();
        }
    if (end)
        end_round();
}

static void free_live(int i)
{
    struct cc_call *c = live[i].c;

    if (c) {
        if (c->active)
            wait_for(c);
        good(c, "MPI_Request_free", MPI_Request_free(&c->req));
        cc_drop(c);
        free(c);
    }
    live[i].used = false;
    live[i].c = NULL;
}

/* A new persistent call, which replaces an old one if there is one. */
static void renew(void)
{
    int i = (int)cc_alike(LIVE);
    struct cc_call *c = malloc(sizeof(*c));

    if (!c)
        abort();
    if (live[i].used)
        free_live(i);
    live[i].used = true;
    if (!draw(c, CC_PERSISTENT)) {
        free(c);
        return;
    }
    live[i].c = c;
    cc_make(c);
    delay();
    post(c);
}

/* ---- the program ---- */

static void make_comms(void)
{
    MPI_Comm h, half;
    int mine[CC_RANKS], n = 0, side = mt_rank % 2;
    MPI_Group world, some;

    cc_comm_init(&comms[0], "world", mt_world, 0);
    MPI_Comm_dup(mt_world, &h);
    cc_comm_init(&comms[1], "a duplicate", h, 0);
    MPI_Comm_split(mt_world, side, -mt_rank, &half);
    cc_comm_init(&comms[2], "every second, reversed", half, 0);
    MPI_Comm_split(mt_world, mt_rank * 3 >= mt_size, mt_rank * 7 % 5, &h);
    cc_comm_init(&comms[3], "parts", h, 0);
    MPI_Comm_group(mt_world, &world);
    for (int i = mt_size - 1; i >= 0; i--)
        if (i != 1)
            mine[n++] = i;
    MPI_Group_incl(world, n, mine, &some);
    MPI_Comm_create(mt_world, some, &h);
    if (h != MPI_COMM_NULL)
        cc_comm_init(&comms[4], "without rank 1", h, 0);
    MPI_Group_free(&world);
    MPI_Group_free(&some);
    if (mt_size < 2) {
        MPI_Comm_dup(mt_world, &h);
        cc_comm_init(&comms[5], "another duplicate", h, 0);
        return;
    }
    MPI_Comm_split(mt_world, side, mt_rank, &half);
    MPI_Intercomm_create(half, 0, mt_world, 1 - side, 3, &h);
    MPI_Comm_free(&half);
    cc_comm_init(&comms[5], "even and odd", h, side);
}

static void hung(int sig)
{
    (void)sig;
    fprintf(stderr, "# rank %d: no progress for a minute, seed %u, call %u: %s\n", mt_rank, seed,
            ncall, now);
    _exit(2);
}

static void options(int argc, char **argv)
{
    static char word[40], type[40], one[20];
    const char *rank = getenv("PMIX_RANK");
    int n;

    for (int i = 1; i < argc; i++) {
        sscanf(argv[i], "seed=%u", &seed);
        sscanf(argv[i], "calls=%u", &ncalls);
        sscanf(argv[i], "max=%u", &max_bytes);
        if (sscanf(argv[i], "only=%39s", word) == 1)
            only = word;
        if (sscanf(argv[i], "type=%39s", type) == 1)
            only_type = type;
        if (sscanf(argv[i], "mask=%d", &n) == 1 && n > 0 && rank) {
            snprintf(one, sizeof(one), "%d", atoi(rank) % n);
            setenv("CUDA_VISIBLE_DEVICES", one, 1);
        }
        all_device = all_device || !strcmp(argv[i], "device");
        verbose = verbose || !strcmp(argv[i], "verbose");
    }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    gt_need(1);
    mt_init(argc, argv);
    signal(SIGALRM, hung);
    gt_use(mt_rank % gt_ndevices());
    cc_alike_state = cr_mix(seed, (uint64_t)mt_size);
    cc_own_state = cr_mix(cc_alike_state, (uint64_t)mt_rank + 1);
    cc_world_rank = mt_rank;
    cc_world = mt_world;
    cr_init();
    cc_init();
    make_comms();
    while (ncall < ncalls) {
        uint32_t what = cc_alike(16);
        alarm(60);
        if (what < 11)
            plain_call();
        else if (what < 14)
            one_round();
        else if (what < 15)
            renew();
        else if (!cc_alike(4))
            cc_forget_memory();
    }
    while (npending)
        finish((int)cc_own((uint32_t)npending));
    for (int i = 0; i < LIVE; i++)
        free_live(i);
    for (int i = 0; i < COMMS; i++)
        if (comms[i].n)
            cc_comm_free(&comms[i]);
    cc_fini();
    cr_fini();
    if (mt_rank == 0)
        printf("1..1\nok 1 - %u calls from seed %u\n", ncall, seed);
    fflush(stdout);
    mt_part_jobs();
    MPI_Finalize();
    return 0;
}
