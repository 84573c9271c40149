/* SPDX-License-Identifier: BSD-3-Clause */
/* Random views times random memory layouts against a byte map.  Each round divides a tile of the
 * file among the ranks: granules of a random length, each owned by one rank or none.  Every rank
 * writes its part through a view, from a random memory layout, by a random call; then the file must
 * be the byte map, and reading through the same view into another layout must give the same bytes,
 * and touch no other byte.  Collective calls go through aggregators or not, by random hints.
 * Arguments: directory, rounds, seed, number of kinds of calls. */
#include "test/mpi/iotest.h"

#define TILE_MAX 3000 /* granules of a tile */
#define MEM_MAX 400   /* pieces of a memory element */

static unsigned rng;

static unsigned rnd(unsigned n) { return mt_random(&rng) % n; }

/* ---- the division of the file, the same on all ranks ---- */

static int granule, ntile, ntiles, owner[TILE_MAX];
static int by_granules; /* the etype is a granule, not a byte */
static MPI_Offset disp;

enum pattern { CYCLIC, BLOCKS, RANDOM, RANDOM_RUNS, GRID, PATTERNS };

static void divide(void)
{
    enum pattern p = (enum pattern)rnd(PATTERNS);
    int run = 0, who = 0, rows, cols, width = 1 + (int)rnd(9), i;

    granule = rnd(3) ? 1 << rnd(7) : 1 + (int)rnd(100);
    ntile = 1 + (int)rnd(rnd(2) ? 60 : TILE_MAX);
    ntiles = 1 + (int)rnd(ntile > 500 ? 3 : 20);
    disp = rnd(3) ? 0 : (MPI_Offset)rnd(5000);
    by_granules = (int)rnd(2);
    rows = 1 + (int)rnd(4);
    cols = (mt_size + rows - 1) / rows;
    for (i = 0; i < ntile; i++) {
        switch (p) {
        case CYCLIC:
            owner[i] = i / width % mt_size;
            break;
        case BLOCKS:
            owner[i] = (int)((long)i * mt_size / ntile);
            break;
        case GRID: /* two dimensions: `width` * cols granules a row */
            owner[i] = i / width % cols +
                       cols * (i / (width * cols) * rows / (ntile / (width * cols) + 1));
            break;
        default:
            if (!run--) {
                who = (int)rnd((unsigned)mt_size + 1) - 1; /* -1: a hole */
                run = p == RANDOM ? 0 : (int)rnd(40);
            }
            owner[i] = who;
        }
        if (owner[i] >= mt_size)
            owner[i] = -1;
    }
}

/* ---- the view of this rank ---- */

static int nmine; /* granules of mine in a tile */
static int mine[TILE_MAX];

/* Etypes: a granule, or its bytes.  Filetypes are built in several ways; all end as long as a
 * tile. */
static void make_view(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    static int len[TILE_MAX], at[TILE_MAX];
    static MPI_Aint bytes[TILE_MAX];
    MPI_Datatype unit, t;
    int i, n = 0, equal = 1;

    MPI_Type_contiguous(granule, MPI_BYTE, &unit);
    nmine = 0;
    for (i = 0; i < ntile; i++) {
        if (owner[i] != mt_rank)
            continue;
        mine[nmine++] = i;
        if (n && at[n - 1] + len[n - 1] == i && rnd(8)) {
            len[n - 1]++;
            continue;
        }
        at[n] = i;
        len[n++] = 1;
    }
    for (i = 0; i < n; i++) {
        bytes[i] = (MPI_Aint)at[i] * granule;
        equal &= len[i] == len[0];
    }
    if (equal && n && rnd(2))
        MPI_Type_create_indexed_block(n, len[0], at, unit, &t);
    else if (rnd(2))
        MPI_Type_indexed(n, len, at, unit, &t);
    else
        MPI_Type_create_hindexed(n, len, bytes, unit, &t);
    MPI_Type_create_resized(t, 0, (MPI_Aint)ntile * granule, filetype);
    MPI_Type_commit(filetype);
    MPI_Type_free(&t);
    *etype = MPI_BYTE;
    if (by_granules)
        MPI_Type_dup(unit, etype);
    MPI_Type_free(&unit);
    if (*etype != MPI_BYTE)
        MPI_Type_commit(etype);
}

