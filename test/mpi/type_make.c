/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes of all constructors: random nested ones packed and unpacked against a naive walk of
 * their typemap, rebuilt from their contents, and sent; distributed arrays against the definition;
 * large and many-piece types; wrong arguments.  The first argument is the seed. */
#include "test/mpi/type_map.h"

#define REACH 60000

static unsigned char user[REACH], copy[REACH], packed[TM_MAX], want[TM_MAX];
static struct tm_map map;

static void walk(MPI_Datatype t)
{
    map.n = 0;
    tm_walk(t, 0, &map);
}

static bool map_overlaps(void)
{
    static unsigned char seen[REACH];
    bool twice = false;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < map.n; i++)
        twice |= seen[map.off[i]]++ > 0;
    return twice;
}

static void check_pack(MPI_Datatype t)
{
    int at = 0, nbytes, dirty = 0;
    walk(t);
    OK(MPI_Type_size(t, &nbytes));
    CHECK_EQ(nbytes, map.n);
    for (int i = 0; i < map.n; i++)
        want[i] = user[map.off[i]];
    OK(MPI_Pack(user, 1, t, packed, TM_MAX, &at, mt_comm));
    CHECK_EQ(at, map.n);
    CHECK(!memcmp(packed, want, (size_t)map.n));
    if (map_overlaps())
        return;
    memset(copy, 0x11, sizeof copy);
    at = 0;
    OK(MPI_Unpack(packed, map.n, &at, copy, 1, t, mt_comm));
    for (int i = 0; i < map.n; i++) {
        CHECK_MSG(copy[map.off[i]] == want[i], "byte %d", i);
        copy[map.off[i]] = 0x11;
    }
    for (int i = 0; i < REACH; i++)
        dirty += copy[i] != 0x11;
    CHECK_EQ(dirty, 0);
}

static void random_types(void)
{
    tm_state = mt_seed;
    for (int i = 0; i < 300 && !check_failed_case; i++) {
        MPI_Datatype t = tm_random(REACH);
        check_pack(t);
        OK(MPI_Type_free(&t));
    }
}

/* Calls the constructor that the contents name. */
static MPI_Datatype rebuilt(MPI_Datatype t)
{
    int ni, na, nt, combiner, v[128], n;
    MPI_Aint a[64];
    MPI_Datatype types[64], r = MPI_DATATYPE_NULL;
    OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner));
    OK(MPI_Type_get_contents(t, ni, na, nt, v, a, types));
    n = ni ? v[0] : 0;
    if (combiner == MPI_COMBINER_DUP)
        OK(MPI_Type_dup(types[0], &r));
    else if (combiner == MPI_COMBINER_RESIZED)
        OK(MPI_Type_create_resized(types[0], a[0], a[1], &r));
    else if (combiner == MPI_COMBINER_CONTIGUOUS)
        OK(MPI_Type_contiguous(n, types[0], &r));
    else if (combiner == MPI_COMBINER_VECTOR)
        OK(MPI_Type_vector(n, v[1], v[2], types[0], &r));
    else if (combiner == MPI_COMBINER_HVECTOR)
        OK(MPI_Type_create_hvector(n, v[1], a[0], types[0], &r));
    else if (combiner == MPI_COMBINER_INDEXED)
        OK(MPI_Type_indexed(n, v + 1, v + 1 + n, types[0], &r));
    else if (combiner == MPI_COMBINER_HINDEXED)
        OK(MPI_Type_create_hindexed(n, v + 1, a, types[0], &r));
    else if (combiner == MPI_COMBINER_INDEXED_BLOCK)
        OK(MPI_Type_create_indexed_block(n, v[1], v + 2, types[0], &r));
    else if (combiner == MPI_COMBINER_HINDEXED_BLOCK)
        OK(MPI_Type_create_hindexed_block(n, v[1], a, types[0], &r));
    else if (combiner == MPI_COMBINER_STRUCT)
        OK(MPI_Type_create_struct(n, v + 1, a, types, &r));
    else if (combiner == MPI_COMBINER_SUBARRAY)
        OK(MPI_Type_create_subarray(n, v + 1, v + 1 + n, v + 1 + 2 * n, v[1 + 3 * n], types[0],
                                    &r));
    else if (combiner == MPI_COMBINER_DARRAY)
        OK(MPI_Type_create_darray(v[0], v[1], v[2], v + 3, v + 3 + v[2], v + 3 + 2 * v[2],
                                  v + 3 + 3 * v[2], v[3 + 4 * v[2]], types[0], &r));
    for (int i = 0; i < nt; i++) {
        int k, l, m, named;
        MPI_Type_get_envelope(types[i], &k, &l, &m, &named);
        if (named != MPI_COMBINER_NAMED)
            MPI_Type_free(&types[i]);
    }
    return r;
}

