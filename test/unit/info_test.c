/* SPDX-License-Identifier: BSD-3-Clause */
/* Info objects (MPI-5.0 chapter 10): order, replacing, cutting, limits, the environment. */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "test/check.h"

static void set_and_get(void)
{
    struct wm_info *i = NULL, *d = NULL;
    char value[8], key[MPI_MAX_INFO_KEY], longest[MPI_MAX_INFO_KEY + 1];
    int n, flag;
    CHECK_EQ(wm_api_info_create(&i), 0);
    CHECK_EQ(wm_api_info_set(i, "b", "first"), 0);
    CHECK_EQ(wm_api_info_set(i, "a", "second"), 0);
    CHECK_EQ(wm_api_info_set(i, "b", "a longer one"), 0);
    CHECK_EQ(wm_api_info_get_nkeys(i, &n), 0);
    CHECK_EQ(n, 2);
    CHECK_EQ(wm_api_info_get_nthkey(i, 1, key), 0);
    CHECK_STR(key, "a");
    CHECK_EQ(wm_api_info_get_nthkey(i, 2, key), MPI_ERR_ARG);
    n = 8;
    CHECK_EQ(wm_api_info_get_string(i, "b", &n, value, &flag), 0);
    CHECK(flag);
    CHECK_EQ(n, 13); /* the length of the whole value */
    CHECK_STR(value, "a longe");
    n = 0;
    CHECK_EQ(wm_api_info_get_string(i, "b", &n, NULL, &flag), 0);
    CHECK_EQ(n, 13);
    n = 8;
    CHECK(!wm_api_info_get_string(i, "c", &n, value, &flag) && !flag && n == 8);
    CHECK_EQ(wm_api_info_dup(i, &d), 0);
    CHECK_EQ(wm_api_info_delete(i, "b"), 0);
    CHECK_EQ(wm_api_info_delete(i, "b"), MPI_ERR_INFO_NOKEY);
    CHECK_STR(wm_info_find(d, "b"), "a longer one");
    memset(longest, 'x', sizeof longest);
    longest[MPI_MAX_INFO_KEY] = '\0';
    CHECK_EQ(wm_api_info_set(i, longest, "v"), MPI_ERR_INFO_KEY);
    CHECK_EQ(wm_api_info_set(i, "", "v"), MPI_ERR_INFO_KEY);
    longest[MPI_MAX_INFO_KEY - 1] = '\0';
    CHECK_EQ(wm_api_info_set(i, longest, "v"), 0);
    MPI_Info h = wm_info_handle(i);
    CHECK_EQ(wm_api_info_free(i), 0);
    CHECK(!wm_info_get(h));
    CHECK_EQ(wm_api_info_free(d), 0);
    CHECK_EQ(wm_info_slab.used, 0);
}

static void environment(void)
{
    struct wm_info *env = wm_info_get(MPI_INFO_ENV), *i = NULL;
    char *argv[] = { "program", "-x", "1", NULL };
    CHECK(env != NULL);
    CHECK_EQ(wm_api_info_set(env, "a", "b"), MPI_ERR_INFO);
    CHECK_EQ(wm_api_info_free(env), MPI_ERR_INFO);
    CHECK(strstr(wm_info_find(env, "command"), "info_test") != NULL);
    CHECK(wm_info_find(env, "wdir") && wm_info_find(env, "arch") && wm_info_find(env, "host"));
    CHECK_STR(wm_info_find(env, "mpi_initial_errhandler"), "mpi_errors_are_fatal");
    CHECK_STR(wm_info_find(env, "maxprocs"), "1");
    CHECK_EQ(wm_api_info_create_env(3, argv, &i), 0);
    CHECK_STR(wm_info_find(i, "command"), "program");
    CHECK_STR(wm_info_find(i, "argv"), "-x 1");
    wm_api_info_free(i);
    CHECK(!wm_info_get(MPI_INFO_NULL));
}

int main(void)
{
    RUN(set_and_get);
    RUN(environment);
    return check_end();
}