/* Offset in the file of byte `pos` of my data. */
static MPI_Offset file_off(long pos)
{
    long g = pos / granule;

    return disp + ((MPI_Offset)(g / nmine) * ntile + mine[g % nmine]) * granule + pos % granule;
}

/* ---- memory layouts of `len` bytes ---- */

struct mem {
    MPI_Datatype type;
    int count; /* elements */
    long size; /* bytes of data of one */
    MPI_Aint extent;
    long npieces, piece; /* of an element: pieces of one length */
    MPI_Aint at[MEM_MAX];
    unsigned char *base, *buf; /* allocation, and what is passed to MPI */
    size_t nbytes;
    int absolute;
};

static MPI_Aint mem_off(const struct mem *m, long pos)
{
    long in = pos % m->size;

    return pos / m->size * m->extent + m->at[in / m->piece] + in % m->piece;
}

/* The largest divisor of n up to most. */
static long divisor(long n, long most)
{
    long d = most < n ? most : n;

    while (n % d)
        d--;
    return d;
}

static void make_mem(struct mem *m, long len)
{
    static int length[MEM_MAX];
    static MPI_Aint addr[MEM_MAX];
    MPI_Aint low = 0, high = 0;
    MPI_Datatype t;
    long i;

    memset(m, 0, sizeof *m);
    m->absolute = !rnd(6);
    m->size = len;
    m->count = 1;
    if (len && rnd(3)) {
        m->size = divisor(len, 1 + (long)rnd((unsigned)len));
        m->count = (int)(len / m->size);
    }
    m->piece = m->size;
    if (m->size && rnd(3))
        m->piece = divisor(m->size, 1 + (long)rnd(rnd(2) ? 64 : 8192));
    if (m->piece && m->size / m->piece > MEM_MAX)
        m->piece = m->size / divisor(m->size, MEM_MAX);
    m->npieces = m->size ? m->size / m->piece : 0;
    for (i = 0; i < m->npieces; i++)
        m->at[i] = i * (m->piece + (rnd(2) ? (long)rnd(40) : 0));
    for (i = 1; i < m->npieces; i++) /* gaps must not make pieces overlap */
        if (m->at[i] < m->at[i - 1] + m->piece)
            m->at[i] = m->at[i - 1] + m->piece;
    if (rnd(4) == 0) /* any order */
        for (i = m->npieces - 1; i > 0; i--) {
            long j = (long)rnd((unsigned)i + 1);
            MPI_Aint x = m->at[i];
            m->at[i] = m->at[j];
            m->at[j] = x;
        }
    for (i = 0; i < m->npieces; i++)
        high = m->at[i] + m->piece > high ? m->at[i] + m->piece : high;
    if (rnd(4) == 0) { /* negative displacements */
        low = -(MPI_Aint)rnd(100);
        for (i = 0; i < m->npieces; i++)
            m->at[i] += low;
        high += low;
    }
    m->extent = high - low + (MPI_Aint)rnd(20);
    m->nbytes = (size_t)(m->extent * m->count + 400);
    m->base = malloc(m->nbytes);
    m->buf = m->base + 200 - low;
    for (i = 0; i < m->npieces; i++) {
        length[i] = (int)m->piece;
        addr[i] = m->at[i] + (m->absolute ? (MPI_Aint)m->buf : 0);
    }
    MPI_Type_create_hindexed((int)m->npieces, length, addr, MPI_BYTE, &t);
    MPI_Type_create_resized(t, 0, m->extent, &m->type);
    MPI_Type_commit(&m->type);
    MPI_Type_free(&t);
}

static void free_mem(struct mem *m)
{
    MPI_Type_free(&m->type);
    free(m->base);
}

/* ---- hints ---- */

static int cb_nodes;
static long cb_buffer;
static const char *cb_write, *cb_read;