/* What a type of a _c procedure says of itself: counts and addresses in one list. */
static void large_contents_are(MPI_Datatype t, int combiner, int nints, int ncounts,
                               const MPI_Count *expected)
{
    MPI_Count ni, na, nc, nt, counts[8];
    MPI_Datatype types[2];
    int got, small, ints[8];
    OK(MPI_Type_get_envelope_c(t, &ni, &na, &nc, &nt, &got));
    CHECK_EQ(got, combiner);
    CHECK(ni == nints && na == 0 && nc == ncounts && nt == 1);
    OK(MPI_Type_get_contents_c(t, 8, 0, 8, 2, ints, NULL, counts, types));
    for (int i = 0; i < ncounts; i++)
        CHECK_EQ(counts[i], expected[i]);
    CHECK(types[0] == MPI_INT);
    FAILS(MPI_Type_get_envelope(t, &small, &small, &small, &got), MPI_ERR_TYPE);
    MPI_Type_free(&t);
}

static void large_contents(void)
{
    MPI_Datatype t;
    MPI_Count len[] = { 2, 1 }, disp[] = { 0, 5 }, sizes[] = { 4, 6 }, sub[] = { 2, 3 };
    OK(MPI_Type_contiguous_c(7, MPI_INT, &t));
    large_contents_are(t, MPI_COMBINER_CONTIGUOUS, 0, 1, (MPI_Count[]){ 7 });
    OK(MPI_Type_vector_c(3, 2, 4, MPI_INT, &t));
    large_contents_are(t, MPI_COMBINER_VECTOR, 0, 3, (MPI_Count[]){ 3, 2, 4 });
    OK(MPI_Type_create_hvector_c(3, 2, 40, MPI_INT, &t));
    large_contents_are(t, MPI_COMBINER_HVECTOR, 0, 3, (MPI_Count[]){ 3, 2, 40 });
    OK(MPI_Type_indexed_c(2, len, disp, MPI_INT, &t));
    large_contents_are(t, MPI_COMBINER_INDEXED, 0, 5, (MPI_Count[]){ 2, 2, 1, 0, 5 });
    OK(MPI_Type_create_resized_c(MPI_INT, 0, 16, &t));
    large_contents_are(t, MPI_COMBINER_RESIZED, 0, 2, (MPI_Count[]){ 0, 16 });
    OK(MPI_Type_create_subarray_c(2, sizes, sub, len, MPI_ORDER_C, MPI_INT, &t));
    large_contents_are(t, MPI_COMBINER_SUBARRAY, 2, 6, (MPI_Count[]){ 4, 6, 2, 3, 2, 1 });
    OK(MPI_Type_contiguous(7, MPI_INT, &t)); /* the next one has plain contents again */
    int ni, na, nt, combiner;
    OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner));
    CHECK(ni == 1 && na == 0 && nt == 1);
    MPI_Type_free(&t);
}

