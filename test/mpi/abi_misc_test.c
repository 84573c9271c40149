/* SPDX-License-Identifier: BSD-3-Clause */
/* Small inquiry calls: fields of a status, memory, deprecated access to info values. */
#include <mpi.h>
#include <stdint.h>
#include "test/check.h"

static void status_fields(void)
{
    MPI_Status s;
    int v;
    memset(&s, 0xff, sizeof s);
    CHECK_EQ(MPI_Status_set_source(&s, 3), MPI_SUCCESS);
    CHECK_EQ(MPI_Status_set_tag(&s, 77), MPI_SUCCESS);
    CHECK_EQ(MPI_Status_set_error(&s, MPI_ERR_TRUNCATE), MPI_SUCCESS);
    CHECK_EQ(s.MPI_SOURCE, 3);
    CHECK_EQ(s.MPI_TAG, 77);
    CHECK_EQ(s.MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_EQ(MPI_Status_get_source(&s, &v), MPI_SUCCESS);
    CHECK_EQ(v, 3);
    CHECK_EQ(MPI_Status_get_tag(&s, &v), MPI_SUCCESS);
    CHECK_EQ(v, 77);
    CHECK_EQ(MPI_Status_get_error(&s, &v), MPI_SUCCESS);
    CHECK_EQ(v, MPI_ERR_TRUNCATE);
    CHECK_EQ(MPI_Status_set_cancelled(&s, 1), MPI_SUCCESS);
    CHECK_EQ(MPI_Test_cancelled(&s, &v), MPI_SUCCESS);
    CHECK_EQ(v, 1);
    CHECK_EQ(MPI_Status_set_cancelled(&s, 0), MPI_SUCCESS);
    CHECK_EQ(MPI_Test_cancelled(&s, &v), MPI_SUCCESS);
    CHECK_EQ(v, 0);
}

static void memory(void)
{
    char *p = NULL;
    CHECK_EQ(MPI_Alloc_mem(1000, MPI_INFO_NULL, &p), MPI_SUCCESS);
    CHECK(p != NULL);
    memset(p, 1, 1000);
    CHECK_EQ(MPI_Free_mem(p), MPI_SUCCESS);
    CHECK_EQ(MPI_Alloc_mem(0, MPI_INFO_NULL, &p), MPI_SUCCESS);
    CHECK_EQ(MPI_Free_mem(p), MPI_SUCCESS);

    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
    CHECK_EQ(MPI_Alloc_mem(10, info, &p), MPI_SUCCESS);
    CHECK_EQ((uintptr_t)p % 4096, 0);
    CHECK_EQ(MPI_Free_mem(p), MPI_SUCCESS);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "24");
    CHECK_EQ(MPI_Alloc_mem(10, info, &p), MPI_ERR_INFO_VALUE);
    CHECK_EQ(MPI_Alloc_mem(INTPTR_MAX, MPI_INFO_NULL, &p), MPI_ERR_NO_MEM);
    MPI_Info_free(&info);
}

static void old_info(void)
{
    MPI_Info info;
    char value[8] = "zzzzzzz";
    int flag = -1, len = -1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "color", "orange");
    CHECK_EQ(MPI_Info_get_valuelen(info, "color", &len, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 1);
    CHECK_EQ(len, 6);
    CHECK_EQ(MPI_Info_get(info, "color", 3, value, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 1);
    CHECK_STR(value, "ora");
    CHECK_EQ(value[4], 'z');
    CHECK_EQ(MPI_Info_get(info, "shape", 3, value, &flag), MPI_SUCCESS);
    CHECK_EQ(flag, 0);
    CHECK_STR(value, "ora");
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    RUN(status_fields);
    RUN(memory);
    RUN(old_info);
    MPI_Finalize();
    return check_end();
}
