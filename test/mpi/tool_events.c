/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the tool information interface (MPI-5.0 section 15.3.8): each type fires with the right
 * data, at the right safety level, or is reported as dropped; registrations end when asked. */
#include "test/mpi/mpitest.h"

#define T(call) CHECK_EQ((call), MPI_SUCCESS)
#define IS(call, code) CHECK_EQ((call), MPI_T_ERR_##code)
#define LARGE 300000

static struct {
    int calls, drops, frees, v[3], rcs;
    MPI_Count bytes, time;
    MPI_T_cb_safety safety;
    void *user_data;
    MPI_T_event_registration reg;
    MPI_T_event_instance instance;
} seen;
static char large[LARGE], in[LARGE];

static void on_event(MPI_T_event_instance e, MPI_T_event_registration r, MPI_T_cb_safety safety,
                     void *user_data)
{
    char copy[64];
    int source = -1;
    MPI_Count t;
    seen.calls++;
    seen.reg = r;
    seen.instance = e;
    seen.safety = safety;
    seen.user_data = user_data;
    for (int i = 0; i < 3; i++)
        seen.rcs |= MPI_T_event_read(e, i, &seen.v[i]);
    seen.rcs |= MPI_T_event_read(e, 3, &seen.bytes);
    seen.rcs |= MPI_T_event_get_timestamp(e, &t) | MPI_T_event_get_source(e, &source);
    seen.rcs |= MPI_T_event_copy(e, copy);
    seen.rcs |= memcmp(copy, &seen.v[0], sizeof(int)) != 0;
    seen.rcs |= MPI_T_event_read(e, 4, copy) != MPI_T_ERR_INVALID_INDEX;
    seen.rcs |= MPI_T_event_read(e, -1, copy) != MPI_T_ERR_INVALID_INDEX;
    seen.rcs |= MPI_T_event_read(e, 0, NULL) != MPI_T_ERR_INVALID;
    seen.rcs |= source != 0 || t < seen.time;
    seen.time = t;
}

static void on_drop(MPI_Count count, MPI_T_event_registration r, int source, MPI_T_cb_safety safety,
                    void *user_data)
{
    seen.drops += (int)count;
    seen.reg = r;
    seen.safety = safety;
    seen.user_data = user_data;
    seen.rcs |= source;
}

static void on_free(MPI_T_event_registration r, MPI_T_cb_safety safety, void *user_data)
{
    (void)safety;
    seen.frees++;
    seen.reg = r;
    seen.user_data = user_data;
}

static void forget(void)
{
    MPI_Count t = seen.time;
    memset(&seen, 0, sizeof seen);
    seen.time = t;
}

static MPI_T_event_registration open_event(const char *name, MPI_T_cb_safety safety)
{
    MPI_T_event_registration r = NULL;
    int index = -1;
    T(MPI_T_event_get_index(name, &index));
    T(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &r));
    T(MPI_T_event_register_callback(r, safety, MPI_INFO_NULL, &seen, on_event));
    forget();
    return r;
}

static void types(void)
{
    int n = 0;
    T(MPI_T_event_get_num(&n));
    CHECK(n >= 4);
    for (int i = 0; i < n; i++) {
        char name[64] = "", desc[512] = "";
        int name_len = 64, desc_len = 512, verbosity, bind = -1, num = 8, items, one = 1, again;
        MPI_Datatype type[8] = { MPI_DATATYPE_NULL };
        MPI_Aint at[8];
        MPI_T_enum e;
        MPI_Info info = MPI_INFO_NULL;
        T(MPI_T_event_get_info(i, name, &name_len, &verbosity, type, at, &num, &e, &info, desc,
                               &desc_len, &bind));
        CHECK(*name && *desc && num >= 2 && info != MPI_INFO_NULL);
        CHECK_EQ(at[0], 0);
        CHECK(type[0] == MPI_INT);
        CHECK_EQ(bind, MPI_T_BIND_NO_OBJECT);
        T(MPI_T_enum_get_info(e, &items, NULL, NULL));
        CHECK_EQ(items, num);
        OK(MPI_Info_free(&info));
        type[1] = MPI_DATATYPE_NULL;
        T(MPI_T_event_get_info(i, NULL, NULL, NULL, type, NULL, &one, NULL, NULL, NULL, NULL,
                               NULL));
        CHECK(one == num && type[1] == MPI_DATATYPE_NULL);
        T(MPI_T_event_get_index(name, &again));
        CHECK_EQ(again, i);
    }
    IS(MPI_T_event_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
       INVALID_INDEX);
    IS(MPI_T_event_get_index("no_such", &n), INVALID_NAME);
    IS(MPI_T_event_get_index(NULL, &n), INVALID);
}