static void contents_rebuild(void)
{
    static unsigned char again[TM_MAX];
    int seen[64] = { 0 }, kinds = 0;
    tm_state = mt_seed + 1;
    for (int i = 0; i < 300 && !check_failed_case; i++) {
        MPI_Datatype t = tm_random(REACH), r = rebuilt(t);
        MPI_Count e[2][4];
        int at = 0, n, ni, na, nt, combiner, combiner2;
        MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner);
        OK(MPI_Type_get_envelope(r, &ni, &na, &nt, &combiner2));
        CHECK_EQ(combiner, combiner2);
        kinds += !seen[combiner & 63]++;
        OK(MPI_Type_get_extent_c(t, &e[0][0], &e[0][1]));
        OK(MPI_Type_get_true_extent_c(t, &e[0][2], &e[0][3]));
        OK(MPI_Type_get_extent_c(r, &e[1][0], &e[1][1]));
        OK(MPI_Type_get_true_extent_c(r, &e[1][2], &e[1][3]));
        CHECK(!memcmp(e[0], e[1], sizeof e[0]));
        OK(MPI_Type_commit(&r));
        OK(MPI_Pack(user, 1, t, packed, TM_MAX, &at, mt_comm));
        n = at;
        at = 0;
        OK(MPI_Pack(user, 1, r, again, TM_MAX, &at, mt_comm));
        CHECK_EQ(at, n);
        CHECK(!memcmp(packed, again, (size_t)n));
        OK(MPI_Type_free(&r));
        OK(MPI_Type_free(&t));
    }
    CHECK_MSG(check_failed_case || kinds >= 11, "only %d constructors were seen", kinds);
}

/* To the neighbour as the type, from the other neighbour as bytes, and the other way round. */
static void random_sends(void)
{
    int right = (mt_rank + 1) % mt_size, left = (mt_rank - 1 + mt_size) % mt_size;
    tm_state = mt_seed + 2;
    for (int i = 0; i < 60; i++) {
        MPI_Datatype t = tm_random(REACH);
        MPI_Status st;
        int n = 0;
        walk(t);
        for (int k = 0; k < map.n; k++)
            want[k] = user[map.off[k]];
        memset(packed, 0, sizeof packed);
        OK(MPI_Sendrecv(user, 1, t, right, i, packed, TM_MAX, MPI_BYTE, left, i, mt_comm, &st));
        OK(MPI_Get_count(&st, MPI_BYTE, &n));
        CHECK_EQ(n, map.n);
        CHECK(!memcmp(packed, want, (size_t)map.n));
        memset(copy, 0x11, sizeof copy);
        OK(MPI_Sendrecv(want, map.n, MPI_BYTE, right, i, copy, 1, t, left, i, mt_comm, &st));
        if (map_overlaps())
            memset(want, 0, sizeof want);
        for (int k = 0; k < map.n && !map_overlaps(); k++)
            CHECK(copy[map.off[k]] == want[k]);
        OK(MPI_Type_free(&t));
    }
}

