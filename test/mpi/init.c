/* SPDX-License-Identifier: BSD-3-Clause */
/* Start, end and inquiry (MPI-5.0 chapters 9 and 11): what must work before MPI_Init, what the
 * library says about itself, clocks, thread levels, error classes and strings.  Single-threaded;
 * every rank runs the same cases. */
#include "test/mpi/mpitest.h"

static int before_flag = -1, before_finalized = -1, before_version, before_rc;

/* These may be called before MPI_Init; results are checked later, inside a case. */
static void look_before_init(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int sub, len;

    before_rc = MPI_Initialized(&before_flag) | MPI_Finalized(&before_finalized);
    before_rc |= MPI_Get_version(&before_version, &sub) | MPI_Get_library_version(text, &len);
}

static void before_init(void)
{
    CHECK_EQ(before_rc, MPI_SUCCESS);
    CHECK_EQ(before_flag, 0);
    CHECK_EQ(before_finalized, 0);
    CHECK_EQ(before_version, MPI_VERSION);
}

static void initialized(void)
{
    int flag = 0;

    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
}

static void version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int major = 0, minor = -1, len = -1;

    OK(MPI_Get_version(&major, &minor));
    CHECK_EQ(major, MPI_VERSION);
    CHECK_EQ(minor, MPI_SUBVERSION);
    OK(MPI_Get_library_version(text, &len));
    CHECK(len > 0 && len < MPI_MAX_LIBRARY_VERSION_STRING);
    CHECK_EQ(strlen(text), len);
}

static void abi(void)
{
#ifdef MPI_ABI_VERSION
    MPI_Info info = MPI_INFO_NULL;
    char value[32] = "";
    int major = 0, minor = -1, flag = 0, len = (int)sizeof(value);

    OK(MPI_Abi_get_version(&major, &minor));
    CHECK_EQ(major, MPI_ABI_VERSION);
    CHECK_EQ(minor, MPI_ABI_SUBVERSION);
    OK(MPI_Abi_get_info(&info));
    CHECK(info != MPI_INFO_NULL);
    OK(MPI_Info_get_string(info, "mpi_aint_size", &len, value, &flag));
    CHECK(flag);
    CHECK_EQ(atoi(value), sizeof(MPI_Aint));
    OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL);
#else
    mt_skip("this library has no standard ABI");
#endif
}

static void processor_name(void)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int len = -1;

    OK(MPI_Get_processor_name(name, &len));
    CHECK(len > 0 && len < MPI_MAX_PROCESSOR_NAME);
    CHECK_EQ(strlen(name), len);
}

static void wtime(void)
{
    double last = MPI_Wtime(), now, start = last;
    int i, backwards = 0;

    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
    for (i = 0; i < 100000; i++) {
        now = MPI_Wtime();
        backwards += now < last;
        last = now;
    }
    CHECK_EQ(backwards, 0);
    start = MPI_Wtime();
    mt_sleep_ms(20);
    now = MPI_Wtime() - start;
    CHECK_MSG(now >= 0.019 && now < 10, "20 ms took %g s", now);
}

static void thread_level(void)
{
    int provided = -1, main_thread = 0;

    OK(MPI_Query_thread(&provided));
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    OK(MPI_Is_thread_main(&main_thread));
    CHECK_EQ(main_thread, 1);
    CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED &&
          MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
}

static void world_and_self(void)
{
    int n = -1, r = -1, cmp = -1, inter = -1;

    OK(MPI_Comm_size(MPI_COMM_SELF, &n));
    OK(MPI_Comm_rank(MPI_COMM_SELF, &r));
    CHECK_EQ(n, 1);
    CHECK_EQ(r, 0);
    CHECK(mt_rank >= 0 && mt_rank < mt_size);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &cmp));
    CHECK_EQ(cmp, mt_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &inter));
    CHECK_EQ(inter, 0);
}

static void predefined_attributes(void)
{
    int *value = NULL, flag = 0;

    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && value);
    if (flag && value)
        CHECK(*value >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
    CHECK(flag && value);
    if (flag && value)
        CHECK(*value == 0 || *value == 1);
}

