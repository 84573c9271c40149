/* SPDX-License-Identifier: BSD-3-Clause */
/* Cartesian topologies: MPI_Dims_create against all factorisations, creation, queries, shifts,
 * parts, duplicates, and wrong arguments, also in one process only. */
#include "test/mpi/mpitest.h"
#include "test/mpi/topo_bind.h"
#include <limits.h>

#define DIMS_MAX 4

/* All non-increasing factorisations of n into k factors, none above `most`; the best by (largest
 * less smallest, then lexically) is kept. */
static void brute(int n, int k, int at, int most, int *trial, int *best)
{
    if (at == k) {
        int spread = trial[0] - trial[k - 1], old = best[0] - best[k - 1];
        if (n != 1 || (best[0] && spread > old))
            return;
        for (int i = 0; best[0] && spread == old && i < k; i++) {
            if (trial[i] > best[i])
                return;
            if (trial[i] < best[i])
                break;
        }
        memcpy(best, trial, (size_t)k * sizeof *best);
        return;
    }
    for (int d = 1; d <= n && d <= most; d++)
        if (n % d == 0) {
            trial[at] = d;
            brute(n / d, k, at + 1, d, trial, best);
        }
}

static void dims_are_the_best(void)
{
    for (int n = 1; n <= 200; n++)
        for (int k = 1; k <= DIMS_MAX; k++) {
            int trial[DIMS_MAX], best[DIMS_MAX] = { 0 }, dims[DIMS_MAX] = { 0 };
            brute(n, k, 0, n, trial, best);
            OK(MPI_Dims_create(n, k, dims));
            CHECK_MSG(!memcmp(dims, best, (size_t)k * sizeof *best),
                      "%d nodes in %d dimensions: %d %d ..., expected %d %d ...", n, k, dims[0],
                      dims[1], best[0], best[1]);
        }
}

static void dims_with_some_given(void)
{
    int a[2] = { 0, 0 }, b[3] = { 0, 3, 0 }, c[3] = { 0, 3, 0 }, d[2] = { 2, 2 }, e[1] = { -1 };
    int f[4] = { 0, 5, 0, 2 }, many[40] = { 0 }, huge[2] = { INT_MAX, INT_MAX };
    OK(MPI_Dims_create(7, 2, a));
    CHECK(a[0] == 7 && a[1] == 1);
    OK(MPI_Dims_create(6, 3, b));
    CHECK(b[0] == 2 && b[1] == 3 && b[2] == 1);
    FAILS(MPI_Dims_create(7, 3, c), MPI_ERR_DIMS);
    CHECK(c[0] == 0 && c[1] == 3 && c[2] == 0);
    OK(MPI_Dims_create(4, 2, d));
    CHECK(d[0] == 2 && d[1] == 2);
    FAILS(MPI_Dims_create(2, 2, d), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(4, 1, e), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(4, 2, huge), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(0, 1, a), MPI_ERR_ARG);
    FAILS(MPI_Dims_create(4, -1, a), MPI_ERR_DIMS);
    OK(MPI_Dims_create(120, 4, f));
    CHECK(f[0] == 4 && f[1] == 5 && f[2] == 3 && f[3] == 2);
    OK(MPI_Dims_create(2095133040, 40, many)); /* as many divisors as there can be */
    CHECK(many[39] == 1);
}

/* The grid that MPI_Dims_create gives for all ranks, dimension i periodic as bit i says. */
static MPI_Comm make(int ndims, unsigned periodic, int reorder, int *dims)
{
    MPI_Comm c = MPI_COMM_NULL;
    int periods[DIMS_MAX];
    for (int i = 0; i < ndims; i++) {
        dims[i] = 0;
        periods[i] = (periodic >> i & 1) ? 7 : 0; /* any true value */
    }
    OK(MPI_Dims_create(mt_size, ndims, dims));
    OK(MPI_Cart_create(mt_comm, ndims, dims, periods, reorder, &c));
    return c;
}

