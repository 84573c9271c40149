/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment in the world model (MPI-5.0 chapters 9, 10, 11 and 20): order of initialization
 * and finalization, MPI_INFO_ENV, error handlers of files, memory, facts about Fortran.  Run with
 * WEFT_INITIAL_ERRHANDLER=mpi_errors_return, which the predefined communicators start with. */
#include <stdint.h>
#include "test/mpi/hosts.h"
#include "test/mpi/session.h"

static int size, rank, argc_seen;

static int value_of(MPI_Info info, const char *key, char *text, int len)
{
    int flag = 0;
    text[0] = '\0';
    OK(MPI_Info_get_string(info, key, &len, text, &flag));
    return flag;
}

/* MPI_Info_create_env gives the same answer in each phase of the program. */
static void same_environment(void)
{
    static const char *const keys[] = { "command",
                                        "argv",
                                        "maxprocs",
                                        "soft",
                                        "host",
                                        "arch",
                                        "wdir",
                                        "file",
                                        "thread_level",
                                        "mpi_initial_errhandler",
                                        "mpi_memory_alloc_kinds" };
    enum { KEYS = sizeof keys / sizeof *keys };
    static char first[KEYS][1024];
    static int known[KEYS], ncalls;
    char text[1024], program[] = "program", arg[] = "arg", *argv[] = { program, arg, NULL };
    MPI_Info i;
    OK(MPI_Info_create_env(2, argv, &i));
    for (int k = 0; k < KEYS; k++) {
        int found = value_of(i, keys[k], text, sizeof text);
        if (ncalls == 0) {
            known[k] = found;
            strcpy(first[k], text);
        }
        CHECK_MSG(found == known[k], "%s: known %d, at first %d", keys[k], found, known[k]);
        CHECK_STR(text, first[k]);
    }
    CHECK(known[0] && known[1] && known[2] && known[3] && known[4] && known[5] && known[6]);
    OK(MPI_Info_free(&i));
    ncalls++;
}

static void before(void)
{
    char text[256];
    int flag;
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 0);
    CHECK(value_of(MPI_INFO_ENV, "command", text, sizeof text));
    CHECK(!value_of(MPI_INFO_ENV, "thread_level", text, sizeof text));
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    FAILS(MPI_Query_thread(&flag), MPI_ERR_OTHER);
    FAILS(MPI_Init_thread(NULL, NULL, 12345, &flag), MPI_ERR_ARG);
}

static void levels(void)
{
    int provided = -1, flag = 0;
    OK(MPI_Query_thread(&provided));
    CHECK_EQ(provided, MPI_THREAD_SERIALIZED);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    FAILS(MPI_Init(NULL, NULL), MPI_ERR_OTHER); /* only once */
    FAILS(MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided), MPI_ERR_OTHER);
}

static void environment(void)
{
    char text[1024], name[MPI_MAX_PROCESSOR_NAME];
    int len;
    MPI_Info i;
    CHECK(!value_of(MPI_INFO_ENV, "thread_level", text, sizeof text)); /* mpirun was given none */
    CHECK(value_of(MPI_INFO_ENV, "maxprocs", text, sizeof text));
    CHECK_EQ(atoi(text), size);
    CHECK(value_of(MPI_INFO_ENV, "soft", text, sizeof text));
    CHECK(value_of(MPI_INFO_ENV, "arch", text, sizeof text));
    CHECK(value_of(MPI_INFO_ENV, "wdir", text, sizeof text));
    CHECK(text[0] == '/');
    CHECK(value_of(MPI_INFO_ENV, "mpi_memory_alloc_kinds", text, sizeof text));
    CHECK_STR(text, "mpi,system");
    OK(MPI_Get_processor_name(name, &len));
    CHECK(value_of(MPI_INFO_ENV, "host", text, sizeof text));
    CHECK_STR(text, name);
    CHECK_EQ(value_of(MPI_INFO_ENV, "argv", text, sizeof text), argc_seen > 1);
    FAILS(MPI_Info_set(MPI_INFO_ENV, "a", "b"), MPI_ERR_INFO);
    OK(MPI_Info_dup(MPI_INFO_ENV, &i));
    CHECK(value_of(i, "command", text, sizeof text));
    OK(MPI_Info_free(&i));
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &i));
    CHECK(value_of(i, "mpi_memory_alloc_kinds", text, sizeof text));
    OK(MPI_Info_free(&i));
}