static void error_strings(void)
{
    static const int classes[] = { MPI_SUCCESS,      MPI_ERR_BUFFER,   MPI_ERR_COUNT,
                                   MPI_ERR_TYPE,     MPI_ERR_TAG,      MPI_ERR_COMM,
                                   MPI_ERR_RANK,     MPI_ERR_REQUEST,  MPI_ERR_ROOT,
                                   MPI_ERR_GROUP,    MPI_ERR_OP,       MPI_ERR_ARG,
                                   MPI_ERR_TRUNCATE, MPI_ERR_OTHER,    MPI_ERR_INTERN,
                                   MPI_ERR_PENDING,  MPI_ERR_IN_STATUS };
    char text[MPI_MAX_ERROR_STRING];
    size_t i;
    int len, cls;

    for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        len = cls = -1;
        OK(MPI_Error_string(classes[i], text, &len));
        CHECK(len > 0 && len < MPI_MAX_ERROR_STRING && strlen(text) == (size_t)len);
        OK(MPI_Error_class(classes[i], &cls));
        CHECK_EQ(cls, classes[i]);
    }
}

static void user_errors(void)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int cls = -1, code = -1, got = -1, len = -1;

    OK(MPI_Add_error_class(&cls));
    CHECK(cls > 0);
    OK(MPI_Add_error_code(cls, &code));
    CHECK(code > 0 && code != cls);
    OK(MPI_Error_class(code, &got));
    CHECK_EQ(got, cls);
    OK(MPI_Add_error_string(code, "the loom is empty"));
    OK(MPI_Error_string(code, text, &len));
    CHECK_STR(text, "the loom is empty");
    CHECK_EQ(len, strlen(text));
}

static void memory(void)
{
    unsigned char *p = NULL;

    OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &p));
    CHECK(p);
    if (p) {
        mt_fill(p, 100000, 1);
        CHECK_DATA(p, 100000, 1);
        OK(MPI_Free_mem(p));
    }
}

/* Argument errors come from the bindings; one of each kind is enough here. */
static void bad_arguments(void)
{
    int x = 0;

    FAILS(MPI_Send(&x, -1, MPI_INT, 0, 0, mt_comm), MPI_ERR_COUNT);
    FAILS(MPI_Send(&x, 1, MPI_INT, mt_size, 0, mt_comm), MPI_ERR_RANK);
    FAILS(MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, mt_comm), MPI_ERR_RANK);
    FAILS(MPI_Send(&x, 1, MPI_INT, 0, -5, mt_comm), MPI_ERR_TAG);
    FAILS(MPI_Send(&x, 1, MPI_INT, 0, MPI_ANY_TAG, mt_comm), MPI_ERR_TAG);
    FAILS(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, mt_comm), MPI_ERR_TYPE);
    FAILS(MPI_Recv(&x, -3, MPI_INT, 0, 0, mt_comm, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    FAILS(MPI_Recv(&x, 1, MPI_INT, -77, 0, mt_comm, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    FAILS(MPI_Bcast(&x, 1, MPI_INT, mt_size, mt_comm), MPI_ERR_ROOT);
    FAILS(MPI_Reduce(&x, &x + 1, 1, MPI_INT, MPI_OP_NULL, 0, mt_comm), MPI_ERR_OP);
}

int main(int argc, char **argv)
{
    int flag = 0, rc;

    look_before_init();
    mt_init(argc, argv);
    MT_RUN(before_init);
    MT_RUN(initialized);
    MT_RUN(version);
    MT_RUN(abi);
    MT_RUN(processor_name);
    MT_RUN(wtime);
    MT_RUN(thread_level);
    MT_RUN(world_and_self);
    MT_RUN(predefined_attributes);
    MT_RUN(error_strings);
    MT_RUN(user_errors);
    MT_RUN(memory);
    MT_RUN(bad_arguments);
    rc = mt_end();
    if (MPI_Finalized(&flag) != MPI_SUCCESS || !flag) {
        printf("# rank %d: MPI_Finalized is false after MPI_Finalize\n", mt_rank);
        rc = 1;
    }
    return rc;
}
