/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers and the variables in which they lie: check_variable CASE, for check_variable.py, with
 * WEFT_CHECK=1.  Without optimisation, as programs are built in which a mistake is looked for: then
 * every variable has a place. */
#pragma GCC optimize("O0")
#include <complex.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void send(const void *buf, int n, MPI_Datatype t)
{
    MPI_Request req;
    MPI_Isend(buf, n, t, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
}

/* ---- mistakes ---- */

static void small(void)
{
    int pair[2] = { 1, 2 };
    MPI_Bcast(pair, 3, MPI_INT, 0, MPI_COMM_WORLD);
}

static void small_tail(void)
{
    char text[100] = "";
    MPI_Bcast(text + 90, 11, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void kind(void)
{
    int numbers[4] = { 0 };
    MPI_Bcast(numbers, 4, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void length(void)
{
    long numbers[4] = { 0 };
    MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD);
}

static void address(void)
{
    double *numbers = malloc(sizeof *numbers * 4);
    MPI_Bcast(&numbers, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(numbers);
}

static void pointed(void)
{
    double *numbers = calloc(4, sizeof *numbers);
    MPI_Bcast(numbers, 4, MPI_INT, 0, MPI_COMM_WORLD);
    free(numbers);
}

static void sign(void)
{
    unsigned number = 4, sum;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

struct mixed {
    int i;
    char c;
    double d;
};

/* Types and displacements of a struct mixed. */
static void share(const MPI_Datatype *types, const MPI_Aint *at)
{
    struct mixed m = { 1, 'a', 2.0 };
    static const int one[] = { 1, 1, 1 };
    MPI_Datatype t;
    MPI_Type_create_struct(3, one, at, types, &t);
    MPI_Type_commit(&t);
    MPI_Bcast(&m, 1, t, 0, MPI_COMM_WORLD);
    MPI_Type_free(&t);
}

static const MPI_Aint places[] = { offsetof(struct mixed, i), offsetof(struct mixed, c),
                                   offsetof(struct mixed, d) };

static void order(void) { share((MPI_Datatype[]){ MPI_CHAR, MPI_INT, MPI_DOUBLE }, places); }

static void padding(void)
{
    share((MPI_Datatype[]){ MPI_INT, MPI_CHAR, MPI_FLOAT }, (MPI_Aint[]){ 0, 4, 5 });
}

/* ---- right ---- */

static void take(double *matrix, const void *anything)
{
    MPI_Bcast(matrix, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast((void *)(uintptr_t)anything, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* Variables beside each other, by their distance from the first. */
static void apart(void)
{
    struct {
        int i;
    } first = { 1 };
    double second = 2.0, *third = calloc(8, sizeof *third);
    MPI_Aint at[3];
    MPI_Datatype t, types[] = { MPI_INT, MPI_DOUBLE, MPI_DOUBLE };
    MPI_Get_address(&first, &at[0]);
    MPI_Get_address(&second, &at[1]);
    MPI_Get_address(third, &at[2]);
    for (int i = 2; i >= 0; i--)
        at[i] = MPI_Aint_diff(at[i], at[0]);
    MPI_Type_create_struct(3, (int[]){ 1, 1, 8 }, at, types, &t);
    MPI_Type_commit(&t);
    send(&first, 1, t);
    MPI_Bcast(&first, 1, t, 0, MPI_COMM_WORLD);
    MPI_Type_free(&t);
    free(third);
}

static void right(void)
{
    union {
        int i[8];
        double d[4];
    } either = { { 0 } };
    _Alignas(16) char store[64] = "";
    double _Complex z[2] = { 0 };
    struct {
        double x, y, v[3];
        struct mixed m[2];
    } s = { 0 };
    enum { A, B } e = A;
    int64_t wide = 0;
    size_t count = 0;
    double matrix[2][2] = { { 0 } }, sum[2];
    int *bytes = calloc(1, 64);
    double *same = (double *)(void *)bytes;
    MPI_Bcast(&either, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(store, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(z, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(z, 2, MPI_C_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&s.x, 5, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&s.m[1].d, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&s, sizeof s, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&e, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&wide, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    MPI_Bcast(&count, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    MPI_Bcast(same, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Allreduce(matrix[1], sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    share((MPI_Datatype[]){ MPI_INT, MPI_CHAR, MPI_DOUBLE }, places);
    for (int i = 0; i < 3; i++) /* the same call again */
        send(matrix, 4, MPI_DOUBLE);
    take(&matrix[0][0], bytes);
    apart();
    free(bytes);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = { { "small", small },   { "small_tail", small_tail }, { "kind", kind },
                  { "length", length }, { "address", address },       { "pointed", pointed },
                  { "sign", sign },     { "order", order },           { "padding", padding },
                  { "right", right } };
    MPI_Init(&argc, &argv);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name))
            cases[i].run();
    MPI_Finalize();
    return 0;
}
