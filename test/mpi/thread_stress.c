/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_THREAD_MULTIPLE under load (MPI-5.0 section 11.6): threads of every rank do different
 * things at the same time, each pair of them on communicators of its own: messages in all modes,
 * probes, blocking and several nonblocking collectives, making of communicators, datatypes,
 * attributes and info objects, generalised requests, partitions.  For the thread sanitizer, too
 * (test/README.md). */
#include "test/mpi/mpitest.h"
#include <pthread.h>
#include <semaphore.h>

enum { LARGE = 40000 };
static int rounds = 40;

struct job {
    int id, errors;
    const char *what;
    MPI_Comm comm;
};

/* Counts a failed call in `j`. */
#define DO(call) (j->errors += (call) != MPI_SUCCESS)
#define WANT(cond) (j->errors += !(cond))

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

/* ---- messages ---- */

static void exchange(struct job *j, int mode, unsigned char *out, unsigned char *in, int n, int tag)
{
    MPI_Request r[2];
    MPI_Status st[2];
    unsigned key = (unsigned)(tag * 7 + n);

    mt_fill(out, (size_t)n, key + (unsigned)mt_rank);
    DO(MPI_Irecv(in, n, MPI_BYTE, left(), tag, j->comm, &r[0]));
    switch (mode) {
    case 0:
        DO(MPI_Isend(out, n, MPI_BYTE, right(), tag, j->comm, &r[1]));
        break;
    case 1:
        DO(MPI_Issend(out, n, MPI_BYTE, right(), tag, j->comm, &r[1]));
        break;
    case 2:
        DO(MPI_Ibsend(out, n, MPI_BYTE, right(), tag, j->comm, &r[1]));
        break;
    default: /* ready: the neighbour has posted its receive */
        DO(MPI_Barrier(j->comm));
        DO(MPI_Irsend(out, n, MPI_BYTE, right(), tag, j->comm, &r[1]));
    }
    DO(MPI_Waitall(2, r, st));
    WANT(mt_differs(in, (size_t)n, key + (unsigned)left()) == (size_t)n);
}

static void *modes(void *arg)
{
    static const int sizes[] = { 0, 8, 300, 5000, LARGE };
    struct job *j = arg;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    int i;

    for (i = 0; i < rounds; i++)
        exchange(j, i % 4, out, in, sizes[(i + j->id) % 5], i);
    free(out);
    free(in);
    return NULL;
}

static void *persistent(void *arg)
{
    struct job *j = arg;
    int in[4], out[4], i, k;
    MPI_Request r[8];

    for (k = 0; k < 4; k++) {
        DO(MPI_Recv_init(&in[k], 1, MPI_INT, left(), k, j->comm, &r[k]));
        DO((k % 2 ? MPI_Ssend_init : MPI_Send_init)(&out[k], 1, MPI_INT, right(), k, j->comm,
                                                    &r[4 + k]));
    }
    for (i = 0; i < rounds; i++) {
        for (k = 0; k < 4; k++)
            out[k] = i * 4 + k;
        DO(MPI_Startall(8, r));
        DO(MPI_Waitall(8, r, MPI_STATUSES_IGNORE));
        for (k = 0; k < 4; k++)
            WANT(in[k] == i * 4 + k);
    }
    for (k = 0; k < 8; k++)
        DO(MPI_Request_free(&r[k]));
    return NULL;
}

