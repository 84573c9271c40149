/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of all flavours: creation and its errors, attributes, hints, shared memory, attached
 * memory, and errors of operations. */
#include "test/mpi/mpitest.h"
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

static MPI_Win win;

static void returns(void) { OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)); }

/* ---- creation ---- */

static void check_attributes(void *base, MPI_Aint size, int unit, int flavor)
{
    void *b = NULL;
    MPI_Aint *n = NULL;
    int *v = NULL, flag = 0;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &b, &flag));
    CHECK(flag && b == base);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &n, &flag));
    CHECK(flag && *n == size);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &v, &flag));
    CHECK(flag && *v == unit);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &v, &flag));
    CHECK(flag && *v == flavor);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &v, &flag));
    CHECK(flag && *v == MPI_WIN_UNIFIED);
}

static void flavors(void)
{
    char *p, mine[100];
    MPI_Group g, world;
    int same;
    OK(MPI_Win_create(mine, sizeof mine, 3, MPI_INFO_NULL, mt_comm, &win));
    check_attributes(mine, sizeof mine, 3, MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_get_group(win, &g));
    OK(MPI_Comm_group(mt_comm, &world));
    OK(MPI_Group_compare(g, world, &same));
    CHECK_EQ(same, MPI_IDENT);
    MPI_Group_free(&g);
    MPI_Group_free(&world);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, mt_comm, &win));
    check_attributes(NULL, 0, 1, MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate(1000 + mt_rank, 1 + mt_rank, MPI_INFO_NULL, mt_comm, &p, &win));
    check_attributes(p, 1000 + mt_rank, 1 + mt_rank, MPI_WIN_FLAVOR_ALLOCATE);
    memset(p, 1, 1000);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    check_attributes(MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &p, &win));
    check_attributes(p, 8, 8, MPI_WIN_FLAVOR_SHARED);
    OK(MPI_Win_free(&win));
    MPI_Aint unit = 1000000, size = 4000000;
    OK(MPI_Win_allocate_c(size, unit, MPI_INFO_NULL, mt_comm, &p, &win));
    OK(MPI_Win_free(&win));
}