/* The same on all ranks.  Most buffers are small, for many rounds; with the largest, data go by
 * messages within one host, too. */
static MPI_Info choose_hints(void)
{
    static const char *const choice[] = { "enable", "enable", "automatic", "disable" };
    long data = (long)granule * ntile * ntiles, least = data / 40 + 1;
    unsigned length = rnd(4);
    char text[32];
    MPI_Info info;

    cb_write = choice[rnd(4)];
    cb_read = choice[rnd(4)];
    cb_nodes = (int)rnd(5);
    cb_buffer = length == 0   ? 1 << 20
                : length == 1 ? 1 << 30
                              : least + (long)rnd(rnd(2) ? 300 : 70000);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", cb_write);
    MPI_Info_set(info, "romio_cb_read", cb_read);
    snprintf(text, sizeof text, "%d", cb_nodes);
    MPI_Info_set(info, "cb_nodes", text);
    snprintf(text, sizeof text, "%ld", cb_buffer);
    MPI_Info_set(info, "cb_buffer_size", text);
    return info;
}

/* ---- calls ---- */

enum way { AT, OWN, IAT, IOWN, AT_ALL, OWN_ALL, IAT_ALL, IOWN_ALL, SPLIT_AT, SPLIT, WAYS };
static int nways = WAYS; /* calls tried: the first nways of these */

/* Most are collective calls: they have two implementations. */
static enum way choose_way(void)
{
    enum way w = (enum way)rnd((unsigned)nways);

    return nways == WAYS && rnd(2) ? (enum way)(AT_ALL + (int)rnd(WAYS - AT_ALL)) : w;
}

static void waited(MPI_Request *r, MPI_Status *st)
{
    int done = 0;

    if (rnd(2))
        OK(MPI_Wait(r, st));
    while (*r != MPI_REQUEST_NULL && !done)
        OK(MPI_Test(r, &done, st));
}