static void check_grid(MPI_Comm c, int ndims, unsigned periodic, const int *dims)
{
    int rank, size, kind, n, got[DIMS_MAX], per[DIMS_MAX], at[DIMS_MAX], of[DIMS_MAX], back;
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_size(c, &size));
    OK(MPI_Topo_test(c, &kind));
    CHECK_EQ(kind, MPI_CART);
    OK(MPI_Cartdim_get(c, &n));
    CHECK_EQ(n, ndims);
    OK(MPI_Cart_get(c, DIMS_MAX, got, per, at));
    for (int i = 0; i < ndims; i++) {
        CHECK_EQ(got[i], dims[i]);
        CHECK_EQ(per[i], (int)(periodic >> i & 1));
    }
    for (int r = 0; r < size; r++) {
        int want = r;
        OK(MPI_Cart_coords(c, r, ndims, of));
        for (int i = ndims - 1; i >= 0; want /= dims[i--])
            CHECK_EQ(of[i], want % dims[i]);
        if (r == rank)
            CHECK(!memcmp(of, at, (size_t)ndims * sizeof(int)));
        for (int i = 0; i < ndims; i++)
            if (periodic >> i & 1)
                of[i] += (r % 5 - 2) * dims[i];
        OK(MPI_Cart_rank(c, of, &back));
        CHECK_EQ(back, r);
    }
    for (int i = 0; i < ndims; i++)
        for (int disp = -3; disp <= 3; disp++) {
            int source, dest, want[2];
            for (int side = 0; side < 2; side++) {
                memcpy(of, at, sizeof of);
                of[i] += side ? disp : -disp;
                if (!(periodic >> i & 1) && (of[i] < 0 || of[i] >= dims[i]))
                    want[side] = MPI_PROC_NULL;
                else
                    OK(MPI_Cart_rank(c, of, &want[side]));
            }
            OK(MPI_Cart_shift(c, i, disp, &source, &dest));
            CHECK_EQ(source, want[0]);
            CHECK_EQ(dest, want[1]);
        }
    if (ndims && !(periodic & 1)) {
        memcpy(of, at, sizeof of);
        of[0] = dims[0];
        FAILS(MPI_Cart_rank(c, of, &back), MPI_ERR_ARG);
        of[0] = -1;
        FAILS(MPI_Cart_rank(c, of, &back), MPI_ERR_ARG);
    }
}

static void grids_answer_questions(void)
{
    for (int ndims = 1; ndims <= 3; ndims++)
        for (unsigned periodic = 0; periodic < 1u << ndims; periodic++)
            for (int reorder = 0; reorder < 2; reorder++) {
                int dims[DIMS_MAX], result;
                MPI_Comm c = make(ndims, periodic, reorder, dims);
                check_grid(c, ndims, periodic, dims);
                OK(MPI_Comm_compare(mt_comm, c, &result));
                CHECK(result == MPI_CONGRUENT || (reorder && result == MPI_SIMILAR));
                OK(MPI_Comm_free(&c));
            }
}

/* The kernel's number of the core that has this hardware thread. */
static int core_of(int cpu)
{
    char path[128];
    int core = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &core) != 1)
        core = 0;
    if (f)
        fclose(f);
    return core;
}

/* A line of ranks on two cores in turn is cut once when reordered, if cores can be seen. */
static void bound_ranks_move(void)
{
    int dims[1] = { mt_size }, per[1] = { 0 }, result, cores[64], steps = 0, distinct = 0;
    MPI_Comm c;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    int mine = CPU_COUNT(&set) == 1, all = 0, cpu = 0;
    while (mine && !CPU_ISSET(cpu, &set))
        cpu++;
    cpu = core_of(cpu);
    CHECK(mt_size <= 64);
    OK(MPI_Allgather(&cpu, 1, MPI_INT, cores, 1, MPI_INT, mt_comm));
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, mt_comm));
    for (int i = 0; i < mt_size; i++) {
        int seen = 0;
        for (int k = 0; k < i; k++)
            seen |= cores[k] == cores[i];
        distinct += !seen;
        steps += i > 0 && cores[i] != cores[i - 1];
    }
    if (!all || steps < distinct) { /* those of one core are side by side already */
        mt_skip("no two ranks bound to one core are apart");
        return;
    }
    OK(MPI_Cart_create(mt_comm, 1, dims, per, 1, &c));
    OK(MPI_Comm_compare(mt_comm, c, &result));
    CHECK_EQ(result, MPI_SIMILAR);
    OK(MPI_Comm_free(&c));
}

static void far_shifts_wrap(void)
{
    int dims[DIMS_MAX], source, dest, want, at[1];
    MPI_Comm c = make(1, 1, 0, dims);
    OK(MPI_Cart_shift(c, 0, INT_MAX, &source, &dest));
    at[0] = (int)(((long long)mt_rank + INT_MAX) % mt_size);
    OK(MPI_Cart_rank(c, at, &want));
    CHECK_EQ(dest, want);
    OK(MPI_Cart_shift(c, 0, INT_MIN, &source, &dest));
    CHECK(source >= 0 && source < mt_size && dest >= 0 && dest < mt_size);
    at[0] = INT_MIN;
    OK(MPI_Cart_rank(c, at, &want));
    CHECK(want >= 0 && want < mt_size);
    OK(MPI_Comm_free(&c));
}

