/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool information interface without messages (MPI-5.0 section 15.3): its life before MPI_Init
 * and after MPI_Finalize, control variables, enumerations, categories, and the error code of every
 * wrong call.  One process, no mpirun. */
#include <mpi.h>
#include "test/check.h"

#define T(call) CHECK_EQ((call), MPI_SUCCESS)
#define IS(call, code) CHECK_EQ((call), MPI_T_ERR_##code)
#define STALE ((void *)0x6fffffff)

static MPI_T_cvar_handle open_cvar(const char *name, int *index)
{
    MPI_T_cvar_handle h = MPI_T_CVAR_HANDLE_NULL;
    int count = -1;
    T(MPI_T_cvar_get_index(name, index));
    T(MPI_T_cvar_handle_alloc(*index, NULL, &h, &count));
    CHECK(count >= 1);
    return h;
}

static void uninitialized(void)
{
    int n;
    char text[8];
    MPI_T_pvar_session s = MPI_T_PVAR_SESSION_NULL;
    MPI_T_cvar_handle c = MPI_T_CVAR_HANDLE_NULL;
    MPI_T_event_registration r = NULL;
    IS(MPI_T_finalize(), NOT_INITIALIZED);
    IS(MPI_T_cvar_get_num(&n), NOT_INITIALIZED);
    IS(MPI_T_cvar_get_index("log", &n), NOT_INITIALIZED);
    IS(MPI_T_cvar_handle_alloc(0, NULL, &c, &n), NOT_INITIALIZED);
    IS(MPI_T_cvar_read(c, text), NOT_INITIALIZED);
    IS(MPI_T_pvar_get_num(&n), NOT_INITIALIZED);
    IS(MPI_T_pvar_session_create(&s), NOT_INITIALIZED);
    IS(MPI_T_pvar_start(s, MPI_T_PVAR_ALL_HANDLES), NOT_INITIALIZED);
    IS(MPI_T_category_get_num(&n), NOT_INITIALIZED);
    IS(MPI_T_category_changed(&n), NOT_INITIALIZED);
    IS(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL), NOT_INITIALIZED);
    IS(MPI_T_event_get_num(&n), NOT_INITIALIZED);
    IS(MPI_T_source_get_num(&n), NOT_INITIALIZED);
    IS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &r), NOT_INITIALIZED);
    IS(MPI_T_event_copy(NULL, text), NOT_INITIALIZED);
}

