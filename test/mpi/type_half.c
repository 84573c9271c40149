/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension types MPIX_FLOAT16 and MPIX_BFLOAT16: names and sizes, messages, packing, derived
 * types, and reductions against sums in float. */
#include <mpi-ext.h>
#include <math.h>
#include <string.h>
#include "test/mpi/mpitest.h"

#if !defined(MPIX_C_FLOAT16) || !defined(MPIX_C_BF16)
#error "programs written for MPICH ask so"
#endif

enum { COUNT = 1000 };

/* Small whole numbers and halves are exact in both. */
static uint16_t half(int twice, bool bf)
{
    float f = (float)twice / 2;
    uint32_t u;
    int e = 0;
    memcpy(&u, &f, sizeof u);
    if (bf || f == 0)
        return (uint16_t)(u >> 16);
    double m = frexp(f < 0 ? -f : f, &e);
    return (uint16_t)((f < 0 ? 0x8000 : 0) | (e + 14) << 10 | ((int)(m * 2048) & 0x3ff));
}

static void facts_of(MPI_Datatype t, const char *name)
{
    char text[MPI_MAX_OBJECT_NAME];
    int n, nint, nadd, ntype, combiner;
    MPI_Aint lb, extent;
    MPI_Datatype same;
    OK(MPI_Type_get_name(t, text, &n));
    CHECK_MSG(!strcmp(text, name), "the name is %s, not %s", text, name);
    OK(MPI_Type_size(t, &n));
    CHECK_EQ(n, 2);
    OK(MPI_Type_get_extent(t, &lb, &extent));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, 2);
    OK(MPI_Type_get_envelope(t, &nint, &nadd, &ntype, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_NAMED);
    CHECK_EQ(nint + nadd + ntype, 0);
    CHECK(MPI_Type_fromint(MPI_Type_toint(t)) == t);
    same = t;
    FAILS(MPI_Type_free(&same), MPI_ERR_TYPE);
    OK(MPI_Type_commit(&same));
}

static void facts(void)
{
    MPI_Datatype t;
    facts_of(MPIX_FLOAT16, "MPIX_FLOAT16");
    facts_of(MPIX_BFLOAT16, "MPIX_BFLOAT16");
    CHECK(MPIX_C_FLOAT16 == MPIX_FLOAT16 && MPIX_C_BF16 == MPIX_BFLOAT16);
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 2, &t));
    CHECK(t == MPI_REAL2);
}

static void external(void)
{
    static const MPI_Datatype types[] = { MPIX_FLOAT16, MPIX_BFLOAT16 };
    for (int k = 0; k < 2; k++) {
        const uint16_t in[3] = { 0x1234, 0xabcd, 0x3c00 };
        uint16_t out[3] = { 0 };
        unsigned char packed[16];
        MPI_Aint at = 0, nbytes = 0;
        OK(MPI_Pack_external_size("external32", 3, types[k], &nbytes));
        CHECK_EQ(nbytes, 6);
        OK(MPI_Pack_external("external32", in, 3, types[k], packed, sizeof packed, &at));
        CHECK(packed[0] == 0x12 && packed[1] == 0x34 && packed[2] == 0xab);
        at = 0;
        OK(MPI_Unpack_external("external32", packed, 6, &at, out, 3, types[k]));
        CHECK(!memcmp(in, out, sizeof in));
    }
}

static void messages(void)
{
    static uint16_t out[COUNT], in[COUNT];
    MPI_Datatype column;
    MPI_Status status;
    int n = -1;
    if (mt_peer == MPI_PROC_NULL)
        return;
    for (int i = 0; i < COUNT; i++)
        out[i] = half(i + mt_rank, true);
    OK(MPI_Type_vector(COUNT / 2, 1, 2, MPIX_BFLOAT16, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Sendrecv(out, 1, column, mt_peer, 5, in, COUNT, MPIX_BFLOAT16, mt_peer, 5, mt_comm,
                    &status));
    OK(MPI_Get_count(&status, MPIX_BFLOAT16, &n));
    CHECK_EQ(n, COUNT / 2);
    for (int i = 0; i < COUNT / 2; i++)
        CHECK_EQ(in[i], half(2 * i + mt_peer, true));
    OK(MPI_Type_free(&column));
}

static int expected(int i, int ranks, MPI_Op op)
{
    int v = op == MPI_PROD ? 2 : 0; /* all values twice what they are */
    for (int r = 0; r < ranks; r++) {
        int x = op == MPI_PROD ? (r + i) % 3 * 2 : (i + r) % 16 - 8;
        if (op == MPI_SUM)
            v += x;
        else if (op == MPI_PROD)
            v = v * x / 2;
        else
            v = r == 0 || (op == MPI_MAX ? x > v : x < v) ? x : v;
    }
    return v;
}

static void reduce_with(MPI_Datatype t, bool bf, MPI_Op op)
{
    static uint16_t mine[COUNT], all[COUNT], scan[COUNT];
    for (int i = 0; i < COUNT; i++)
        mine[i] = half(op == MPI_PROD ? (mt_rank + i) % 3 * 2 : (i + mt_rank) % 16 - 8, bf);
    OK(MPI_Allreduce(mine, all, COUNT, t, op, mt_comm));
    OK(MPI_Scan(mine, scan, COUNT, t, op, mt_comm));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(all[i], half(expected(i, mt_size, op), bf));
        CHECK_EQ(scan[i], half(expected(i, mt_rank + 1, op), bf));
    }
    memcpy(all, mine, sizeof all);
    OK(MPI_Allreduce(MPI_IN_PLACE, all, 1, t, op, mt_comm));
    CHECK_EQ(all[0], half(expected(0, mt_size, op), bf));
    CHECK_EQ(all[1], mine[1]);
    OK(MPI_Reduce_local(mine, all, COUNT, t, op));
}

static void reductions(void)
{
    static const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX };
    for (int k = 0; k < 4; k++) {
        reduce_with(MPIX_FLOAT16, false, ops[k]);
        reduce_with(MPIX_BFLOAT16, true, ops[k]);
    }
}

static void wrong_operations(void)
{
    static const MPI_Op ops[] = { MPI_BAND, MPI_LOR, MPI_MINLOC };
    uint16_t a = 0, b = 0;
    for (int k = 0; k < 3; k++) {
        FAILS(MPI_Allreduce(&a, &b, 1, MPIX_FLOAT16, ops[k], mt_comm), MPI_ERR_OP);
        FAILS(MPI_Allreduce(&a, &b, 1, MPIX_BFLOAT16, ops[k], mt_comm), MPI_ERR_OP);
    }
    /* Beside them nothing is assigned. */
    FAILS(MPI_Allreduce(&a, &b, 1, (MPI_Datatype)0x28c, MPI_SUM, mt_comm), MPI_ERR_TYPE);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(facts);
    MT_RUN(external);
    MT_RUN(messages);
    MT_RUN(reductions);
    MT_RUN(wrong_operations);
    return mt_end();
}