static void *probes(void *arg)
{
    struct job *j = arg;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    MPI_Request r;
    MPI_Message m;
    MPI_Status st;
    int i, n, got, flag;

    for (i = 0; i < rounds; i++) {
        n = i % 3 == 2 ? LARGE : i * 5;
        mt_fill(out, (size_t)n, (unsigned)(i + mt_rank));
        DO(MPI_Isend(out, n, MPI_BYTE, right(), i, j->comm, &r));
        if (i % 2) {
            DO(MPI_Mprobe(MPI_ANY_SOURCE, i, j->comm, &m, &st));
        } else {
            for (flag = 0; !flag;)
                DO(MPI_Improbe(left(), MPI_ANY_TAG, j->comm, &flag, &m, &st));
        }
        DO(MPI_Get_count(&st, MPI_BYTE, &got));
        WANT(got == n && st.MPI_TAG == i);
        DO(MPI_Mrecv(in, got, MPI_BYTE, &m, &st));
        WANT(mt_differs(in, (size_t)n, (unsigned)(i + left())) == (size_t)n);
        DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    free(out);
    free(in);
    return NULL;
}

/* ---- collectives ---- */

static void *collectives(void *arg)
{
    struct job *j = arg;
    int i, k, x, sum, *all = malloc((size_t)mt_size * sizeof(int));

    for (i = 0; i < rounds; i++) {
        x = mt_rank + i;
        DO(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, j->comm));
        WANT(sum == mt_size * (mt_size - 1) / 2 + mt_size * i);
        x = mt_rank == i % mt_size ? i : -1;
        DO(MPI_Bcast(&x, 1, MPI_INT, i % mt_size, j->comm));
        WANT(x == i);
        x = mt_rank * 3 + i;
        DO(MPI_Allgather(&x, 1, MPI_INT, all, 1, MPI_INT, j->comm));
        for (k = 0; k < mt_size; k++)
            WANT(all[k] == k * 3 + i);
    }
    free(all);
    return NULL;
}

/* Several at a time on one communicator, completed in an order of this rank's. */
static void *nonblocking(void *arg)
{
    struct job *j = arg;
    int i, k, x[3], sum[3], b, index;
    MPI_Request r[5];

    for (i = 0; i < rounds; i++) {
        b = mt_rank == 0 ? i : -1;
        for (k = 0; k < 3; k++) {
            x[k] = mt_rank + k * i;
            DO(MPI_Iallreduce(&x[k], &sum[k], 1, MPI_INT, MPI_SUM, j->comm, &r[k]));
        }
        DO(MPI_Ibcast(&b, 1, MPI_INT, 0, j->comm, &r[3]));
        DO(MPI_Ibarrier(j->comm, &r[4]));
        if (mt_rank % 2) {
            DO(MPI_Waitall(5, r, MPI_STATUSES_IGNORE));
        } else {
            for (k = 0; k < 5; k++)
                DO(MPI_Waitany(5, r, &index, MPI_STATUS_IGNORE));
        }
        WANT(b == i);
        for (k = 0; k < 3; k++)
            WANT(sum[k] == mt_size * (mt_size - 1) / 2 + mt_size * k * i);
    }
    return NULL;
}

/* ---- objects ---- */

static void *communicators(void *arg)
{
    struct job *j = arg;
    MPI_Comm dup, half, quick;
    MPI_Request r;
    int i, x, sum, size;

    for (i = 0; i < rounds / 4; i++) {
        DO(MPI_Comm_dup(j->comm, &dup));
        DO(MPI_Comm_idup(j->comm, &quick, &r));
        DO(MPI_Comm_split(dup, mt_rank % 2, -mt_rank, &half));
        DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
        DO(MPI_Comm_size(half, &size));
        WANT(size == (mt_size + (mt_rank + 1) % 2) / 2);
        x = 1;
        DO(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, half));
        WANT(sum == size);
        DO(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, quick));
        WANT(sum == mt_size);
        DO(MPI_Comm_free(&half));
        DO(MPI_Comm_free(&quick));
        DO(MPI_Comm_free(&dup));
    }
    return NULL;
}