/* A distributed array: the parts of all processes are the array, each element once. */
static void darray_covers(void)
{
    static const int dists[] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC };
    int g[] = { 7, 10 }, p[] = { 2, 3 }, total = 70;
    for (int k = 0; k < 16; k++) {
        int d[] = { dists[k & 1], dists[k >> 1 & 1] };
        int arg[] = { MPI_DISTRIBUTE_DFLT_DARG, k & 4 ? 4 : MPI_DISTRIBUTE_DFLT_DARG };
        int order = k & 8 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, seen[70] = { 0 }, all = 0;
        for (int rank = 0; rank < 6; rank++) {
            MPI_Datatype t;
            MPI_Aint lb, extent;
            OK(MPI_Type_create_darray(6, rank, 2, g, d, arg, p, order, MPI_INT, &t));
            OK(MPI_Type_get_extent(t, &lb, &extent));
            CHECK(lb == 0 && extent == total * 4);
            walk(t);
            for (int i = 0; i < map.n; i += 4)
                all += !seen[map.off[i] / 4]++;
            OK(MPI_Type_commit(&t));
            check_pack(t);
            OK(MPI_Type_free(&t));
        }
        CHECK_EQ(all, total);
    }
    /* By hand: 10 elements cyclic(2) over 3, process 2 has 4, 5; of 2 x 3 in C order (block, none)
     * process 1 has the second row. */
    MPI_Datatype t;
    OK(MPI_Type_create_darray(3, 2, 1, (int[]){ 10 }, (int[]){ MPI_DISTRIBUTE_CYCLIC },
                              (int[]){ 2 }, (int[]){ 3 }, MPI_ORDER_C, MPI_CHAR, &t));
    OK(MPI_Type_commit(&t));
    walk(t);
    CHECK(map.n == 2 && map.off[0] == 4 && map.off[1] == 5);
    check_pack(t);
    OK(MPI_Type_free(&t));
    MPI_Count g_c[] = { 2, 3 };
    OK(MPI_Type_create_darray_c(2, 1, 2, g_c, (int[]){ MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE },
                                (int[]){ MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG },
                                (int[]){ 2, 1 }, MPI_ORDER_C, MPI_CHAR, &t));
    OK(MPI_Type_commit(&t));
    int at = 0;
    OK(MPI_Pack(user, 1, t, packed, TM_MAX, &at, mt_comm));
    CHECK(at == 3 && !memcmp(packed, user + 3, 3));
    OK(MPI_Type_free(&t));
}