static void assertions(void)
{
    static const char *const keys[] = { "mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                        "mpi_assert_exact_length", "mpi_assert_allow_overtaking",
                                        "mpi_assert_memory_alloc_kinds" };
    char text[64];
    MPI_Info i;
    MPI_Comm c;
    OK(MPI_Info_create(&i));
    for (int k = 0; k < 5; k++)
        OK(MPI_Info_set(i, keys[k], k < 4 ? "true" : "mpi"));
    OK(MPI_Info_set(i, "unheard_of", "1"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, i, &c));
    OK(MPI_Info_free(&i));
    OK(MPI_Comm_get_info(c, &i));
    for (int k = 0; k < 5; k++) {
        CHECK(value_of(i, keys[k], text, sizeof text));
        CHECK_STR(text, k < 4 ? "true" : "mpi");
    }
    CHECK(!value_of(i, "unheard_of", text, sizeof text));
    OK(MPI_Info_free(&i));
    OK(MPI_Comm_free(&c));
}

static void info_lengths(void)
{
    static char key[MPI_MAX_INFO_KEY + 2], value[MPI_MAX_INFO_VAL + 2], got[MPI_MAX_INFO_VAL];
    MPI_Info i;
    int len, flag, n;
    OK(MPI_Info_create(&i));
    memset(key, 'k', MPI_MAX_INFO_KEY);
    memset(value, 'v', MPI_MAX_INFO_VAL);
    FAILS(MPI_Info_set(i, key, "x"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(i, "", "x"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(i, "x", value), MPI_ERR_INFO_VALUE);
    key[MPI_MAX_INFO_KEY - 1] = value[MPI_MAX_INFO_VAL - 1] = '\0';
    OK(MPI_Info_set(i, key, value));
    len = sizeof got;
    OK(MPI_Info_get_string(i, key, &len, got, &flag));
    CHECK(flag && len == MPI_MAX_INFO_VAL && !strcmp(got, value));
    len = 4;
    OK(MPI_Info_get_string(i, key, &len, got, &flag));
    CHECK_STR(got, "vvv");
    CHECK_EQ(len, MPI_MAX_INFO_VAL);
    OK(MPI_Info_get_nkeys(i, &n));
    CHECK_EQ(n, 1);
    FAILS(MPI_Info_get_nthkey(i, 1, got), MPI_ERR_ARG);
    FAILS(MPI_Info_delete(i, "none"), MPI_ERR_INFO_NOKEY);
    OK(MPI_Info_free(&i));
}

static int file_errors;
static void on_file(MPI_File *f, int *code, ...)
{
    file_errors += *f == MPI_FILE_NULL && *code == MPI_ERR_IO;
}

static void files(void)
{
    MPI_Errhandler eh, got, wrong;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN); /* files start with another handler than the rest */
    OK(MPI_File_create_errhandler(on_file, &eh));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, eh));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
    CHECK_EQ(file_errors, 1);
    FAILS(MPI_File_call_errhandler(MPI_FILE_NULL, 54321), MPI_ERR_ARG);
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == eh);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)on_file, &wrong));
    FAILS(MPI_File_set_errhandler(MPI_FILE_NULL, wrong), MPI_ERR_ARG);
    OK(MPI_Errhandler_free(&wrong));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&eh));
}

static void fill(unsigned char *p, size_t n, int seed)
{
    for (size_t i = 0; i < n; i += 61)
        p[i] = (unsigned char)(i + (size_t)seed);
}

static int intact(const unsigned char *p, size_t n, int seed)
{
    for (size_t i = 0; i < n; i += 61)
        if (p[i] != (unsigned char)(i + (size_t)seed))
            return 0;
    return 1;
}

/* Whether other processes of the host map it, too. */
static bool is_shared(const void *p)
{
    char line[512];
    bool shared = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        char how[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, how) == 3 && (uintptr_t)p >= from &&
            (uintptr_t)p < to)
            shared = how[3] == 's';
    }
    if (f)
        fclose(f);
    return shared;
}