static void do_write(MPI_File f, enum way w, MPI_Offset at, struct mem *m, MPI_Status *st)
{
    void *b = m->absolute ? MPI_BOTTOM : m->buf;
    MPI_Request r;

    if (w == OWN || w == IOWN || w == OWN_ALL || w == IOWN_ALL || w == SPLIT)
        OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (w) {
    case AT:
        OK(MPI_File_write_at(f, at, b, m->count, m->type, st));
        break;
    case OWN:
        OK(MPI_File_write(f, b, m->count, m->type, st));
        break;
    case IAT:
        OK(MPI_File_iwrite_at(f, at, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case IOWN:
        OK(MPI_File_iwrite(f, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case AT_ALL:
        OK(MPI_File_write_at_all(f, at, b, m->count, m->type, st));
        break;
    case OWN_ALL:
        OK(MPI_File_write_all(f, b, m->count, m->type, st));
        break;
    case IAT_ALL:
        OK(MPI_File_iwrite_at_all(f, at, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case IOWN_ALL:
        OK(MPI_File_iwrite_all(f, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case SPLIT_AT:
        OK(MPI_File_write_at_all_begin(f, at, b, m->count, m->type));
        OK(MPI_File_write_at_all_end(f, b, st));
        break;
    default:
        OK(MPI_File_write_all_begin(f, b, m->count, m->type));
        OK(MPI_File_write_all_end(f, b, st));
    }
}

static void do_read(MPI_File f, enum way w, MPI_Offset at, struct mem *m, MPI_Status *st)
{
    void *b = m->absolute ? MPI_BOTTOM : m->buf;
    MPI_Request r;

    if (w == OWN || w == IOWN || w == OWN_ALL || w == IOWN_ALL || w == SPLIT)
        OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (w) {
    case AT:
        OK(MPI_File_read_at(f, at, b, m->count, m->type, st));
        break;
    case OWN:
        OK(MPI_File_read(f, b, m->count, m->type, st));
        break;
    case IAT:
        OK(MPI_File_iread_at(f, at, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case IOWN:
        OK(MPI_File_iread(f, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case AT_ALL:
        OK(MPI_File_read_at_all(f, at, b, m->count, m->type, st));
        break;
    case OWN_ALL:
        OK(MPI_File_read_all(f, b, m->count, m->type, st));
        break;
    case IAT_ALL:
        OK(MPI_File_iread_at_all(f, at, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case IOWN_ALL:
        OK(MPI_File_iread_all(f, b, m->count, m->type, &r));
        waited(&r, st);
        break;
    case SPLIT_AT:
        OK(MPI_File_read_at_all_begin(f, at, b, m->count, m->type));
        OK(MPI_File_read_at_all_end(f, b, st));
        break;
    default:
        OK(MPI_File_read_all_begin(f, b, m->count, m->type));
        OK(MPI_File_read_all_end(f, b, st));
    }
}

/* ---- a round ---- */

/* What a rank writes at an offset of the file. */
static unsigned char data_at(MPI_Offset off, unsigned key)
{
    return (unsigned char)(off * 7 + (off >> 8) * 13 + key * 101 + 5);
}

struct part { /* what this rank writes: bytes [from, from + len) of its data */
    long from, len;
};

/* The file must hold what all ranks wrote, and else what was there. */
static void check_file(const struct part *parts, size_t before, unsigned key)
{
    size_t n, i, end = before;
    unsigned char *got = io_load(&n);
    MPI_Offset tile = (MPI_Offset)ntile * granule;
    int r;
    long wrong = 0;

    for (r = 0; r < mt_size; r++) { /* the last byte of each */
        long k = 0, last;
        static int place[TILE_MAX];
        for (i = 0; i < (size_t)ntile; i++)
            if (owner[i] == r)
                place[k++] = (int)i;
        if (!k || !parts[r].len)
            continue;
        last = parts[r].from + parts[r].len - 1;
        size_t e = (size_t)(disp +
                            ((MPI_Offset)(last / granule / k) * ntile + place[last / granule % k]) *
                                granule +
                            last % granule + 1);
        end = e > end ? e : end;
    }
    CHECK_EQ((long)n, (long)end);
    /* For each rank, the position in its data, while the bytes of the file are compared in
     * order. */
    long *seen = calloc((size_t)mt_size, sizeof *seen);
    for (MPI_Offset off = 0; off < (MPI_Offset)n; off++) {
        int who = -1;
        unsigned char want = off < (MPI_Offset)before ? 0xee : 0;
        if (off >= disp && off < disp + tile * ntiles)
            who = owner[(off - disp) % tile / granule];
        if (who >= 0) {
            long pos = seen[who]++;
            if (pos >= parts[who].from && pos < parts[who].from + parts[who].len)
                want = data_at(off, key);
        }
        if (got[off] != want && !wrong++)
            CHECK_MSG(0, "byte %lld of the file is 0x%02x, expected 0x%02x (owner %d)",
                      (long long)off, got[off], want, who);
    }
    free(seen);
    free(got);
}

static void fill_mem(struct mem *m, const struct part *p, unsigned key)
{
    memset(m->base, 0x77, m->nbytes);
    for (long i = 0; i < p->len; i++)
        m->buf[mem_off(m, i)] = data_at(file_off(p->from + i), key);
}

/* `have` bytes have been read; all others are as they were. */
static void check_mem(struct mem *m, const struct part *p, long have, unsigned key)
{
    long wrong = 0;
    for (long i = 0; i < p->len; i++) {
        unsigned char *b = &m->buf[mem_off(m, i)];
        unsigned char want = i < have ? data_at(file_off(p->from + i), key) : 0x77;
        if (*b != want && !wrong++)
            CHECK_MSG(0, "byte %ld of %ld read is 0x%02x, expected 0x%02x", i, p->len, *b, want);
        *b = 0x77;
    }
    for (size_t i = 0; i < m->nbytes; i++)
        if (m->base[i] != 0x77 && !wrong++)
            CHECK_MSG(0, "byte %zu of memory was touched", i);
}

static void check_status(const MPI_Status *st, long nbytes)
{
    int n = -1;

    OK(MPI_Get_elements(st, MPI_BYTE, &n));
    CHECK_EQ(n, nbytes);
}

/* The file is truncated somewhere; a read reports how much it found. */
static void cut_and_read(MPI_File f, enum way w, const struct part *p, long esize, unsigned key)
{
    struct mem m;
    MPI_Status st;
    MPI_Offset size, cut;
    long have = 0;

    MPI_File_get_size(f, &size);
    cut = size ? (MPI_Offset)rnd((unsigned)size + 1) : 0;
    OK(MPI_File_set_size(f, cut));
    make_mem(&m, p->len);
    memset(m.base, 0x77, m.nbytes);
    while (have < p->len && file_off(p->from + have) < cut)
        have++;
    do_read(f, w, p->from / esize, &m, &st);
    check_status(&st, have);
    check_mem(&m, p, have, key);
    free_mem(&m);
}

static int round_number;

static void one_round(void)
{
    MPI_Datatype etype, filetype;
    struct part p, *parts = malloc((size_t)mt_size * sizeof *parts);
    size_t before = rnd(2) ? rnd(4000) : 0;
    unsigned key = rnd(1000), ranks_rng;
    enum way w = choose_way(), rw = choose_way(), cw = choose_way();
    struct mem m;
    MPI_Info info;
    MPI_Status st;
    MPI_File f;
    int esize;
    long total;

    divide();
    info = choose_hints();
    ranks_rng = rng;
    rng += (unsigned)mt_rank * 7919u; /* from here on ranks differ */
    io_make(before, 0xee);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    make_view(&etype, &filetype);
    MPI_Type_size(etype, &esize);
    OK(MPI_File_set_view(f, disp, etype, filetype, "native", info));
    MPI_Info_free(&info);
    MPI_Type_free(&filetype);
    if (etype != MPI_BYTE)
        MPI_Type_free(&etype);
    total = (long)nmine * granule * ntiles / esize; /* etypes */
    p.from = total && rnd(2) ? (long)rnd((unsigned)total) : 0;
    p.len = total - p.from;
    if (rnd(3) == 0 && p.len)
        p.len = (long)rnd((unsigned)p.len + 1);
    p.from *= esize;
    p.len *= esize;
    MPI_Allgather(&p, 2, MPI_LONG, parts, 2, MPI_LONG, MPI_COMM_WORLD);
    make_mem(&m, p.len);
    fill_mem(&m, &p, key);
    do_write(f, w, p.from / esize, &m, &st);
    check_status(&st, p.len);
    free_mem(&m);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mt_rank == 0)
        check_file(parts, before, key);
    make_mem(&m, p.len);
    memset(m.base, 0x77, m.nbytes);
    do_read(f, rw, p.from / esize, &m, &st);
    check_status(&st, p.len);
    check_mem(&m, &p, p.len, key);
    free_mem(&m);
    MPI_Barrier(MPI_COMM_WORLD);
    rng = ranks_rng; /* the cut is collective */
    rng = rng * 3 + 1;
    cut_and_read(f, cw, &p, esize, key);
    OK(MPI_File_close(&f));
    free(parts);
    rng = ranks_rng + 12345u;
    if (check_failed_case && mt_rank == 0)
        printf("# round %d: %d ranks, granule %d, tile %d, tiles %d, ways %d %d %d; "
               "write %s, read %s, %d aggregators, %ld bytes\n",
               round_number, mt_size, granule, ntile, ntiles, w, rw, cw, cb_write, cb_read,
               cb_nodes, cb_buffer);
}

static int rounds = 40;

static void random_views(void)
{
    int failed = 0;

    for (round_number = 0; round_number < rounds && !failed; round_number++) {
        one_round();
        MPI_Allreduce(&check_failed_case, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    if (argc > 2)
        rounds = atoi(argv[2]);
    rng = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : (unsigned)time(NULL);
    MPI_Bcast(&rng, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    mt_seed = rng;
    if (argc > 4)
        nways = atoi(argv[4]);
    if (mt_rank == 0)
        printf("# seed %u\n", rng);
    MT_RUN(random_views);
    return io_end();
}