/* Topologies and intercommunicators. */
static void *topologies(void *arg)
{
    struct job *j = arg;
    MPI_Comm cart, half, inter, all;
    int i, dims[2], periods[2] = { 1, 1 }, back, fore, in, sum, x = 1;

    for (i = 0; i < rounds / 4; i++) {
        dims[0] = dims[1] = 0;
        DO(MPI_Dims_create(mt_size, 2, dims));
        DO(MPI_Cart_create(j->comm, 2, dims, periods, 0, &cart));
        DO(MPI_Cart_shift(cart, 0, 1, &back, &fore));
        in = -1;
        DO(MPI_Sendrecv(&i, 1, MPI_INT, fore, 1, &in, 1, MPI_INT, back, 1, cart,
                        MPI_STATUS_IGNORE));
        WANT(in == i);
        DO(MPI_Comm_free(&cart));
        if (mt_size < 2)
            continue;
        DO(MPI_Comm_split(j->comm, mt_rank % 2, 0, &half));
        DO(MPI_Intercomm_create(half, 0, j->comm, 1 - mt_rank % 2, i, &inter));
        DO(MPI_Intercomm_merge(inter, mt_rank % 2, &all));
        DO(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, all));
        WANT(sum == mt_size);
        DO(MPI_Comm_free(&all));
        DO(MPI_Comm_free(&inter));
        DO(MPI_Comm_free(&half));
    }
    return NULL;
}

#if MPI_VERSION >= 4
/* Sessions come and go beside the world model. */
static void *sessions(void *arg)
{
    struct job *j = arg;
    MPI_Session s;
    MPI_Group g;
    MPI_Comm c;
    char tag[32];
    int i, x = 1, sum;

    for (i = 0; i < rounds / 8; i++) {
        snprintf(tag, sizeof(tag), "stress %d", j->id);
        DO(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
        DO(MPI_Group_from_session_pset(s, "mpi://WORLD", &g));
        DO(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
        DO(MPI_Group_free(&g));
        DO(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, c));
        WANT(sum == mt_size);
        DO(MPI_Comm_free(&c));
        DO(MPI_Session_finalize(&s));
    }
    return NULL;
}
#endif

static int delete_attr(MPI_Comm c, int keyval, void *value, void *extra)
{
    (void)c, (void)keyval, (void)value;
    __atomic_fetch_add((int *)extra, 1, __ATOMIC_RELAXED);
    return MPI_SUCCESS;
}

/* Attributes of a communicator that all threads see, types, info objects, groups. */
static void *objects(void *arg)
{
    struct job *j = arg;
    int i, keyval, flag, deleted = 0, blocks[2] = { 1, 2 }, disps[2] = { 0, 3 }, in[8], out[8], n;
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Datatype t;
    MPI_Info info;
    MPI_Group g, part;
    void *got;

    for (i = 0; i < rounds; i++) {
        DO(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_attr, &keyval, &deleted));
        DO(MPI_Comm_set_attr(mt_comm, keyval, &i));
        DO(MPI_Comm_get_attr(mt_comm, keyval, &got, &flag));
        WANT(flag && got == &i);
        DO(MPI_Comm_delete_attr(mt_comm, keyval));
        DO(MPI_Comm_free_keyval(&keyval));
        DO(MPI_Type_indexed(2, blocks, disps, MPI_INT, &t));
        DO(MPI_Type_commit(&t));
        memset(out, i, sizeof(out));
        memset(in, 0, sizeof(in));
        DO(MPI_Sendrecv(out, 1, t, right(), j->id, in, 1, t, left(), j->id, j->comm,
                        MPI_STATUS_IGNORE));
        DO(MPI_Type_free(&t));
        WANT(in[0] == out[0] && in[4] == out[4] && in[1] == 0);
        DO(MPI_Info_create(&info));
        DO(MPI_Info_set(info, "key", "value"));
        n = sizeof(value);
        DO(MPI_Info_get_string(info, "key", &n, value, &flag));
        WANT(flag && !strcmp(value, "value"));
        DO(MPI_Info_free(&info));
        DO(MPI_Comm_group(mt_comm, &g));
        DO(MPI_Group_incl(g, 1, &mt_rank, &part));
        DO(MPI_Group_free(&g));
        DO(MPI_Group_free(&part));
    }
    WANT(deleted == rounds);
    return NULL;
}

/* ---- requests of the user's and partitions: two threads together ---- */

/* One thread of each pair offers a request to the other, which sleeps until then: a thread that
 * yields in a loop keeps others off the processors for seconds on Linux 6.18. */