static void counted(void)
{
    int provided = -1, n = 0;
    IS(MPI_T_init_thread(17, &provided), INVALID);
    IS(MPI_T_cvar_get_num(&n), NOT_INITIALIZED);
    T(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_SINGLE);
    T(MPI_T_init_thread(MPI_THREAD_SERIALIZED, NULL));
    T(MPI_T_finalize());
    T(MPI_T_cvar_get_num(&n));
    CHECK(n > 5);
    T(MPI_T_finalize());
    IS(MPI_T_cvar_get_num(&n), NOT_INITIALIZED);
    T(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
}

/* Every string obeys the rules of section 15.3.3. */
static void strings(void)
{
    char name[64], part[4] = "xyz";
    int len = sizeof name, index;
    T(MPI_T_cvar_get_index("shm_eager", &index));
    T(MPI_T_cvar_get_info(index, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_STR(name, "shm_eager");
    CHECK_EQ(len, 10);
    len = 4;
    T(MPI_T_cvar_get_info(index, part, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_STR(part, "shm");
    CHECK_EQ(len, 10);
    len = 0;
    T(MPI_T_cvar_get_info(index, part, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_STR(part, "shm");
    CHECK_EQ(len, 10);
    len = 99;
    T(MPI_T_cvar_get_info(index, NULL, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(len, 10);
    T(MPI_T_cvar_get_info(index, part, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_STR(part, "shm");
}

static void cvar_table(void)
{
    int n = 0;
    T(MPI_T_cvar_get_num(&n));
    for (int i = 0; i < n; i++) {
        char name[64] = "", desc[512] = "", buf[4096];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity = 0, bind = 0, scope = 0;
        int again = -1, count = 0;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum e = (MPI_T_enum)STALE;
        MPI_T_cvar_handle h;
        T(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &e, desc, &desc_len, &bind,
                              &scope));
        CHECK(*name && *desc);
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        CHECK(type == MPI_INT || type == MPI_CHAR || type == MPI_COUNT);
        CHECK(e == MPI_T_ENUM_NULL || type == MPI_INT);
        CHECK_EQ(bind, MPI_T_BIND_NO_OBJECT);
        CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
        T(MPI_T_cvar_get_index(name, &again));
        CHECK_EQ(again, i);
        T(MPI_T_cvar_handle_alloc(i, NULL, &h, &count));
        CHECK(type == MPI_CHAR ? count > 1 : count == 1);
        T(MPI_T_cvar_read(h, buf));
        T(MPI_T_cvar_handle_free(&h));
        CHECK(h == MPI_T_CVAR_HANDLE_NULL);
    }
}

static void enums(void)
{
    int index, n = 0, value = -1, len = 64;
    char name[64];
    MPI_T_enum e;
    T(MPI_T_cvar_get_index("shm_large", &index));
    T(MPI_T_cvar_get_info(index, NULL, NULL, NULL, NULL, &e, NULL, NULL, NULL, NULL));
    T(MPI_T_enum_get_info(e, &n, name, &len));
    CHECK_EQ(n, 3);
    CHECK_STR(name, "shm_large");
    len = 64;
    T(MPI_T_enum_get_item(e, 2, &value, name, &len));
    CHECK_EQ(value, 2);
    CHECK_STR(name, "copy");
    CHECK_EQ(len, 5);
    T(MPI_T_enum_get_item(e, 0, NULL, NULL, NULL));
    IS(MPI_T_enum_get_item(e, 3, &value, name, &len), INVALID_INDEX);
    IS(MPI_T_enum_get_item(e, -1, &value, name, &len), INVALID_INDEX);
    IS(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, name, &len), INVALID_HANDLE);
    IS(MPI_T_enum_get_info((MPI_T_enum)STALE, &n, name, &len), INVALID_HANDLE);
    IS(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &value, name, &len), INVALID_HANDLE);
}

/* Before MPI_Init every setting can be written, within its range. */
static void round_trip(void)
{
    MPI_Count size = 0, other = 4096, wrong = 1 << 30;
    int n = -7, words = 2, bad_word = 9, index;
    char text[4096] = "", too_long[4096];
    MPI_T_cvar_handle h = open_cvar("shm_eager", &index);
    T(MPI_T_cvar_read(h, &size));
    CHECK_EQ(size, 16384);
    T(MPI_T_cvar_write(h, &other));
    IS(MPI_T_cvar_write(h, &wrong), INVALID);
    T(MPI_T_cvar_read(h, &size));
    CHECK_EQ(size, 4096);
    T(MPI_T_cvar_handle_free(&h));

    h = open_cvar("spin_us", &index);
    T(MPI_T_cvar_read(h, &n));
    CHECK_EQ(n, -1);
    IS(MPI_T_cvar_write(h, &(int){ -2 }), INVALID);
    T(MPI_T_cvar_write(h, &(int){ -1 }));
    T(MPI_T_cvar_handle_free(&h));

    h = open_cvar("shm_large", &index);
    T(MPI_T_cvar_write(h, &words));
    IS(MPI_T_cvar_write(h, &bad_word), INVALID);
    T(MPI_T_cvar_read(h, &n));
    CHECK_EQ(n, 2);
    T(MPI_T_cvar_handle_free(&h));

    h = open_cvar("coll", &index);
    memset(too_long, 'x', sizeof too_long);
    IS(MPI_T_cvar_write(h, too_long), INVALID);
    IS(MPI_T_cvar_write(h, "bcast:nonsense"), INVALID);
    T(MPI_T_cvar_read(h, text));
    CHECK_STR(text, "");
    T(MPI_T_cvar_write(h, "bcast:binomial"));
    T(MPI_T_cvar_read(h, text));
    CHECK_STR(text, "bcast:binomial");
    T(MPI_T_cvar_handle_free(&h));
}

/* After MPI_Init most settings can no longer be changed. */
static void after_start(void)
{
    int flag = -1, index;
    MPI_Count size = 0;
    char text[4096];
    MPI_T_cvar_handle h = open_cvar("shm_eager", &index);
    T(MPI_T_cvar_read(h, &size));
    CHECK_EQ(size, 4096);
    IS(MPI_T_cvar_write(h, &size), CVAR_SET_NEVER);
    T(MPI_T_cvar_handle_free(&h));
    h = open_cvar("coll", &index);
    T(MPI_T_cvar_read(h, text));
    CHECK_STR(text, "bcast:binomial");
    T(MPI_T_cvar_handle_free(&h));
    h = open_cvar("abort_backtrace", &index);
    T(MPI_T_cvar_write(h, &(int){ 1 }));
    T(MPI_T_cvar_read(h, &flag));
    CHECK_EQ(flag, 1);
    T(MPI_T_cvar_write(h, &(int){ 0 }));
    IS(MPI_T_cvar_write(h, &(int){ 2 }), INVALID);
    T(MPI_T_cvar_handle_free(&h));
    h = open_cvar("log", &index);
    T(MPI_T_cvar_write(h, "mpi:error"));
    T(MPI_T_cvar_read(h, text));
    CHECK_STR(text, "mpi:error");
    T(MPI_T_cvar_handle_free(&h));
}

static void cvar_errors(void)
{
    int n, count;
    char buf[4096];
    MPI_T_cvar_handle h = MPI_T_CVAR_HANDLE_NULL, stale;
    T(MPI_T_cvar_get_num(&n));
    IS(MPI_T_cvar_get_num(NULL), INVALID);
    IS(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
       INVALID_INDEX);
    IS(MPI_T_cvar_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), INVALID_INDEX);
    IS(MPI_T_cvar_get_index("no_such", &n), INVALID_NAME);
    IS(MPI_T_cvar_get_index(NULL, &n), INVALID);
    IS(MPI_T_cvar_get_index("log", NULL), INVALID);
    IS(MPI_T_cvar_handle_alloc(10000, NULL, &h, &count), INVALID_INDEX);
    IS(MPI_T_cvar_handle_alloc(0, NULL, NULL, &count), INVALID);
    IS(MPI_T_cvar_handle_free(&h), INVALID_HANDLE);
    IS(MPI_T_cvar_handle_free(NULL), INVALID);
    IS(MPI_T_cvar_read(h, buf), INVALID_HANDLE);
    IS(MPI_T_cvar_write(h, buf), INVALID_HANDLE);
    IS(MPI_T_cvar_read(STALE, buf), INVALID_HANDLE);
    T(MPI_T_cvar_handle_alloc(0, NULL, &h, &count));
    stale = h;
    IS(MPI_T_cvar_read(h, NULL), INVALID);
    T(MPI_T_cvar_handle_free(&h));
    IS(MPI_T_cvar_read(stale, buf), INVALID_HANDLE);
    IS(MPI_T_cvar_handle_free(&stale), INVALID_HANDLE);
}

/* Members of all categories: each variable, event and category once. */
static void categories(void)
{
    int ncat, total[4] = { 0 }, got[4] = { 0 }, list[256], stamp;
    T(MPI_T_category_get_num(&ncat));
    T(MPI_T_cvar_get_num(&total[0]));
    T(MPI_T_pvar_get_num(&total[1]));
    T(MPI_T_event_get_num(&total[2]));
    total[3] = ncat - 1; /* all but the root */
    for (int i = 0; i < ncat; i++) {
        char name[64], desc[256];
        int name_len = 64, desc_len = 256, n[4], again = -1;
        T(MPI_T_category_get_info(i, name, &name_len, desc, &desc_len, &n[0], &n[1], &n[3]));
        T(MPI_T_category_get_num_events(i, &n[2]));
        CHECK(*name && *desc);
        T(MPI_T_category_get_index(name, &again));
        CHECK_EQ(again, i);
        list[n[0]] = list[n[1]] = -5;
        T(MPI_T_category_get_cvars(i, n[0], list));
        CHECK_EQ(list[n[0]], -5);
        T(MPI_T_category_get_pvars(i, n[1], list));
        T(MPI_T_category_get_events(i, n[2], list));
        T(MPI_T_category_get_categories(i, n[3], list));
        for (int k = 0; k < n[3]; k++)
            CHECK(list[k] != i && list[k] >= 0 && list[k] < ncat);
        for (int k = 0; k < 4; k++)
            got[k] += n[k];
    }
    for (int k = 0; k < 4; k++)
        CHECK_EQ(got[k], total[k]);
    T(MPI_T_category_changed(&stamp));
    IS(MPI_T_category_get_info(ncat, NULL, NULL, NULL, NULL, NULL, NULL, NULL), INVALID_INDEX);
    IS(MPI_T_category_get_num_events(-1, list), INVALID_INDEX);
    IS(MPI_T_category_get_cvars(ncat, 1, list), INVALID_INDEX);
    IS(MPI_T_category_get_pvars(-1, 1, list), INVALID_INDEX);
    IS(MPI_T_category_get_cvars(0, 1, NULL), INVALID);
    IS(MPI_T_category_get_events(0, -1, list), INVALID);
    IS(MPI_T_category_get_index("no_such", list), INVALID_NAME);
    IS(MPI_T_category_changed(NULL), INVALID);
}

static void after_end(void)
{
    int n = 0, index;
    MPI_T_cvar_handle h = open_cvar("shm_eager", &index);
    MPI_Count size;
    T(MPI_T_cvar_read(h, &size));
    IS(MPI_T_cvar_write(h, &size), CVAR_SET_NEVER);
    T(MPI_T_pvar_get_num(&n));
    CHECK(n > 10);
    /* The last end takes the handles along. */
    T(MPI_T_finalize());
    IS(MPI_T_cvar_read(h, &size), NOT_INITIALIZED);
    IS(MPI_T_finalize(), NOT_INITIALIZED);
    T(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL));
    IS(MPI_T_cvar_read(h, &size), INVALID_HANDLE);
    T(MPI_T_finalize());
}

int main(int argc, char **argv)
{
    RUN(uninitialized);
    RUN(counted);
    RUN(strings);
    RUN(cvar_table);
    RUN(enums);
    RUN(cvar_errors);
    RUN(categories);
    RUN(round_trip);
    MPI_Init(&argc, &argv);
    RUN(after_start);
    RUN(cvar_errors);
    MPI_Finalize();
    RUN(after_end);
    return check_end();
}