/* An error of one process is an error of all, on the communicator's handler. */
static void errors_of_one(void)
{
    int x, last = mt_rank == mt_size - 1;
    char *p;
    FAILS(MPI_Win_create(&x, last ? -1 : 4, 1, MPI_INFO_NULL, mt_comm, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_create(&x, 4, last ? 0 : 1, MPI_INFO_NULL, mt_comm, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate(4, last ? -3 : 1, MPI_INFO_NULL, mt_comm, &p, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate(last ? (MPI_Aint)1 << 60 : 8, 1, MPI_INFO_NULL, mt_comm, &p, &win),
          MPI_ERR_NO_MEM);
    /* One page more than file system and machine have: the error comes at creation, not at the
     * first use. */
    const char *dir = getenv("WEFT_SHM_DIR");
    struct statvfs f;
    struct sysinfo all;
    if (mt_size > 1 && statvfs(dir ? dir : "/dev/shm", &f) == 0 && sysinfo(&all) == 0) {
        MPI_Aint disk = (MPI_Aint)(f.f_blocks * f.f_frsize),
                 ram = (MPI_Aint)all.totalram * all.mem_unit;
        FAILS(
            MPI_Win_allocate((disk > ram ? disk : ram) + 4096, 1, MPI_INFO_NULL, mt_comm, &p, &win),
            MPI_ERR_NO_MEM);
    }
    /* What failed has left nothing behind. */
    OK(MPI_Win_allocate(4, 1, MPI_INFO_NULL, mt_comm, &p, &win));
    OK(MPI_Win_free(&win));
}

static void intercommunicators(void)
{
    MPI_Comm half, inter;
    int x;
    if (mt_size < 2) {
        mt_skip("needs 2 processes");
        return;
    }
    MPI_Comm_split(mt_comm, mt_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, mt_comm, mt_rank % 2 ? 0 : 1, 5, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_create(&x, 4, 1, MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void shared_on_several_hosts(void)
{
    char *p;
    if (mt_one_host())
        mt_skip("one host");
    else
        FAILS(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, mt_comm, &p, &win), MPI_ERR_RMA_SHARED);
}

/* Many at once, over communicators that overlap, freed in another order. */
static void many_windows(void)
{
    enum { N = 60 };
    MPI_Win w[N];
    MPI_Comm half;
    int *p[N];
    MPI_Comm_split(mt_comm, mt_rank % 2, 0, &half);
    for (int i = 0; i < N; i++) {
        MPI_Comm c = i % 3 == 0 ? half : i % 3 == 1 ? mt_comm : MPI_COMM_SELF;
        OK(MPI_Win_allocate(4, 4, MPI_INFO_NULL, c, &p[i], &w[i]));
        *p[i] = 0;
    }
    for (int i = 0; i < N; i++) {
        int one = i;
        OK(MPI_Win_fence(0, w[i]));
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, w[i]));
        OK(MPI_Win_fence(0, w[i]));
    }
    for (int i = 0; i < N; i++) {
        int k = (i * 7) % N, r, n;
        MPI_Comm_rank(k % 3 == 0 ? half : k % 3 == 1 ? mt_comm : MPI_COMM_SELF, &r);
        MPI_Comm_size(k % 3 == 0 ? half : k % 3 == 1 ? mt_comm : MPI_COMM_SELF, &n);
        CHECK_EQ(*p[k], r == 0 ? k * n : 0);
        OK(MPI_Win_free(&w[k]));
    }
    MPI_Comm_free(&half);
}

/* The communicator may be freed before the window. */
static void communicator_first(void)
{
    MPI_Comm c;
    int *p, x = mt_rank;
    MPI_Comm_dup(mt_comm, &c);
    OK(MPI_Win_allocate(sizeof(int), 4, MPI_INFO_NULL, c, &p, &win));
    MPI_Comm_free(&c);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(*p, (mt_rank + mt_size - 1) % mt_size);
    OK(MPI_Win_free(&win));
}

/* ---- hints ---- */

static void check_hint(const char *key, const char *want)
{
    MPI_Info used;
    char value[64] = "";
    int flag = 0, len = sizeof value;
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get_string(used, key, &len, value, &flag));
    CHECK_MSG(flag == (want != NULL) && (!want || !strcmp(value, want)), "%s is %s, expected %s",
              key, flag ? value : "not set", want ? want : "none");
    OK(MPI_Info_free(&used));
}

static void hints(void)
{
    MPI_Info info;
    char *p;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "perhaps");
    MPI_Info_set(info, "accumulate_ordering", "rar,waw");
    MPI_Info_set(info, "accumulate_ops", "no_such_op");
    MPI_Info_set(info, "nobody_knows_this", "true");
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    OK(MPI_Win_allocate(100, 1, info, mt_comm, &p, &win));
    CHECK_EQ((uintptr_t)p % 65536, 0);
    check_hint("no_locks", "false");
    check_hint("accumulate_ordering", "rar,waw");
    check_hint("accumulate_ops", "same_op_no_op");
    check_hint("mpi_minimum_memory_alignment", "65536");
    check_hint("nobody_knows_this", NULL);
    check_hint("alloc_shared_noncontig", NULL); /* not of this flavour */
    MPI_Info_set(info, "no_locks", "true");
    MPI_Info_set(info, "same_size", "true");
    OK(MPI_Win_set_info(win, info));
    check_hint("no_locks", "true");
    check_hint("same_size", "true");
    OK(MPI_Win_free(&win));
    if (mt_one_host()) {
        OK(MPI_Win_allocate_shared(100, 1, info, mt_comm, &p, &win));
        check_hint("alloc_shared_noncontig", "true");
        CHECK_EQ((uintptr_t)p % 65536, 0);
        OK(MPI_Win_free(&win));
    }
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "24");
    FAILS(MPI_Win_allocate(100, 1, info, mt_comm, &p, &win), MPI_ERR_INFO_VALUE);
    MPI_Info_free(&info);
}

/* ---- shared memory ---- */

static void check_shared(bool contiguous)
{
    char *before = NULL, *own;
    MPI_Aint size, total = 0;
    int unit;
    for (int r = 0; r < mt_size; r++) {
        OK(MPI_Win_shared_query(win, r, &size, &unit, &own));
        CHECK_EQ(size, (MPI_Aint)(r * 40));
        CHECK_EQ(own != NULL, size > 0); /* the same in all ranks, also in r itself */
        CHECK_EQ(unit, r + 1);
        if (contiguous && before && size)
            CHECK(own == before);
        before = size ? own + size : before;
        for (MPI_Aint i = 0; i < size; i++)
            CHECK_EQ(own[i], (char)r);
        total += size;
    }
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &own));
    CHECK_EQ(size, mt_size > 1 ? 40 : 0);
    CHECK_EQ(own != NULL, mt_size > 1);
}