static void source(void)
{
    int n = 0, len = 32;
    char name[32];
    MPI_T_source_order order;
    MPI_Count per_second = 0, most = 0, t0 = 0, t1 = 0;
    T(MPI_T_source_get_num(&n));
    CHECK_EQ(n, 1);
    T(MPI_T_source_get_info(0, name, &len, NULL, NULL, &order, &per_second, &most, NULL));
    CHECK_EQ(order, MPI_T_SOURCE_ORDERED);
    CHECK(per_second > 0 && most > 0);
    T(MPI_T_source_get_timestamp(0, &t0));
    T(MPI_T_source_get_timestamp(0, &t1));
    CHECK(t1 >= t0);
    IS(MPI_T_source_get_info(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), INVALID_INDEX);
    IS(MPI_T_source_get_timestamp(-1, &t0), INVALID_INDEX);
    IS(MPI_T_source_get_timestamp(0, NULL), INVALID);
}

/* Ranks take turns, and no rank sends a message to the one whose turn it is. */
static void one_by_one(void (*fn)(void))
{
    for (int turn = 0; turn < mt_size; turn++) {
        if (turn != mt_rank) {
            OK(MPI_Recv(NULL, 0, MPI_BYTE, turn, 100, mt_comm, MPI_STATUS_IGNORE));
            continue;
        }
        fn();
        for (int i = 0; i < mt_size; i++)
            if (i != mt_rank)
                OK(MPI_Send(NULL, 0, MPI_BYTE, i, 100, mt_comm));
    }
}

/* A message to itself that comes before its receive. */
static void self_message(int tag)
{
    int x = 1, flag = 0;
    OK(MPI_Send(&x, 1, MPI_INT, mt_rank, tag, mt_comm));
    while (!flag)
        OK(MPI_Iprobe(mt_rank, tag, mt_comm, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&x, 1, MPI_INT, mt_rank, tag, mt_comm, MPI_STATUS_IGNORE));
}

static void unexpected_alone(void)
{
    char buf[16];
    MPI_T_event_registration r = open_event("p2p_unexpected_arrived", MPI_T_CB_REQUIRE_THREAD_SAFE);
    self_message(5);
    CHECK_EQ(seen.calls, 1);
    CHECK_EQ(seen.rcs, 0);
    CHECK_EQ(seen.v[0], mt_rank);
    CHECK_EQ(seen.v[1], 5);
    CHECK_EQ(seen.bytes, 4);
    CHECK(seen.safety == MPI_T_CB_REQUIRE_MPI_RESTRICTED && seen.user_data == &seen);
    CHECK(seen.reg == r);
    IS(MPI_T_event_read(seen.instance, 0, buf), INVALID_HANDLE); /* valid in the callback only */
    IS(MPI_T_event_copy(seen.instance, buf), INVALID_HANDLE);
    IS(MPI_T_event_get_source(seen.instance, &seen.rcs), INVALID_HANDLE);
    IS(MPI_T_event_get_timestamp(seen.instance, &seen.time), INVALID_HANDLE);
    T(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL));
    self_message(6); /* no callback any more, and no registration */
    CHECK_EQ(seen.calls, 1);
    T(MPI_T_event_handle_free(r, buf, on_free));
    CHECK(seen.frees == 1 && seen.user_data == buf);
    self_message(7);
    CHECK_EQ(seen.calls, 1);
    IS(MPI_T_event_handle_free(r, NULL, NULL), INVALID_HANDLE);
}
static void unexpected(void) { one_by_one(unexpected_alone); }

/* An event cannot call what may call all of MPI: it is dropped. */
static void dropped_alone(void)
{
    MPI_T_event_registration r = open_event("p2p_unexpected_arrived", MPI_T_CB_REQUIRE_NONE);
    T(MPI_T_event_set_dropped_handler(r, on_drop));
    self_message(1);
    self_message(2);
    CHECK_EQ(seen.calls, 0);
    CHECK_EQ(seen.drops, 2);
    CHECK(seen.reg == r && seen.user_data == &seen);
    T(MPI_T_event_handle_free(r, NULL, NULL));
}
static void dropped(void) { one_by_one(dropped_alone); }

static void rendezvous(void)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request req[2];
    MPI_T_event_registration r = open_event("p2p_rendezvous_started",
                                            MPI_T_CB_REQUIRE_MPI_RESTRICTED);
    OK(MPI_Irecv(in, LARGE, MPI_BYTE, from, 9, mt_comm, &req[0]));
    OK(MPI_Isend(large, LARGE, MPI_BYTE, to, 9, mt_comm, &req[1]));
    OK(MPI_Waitall(2, req, MPI_STATUSES_IGNORE));
    CHECK_EQ(seen.calls, 1);
    CHECK_EQ(seen.rcs, 0);
    CHECK_EQ(seen.v[0], to);
    CHECK_EQ(seen.v[1], 9);
    CHECK_EQ(seen.bytes, LARGE);
    T(MPI_T_event_handle_free(r, NULL, NULL));
}

