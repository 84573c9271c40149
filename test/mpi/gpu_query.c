/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program may ask about device buffers: the extensions, before, while and after MPI is up,
 * and the memory allocation kinds (MPI-5.0 section 11.4.3).  The argument is 1 where a device and a
 * driver are there, 0 where not.  Run with WEFT_MEMORY_ALLOC_KINDS=cuda,mpi:alloc_mem. */
#include <mpi-ext.h>
#include "test/mpi/session.h"

#if !defined(MPIX_CUDA_AWARE_SUPPORT) || !MPIX_CUDA_AWARE_SUPPORT
#error "programs written for Open MPI ask so"
#endif
#if !defined(MPIX_GPU_SUPPORT_CUDA) || MPIX_GPU_SUPPORT_CUDA != 0 || MPIX_GPU_SUPPORT_ZE != 1 || \
    MPIX_GPU_SUPPORT_HIP != 2
#error "programs written for MPICH ask so"
#endif

static int expected;

static int value_of(MPI_Info info, const char *key, char *text, int len)
{
    int flag = 0;
    text[0] = '\0';
    OK(MPI_Info_get_string(info, key, &len, text, &flag));
    return flag;
}

static void support(void)
{
    int is = -1;
    CHECK_EQ(MPIX_Query_cuda_support(), expected);
    CHECK_EQ(PMPIX_Query_cuda_support(), expected);
    CHECK_EQ(MPIX_Query_ze_support(), 0);
    CHECK_EQ(MPIX_Query_hip_support(), 0);
    CHECK_EQ(MPIX_Query_rocm_support(), 0);
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is));
    CHECK_EQ(is, expected);
    is = -1;
    OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, &is));
    CHECK_EQ(is, 0);
    is = -1;
    OK(PMPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &is));
    CHECK_EQ(is, 0);
}

static void wrong_arguments(void)
{
    int is = 7;
    FAILS(MPIX_GPU_query_support(3, &is), MPI_ERR_ARG);
    FAILS(MPIX_GPU_query_support(-1, &is), MPI_ERR_ARG);
    FAILS(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, NULL), MPI_ERR_ARG);
    CHECK_EQ(is, 7);
}

/* Requests memory allocation kinds of a session, which grants `with` if there is a device, else
 * `without`. */
static void asked(const char *kinds, const char *with, const char *without)
{
    MPI_Info ask, info;
    MPI_Session s;
    char text[256];
    OK(MPI_Info_create(&ask));
    OK(MPI_Info_set(ask, "mpi_memory_alloc_kinds", kinds));
    OK(MPI_Session_init(ask, MPI_ERRORS_RETURN, &s));
    OK(MPI_Session_get_info(s, &info));
    CHECK(value_of(info, "mpi_memory_alloc_kinds", text, sizeof text));
    CHECK_STR(text, expected ? with : without);
    OK(MPI_Info_free(&info));
    MPI_Comm c = st_comm(s, "mpi://SELF", "asked");
    OK(MPI_Comm_get_info(c, &info));
    CHECK(value_of(info, "mpi_memory_alloc_kinds", text, sizeof text));
    CHECK_STR(text, expected ? with : without);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
    OK(MPI_Info_free(&ask));
}

static void sessions(void)
{
    asked("cuda", "cuda,mpi,system", "mpi,system");
    asked("system, cuda:device ,cuda:managed", "system,cuda:device,cuda:managed,mpi", "system,mpi");
    asked("cuda:host:device", "cuda:host:device,mpi,system", "mpi,system");
    asked("cuda:texture,cuda:device:,cudax,cuda::device", "mpi,system", "mpi,system");
    asked("mpi:alloc_mem:win_allocate,rocm", "mpi:alloc_mem:win_allocate,mpi,system",
          "mpi:alloc_mem:win_allocate,mpi,system");
    asked("", "mpi,system", "mpi,system");
}

static void world(void)
{
    const char *with = "cuda,mpi:alloc_mem,mpi,system", *without = "mpi:alloc_mem,mpi,system";
    char text[256];
    MPI_Info info;
    CHECK(value_of(MPI_INFO_ENV, "mpi_memory_alloc_kinds", text, sizeof text));
    CHECK_STR(text, expected ? with : without);
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    CHECK(value_of(info, "mpi_memory_alloc_kinds", text, sizeof text));
    CHECK_STR(text, expected ? with : without);
    OK(MPI_Info_free(&info));
}

/* An assertion with a kind that is not supported is ignored as a whole. */
static void asserted(const char *kinds, bool taken)
{
    MPI_Info i;
    MPI_Comm c;
    char text[256];
    OK(MPI_Info_create(&i));
    OK(MPI_Info_set(i, "mpi_assert_memory_alloc_kinds", kinds));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, i, &c));
    OK(MPI_Info_free(&i));
    OK(MPI_Comm_get_info(c, &i));
    int found = value_of(i, "mpi_assert_memory_alloc_kinds", text, sizeof text);
    CHECK_MSG(found == taken, "the assertion \"%s\" is %s", kinds, found ? "taken" : "ignored");
    if (found)
        CHECK_STR(text, kinds);
    OK(MPI_Info_free(&i));
    OK(MPI_Comm_free(&c));
}

static void assertions(void)
{
    asserted("system", true);
    asserted("", true);
    asserted("cuda:device", expected);
    asserted("mpi, cuda:managed:device", expected);
    asserted("system,rocm:device", false);
    asserted("cuda:device,unheard_of", false);
}

int main(int argc, char **argv)
{
    st_begin();
    if (argc < 2)
        return 2;
    expected = atoi(argv[1]);
    ST_RUN(support);
    ST_RUN(sessions);
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return 1;
    ST_RUN(support);
    ST_RUN(wrong_arguments);
    ST_RUN(sessions);
    ST_RUN(world);
    ST_RUN(assertions);
    MPI_Finalize();
    ST_RUN(support);
    return st_end();
}
