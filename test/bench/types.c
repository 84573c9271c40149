/* SPDX-License-Identifier: BSD-3-Clause */
/* The data types of -T and the operations of -O: MPI's handles, NCCL's numbers, and small whole
 * numbers written and read as elements of each, for -c.  The 16-bit floating-point types are
 * extensions of MPI; where the library has none, asking for them is an error with that text. */
#include "test/bench/bench.h"
#include <stdint.h>
#include <string.h>
#ifdef __has_include
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

enum elem { CHAR, INT8, INT32, INT64, FP16, BF16, FP32, FP64, FLOAT_INT, TWO_INT };

/* nccl: the numbers of ncclDataType_t and ncclRedOp_t, which are part of its binary interface. */
static const struct bench_type types[] = {
    { "mpi_char", "MPI_CHAR", CHAR, 1, 0, BENCH_MOVES, 0 },
    { "mpi_int", "MPI_INT", INT32, 4, 2, BENCH_MOVES | BENCH_ADDS, 0 },
    { "mpi_float", "MPI_FLOAT", FP32, 4, 7, BENCH_MOVES | BENCH_ADDS, 0 },
    { "mpi_double", "MPI_DOUBLE", FP64, 8, 8, BENCH_MOVES | BENCH_ADDS, 0 },
    { "mpi_int8", "MPI_INT8_T", INT8, 1, 0, BENCH_MOVES | BENCH_ADDS, 0 },
    { "mpi_int64", "MPI_INT64_T", INT64, 8, 4, BENCH_MOVES | BENCH_ADDS, 0 },
    { "mpi_fp16", "MPIX_FLOAT16", FP16, 2, 6, BENCH_MOVES | BENCH_ADDS, 2047 },
    { "mpi_bf16", "MPIX_BFLOAT16", BF16, 2, 9, BENCH_MOVES | BENCH_ADDS, 255 },
    { "mpi_float_int", "MPI_FLOAT_INT", FLOAT_INT, 8, -1, BENCH_MOVES | BENCH_PLACES, 0 },
    { "mpi_2int", "MPI_2INT", TWO_INT, 8, -1, BENCH_MOVES | BENCH_PLACES, 0 },
};
enum { NTYPES = sizeof types / sizeof types[0] };

enum op_code { SUM, MIN, MAX, MINLOC, MAXLOC };
static const struct bench_op ops[] = {
    { "sum", "MPI_SUM", SUM, 0, BENCH_ADDS },
    { "min", "MPI_MIN", MIN, 3, BENCH_ADDS },
    { "max", "MPI_MAX", MAX, 2, BENCH_ADDS },
    { "minloc", "MPI_MINLOC", MINLOC, -1, BENCH_PLACES },
    { "maxloc", "MPI_MAXLOC", MAXLOC, -1, BENCH_PLACES },
};
enum { NOPS = sizeof ops / sizeof ops[0] };

const struct bench_type *bench_type_find(const char *name)
{
    for (int i = 0; i < NTYPES; i++) {
        if (!strcmp(types[i].name, name))
            return &types[i];
    }
    return NULL;
}

const struct bench_op *bench_op_find(const char *name)
{
    for (int i = 0; i < NOPS; i++) {
        if (!strcmp(ops[i].name, name))
            return &ops[i];
    }
    return NULL;
}

MPI_Datatype bench_type_handle(const struct bench_type *t)
{
    switch (t->elem) {
    case INT8:
        return MPI_INT8_T;
    case INT32:
        return MPI_INT;
    case INT64:
        return MPI_INT64_T;
#ifdef MPIX_FLOAT16
    case FP16:
        return MPIX_FLOAT16;
#endif
#ifdef MPIX_BFLOAT16
    case BF16:
        return MPIX_BFLOAT16;
#endif
    case FP32:
        return MPI_FLOAT;
    case FP64:
        return MPI_DOUBLE;
    case FLOAT_INT:
        return MPI_FLOAT_INT;
    case TWO_INT:
        return MPI_2INT;
    case CHAR:
        return MPI_CHAR;
    default:
        return MPI_DATATYPE_NULL;
    }
}

MPI_Op bench_op_handle(const struct bench_op *op)
{
    switch (op->code) {
    case MIN:
        return MPI_MIN;
    case MAX:
        return MPI_MAX;
    case MINLOC:
        return MPI_MINLOC;
    case MAXLOC:
        return MPI_MAXLOC;
    default:
        return MPI_SUM;
    }
}

/* bf16 is the upper half of a float; whole numbers up to 256 need no rounding. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Whole numbers from 0 to 2047, which fp16 holds exactly. */
static uint16_t to_fp16(int x)
{
    int exponent = 0;

    if (!x)
        return 0;
    while (x >> (exponent + 1))
        exponent++;
    return (uint16_t)((exponent + 15) << 10 | ((x << 10 >> exponent) & 0x3ff));
}

void bench_number_put(const struct bench_type *t, void *at, int x, int place)
{
    switch (t->elem) {
    case INT8:
    case CHAR:
        *(int8_t *)at = (int8_t)x;
        break;
    case INT32:
        *(int32_t *)at = x;
        break;
    case INT64:
        *(int64_t *)at = x;
        break;
    case FP16:
        *(uint16_t *)at = to_fp16(x);
        break;
    case BF16:
        *(uint16_t *)at = to_bf16((float)x);
        break;
    case FP32:
        *(float *)at = (float)x;
        break;
    case FP64:
        *(double *)at = x;
        break;
    case FLOAT_INT:
        ((float *)at)[0] = (float)x;
        ((int *)at)[1] = place;
        break;
    default:
        ((int *)at)[0] = x;
        ((int *)at)[1] = place;
        break;
    }
}

int bench_op_fold(const struct bench_op *op, int have, int place, int x, int place2, int *place_p)
{
    bool take = (op->code == MIN || op->code == MINLOC) ? x < have : x > have;

    *place_p = take ? place2 : place; /* at equal values the first, which is the lower, stays */
    return op->code == SUM ? have + x : take ? x : have;
}
