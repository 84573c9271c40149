/* SPDX-License-Identifier: BSD-3-Clause */
/* Several collective operations in progress through aggregators: nonblocking, split and blocking
 * ones on some files, started in one order by all ranks and completed in an order of each rank's
 * own.  Arguments: directory, rounds, seed. */
#include <sys/resource.h>
#include "test/mpi/iotest.h"

#define FILES 3
#define OPS 12
#define DATA_MAX 3000 /* bytes of a rank in an operation */

static unsigned rng; /* the same on all ranks */
static unsigned own; /* of this rank */

static unsigned rnd(unsigned n) { return mt_random(&rng) % n; }
static unsigned own_rnd(unsigned n) { return mt_random(&own) % n; }

static MPI_File file[FILES];
static char name[FILES][300];
static int piece[FILES];     /* bytes of a rank in a row of the file */
static long end[FILES];      /* bytes of a rank's view that operations have used */
static long next_own[FILES]; /* the individual file pointer */

enum kind { AT, OWN, SPLIT, BLOCKING, KINDS };

struct op {
    int file;
    enum kind kind;
    long pos; /* in the view */
    long len[64];
    unsigned char *buf; /* this rank's */
    MPI_Request request;
    int ended;
};
static struct op ops[OPS];
static int nops;

static void open_files(void)
{
    MPI_Info info;
    char text[32];
    int i, size;

    for (i = 0; i < FILES; i++) {
        MPI_Datatype t, row;

        snprintf(name[i], sizeof name[i], "%s-%d", io_name, i);
        MPI_Info_create(&info);
        MPI_Info_set(info, "romio_cb_write", "enable");
        MPI_Info_set(info, "romio_cb_read", rnd(4) ? "enable" : "disable");
        size = 64 + (int)rnd(3000);
        snprintf(text, sizeof text, "%d", size);
        MPI_Info_set(info, "cb_buffer_size", text);
        snprintf(text, sizeof text, "%d", 1 + (int)rnd((unsigned)mt_size));
        MPI_Info_set(info, "cb_nodes", text);
        OK(MPI_File_open(mt_comm, name[i],
                         MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info,
                         &file[i]));
        MPI_Info_free(&info);
        piece[i] = 1 + (int)rnd(200);
        MPI_Type_contiguous(piece[i], MPI_BYTE, &t);
        MPI_Type_create_resized(t, 0, (MPI_Aint)piece[i] * mt_size, &row);
        MPI_Type_commit(&row);
        OK(MPI_File_set_view(file[i], (MPI_Offset)piece[i] * mt_rank, MPI_BYTE, row, "native",
                             MPI_INFO_NULL));
        MPI_Type_free(&t);
        MPI_Type_free(&row);
        end[i] = next_own[i] = 0;
    }
}

/* What the operations do, the same on all ranks: no two write to the same bytes. */
static void choose_ops(void)
{
    int i, r;

    nops = 1 + (int)rnd(OPS);
    for (i = 0; i < nops; i++) {
        struct op *o = &ops[i];
        long most = 0;

        o->file = (int)rnd(FILES);
        o->kind = (enum kind)rnd(KINDS);
        for (r = 0; r < mt_size; r++) {
            o->len[r] = rnd(5) ? (long)rnd(rnd(3) ? 300 : DATA_MAX) : 0;
            most = o->len[r] > most ? o->len[r] : most;
        }
        o->pos = end[o->file] + (long)rnd(50);
        end[o->file] = o->pos + most;
        o->buf = malloc(DATA_MAX);
        o->request = MPI_REQUEST_NULL;
        o->ended = 0;
    }
}

static unsigned char data_at(const struct op *o, int rank, long i)
{
    return (unsigned char)(o->pos * 13 + rank * 37 + i * 7 + i / 256 + 1);
}

static void check_count(const struct op *o, const MPI_Status *st)
{
    io_check_count(st, MPI_BYTE, (int)o->len[mt_rank]);
}

/* The pointer moves when the operation starts. */
static void check_pointer(const struct op *o)
{
    MPI_Offset at = -1;

    OK(MPI_File_get_position(file[o->file], &at));
    CHECK_EQ(at, o->pos + o->len[mt_rank]);
}

