/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes, codes and strings (MPI-5.0 sections 9.4 and 9.5), and the texts that bodies
 * leave. */
#include "mpi/api/bodies.h"
#include "mpi/core/errcode.h"
#include "mpi/core/errh.h"
#include "test/check.h"

static void standard(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int cls, n;
    for (int c = 0; c <= MPI_ERR_ABI; c++) {
        CHECK_MSG(wm_err_class_name(c), "class %d has no name", c);
        CHECK(!wm_api_error_class(c, &cls) && cls == c);
    }
    CHECK_EQ(wm_api_error_string(MPI_ERR_RANK, text, &n), 0);
    CHECK_STR(text, "MPI_ERR_RANK: invalid rank");
    CHECK_EQ(n, strlen(text));
    CHECK_EQ(wm_api_error_class(MPI_ERR_ABI + 1, &cls), MPI_ERR_ARG);
    CHECK_EQ(wm_api_error_class(-1, &cls), MPI_ERR_ARG);
    CHECK_EQ(wm_api_error_string(MPI_ERR_LASTCODE + 1, text, &n), MPI_ERR_ARG);
    CHECK(!wm_api_error_class(MPI_T_ERR_INVALID_NAME, &cls) && cls == MPI_T_ERR_INVALID_NAME);
}

static void user_codes(void)
{
    char text[MPI_MAX_ERROR_STRING], longest[MPI_MAX_ERROR_STRING + 1];
    int cls, code, other, got, n;
    CHECK_EQ(wm_api_add_error_class(&cls), 0);
    CHECK_EQ(cls, MPI_ERR_LASTCODE + 1);
    CHECK_EQ(wm_api_add_error_code(cls, &code), 0);
    CHECK_EQ(wm_api_add_error_code(MPI_ERR_IO, &other), 0);
    CHECK_EQ(*wm_err_lastusedcode(), other);
    CHECK(!wm_api_error_class(code, &got) && got == cls);
    CHECK(!wm_api_error_class(other, &got) && got == MPI_ERR_IO);
    CHECK_EQ(wm_api_add_error_code(code, &got), MPI_ERR_ARG); /* a code is no class */
    CHECK(!wm_api_error_string(code, text, &n) && !n && !text[0]);
    CHECK_EQ(wm_api_add_error_string(code, "mine"), 0);
    CHECK(!wm_api_error_string(code, text, &n) && n == 4 && !strcmp(text, "mine"));
    CHECK_EQ(wm_api_add_error_string(MPI_ERR_RANK, "no"), MPI_ERR_ARG);
    memset(longest, 'x', sizeof longest);
    longest[MPI_MAX_ERROR_STRING] = '\0';
    CHECK_EQ(wm_api_add_error_string(code, longest), MPI_ERR_ARG);
    CHECK_EQ(wm_api_remove_error_string(code), 0);
    CHECK_EQ(wm_api_remove_error_string(code), MPI_ERR_ARG);
    CHECK_EQ(wm_api_remove_error_class(cls), MPI_ERR_OTHER); /* a code still belongs to it */
    CHECK_EQ(wm_api_remove_error_code(code), 0);
    CHECK_EQ(wm_api_remove_error_code(code), MPI_ERR_ARG);
    CHECK_EQ(wm_api_remove_error_class(cls), 0);
    CHECK_EQ(wm_api_remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG);
    CHECK_EQ(wm_api_remove_error_code(other), 0);
}

static void details(void)
{
    CHECK_EQ(wm_err(MPI_ERR_TAG, "tag is %d", -7), MPI_ERR_TAG);
    CHECK_STR(wm_err_detail(), "tag is -7");
    CHECK_EQ(wm_err_rt(-RT_ENOMEM, "making %s", "it"), MPI_ERR_NO_MEM);
    CHECK_STR(wm_err_detail(), "making it: out of memory");
    CHECK_EQ(wm_err_rt(-RT_ETRUNC, "x"), MPI_ERR_TRUNCATE);
    CHECK_EQ(wm_err_rt(-9999, "x"), MPI_ERR_INTERN);
}

static void handler_objects(void)
{
    struct wm_errh *e = NULL;
    CHECK(wm_errh_handle(wm_errh_get(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(!wm_errh_get(MPI_ERRHANDLER_NULL));
    CHECK_EQ(wm_api_comm_create_errhandler((MPI_Comm_errhandler_function *)details, &e), 0);
    MPI_Errhandler h = wm_errh_handle(e);
    wm_errh_ref(e);
    CHECK_EQ(wm_api_errhandler_free(e), 0);
    CHECK(wm_errh_get(h) == e); /* a communicator still uses it */
    wm_errh_unref(e);
    CHECK(!wm_errh_get(h));
    CHECK_EQ(wm_api_errhandler_free(wm_errh_get(MPI_ERRORS_RETURN)), 0);
    CHECK(wm_errh_get(MPI_ERRORS_RETURN) != NULL);
}

int main(void)
{
    RUN(standard);
    RUN(user_codes);
    RUN(details);
    RUN(handler_objects);
    return check_end();
}