static void no_dimensions(void)
{
    MPI_Comm c = (MPI_Comm)0, d;
    int n = -1, rank = -1, source, dest;
    OK(MPI_Cart_create(mt_comm, 0, NULL, NULL, 1, &c));
    CHECK((c == MPI_COMM_NULL) == (mt_rank != 0));
    if (mt_rank != 0)
        return;
    OK(MPI_Comm_size(c, &n));
    CHECK_EQ(n, 1);
    OK(MPI_Cartdim_get(c, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Cart_get(c, 0, NULL, NULL, NULL));
    OK(MPI_Cart_rank(c, NULL, &rank));
    CHECK_EQ(rank, 0);
    OK(MPI_Cart_coords(c, 0, 0, NULL));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    FAILS(MPI_Cart_shift(c, 0, 1, &source, &dest), MPI_ERR_DIMS);
    OK(MPI_Cart_sub(c, NULL, &d));
    OK(MPI_Cartdim_get(d, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_free(&c));
}

static void surplus_ranks_get_nothing(void)
{
    int dims[1] = { (mt_size + 1) / 2 }, periods[1] = { 0 }, n, map;
    for (int reorder = 0; reorder < 2; reorder++) {
        MPI_Comm c;
        OK(MPI_Cart_create(mt_comm, 1, dims, periods, reorder, &c));
        CHECK((c != MPI_COMM_NULL) == (mt_rank < dims[0]));
        if (c == MPI_COMM_NULL)
            continue;
        OK(MPI_Comm_size(c, &n));
        CHECK_EQ(n, dims[0]);
        OK(MPI_Comm_free(&c));
    }
    OK(MPI_Cart_map(mt_comm, 1, dims, periods, &map));
    CHECK_EQ(map, mt_rank < dims[0] ? mt_rank : MPI_UNDEFINED);
}

/* Every choice of dimensions to keep: size, coordinates, and a sum over the part that is right only
 * when the right ranks are in it. */
static void parts_of_a_grid(void)
{
    int dims[DIMS_MAX], at[DIMS_MAX];
    MPI_Comm c = make(3, 2, 0, dims);
    OK(MPI_Cart_coords(c, mt_rank, 3, at));
    for (int keep = 0; keep < 8; keep++) {
        int remain[3] = { keep & 1, keep & 2, keep & 4 }, n, size, want = 1, kept = 0, sum = 0;
        int sub[DIMS_MAX], per[DIMS_MAX], sub_at[DIMS_MAX], expected = 0;
        MPI_Comm s;
        OK(MPI_Cart_sub(c, remain, &s));
        OK(MPI_Cartdim_get(s, &n));
        OK(MPI_Comm_size(s, &size));
        OK(MPI_Cart_get(s, DIMS_MAX, sub, per, sub_at));
        for (int i = 0; i < 3; i++)
            if (remain[i]) {
                want *= dims[i];
                CHECK_EQ(sub[kept], dims[i]);
                CHECK_EQ(per[kept], i == 1);
                CHECK_EQ(sub_at[kept++], at[i]);
            }
        CHECK_EQ(n, kept);
        CHECK_EQ(size, want);
        for (int r = 0; r < mt_size; r++) {
            int of[DIMS_MAX], in = 1;
            OK(MPI_Cart_coords(c, r, 3, of));
            for (int i = 0; i < 3; i++)
                in &= remain[i] || of[i] == at[i];
            expected += in ? 1 << r : 0;
        }
        int mine = 1 << mt_rank;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, s));
        CHECK_EQ(sum, expected);
        OK(MPI_Comm_free(&s));
    }
    OK(MPI_Comm_free(&c));
}

