/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows as objects: names, attributes, error handlers (MPI-5.0 sections 7.7, 7.8 and 9.3). */
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/core/errh.h"
#include "mpi/core/raise.h"
#include "mpi/core/win.h"
#include "test/check.h"

static int called, deleted;
static MPI_Win seen;

static void on_error(MPI_Win *w, int *code, ...)
{
    called++;
    seen = *w;
    CHECK_EQ(*code, MPI_ERR_RMA_SYNC);
}

static int del(MPI_Win w, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    seen = w;
    deleted++;
    return MPI_SUCCESS;
}

static void names(void)
{
    struct wm_win *w = NULL;
    char text[MPI_MAX_OBJECT_NAME], longer[MPI_MAX_OBJECT_NAME + 9];
    int len = -1;
    CHECK_EQ(wm_win_create(&w), 0);
    CHECK(wm_win_get(wm_win_handle(w)) == w);
    CHECK_EQ(wm_api_win_get_name(w, text, &len), 0);
    CHECK_EQ(len, 0);
    CHECK_EQ(wm_api_win_set_name(w, "shop"), 0);
    CHECK_EQ(wm_api_win_get_name(w, text, &len), 0);
    CHECK_STR(text, "shop");
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK_EQ(wm_api_win_set_name(w, longer), 0);
    CHECK_EQ(wm_api_win_get_name(w, text, &len), 0);
    CHECK_EQ(len, MPI_MAX_OBJECT_NAME - 1);
    CHECK_EQ(wm_api_win_get_name(NULL, text, &len), 0);
    CHECK_STR(text, "MPI_WIN_NULL");
    MPI_Win h = wm_win_handle(w);
    CHECK_EQ(wm_win_destroy(w), 0);
    CHECK(!wm_win_get(h));
    CHECK(!wm_win_get(MPI_WIN_NULL));
}

static void handlers(void)
{
    struct wm_win *w = NULL;
    struct wm_errh *e = NULL, *got = NULL, *wrong = NULL;
    wm_win_create(&w);
    CHECK_EQ(wm_api_win_get_errhandler(w, &got), 0);
    CHECK(wm_errh_handle(got) == MPI_ERRORS_ARE_FATAL);
    CHECK_EQ(wm_api_win_create_errhandler(on_error, &e), 0);
    CHECK_EQ(wm_api_win_set_errhandler(w, e), 0);
    CHECK_EQ(wm_api_win_call_errhandler(w, MPI_ERR_RMA_SYNC), 0);
    CHECK_EQ(called, 1);
    CHECK(seen == wm_win_handle(w));
    CHECK_EQ(wm_raise_win(w, MPI_ERR_RMA_SYNC, "MPI_Win_fence"), MPI_ERR_RMA_SYNC);
    CHECK_EQ(called, 2);
    CHECK_EQ(wm_api_win_call_errhandler(w, 54321), MPI_ERR_ARG);
    CHECK_EQ(wm_api_comm_create_errhandler((MPI_Comm_errhandler_function *)on_error, &wrong), 0);
    CHECK_EQ(wm_api_win_set_errhandler(w, wrong), MPI_ERR_ARG);
    wm_errh_unref(wrong);
    wm_errh_unref(e); /* the window keeps a reference */
    CHECK_EQ(wm_errh_slab.used, 1);
    CHECK_EQ(wm_win_destroy(w), 0);
    CHECK_EQ(wm_errh_slab.used, 0);
}

static void attributes(void)
{
    struct wm_win *w = NULL;
    int key, flag = -1, *p = NULL, memory[4];
    MPI_Aint *nbytes = NULL;
    void *value = NULL;
    wm_win_create(&w);
    w->base = memory;
    w->nbytes = sizeof memory;
    w->disp_unit = 4;
    w->flavor = MPI_WIN_FLAVOR_CREATE;
    w->model = MPI_WIN_UNIFIED;
    CHECK(!wm_api_win_get_attr(w, MPI_WIN_BASE, &value, &flag) && flag && value == memory);
    CHECK(!wm_api_win_get_attr(w, MPI_WIN_SIZE, &nbytes, &flag) && flag && *nbytes == 16);
    CHECK(!wm_api_win_get_attr(w, MPI_WIN_DISP_UNIT, &p, &flag) && flag && *p == 4);
    CHECK(!wm_api_win_get_attr(w, MPI_WIN_CREATE_FLAVOR, &p, &flag) && *p == MPI_WIN_FLAVOR_CREATE);
    CHECK(!wm_api_win_get_attr(w, MPI_WIN_MODEL, &p, &flag) && *p == MPI_WIN_UNIFIED);
    CHECK_EQ(wm_api_win_set_attr(w, MPI_WIN_SIZE, p), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_win_delete_attr(w, MPI_WIN_BASE), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_win_create_keyval(MPI_WIN_NULL_COPY_FN, del, &key, NULL), 0);
    CHECK(!wm_api_win_get_attr(w, key, &value, &flag) && !flag);
    CHECK_EQ(wm_api_win_set_attr(w, key, memory), 0);
    CHECK(!wm_api_win_get_attr(w, key, &value, &flag) && flag && value == memory);
    CHECK_EQ(wm_api_win_delete_attr(w, key), 0);
    CHECK_EQ(deleted, 1);
    CHECK_EQ(wm_api_win_set_attr(w, key, memory), 0);
    CHECK_EQ(wm_api_win_free_keyval(&key), 0);
    MPI_Win h = wm_win_handle(w);
    CHECK_EQ(wm_win_destroy(w), 0);
    CHECK_EQ(deleted, 2);
    CHECK(seen == h);
    CHECK_EQ(wm_win_slab.used, 0);
}

int main(void)
{
    RUN(names);
    RUN(handlers);
    RUN(attributes);
    return check_end();
}