static void start(struct op *o, int write)
{
    MPI_File f = file[o->file];
    int n = (int)o->len[mt_rank];
    MPI_Status st;

    if (o->kind == OWN)
        OK(MPI_File_seek(f, o->pos, MPI_SEEK_SET));
    switch (o->kind) {
    case AT:
        OK(write ? MPI_File_iwrite_at_all(f, o->pos, o->buf, n, MPI_BYTE, &o->request)
                 : MPI_File_iread_at_all(f, o->pos, o->buf, n, MPI_BYTE, &o->request));
        break;
    case OWN:
        OK(write ? MPI_File_iwrite_all(f, o->buf, n, MPI_BYTE, &o->request)
                 : MPI_File_iread_all(f, o->buf, n, MPI_BYTE, &o->request));
        check_pointer(o);
        break;
    case SPLIT:
        OK(write ? MPI_File_write_at_all_begin(f, o->pos, o->buf, n, MPI_BYTE)
                 : MPI_File_read_at_all_begin(f, o->pos, o->buf, n, MPI_BYTE));
        OK(write ? MPI_File_write_at_all_end(f, o->buf, &st)
                 : MPI_File_read_at_all_end(f, o->buf, &st));
        check_count(o, &st);
        break;
    default: /* after the operations in progress on the file */
        OK(write ? MPI_File_write_at_all(f, o->pos, o->buf, n, MPI_BYTE, &st)
                 : MPI_File_read_at_all(f, o->pos, o->buf, n, MPI_BYTE, &st));
        check_count(o, &st);
    }
}

/* In an order of this rank's own. */
static void complete_by_tests(void)
{
    MPI_Status st;
    int left = nops;

    while (left) {
        int i = (int)own_rnd((unsigned)nops), done = 0;

        if (ops[i].ended)
            continue;
        if (ops[i].request == MPI_REQUEST_NULL) {
            done = 1;
        } else {
            OK(MPI_Test(&ops[i].request, &done, &st));
            if (done)
                check_count(&ops[i], &st);
        }
        ops[i].ended = done;
        left -= done;
    }
}