static struct {
    sem_t there;
    MPI_Request r;
} offered[2];
static int set_status(void *extra, MPI_Status *st)
{
    MPI_Status_set_elements(st, MPI_BYTE, *(int *)extra);
    MPI_Status_set_cancelled(st, 0);
    return MPI_SUCCESS;
}
static int count_free(void *extra) { return ++*(int *)extra, MPI_SUCCESS; }
static int no_cancel(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

static void offer(int slot, MPI_Request r)
{
    offered[slot].r = r;
    sem_post(&offered[slot].there);
}
static MPI_Request accept(int slot)
{
    while (sem_wait(&offered[slot].there)) /* a signal */
        ;
    return offered[slot].r;
}

static void *greq_waiter(void *arg)
{
    struct job *j = arg;
    MPI_Request r;
    MPI_Status st;
    int i, x, n;

    for (i = 0; i < rounds; i++) {
        x = i;
        DO(MPI_Grequest_start(set_status, count_free, no_cancel, &x, &r));
        offer(0, r);
        DO(MPI_Wait(&r, &st));
        DO(MPI_Get_count(&st, MPI_BYTE, &n));
        WANT(n == i && x == i + 1);
    }
    return NULL;
}

static void *greq_completer(void *arg)
{
    struct job *j = arg;
    int i;

    for (i = 0; i < rounds; i++)
        DO(MPI_Grequest_complete(accept(0)));
    return NULL;
}

enum { PARTS = 8, PART_LEN = 700 };
static unsigned char part_out[PARTS * PART_LEN], part_in[PARTS * PART_LEN];

static void *part_owner(void *arg)
{
    struct job *j = arg;
    MPI_Request r[2];
    int i, k;

    DO(MPI_Psend_init(part_out, PARTS, PART_LEN, MPI_BYTE, right(), 3, j->comm, MPI_INFO_NULL,
                      &r[0]));
    DO(MPI_Precv_init(part_in, PARTS / 2, 2 * PART_LEN, MPI_BYTE, left(), 3, j->comm, MPI_INFO_NULL,
                      &r[1]));
    for (i = 0; i < rounds; i++) {
        mt_fill(part_out, sizeof(part_out), (unsigned)(i + mt_rank));
        DO(MPI_Startall(2, r));
        offer(1, r[0]);
        for (k = 0; k < PARTS; k += 2)
            DO(MPI_Pready(k, r[0]));
        DO(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        WANT(mt_differs(part_in, sizeof(part_in), (unsigned)(i + left())) == sizeof(part_in));
    }
    DO(MPI_Request_free(&r[0]));
    DO(MPI_Request_free(&r[1]));
    return NULL;
}

static void *part_helper(void *arg)
{
    struct job *j = arg;
    MPI_Request s;
    int i, k;

    for (i = 0; i < rounds; i++) {
        s = accept(1);
        for (k = PARTS - 1; k > 0; k -= 2)
            DO(MPI_Pready(k, s));
    }
    return NULL;
}

/* ---- all of them ---- */

static const struct {
    void *(*fn)(void *);
    const char *name;
} kinds[] = {
    { modes, "modes" },
    { modes, "modes" },
    { persistent, "persistent" },
    { probes, "probes" },
    { collectives, "collectives" },
    { nonblocking, "nonblocking" },
    { communicators, "communicators" },
    { communicators, "communicators" },
    { topologies, "topologies" },
#if MPI_VERSION >= 4
    { sessions, "sessions" },
    { sessions, "sessions" },
#endif
    { objects, "objects" },
    { objects, "objects" },
    { greq_waiter, "greq_waiter" },
    { greq_completer, "greq_completer" },
    { part_owner, "part_owner" },
    { part_helper, "part_helper" },
};
enum { NJOBS = sizeof(kinds) / sizeof(kinds[0]) };

static void everything(void)
{
    static struct job jobs[NJOBS];
    pthread_t t[NJOBS];
    void *back, *space = malloc(1 << 20);
    int i, n;

    for (i = 0; i < 2; i++)
        CHECK_EQ(sem_init(&offered[i].there, 0, 0), 0);
    OK(MPI_Buffer_attach(space, 1 << 20));
    for (i = 0; i < NJOBS; i++) {
        jobs[i] = (struct job){ .id = i, .what = kinds[i].name };
        OK(MPI_Comm_dup(mt_comm, &jobs[i].comm));
    }
    for (i = 0; i < NJOBS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, kinds[i].fn, &jobs[i]), 0);
    for (i = 0; i < NJOBS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_MSG(!jobs[i].errors, "rank %d: thread %d (%s) saw %d errors", mt_rank, i,
                  jobs[i].what, jobs[i].errors);
        OK(MPI_Comm_free(&jobs[i].comm));
    }
    OK(MPI_Buffer_detach(&back, &n));
    free(space);
}

/* One buffer at a time, first come, first served; a detach returns the attached buffer. */
enum { RIVALS = 4 };
static int owners;
static void *attach_and_detach(void *arg)
{
    struct job *j = arg;
    char space[2000];
    void *back;
    int i, rc, n, x = 5;

    for (i = 0; i < rounds * 5; i++) {
        rc = MPI_Buffer_attach(space, sizeof(space));
        if (rc != MPI_SUCCESS) {
            MPI_Error_class(rc, &rc);
            WANT(rc == MPI_ERR_BUFFER);
            continue;
        }
        WANT(__atomic_add_fetch(&owners, 1, __ATOMIC_RELAXED) == 1);
        DO(MPI_Bsend(&x, 1, MPI_INT, MPI_PROC_NULL, 1, j->comm));
        __atomic_sub_fetch(&owners, 1, __ATOMIC_RELAXED);
        DO(MPI_Buffer_detach(&back, &n));
        WANT(back == space && n == (int)sizeof(space));
    }
    return NULL;
}

static void rival_buffers(void)
{
    struct job jobs[RIVALS];
    pthread_t t[RIVALS];
    int i;

    owners = 0;
    for (i = 0; i < RIVALS; i++) {
        jobs[i] = (struct job){ .id = i, .comm = mt_comm };
        CHECK_EQ(pthread_create(&t[i], NULL, attach_and_detach, &jobs[i]), 0);
    }
    for (i = 0; i < RIVALS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_EQ(jobs[i].errors, 0);
    }
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* Some threads flush a buffer that another one detaches. */
static void *flusher(void *arg)
{
    struct job *j = arg;
    DO(MPI_Buffer_flush());
    return NULL;
}

static void *detacher(void *arg)
{
    struct job *j = arg;
    void *back;
    int n;
    DO(MPI_Buffer_detach(&back, &n));
    return NULL;
}

static void flushed_and_detached(void)
{
    enum { LONG = 300000, ROUNDS = 5 };
    static char out[LONG], in[LONG], space[LONG + MPI_BSEND_OVERHEAD];
    struct job jobs[RIVALS];
    pthread_t t[RIVALS];
    int i, k;

    for (k = 0; k < ROUNDS; k++) {
        OK(MPI_Buffer_attach(space, sizeof(space)));
        OK(MPI_Bsend(out, LONG, MPI_BYTE, mt_rank, 1, mt_comm));
        for (i = 0; i < RIVALS; i++) {
            jobs[i] = (struct job){ .id = i, .comm = mt_comm };
            CHECK_EQ(pthread_create(&t[i], NULL, i == 1 ? detacher : flusher, &jobs[i]), 0);
        }
        usleep(2000); /* most of them wait by now */
        OK(MPI_Recv(in, LONG, MPI_BYTE, mt_rank, 1, mt_comm, MPI_STATUS_IGNORE));
        for (i = 0; i < RIVALS; i++) {
            CHECK_EQ(pthread_join(t[i], NULL), 0);
            CHECK_EQ(jobs[i].errors, 0);
        }
    }
}
#endif

int main(int argc, char **argv)
{
    int provided = -1;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    if (argc > 1)
        rounds = atoi(argv[1]);
    MT_RUN(everything);
    MT_RUN(rival_buffers);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    MT_RUN(flushed_and_detached);
#endif
    return mt_end();
}