static int copied, deleted;
static int copy_fn(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}
static int delete_fn(MPI_Comm c, int key, void *val, void *extra)
{
    (void)c, (void)key, (void)val, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void duplicates_keep_the_grid(void)
{
    int dims[DIMS_MAX], key, flag, kind;
    void *val;
    MPI_Comm c = make(2, 2, 0, dims), d[3], split;
    MPI_Request req;
    copied = deleted = 0;
    OK(MPI_Comm_create_keyval(copy_fn, delete_fn, &key, NULL));
    OK(MPI_Comm_set_attr(c, key, &copied));
    OK(MPI_Comm_dup(c, &d[0]));
    OK(MPI_Comm_dup_with_info(c, MPI_INFO_NULL, &d[1]));
    OK(MPI_Comm_idup(c, &d[2], &req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    OK(MPI_Comm_split(c, 0, mt_rank, &split));
    OK(MPI_Topo_test(split, &kind));
    CHECK_EQ(kind, MPI_UNDEFINED);
    OK(MPI_Comm_free(&split));
    OK(MPI_Comm_free(&c)); /* the duplicates have topologies of their own */
    CHECK_EQ(copied, 3);
    for (int i = 0; i < 3; i++) {
        check_grid(d[i], 2, 2, dims);
        OK(MPI_Comm_get_attr(d[i], key, &val, &flag));
        CHECK(flag && val == &copied);
        OK(MPI_Comm_free(&d[i]));
    }
    CHECK_EQ(deleted, 4);
    OK(MPI_Comm_free_keyval(&key));
}

static void wrong_arguments(void)
{
    int dims[2] = { mt_size + 1, 1 }, zero[1] = { 0 }, neg[1] = { -1 }, p[2] = { 0, 0 }, n, v[2];
    int huge[2] = { INT_MAX, INT_MAX };
    MPI_Comm c = MPI_COMM_NULL;
    FAILS(MPI_Cart_create(mt_comm, 2, dims, p, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Cart_create(mt_comm, 2, huge, p, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Cart_create(mt_comm, 1, zero, p, 0, &c), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(mt_comm, 1, neg, p, 0, &c), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(mt_comm, -1, neg, p, 0, &c), MPI_ERR_DIMS);
    FAILS(MPI_Cart_map(mt_comm, 2, dims, p, &n), MPI_ERR_ARG);
    CHECK(c == MPI_COMM_NULL);
    FAILS(MPI_Cartdim_get(mt_comm, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_get(mt_comm, 2, v, v, v), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_rank(mt_comm, v, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_coords(mt_comm, 0, 2, v), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_shift(mt_comm, 0, 1, &n, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_sub(mt_comm, v, &c), MPI_ERR_TOPOLOGY);
    c = make(2, 0, 0, dims);
    FAILS(MPI_Cart_get(c, 1, v, v, v), MPI_ERR_ARG);
    FAILS(MPI_Cart_coords(c, 0, 1, v), MPI_ERR_ARG);
    FAILS(MPI_Cart_coords(c, mt_size, 2, v), MPI_ERR_RANK);
    FAILS(MPI_Cart_coords(c, -1, 2, v), MPI_ERR_RANK);
    FAILS(MPI_Cart_rank(c, NULL, &n), MPI_ERR_ARG);
    FAILS(MPI_Cart_shift(c, 2, 1, &n, &n), MPI_ERR_DIMS);
    FAILS(MPI_Cart_shift(c, -1, 1, &n, &n), MPI_ERR_DIMS);
    FAILS(MPI_Cart_sub(c, NULL, &c), MPI_ERR_ARG);
    FAILS(MPI_Graphdims_get(c, &n, &n), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&c));
}

/* One process is wrong, or all differ: all ranks get an error and none waits. */
static void wrong_in_one_process(void)
{
    int dims[1] = { mt_rank == mt_size - 1 ? -4 : mt_size }, p[1] = { 0 }, one[1] = { 1 };
    MPI_Comm c = MPI_COMM_NULL;
    FAILS(MPI_Cart_create(mt_comm, 1, dims, p, 0, &c), MPI_ERR_DIMS);
    p[0] = mt_rank == 0;
    if (mt_size > 1)
        FAILS(MPI_Cart_create(mt_comm, 1, one, p, 0, &c), MPI_ERR_ARG);
    CHECK(c == MPI_COMM_NULL);
    c = make(1, 0, 0, dims);
    MPI_Comm d = MPI_COMM_NULL;
    int remain[1] = { mt_rank == 0 };
    if (mt_size > 1)
        FAILS(MPI_Cart_sub(c, remain, &d), MPI_ERR_ARG);
    OK(MPI_Barrier(c));
    OK(MPI_Comm_free(&c));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    bind_in_turn(argc, argv, mt_rank);
    MT_RUN(dims_are_the_best);
    MT_RUN(dims_with_some_given);
    MT_RUN(grids_answer_questions);
    MT_RUN(bound_ranks_move);
    MT_RUN(far_shifts_wrap);
    MT_RUN(no_dimensions);
    MT_RUN(surplus_ranks_get_nothing);
    MT_RUN(parts_of_a_grid);
    MT_RUN(duplicates_keep_the_grid);
    MT_RUN(wrong_arguments);
    MT_RUN(wrong_in_one_process);
    return mt_end();
}