static void complete_all(void)
{
    MPI_Request r[OPS];
    MPI_Status st[OPS];
    int order[OPS], i;

    for (i = 0; i < nops; i++)
        order[i] = i;
    for (i = nops - 1; i > 0; i--) {
        int j = (int)own_rnd((unsigned)i + 1), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    for (i = 0; i < nops; i++)
        r[i] = ops[order[i]].request;
    if (own_rnd(2)) {
        OK(MPI_Waitall(nops, r, st));
    } else {
        for (i = 0; i < nops; i++)
            OK(MPI_Wait(&r[i], &st[i]));
    }
    for (i = 0; i < nops; i++)
        if (ops[order[i]].request != MPI_REQUEST_NULL)
            check_count(&ops[order[i]], &st[i]);
}

static void run_ops(int write)
{
    long i;
    int k, sum = 0;

    for (k = 0; k < nops; k++) {
        for (i = 0; i < DATA_MAX; i++)
            ops[k].buf[i] = write && i < ops[k].len[mt_rank] ? data_at(&ops[k], mt_rank, i) : 0x55;
        ops[k].ended = 0;
        start(&ops[k], write);
        if (rnd(8) == 0) /* a call on another communicator among them */
            OK(MPI_Allreduce(&k, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
    }
    if (own_rnd(2))
        complete_by_tests();
    else
        complete_all();
}

/* Byte by byte: each file must hold what all ranks wrote, and else zeros. */
static void check_files(void)
{
    int k, r;
    long i;

    for (k = 0; k < FILES; k++) {
        size_t n, at;
        unsigned char *got, *want;
        char saved[sizeof io_name];
        long wrong = 0;

        memcpy(saved, io_name, sizeof saved);
        snprintf(io_name, sizeof io_name, "%.250s", name[k]);
        got = io_load(&n);
        memcpy(io_name, saved, sizeof saved);
        want = calloc(1, n + 1);
        for (int o = 0; o < nops; o++) {
            for (r = 0; ops[o].file == k && r < mt_size; r++) {
                for (i = 0; i < ops[o].len[r]; i++) {
                    long pos = ops[o].pos + i;
                    at = (size_t)((pos / piece[k] * mt_size + r) * piece[k] + pos % piece[k]);
                    CHECK(at < n);
                    if (at < n)
                        want[at] = data_at(&ops[o], r, i);
                }
            }
        }
        for (at = 0; at < n; at++)
            wrong += got[at] != want[at];
        CHECK_EQ(wrong, 0);
        free(got);
        free(want);
    }
}

static void check_read(void)
{
    int k;
    long i, wrong = 0;

    for (k = 0; k < nops; k++)
        for (i = 0; i < DATA_MAX; i++)
            wrong += ops[k].buf[i] !=
                     (i < ops[k].len[mt_rank] ? data_at(&ops[k], mt_rank, i) : 0x55);
    CHECK_EQ(wrong, 0);
}

static int rounds = 10;

static void random_operations(void)
{
    int i, k;

    for (i = 0; i < rounds; i++) {
        own = rng + (unsigned)mt_rank * 977u;
        open_files();
        choose_ops();
        run_ops(1);
        MPI_Barrier(mt_comm);
        if (mt_rank == 0)
            check_files();
        MPI_Barrier(mt_comm);
        run_ops(0);
        check_read();
        for (k = 0; k < nops; k++)
            free(ops[k].buf);
        for (k = 0; k < FILES; k++)
            OK(MPI_File_close(&file[k]));
    }
}

/* A wrong argument of the last rank, and then a valid operation on the same file. */
static void errors_in_a_row(void)
{
    unsigned char data[400];
    MPI_Request r[3];
    MPI_Status st[3];
    int bad = mt_rank == mt_size - 1, err;

    memset(data, 7, sizeof data);
    open_files();
    OK(MPI_File_iwrite_at_all(file[0], 0, data, 100, MPI_BYTE, &r[0]));
    r[1] = MPI_REQUEST_NULL;
    err = MPI_File_iwrite_at_all(file[0], bad ? -1 : 100, data, 100, MPI_BYTE, &r[1]);
    FAILS(err, bad ? MPI_ERR_ARG : MPI_SUCCESS);
    CHECK(!bad || r[1] == MPI_REQUEST_NULL);
    OK(MPI_File_iwrite_at_all(file[0], 200, data, 100, MPI_BYTE, &r[2]));
    err = MPI_Waitall(3, r, st);
    FAILS(err, bad ? MPI_SUCCESS : MPI_ERR_IN_STATUS);
    if (!bad) {
        FAILS(st[1].MPI_ERROR, MPI_ERR_ARG);
        OK(st[0].MPI_ERROR);
        OK(st[2].MPI_ERROR);
    }
    io_check_count(&st[2], MPI_BYTE, 100);
    /* The vote of the last rank may be in progress when the file is closed. */
    err = MPI_File_iwrite_at_all(file[1], 0, data, bad ? -1 : 100, MPI_BYTE, &r[0]);
    if (bad)
        FAILS(err, MPI_ERR_COUNT);
    else
        FAILS(MPI_Wait(&r[0], st), MPI_ERR_COUNT);
    for (int k = 0; k < FILES; k++)
        OK(MPI_File_close(&file[k]));
}

/* A write in a later round fails: the error ends this operation, on all ranks, and no other. */
static void failed_write(void)
{
    static unsigned char data[20000];
    struct rlimit old, few;
    MPI_Request r[2];
    MPI_Status st[2];
    int err;

    open_files();
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    few = old;
    few.rlim_cur = 10000;
    MPI_Barrier(mt_comm);
    setrlimit(RLIMIT_FSIZE, &few);
    OK(MPI_File_iwrite_at_all(file[0], 0, data, sizeof data, MPI_BYTE, &r[0]));
    OK(MPI_File_iwrite_at_all(file[1], 0, data, 9000 / mt_size / piece[1] * piece[1], MPI_BYTE,
                              &r[1]));
    err = MPI_Waitall(2, r, st);
    setrlimit(RLIMIT_FSIZE, &old);
    FAILS(err, MPI_ERR_IN_STATUS);
    FAILS(st[0].MPI_ERROR, MPI_ERR_QUOTA);
    OK(st[1].MPI_ERROR);
    MPI_Barrier(mt_comm);
    OK(MPI_File_write_at_all(file[0], 0, data, sizeof data, MPI_BYTE, st));
    io_check_count(st, MPI_BYTE, sizeof data);
    for (int k = 0; k < FILES; k++)
        OK(MPI_File_close(&file[k]));
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    if (argc > 2)
        rounds = atoi(argv[2]);
    rng = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : (unsigned)time(NULL);
    MPI_Bcast(&rng, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    mt_seed = rng;
    if (mt_rank == 0)
        printf("# seed %u\n", rng);
    MT_RUN(random_operations);
    MT_RUN(errors_in_a_row);
    MT_RUN(failed_write);
    return io_end();
}