static void shared_memory(void)
{
    MPI_Info info;
    char *p;
    if (!mt_one_host()) {
        mt_skip("needs one host");
        return;
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    for (int k = 0; k < 3; k++) {
        if (k < 2)
            OK(MPI_Win_allocate_shared(mt_rank * 40, mt_rank + 1, k ? info : MPI_INFO_NULL, mt_comm,
                                       &p, &win));
        else
            OK(MPI_Win_allocate(mt_rank * 40, mt_rank + 1, MPI_INFO_NULL, mt_comm, &p, &win));
        memset(p, mt_rank, (size_t)mt_rank * 40);
        OK(MPI_Win_fence(0, win));
        check_shared(k == 0);
        OK(MPI_Win_fence(0, win));
        OK(MPI_Win_free(&win));
    }
    MPI_Info_free(&info);
}

/* Memory of MPI_Alloc_mem is shared; private memory and that of dynamic windows is not. */
static void query_of_created(void)
{
    MPI_Aint size = -1;
    int unit, mine = 5, other = (mt_rank + 1) % mt_size;
    char *at = NULL, *p;
    OK(MPI_Win_create(&mine, sizeof mine, 2, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_shared_query(win, mt_rank, &size, &unit, &at));
    CHECK(size == sizeof mine && unit == 2 && at == (char *)&mine);
    if (mt_size > 1) {
        OK(MPI_Win_shared_query(win, other, &size, &unit, &at));
        CHECK(size == 0 && !at);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Alloc_mem(50, MPI_INFO_NULL, &p));
    memset(p, 'a' + mt_rank, 50);
    OK(MPI_Win_create(p, 50, 1, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_shared_query(win, other, &size, &unit, &at));
    if (mt_one_host())
        CHECK(size == 50 && at && at[49] == 'a' + other);
    else if (!at)
        CHECK_EQ(size, 0);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Free_mem(p));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    returns();
    FAILS(MPI_Win_shared_query(win, 0, &size, &unit, &at), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_free(&win));
}

/* ---- dynamic windows ---- */

static void attachments(void)
{
    enum { N = 3000 };
    static char mem[N * 16];
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    returns();
    for (int i = 0; i < N; i++)
        OK(MPI_Win_attach(win, mem + (i * 7 % N) * 16, 12));
    FAILS(MPI_Win_attach(win, mem + 4, 2), MPI_ERR_RMA_ATTACH);
    FAILS(MPI_Win_attach(win, mem + 11, 3), MPI_ERR_RMA_ATTACH);
    FAILS(MPI_Win_attach(win, mem + 12, 5), MPI_ERR_RMA_ATTACH);
    FAILS(MPI_Win_attach(win, mem, -1), MPI_ERR_SIZE);
    FAILS(MPI_Win_detach(win, mem + 1), MPI_ERR_RMA_ATTACH);
    OK(MPI_Win_attach(win, mem + 12, 4));
    OK(MPI_Win_detach(win, mem + 12));
    FAILS(MPI_Win_detach(win, mem + 12), MPI_ERR_RMA_ATTACH);
    OK(MPI_Win_attach(win, mem + 12, 0)); /* no bytes at all */
    OK(MPI_Win_detach(win, mem + 12));
    for (int i = 0; i < N; i += 2)
        OK(MPI_Win_detach(win, mem + i * 16));
    OK(MPI_Win_free(&win)); /* with the rest attached */
    OK(MPI_Win_allocate(8, 1, MPI_INFO_NULL, mt_comm, &(void *){ NULL }, &win));
    returns();
    FAILS(MPI_Win_attach(win, mem, 8), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_detach(win, mem), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_free(&win));
}

static void not_attached(void)
{
    static int mem[4];
    MPI_Aint at;
    int x = 0;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    returns();
    MPI_Get_address(mem, &at);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, mt_rank, 0, win));
    FAILS(MPI_Put(&x, 1, MPI_INT, mt_rank, at, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_attach(win, mem, 8));
    OK(MPI_Put(&x, 1, MPI_INT, mt_rank, MPI_Aint_add(at, 4), 1, MPI_INT, win));
    FAILS(MPI_Put(&x, 1, MPI_INT, mt_rank, MPI_Aint_add(at, 6), 1, MPI_INT, win),
          MPI_ERR_RMA_RANGE);
    OK(MPI_Win_unlock(mt_rank, win));
    OK(MPI_Win_free(&win));
}

/* An operation may reach regions that adjoin, and with a datatype also others, but nothing that is
 * not attached. */
static void several_regions(void)
{
    static int mem[12];
    int x[10] = { 1, 2, 3, 4, 5, 6, 7, 8 }, right = (mt_rank + 1) % mt_size;
    MPI_Aint at;
    MPI_Datatype ends; /* elements 0, 1, 10, 11 */
    MPI_Type_vector(2, 2, 10, MPI_INT, &ends);
    MPI_Type_commit(&ends);
    memset(mem, 0, sizeof mem);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    returns();
    OK(MPI_Win_attach(win, mem, 4 * sizeof *mem));
    OK(MPI_Win_attach(win, mem + 4, 4 * sizeof *mem));
    OK(MPI_Win_attach(win, mem + 10, 2 * sizeof *mem));
    MPI_Get_address(mem, &at);
    MPI_Sendrecv_replace(&at, 1, MPI_AINT, (mt_rank + mt_size - 1) % mt_size, 0, right, 0, mt_comm,
                         MPI_STATUS_IGNORE);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(x, 8, MPI_INT, right, at, 8, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(x, 4, MPI_INT, right, at, 1, ends, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    CHECK(!memcmp(mem, (int[]){ 2, 4, 3, 4, 5, 6, 7, 8, 0, 0, 3, 4 }, sizeof mem));
    MPI_Get_address(mem, &at);
    OK(MPI_Put(x, 4, MPI_INT, mt_rank, at, 1, ends, win));
    FAILS(MPI_Put(x, 9, MPI_INT, mt_rank, at, 9, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(x, 4, MPI_INT, mt_rank, MPI_Aint_add(at, 4), 1, ends, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_fence(0, win));
    CHECK(!memcmp(mem, (int[]){ 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 3, 4 }, sizeof mem));
    OK(MPI_Win_free(&win));
    MPI_Type_free(&ends);
}

/* ---- operations ---- */

/* An error of the call, or of the next call that completes it, because only the target may detect
 * it. */
static void out_of_range(MPI_Aint disp, int count)
{
    int x[4] = { 0 }, right = (mt_rank + 1) % mt_size, cls = MPI_SUCCESS;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win));
    int err = MPI_Put(x, count, MPI_INT, right, disp, count, MPI_INT, win);
    int end = MPI_Win_unlock(right, win);
    MPI_Error_class(err ? err : end, &cls);
    CHECK_EQ(cls, MPI_ERR_RMA_RANGE);
}

static void ranges(void)
{
    char *p;
    for (int k = 0; k < 2; k++) { /* sizes that are equal, and not */
        MPI_Aint n = 16 * (1 + k * mt_rank), right = 16 * (1 + k * ((mt_rank + 1) % mt_size));
        OK(MPI_Win_allocate(n, 4, MPI_INFO_NULL, mt_comm, &p, &win));
        returns();
        out_of_range(right / 4, 1);
        out_of_range(right / 4 - 1, 2);
        out_of_range((MPI_Aint)1 << 61, 1);
        OK(MPI_Win_fence(0, win));
        int x[4] = { 1, 2, 3, 4 };
        FAILS(MPI_Put(x, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP);
        OK(MPI_Put(x, 0, MPI_INT, 0, 1000000, 0, MPI_INT, win)); /* no data */
        OK(MPI_Put(x, 4, MPI_INT, (mt_rank + 1) % mt_size, right / 4 - 4, 4, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        CHECK_EQ(memcmp(p + n - 16, x, 16), 0);
        OK(MPI_Win_free(&win));
    }
}

static void wrong_types(void)
{
    int x[4] = { 0 }, y = 0, *p;
    MPI_Op user;
    MPI_Datatype two;
    MPI_Op_create((MPI_User_function *)(void (*)(void))wrong_types, 1, &user);
    MPI_Type_create_struct(2, (int[]){ 1, 1 }, (MPI_Aint[]){ 0, 4 },
                           (MPI_Datatype[]){ MPI_INT, MPI_FLOAT }, &two);
    OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, mt_comm, &p, &win));
    returns();
    OK(MPI_Win_fence(0, win));
    FAILS(MPI_Put(x, 1, two, 0, 0, 1, two, win), MPI_ERR_TYPE); /* not committed */
    MPI_Type_commit(&two);
    FAILS(MPI_Put(x, 2, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Accumulate(x, 1, two, 0, 0, 1, two, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(x, 1, MPI_INT, 0, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Accumulate(x, 1, MPI_INT, 0, 0, 1, MPI_INT, user, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(x, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(x, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_MINLOC, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(x, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win), MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(x, &y, two, 0, 0, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Fetch_and_op(NULL, &y, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Fetch_and_op(x, NULL, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Compare_and_swap(x, x, &y, MPI_FLOAT, 0, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(x, x, &y, MPI_2INT, 0, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(x, x, &y, two, 0, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Get_accumulate(NULL, -1, MPI_INT, &y, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win),
          MPI_ERR_COUNT);
    /* Arguments of the origin mean nothing when the operation only reads. */
    OK(MPI_Get_accumulate(NULL, -1, MPI_DATATYPE_NULL, &y, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP,
                          win));
    OK(MPI_Fetch_and_op(NULL, &y, MPI_INT, 0, 0, MPI_NO_OP, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
    MPI_Type_free(&two);
    MPI_Op_free(&user);
}

/* Addresses in the origin's datatype, with MPI_BOTTOM. */
static void absolute_types(void)
{
    static int from[3], to[3];
    MPI_Aint at[2];
    MPI_Datatype put, get;
    int *p, right = (mt_rank + 1) % mt_size;
    from[0] = 100 + mt_rank, from[2] = 200 + mt_rank;
    MPI_Get_address(&from[2], &at[0]);
    MPI_Get_address(&from[0], &at[1]);
    MPI_Type_create_hindexed(2, (int[]){ 1, 1 }, at, MPI_INT, &put);
    MPI_Get_address(&to[1], &at[0]);
    MPI_Type_create_hindexed(1, (int[]){ 2 }, at, MPI_INT, &get);
    MPI_Type_commit(&put);
    MPI_Type_commit(&get);
    OK(MPI_Win_allocate(8, 4, MPI_INFO_NULL, mt_comm, &p, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(MPI_BOTTOM, 1, put, right, 0, 2, MPI_INT, win));
    MPI_Type_free(&put); /* right after the call */
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(p[0], 200 + (mt_rank + mt_size - 1) % mt_size);
    CHECK_EQ(p[1], 100 + (mt_rank + mt_size - 1) % mt_size);
    OK(MPI_Get(MPI_BOTTOM, 1, get, right, 0, 2, MPI_INT, win));
    MPI_Type_free(&get);
    OK(MPI_Win_fence(0, win));
    CHECK(to[0] == 0 && to[1] == 200 + mt_rank && to[2] == 100 + mt_rank);
    OK(MPI_Win_free(&win));
}

static int errors;
static void on_error(MPI_Win *w, int *code, ...)
{
    CHECK(*w == win);
    CHECK_EQ(*code, MPI_ERR_RMA_SYNC);
    errors++;
}

static void handlers(void)
{
    MPI_Errhandler h, initial;
    int x = 0;
    OK(MPI_Win_create(&x, 4, 1, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_get_errhandler(win, &initial));
    CHECK(initial == MPI_ERRORS_ARE_FATAL); /* not that of the communicator */
    OK(MPI_Win_create_errhandler(on_error, &h));
    OK(MPI_Win_set_errhandler(win, h));
    MPI_Errhandler_free(&h);
    CHECK(MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win) != MPI_SUCCESS);
    CHECK_EQ(errors, 1);
    OK(MPI_Win_free(&win));
}

static int deleted;
static int del(MPI_Win w, int key, void *v, void *extra)
{
    (void)w, (void)key, (void)extra;
    deleted++;
    return *(int *)v ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* An attribute's delete function may refuse; the window stays. */
static void refused_free(void)
{
    int key, x = 0, refuse = 1, *p = NULL;
    OK(MPI_Win_create(&x, 4, 1, MPI_INFO_NULL, mt_comm, &win));
    returns();
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, del, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &refuse));
    MPI_Win w = win;
    FAILS(MPI_Win_free(&w), MPI_ERR_OTHER);
    CHECK(w == win && deleted == 1);
    refuse = 0;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
    CHECK(deleted == 2 && !p);
    OK(MPI_Win_free_keyval(&key));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(flavors);
    MT_RUN(errors_of_one);
    MT_RUN(intercommunicators);
    MT_RUN(shared_on_several_hosts);
    MT_RUN(many_windows);
    MT_RUN(communicator_first);
    MT_RUN(hints);
    MT_RUN(shared_memory);
    MT_RUN(query_of_created);
    MT_RUN(attachments);
    MT_RUN(not_attached);
    MT_RUN(several_regions);
    MT_RUN(ranges);
    MT_RUN(wrong_types);
    MT_RUN(absolute_types);
    MT_RUN(handlers);
    MT_RUN(refused_free);
    return mt_end();
}