/* Blocks of all sizes at once, given back in another order; more than the segment holds. */
static void memory(void)
{
    enum { N = 400 };
    static unsigned char *p[N];
    static size_t len[N];
    int x = 0, host[HOST_RANKS_MAX];
    host_of_all(MPI_COMM_WORLD, host);
    for (int i = 0; i < N; i++) {
        len[i] = i % 40 == 39 ? 1000000 : i % 7 == 6 ? 50000 : (size_t)(i * 37 % 3000);
        OK(MPI_Alloc_mem((MPI_Aint)len[i], MPI_INFO_NULL, &p[i]));
        CHECK_EQ((uintptr_t)p[i] % 64, 0);
        fill(p[i], len[i], i);
    }
    CHECK_EQ(is_shared(p[0]), host_count(host, rank, 0, size - 1) > 1);
    CHECK_EQ(is_shared(p[39]), host_count(host, rank, 0, size - 1) > 1);
    for (int i = 0; i < N; i++)
        CHECK_MSG(intact(p[i], len[i], i), "rank %d: block %d", rank, i);
    for (int i = 0; i < N; i += 2)
        OK(MPI_Free_mem(p[i]));
    FAILS(MPI_Free_mem(p[0]), MPI_ERR_BASE);
    for (int i = 0; i < N; i += 2) {
        OK(MPI_Alloc_mem((MPI_Aint)len[i], MPI_INFO_NULL, &p[i]));
        fill(p[i], len[i], i);
    }
    for (int i = N - 1; i >= 0; i--) {
        CHECK_MSG(intact(p[i], len[i], i), "rank %d: block %d", rank, i);
        OK(MPI_Free_mem(p[i]));
    }
    FAILS(MPI_Free_mem(&x), MPI_ERR_BASE);
    FAILS(MPI_Free_mem((void *)0x1234), MPI_ERR_BASE);
    OK(MPI_Free_mem(NULL));
}

static void much_memory(void)
{
    enum { N = 12 };
    unsigned char *p[N];
    for (int i = 0; i < N; i++) {
        OK(MPI_Alloc_mem(16 << 20, MPI_INFO_NULL, &p[i]));
        p[i][0] = p[i][(16 << 20) - 1] = (unsigned char)i;
    }
    MPI_Comm c; /* communicators still find room */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    st_use(c);
    OK(MPI_Comm_free(&c));
    for (int i = 0; i < N; i++) {
        CHECK(p[i][0] == i && p[i][(16 << 20) - 1] == i);
        OK(MPI_Free_mem(p[i]));
    }
}

/* The next call of the same length gets the memory that was freed last, with its content: nothing
 * has been given back to the system and cleared by it. */
static void freed_alone(void)
{
    const size_t lens[] = { 1 << 20, 20 << 20, 60 << 20, (size_t)600 << 20 }, mib = 1 << 20;
    for (int i = 0; i < 4; i++) {
        unsigned char *p = NULL, *q = NULL;
        OK(MPI_Alloc_mem((MPI_Aint)lens[i], MPI_INFO_NULL, &p));
        p[5] = p[lens[i] - 1] = 7;
        if (lens[i] > 100 * mib)
            memset(p + 80 * mib, 7, mib);
        OK(MPI_Free_mem(p));
        OK(MPI_Alloc_mem((MPI_Aint)lens[i], MPI_INFO_NULL, &q));
        CHECK_MSG(q == p && q[5] == 7, "rank %d: %zu bytes", rank, lens[i]);
        if (lens[i] > 100 * mib) /* of private memory, 64 MiB are kept */
            CHECK(q[80 * mib] == 0 && q[lens[i] - 1] == 0);
        OK(MPI_Free_mem(q));
    }
}