static void collective(void)
{
    int x[3] = { 0 };
    MPI_T_event_registration r = open_event("coll_started", MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE);
    OK(MPI_Bcast(x, 3, MPI_INT, 0, mt_comm));
    CHECK_EQ(seen.calls, 1);
    CHECK_EQ(seen.rcs, 0);
    CHECK_EQ(seen.v[0], 1); /* bcast in the enumeration coll_kind */
    CHECK_EQ(seen.v[2], mt_size);
    CHECK_EQ(seen.bytes, 12);
    OK(MPI_Barrier(mt_comm));
    CHECK_EQ(seen.calls, 2);
    CHECK_EQ(seen.v[0], 0);
    T(MPI_T_event_handle_free(r, NULL, NULL));
}

/* A callback that ends its own registration. */
static void end_itself(MPI_T_event_instance e, MPI_T_event_registration r, MPI_T_cb_safety safety,
                       void *user_data)
{
    on_event(e, r, safety, user_data);
    seen.rcs |= MPI_T_event_handle_free(r, user_data, on_free);
    seen.rcs |= seen.frees; /* not while it runs */
    seen.rcs |= MPI_T_event_handle_free(r, NULL, NULL) != MPI_T_ERR_INVALID_HANDLE;
}

static void ends_itself_alone(void)
{
    MPI_T_event_registration r = open_event("p2p_unexpected_arrived",
                                            MPI_T_CB_REQUIRE_MPI_RESTRICTED);
    T(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, in,
                                    end_itself));
    self_message(3);
    self_message(4);
    CHECK_EQ(seen.calls, 1);
    CHECK_EQ(seen.rcs, 0);
    CHECK_EQ(seen.frees, 1);
    CHECK(seen.user_data == in);
}
static void ends_itself(void) { one_by_one(ends_itself_alone); }

static void errors(void)
{
    int n;
    MPI_T_event_registration r = open_event("coll_started", MPI_T_CB_REQUIRE_MPI_RESTRICTED), bad;
    MPI_Info info = MPI_INFO_NULL;
    T(MPI_T_event_get_num(&n));
    IS(MPI_T_event_get_num(NULL), INVALID);
    IS(MPI_T_event_handle_alloc(n, NULL, MPI_INFO_NULL, &bad), INVALID_INDEX);
    IS(MPI_T_event_handle_alloc(-1, NULL, MPI_INFO_NULL, &bad), INVALID_INDEX);
    IS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, NULL), INVALID);
    IS(MPI_T_event_handle_alloc(0, NULL, (MPI_Info)0x6fffffff, &bad), INVALID);
    IS(MPI_T_event_register_callback(NULL, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, on_event),
       INVALID_HANDLE);
    IS(MPI_T_event_register_callback(r, (MPI_T_cb_safety)40, MPI_INFO_NULL, NULL, on_event),
       INVALID);
    IS(MPI_T_event_set_dropped_handler(NULL, on_drop), INVALID_HANDLE);
    IS(MPI_T_event_handle_free(NULL, NULL, NULL), INVALID_HANDLE);
    T(MPI_T_event_handle_set_info(r, MPI_INFO_NULL));
    T(MPI_T_event_handle_get_info(r, &info));
    CHECK(info != MPI_INFO_NULL);
    OK(MPI_Info_free(&info));
    IS(MPI_T_event_handle_get_info(NULL, &info), INVALID_HANDLE);
    IS(MPI_T_event_handle_set_info(NULL, MPI_INFO_NULL), INVALID_HANDLE);
    T(MPI_T_event_callback_set_info(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL));
    T(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_MPI_RESTRICTED, &info));
    OK(MPI_Info_free(&info));
    IS(MPI_T_event_callback_get_info(r, MPI_T_CB_REQUIRE_NONE, &info), INVALID); /* none there */
    IS(MPI_T_event_callback_set_info(r, (MPI_T_cb_safety)40, MPI_INFO_NULL), INVALID);
    T(MPI_T_event_handle_free(r, NULL, NULL));
}

int main(int argc, char **argv)
{
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    mt_init(argc, argv);
    MT_RUN(types);
    MT_RUN(source);
    MT_RUN(unexpected);
    MT_RUN(dropped);
    MT_RUN(rendezvous);
    MT_RUN(collective);
    MT_RUN(ends_itself);
    MT_RUN(errors);
    int rc = mt_end();
    return MPI_T_finalize() || rc;
}