/* Many pieces cost little: 10^6 items of a struct of three pieces. */
static void many_pieces(void)
{
    int len[] = { 1, 1, 1 }, n = 1000000, at = 0;
    MPI_Aint disp[] = { 0, 8, 24 }, lb, extent;
    MPI_Datatype parts[] = { MPI_INT, MPI_DOUBLE, MPI_CHAR }, s, t, v;
    OK(MPI_Type_create_struct(3, len, disp, parts, &s));
    OK(MPI_Type_contiguous(n, s, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_get_extent(t, &lb, &extent));
    CHECK_EQ(extent, 32 * (MPI_Aint)n);
    char *big = malloc((size_t)extent), *flat = malloc(13 * (size_t)n);
    if (big && flat) {
        mt_fill(big, (size_t)extent, 3);
        OK(MPI_Pack(big, 1, t, flat, 13 * n, &at, mt_comm));
        CHECK_EQ(at, 13 * n);
        int wrong = 0;
        for (int i = 0; i < n; i += 997)
            wrong += memcmp(flat + 13 * i, big + 32 * i, 4) ||
                     memcmp(flat + 13 * i + 4, big + 32 * i + 8, 8) ||
                     flat[13 * i + 12] != big[32 * i + 24];
        CHECK_EQ(wrong, 0);
    }
    free(big);
    free(flat);
    MPI_Count size;
    OK(MPI_Type_vector(1000000000, 3, 5, t, &v)); /* nothing is touched: 3 * 10^15 structs */
    OK(MPI_Type_commit(&v));
    OK(MPI_Type_size_c(v, &size));
    CHECK_EQ(size, 13 * (MPI_Count)n * 3 * 1000000000);
    int small;
    OK(MPI_Type_size(v, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    OK(MPI_Type_get_extent(v, &lb, &extent));
    CHECK_EQ(extent, ((MPI_Aint)(1000000000 - 1) * 5 + 3) * 32 * n);
    OK(MPI_Type_free(&v));
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&s));
}

/* Counting basic elements, and telling a status how many there are. */
static void elements(void)
{
    MPI_Datatype parts[] = { MPI_INT, MPI_DOUBLE }, t, pair;
    MPI_Aint disp[] = { 0, 8 };
    MPI_Status st = { 0 };
    MPI_Count large = 0;
    int n = 0;
    OK(MPI_Type_create_struct(2, (int[]){ 2, 1 }, disp, parts, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Status_set_elements(&st, t, 7)); /* two items and an int */
    OK(MPI_Get_elements(&st, t, &n));
    CHECK_EQ(n, 7);
    OK(MPI_Get_count(&st, t, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Status_set_elements_c(&st, t, 6000000000));
    OK(MPI_Get_elements_x(&st, t, &large));
    CHECK_EQ(large, 6000000000);
    OK(MPI_Get_elements(&st, t, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Get_count_c(&st, t, &large));
    CHECK_EQ(large, 2000000000);
    OK(MPI_Status_set_elements_x(&st, MPI_BYTE, 5));
    OK(MPI_Get_elements_c(&st, t, &large)); /* an int and a byte */
    CHECK_EQ(large, MPI_UNDEFINED);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    CHECK(pair == MPI_DOUBLE_INT);
    OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &pair));
    CHECK(pair == MPI_DATATYPE_NULL);
    OK(MPI_Type_free(&t));
}

static void darray_wrong(void)
{
    MPI_Datatype t;
    int block = MPI_DISTRIBUTE_BLOCK, none = MPI_DISTRIBUTE_NONE, bad = 12345, dflt = 19, g = 10,
        two = 2, zero = 0, four = 4;
    OK(MPI_Type_create_darray(2, 0, 1, &g, &block, &dflt, &two, MPI_ORDER_C, MPI_INT, &t));
    OK(MPI_Type_free(&t));
#define DARRAY(size, rank, g, d, a, p, order) \
    FAILS(MPI_Type_create_darray(size, rank, 1, g, d, a, p, order, MPI_INT, &t), MPI_ERR_ARG)
    DARRAY(0, 0, &g, &block, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, 2, &g, &block, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, -1, &g, &block, &dflt, &two, MPI_ORDER_C);
    DARRAY(3, 0, &g, &block, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, 0, &zero, &block, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, 0, &g, &bad, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, 0, &g, &none, &dflt, &two, MPI_ORDER_C);
    DARRAY(2, 0, &g, &block, &four, &two, MPI_ORDER_C); /* 2 blocks of 4 do not cover 10 */
    DARRAY(2, 0, &g, &block, &zero, &two, MPI_ORDER_C);
    DARRAY(2, 0, &g, &block, &dflt, &zero, MPI_ORDER_C);
    DARRAY(2, 0, &g, &block, &dflt, &two, 7);
    FAILS(MPI_Type_create_darray(1, 0, 0, &g, &block, &dflt, &two, MPI_ORDER_C, MPI_INT, &t),
          MPI_ERR_ARG);
}

/* Data so far apart that 63 bits do not hold the distance, behind bounds that are close. */
static void far_apart(void)
{
    MPI_Datatype wide, close, t;
    MPI_Aint lb, extent, far[2] = { INT64_MIN / 4, INT64_MAX / 4 };
    OK(MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, far, MPI_INT, &wide));
    OK(MPI_Type_create_resized(wide, 0, 4, &close));
    FAILS(MPI_Type_create_hvector(3, 1, INT64_MAX / 3, close, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, far, close, &t), MPI_ERR_ARG);
    OK(MPI_Type_create_hvector(3, 1, 4, close, &t));
    OK(MPI_Type_get_true_extent(t, &lb, &extent));
    CHECK(lb == far[0] && extent == far[1] - far[0] + 12);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&close));
    OK(MPI_Type_free(&wide));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    mt_seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : (unsigned)time(NULL);
    MPI_Bcast(&mt_seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (mt_rank == 0)
        printf("# seed %u\n", mt_seed);
    mt_fill(user, sizeof user, 1);
    MT_RUN(random_types);
    MT_RUN(contents_rebuild);
    MT_RUN(large_contents);
    MT_RUN(random_sends);
    MT_RUN(darray_covers);
    MT_RUN(many_pieces);
    MT_RUN(elements);
    MT_RUN(darray_wrong);
    MT_RUN(far_apart);
    return mt_end();
}