static void freed_memory(void)
{
    MPI_Barrier(MPI_COMM_WORLD);              /* all have freed their blocks of the cases before */
    for (int turn = 0; turn < size; turn++) { /* what is kept is bounded for all ranks together */
        if (turn == rank)
            freed_alone();
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void alignment(void)
{
    MPI_Info i;
    char text[32];
    OK(MPI_Info_create(&i));
    for (long align = 1; align <= 1 << 20; align *= 4) {
        unsigned char *small = NULL, *large = NULL;
        snprintf(text, sizeof text, "%ld", align);
        OK(MPI_Info_set(i, "mpi_minimum_memory_alignment", text));
        OK(MPI_Alloc_mem(100, i, &small));
        OK(MPI_Alloc_mem(100000, i, &large));
        CHECK_EQ((uintptr_t)small % (uintptr_t)align, 0);
        CHECK_EQ((uintptr_t)large % (uintptr_t)align, 0);
        fill(large, 100000, 1);
        OK(MPI_Free_mem(small));
        OK(MPI_Free_mem(large));
    }
    OK(MPI_Info_free(&i));
}

static void messages_in_it(void)
{
    enum { N = 200000 };
    int *p = NULL, *q = NULL, right = (rank + 1) % size, left = (rank + size - 1) % size;
    OK(MPI_Alloc_mem(N * sizeof *p, MPI_INFO_NULL, &p));
    OK(MPI_Alloc_mem(N * sizeof *q, MPI_INFO_NULL, &q));
    for (int i = 0; i < N; i++)
        p[i] = rank * N + i;
    OK(MPI_Sendrecv(p, N, MPI_INT, right, 1, q, N, MPI_INT, left, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK(q[0] == left * N && q[N - 1] == left * N + N - 1);
    OK(MPI_Free_mem(p));
    OK(MPI_Free_mem(q));
}

static void user_errors(void)
{
    int cls, code, *last, flag, got, len;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= MPI_ERR_LASTCODE);
    OK(MPI_Add_error_class(&cls));
    CHECK(cls > MPI_ERR_LASTCODE && *last >= cls);
    OK(MPI_Error_string(cls, text, &len));
    CHECK_EQ(len, 0); /* no text yet */
    OK(MPI_Add_error_code(cls, &code));
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(*last >= code);
    FAILS(MPI_Remove_error_class(cls), MPI_ERR_OTHER); /* a code is left */
    FAILS(MPI_Remove_error_class(code), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_code(MPI_ERR_RANK), MPI_ERR_ARG);
    FAILS(MPI_Remove_error_string(code), MPI_ERR_ARG);
    OK(MPI_Add_error_string(code, "frayed"));
    OK(MPI_Remove_error_string(code));
    OK(MPI_Error_string(code, text, &len));
    CHECK_EQ(len, 0);
    OK(MPI_Remove_error_code(code));
    FAILS(MPI_Error_class(code, &got), MPI_ERR_ARG);
    OK(MPI_Remove_error_class(cls));
    FAILS(MPI_Add_error_code(cls, &code), MPI_ERR_ARG);
    FAILS(MPI_Add_error_string(MPI_ERR_RANK, "mine"), MPI_ERR_ARG);
    OK(MPI_Add_error_code(MPI_ERR_IO, &code)); /* a code of a class of the standard */
    OK(MPI_Error_class(code, &got));
    CHECK_EQ(got, MPI_ERR_IO);
    OK(MPI_Remove_error_code(code));
}

static void fortran_facts(void)
{
    MPI_Info i = MPI_INFO_NULL, got;
    char text[16];
    int n, is_set = -1, t = 1, f = 0, it = 7, is = 7;
    OK(MPI_Abi_get_fortran_info(&got));
    CHECK(got == MPI_INFO_NULL); /* nothing is known */
    OK(MPI_Abi_get_fortran_booleans(4, &it, &is, &is_set));
    CHECK(!is_set && it == 7 && is == 7);
    OK(MPI_Type_size(MPI_INTEGER, &n));
    CHECK_EQ(n, 4);
    OK(MPI_Info_create(&i));
    OK(MPI_Info_set(i, "mpi_integer_size", "3"));
    FAILS(MPI_Abi_set_fortran_info(i), MPI_ERR_ARG);
    OK(MPI_Info_set(i, "mpi_integer_size", "8"));
    OK(MPI_Info_set(i, "mpi_real_size", "8"));
    OK(MPI_Info_set(i, "mpi_logical_size", "8"));
    OK(MPI_Info_set(i, "mpi_logical1_supported", "true"));
    OK(MPI_Abi_set_fortran_info(i));
    FAILS(MPI_Abi_set_fortran_info(i), MPI_ERR_ABI);
    OK(MPI_Info_free(&i));
    OK(MPI_Abi_get_fortran_info(&got));
    CHECK(value_of(got, "mpi_logical1_supported", text, sizeof text));
    OK(MPI_Info_free(&got));
    static const struct {
        MPI_Datatype type;
        int size;
    } want[] = { { MPI_INTEGER, 8 },         { MPI_LOGICAL, 8 },   { MPI_REAL, 8 },
                 { MPI_COMPLEX, 16 },        { MPI_2INTEGER, 16 }, { MPI_2REAL, 16 },
                 { MPI_DOUBLE_PRECISION, 8 } };
    for (int k = 0; k < 7; k++) {
        OK(MPI_Type_size(want[k].type, &n));
        CHECK_MSG(n == want[k].size, "type %d has %d bytes", k, n);
    }
    int64_t one = 1ll << 40, sum = 0;
    double pair[2] = { rank, -rank }, most[2];
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == one * size);
    OK(MPI_Allreduce(pair, most, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK(most[0] == size - 1 && most[1] == 1 - size);
    FAILS(MPI_Abi_set_fortran_booleans(3, &t, &f), MPI_ERR_ARG);
    FAILS(MPI_Abi_set_fortran_booleans(4, &t, &t), MPI_ERR_ARG);
    OK(MPI_Abi_set_fortran_booleans(4, &t, &f));
    FAILS(MPI_Abi_set_fortran_booleans(4, &t, &f), MPI_ERR_ABI);
    OK(MPI_Abi_get_fortran_booleans(4, &it, &is, &is_set));
    CHECK(is_set && it == 1 && is == 0);
}

/* Every key names a kind of hardware to MPI_Comm_split_type; the machine itself is one of them. */
static void hardware(void)
{
    MPI_Info i, hint;
    int n, machines = 0;
    OK(MPI_Get_hw_resource_info(&i));
    OK(MPI_Info_get_nkeys(i, &n));
    CHECK(n > 0);
    for (int k = 0; k < n; k++) {
        char key[MPI_MAX_INFO_KEY], value[16];
        MPI_Comm c = MPI_COMM_NULL;
        OK(MPI_Info_get_nthkey(i, k, key));
        CHECK_MSG(strstr(key, "://"), "the key is %s", key);
        CHECK(value_of(i, key, value, sizeof value));
        CHECK_MSG(!strcmp(value, "true") || !strcmp(value, "false"), "%s is %s", key, value);
        machines += strstr(key, "achine") && !strcmp(value, "true");
        OK(MPI_Info_create(&hint));
        OK(MPI_Info_set(hint, "mpi_hw_resource_type", key));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, hint, &c));
        CHECK_MSG((c != MPI_COMM_NULL) == !strcmp(value, "true"), "rank %d: %s is %s", rank, key,
                  value);
        if (c != MPI_COMM_NULL)
            OK(MPI_Comm_free(&c));
        OK(MPI_Info_free(&hint));
    }
    CHECK_EQ(machines, 1);
    OK(MPI_Info_free(&i));
}

static void small_things(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    OK(MPI_Pcontrol(1, "anything", 2.0));
    OK(MPI_Pcontrol(0));
    OK(MPI_Get_library_version(text, &len));
    CHECK(len == (int)strlen(text) && strstr(text, "Weft"));
    CHECK_EQ(MPI_Send(&len, 1, MPI_INT, 999, 0, MPI_COMM_WORLD), MPI_ERR_RANK); /* it returns */
}

static char order[16];
static int at_end(MPI_Comm c, int key, void *value, void *extra)
{
    int flag = -1, n;
    (void)key;
    (void)extra;
    size_t at = strlen(order);
    order[at] = *(char *)value;
    /* MPI is still fully usable (MPI-5.0 section 11.2.4). */
    OK(MPI_Finalized(&flag));
    CHECK(c == MPI_COMM_SELF && !flag);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    CHECK_EQ(n, size);
    st_use(MPI_COMM_WORLD);
    return MPI_SUCCESS;
}

static void attach_to_self(void)
{
    static char letters[] = "abc";
    for (int i = 0; i < 3; i++) {
        int key;
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &letters[i]));
        OK(MPI_Comm_free_keyval(&key));
    }
}

static void after(void)
{
    int flag = 0;
    char text[64];
    CHECK_STR(order, "cba");
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    FAILS(MPI_Init(NULL, NULL), MPI_ERR_OTHER);
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    FAILS(MPI_Comm_size(MPI_COMM_WORLD, &flag), MPI_ERR_OTHER);
    CHECK(value_of(MPI_INFO_ENV, "command", text, sizeof text));
}

int main(int argc, char **argv)
{
    int provided;
    argc_seen = argc;
    st_begin();
    ST_RUN(before);
    ST_RUN(same_environment);
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ST_RUN(levels);
    ST_RUN(environment);
    ST_RUN(same_environment);
    ST_RUN(assertions);
    ST_RUN(info_lengths);
    ST_RUN(files);
    ST_RUN(memory);
    ST_RUN(much_memory);
    ST_RUN(freed_memory);
    ST_RUN(alignment);
    ST_RUN(messages_in_it);
    ST_RUN(user_errors);
    ST_RUN(fortran_facts);
    ST_RUN(hardware);
    ST_RUN(small_things);
    ST_RUN(attach_to_self);
    MPI_Finalize();
    ST_RUN(after);
    ST_RUN(same_environment);
    return st_end();
}
