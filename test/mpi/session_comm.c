/* SPDX-License-Identifier: BSD-3-Clause */
/* Process sets, groups and communicators of sessions (MPI-5.0 sections 7.4.2, 7.6.2 and 11.3):
 * names and their lengths, sizes, strings that differ, intercommunicators, what must not be mixed.
 */
#include "test/mpi/hosts.h"
#include "test/mpi/session.h"

static MPI_Session session;
static int size, rank, on_host; /* of the job; ranks of this host */

static void psets(void)
{
    static const char *const names[] = { "mpi://WORLD", "mpi://SELF", "mpi://SHARED" };
    char text[MPI_MAX_PSET_NAME_LEN], value[16];
    int n = -1, len, flag;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
    CHECK_EQ(n, 3);
    for (int i = 0; i < n; i++) {
        MPI_Info info;
        len = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL));
        CHECK_EQ(len, strlen(names[i]) + 1);
        memset(text, 'z', sizeof text);
        len = 0; /* the name is not touched */
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, text));
        CHECK_EQ(text[0], 'z');
        len = 6;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, text));
        CHECK_STR(text, "mpi:/");
        CHECK_EQ(len, strlen(names[i]) + 1);
        len = sizeof text;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, text));
        CHECK_STR(text, names[i]);
        CHECK_EQ(len, strlen(names[i]) + 1);
        OK(MPI_Session_get_pset_info(session, text, &info));
        len = sizeof value;
        OK(MPI_Info_get_string(info, "mpi_size", &len, value, &flag));
        CHECK(flag);
        CHECK_EQ(atoi(value), i == 0 ? size : i == 1 ? 1 : on_host);
        OK(MPI_Info_free(&info));
    }
    len = 5;
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, text), MPI_ERR_ARG);
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &len, text), MPI_ERR_ARG);
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &len, NULL), MPI_ERR_ARG);
}

static void groups(void)
{
    MPI_Group g = MPI_GROUP_NULL;
    int n, r;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &g));
    OK(MPI_Group_size(g, &n));
    OK(MPI_Group_rank(g, &r));
    CHECK_EQ(n, size);
    CHECK_EQ(r, rank);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_from_session_pset(session, "MPI://self", &g)); /* URIs: case does not matter */
    OK(MPI_Group_size(g, &n));
    CHECK_EQ(n, 1);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_from_session_pset(session, "mpi://SHARED", &g));
    OK(MPI_Group_size(g, &n));
    CHECK_EQ(n, on_host);
    OK(MPI_Group_free(&g));
    FAILS(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &g), MPI_ERR_ARG);
    FAILS(MPI_Session_get_pset_info(session, "", (MPI_Info *)&g), MPI_ERR_ARG);
}

/* Half of the processes, and the other half; each makes its communicators without the other. */
static MPI_Group half(int which)
{
    MPI_Group all, g = MPI_GROUP_NULL;
    int first = which ? size / 2 : 0, last = which ? size - 1 : size / 2 - 1;
    int range[1][3] = { { first, last, 1 } };
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_range_incl(all, 1, range, &g));
    OK(MPI_Group_free(&all));
    return g;
}

static void subsets(void)
{
    int mine = rank >= size / 2, n;
    MPI_Group g = half(mine);
    MPI_Comm c[3];
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_from_group(g, i ? "b" : "a", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c[i]));
        OK(MPI_Comm_size(c[i], &n));
        CHECK_EQ(n, mine ? size - size / 2 : size / 2);
    }
    for (int i = 0; i < 3; i++) {
        st_use(c[i]);
        OK(MPI_Comm_free(&c[i]));
    }
    OK(MPI_Group_free(&g));
}

static void derived(void)
{
    MPI_Comm c = st_comm(session, "mpi://WORLD", "derived"), d, e;
    int flag = 0;
    MPI_Info info;
    char text[64] = "";
    int len = sizeof text;
    OK(MPI_Comm_dup(c, &d));
    OK(MPI_Comm_split(d, rank % 2, -rank, &e));
    st_use(d);
    st_use(e);
    OK(MPI_Comm_free(&e));
    OK(MPI_Comm_split_type(d, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &e));
    st_use(e);
    OK(MPI_Comm_free(&e));
    OK(MPI_Comm_get_info(d, &info));
    OK(MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &len, text, &flag));
    CHECK(flag);
    CHECK_STR(text, "mpi,system");
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_free(&c));
}

/* Those of sessions have MPI_TAG_UB alone (MPI-5.0 section 9.1.2), whatever else runs in this
 * process. */
static void attributes(void)
{
    static const int absent[] = {
        MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE
    };
    MPI_Comm c = st_comm(session, "mpi://WORLD", "attributes"), all[] = { c, MPI_COMM_NULL };
    int *value = NULL, flag = 0;

    OK(MPI_Comm_dup(c, &all[1]));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_get_attr(all[i], MPI_TAG_UB, &value, &flag));
        CHECK(flag && *value >= 32767);
        for (size_t k = 0; k < sizeof absent / sizeof absent[0]; k++) {
            OK(MPI_Comm_get_attr(all[i], absent[k], &value, &flag));
            CHECK_MSG(!flag, "key %d", absent[k]);
        }
        OK(MPI_Comm_free(&all[i]));
    }
}

/* Communicators with topologies belong to the session, too. */
static void topologies(void)
{
    MPI_Comm c = st_comm(session, "mpi://WORLD", "topologies"), grid, part, graph;
    MPI_Comm *const all[] = { &grid, &part, &graph };
    MPI_Group g, own;
    int one = 1, way = MPI_UNEQUAL, next = (rank + 1) % size, last = (rank + size - 1) % size;
    OK(MPI_Comm_group(c, &g));
    OK(MPI_Cart_create(c, 1, &size, &one, 0, &grid));
    OK(MPI_Cart_sub(grid, &one, &part));
    OK(MPI_Dist_graph_create_adjacent(c, 1, &last, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &graph));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_group(*all[i], &own));
        OK(MPI_Group_compare(g, own, &way));
        CHECK_EQ(way, MPI_IDENT);
        OK(MPI_Group_free(&own));
        OK(MPI_Comm_free(all[i]));
    }
    OK(MPI_Group_free(&g));
    OK(MPI_Comm_free(&c));
}

/* Long strings are compared to their end. */
static void strings(void)
{
    char text[MPI_MAX_STRINGTAG_LEN + 1];
    MPI_Group g;
    MPI_Comm c = MPI_COMM_NULL;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &g));
    memset(text, 'x', sizeof text);
    text[MPI_MAX_STRINGTAG_LEN] = '\0';
    FAILS(MPI_Comm_create_from_group(g, text, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c), MPI_ERR_ARG);
    text[MPI_MAX_STRINGTAG_LEN - 1] = '\0';
    OK(MPI_Comm_create_from_group(g, text, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    st_use(c);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_create_from_group(g, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "e", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Group_free(&g));
    if (size > 1) {
        g = half(rank < size / 2); /* of which this process is no member */
        FAILS(MPI_Comm_create_from_group(g, "no", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c),
              MPI_ERR_GROUP);
        OK(MPI_Group_free(&g));
    }
}

static void intercommunicators(void)
{
    if (size < 2)
        return;
    int mine = rank >= size / 2, n, r, got = -1;
    MPI_Group local = half(mine), remote = half(!mine);
    MPI_Comm c = MPI_COMM_NULL, m;
    int nlocal = mine ? size - size / 2 : size / 2;
    OK(MPI_Intercomm_create_from_groups(local, nlocal - 1, remote, size - nlocal - 1, "inter",
                                        MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    OK(MPI_Comm_remote_size(c, &n));
    CHECK_EQ(n, size - nlocal);
    OK(MPI_Comm_rank(c, &r));
    if (r == 0) {
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, c, MPI_STATUS_IGNORE));
        CHECK_EQ(got, mine ? 0 : size / 2);
    }
    OK(MPI_Intercomm_merge(c, mine, &m));
    st_use(m);
    OK(MPI_Comm_free(&m));
    OK(MPI_Comm_free(&c));
    FAILS(MPI_Intercomm_create_from_groups(local, nlocal, remote, 0, "inter", MPI_INFO_NULL,
                                           MPI_ERRORS_RETURN, &c),
          MPI_ERR_RANK);
    /* Only the leaders see what is wrong; all get the error. */
    FAILS(MPI_Intercomm_create_from_groups(local, 0, remote, size, "inter", MPI_INFO_NULL,
                                           MPI_ERRORS_RETURN, &c),
          MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create_from_groups(local, 0, MPI_GROUP_NULL, 0, "inter", MPI_INFO_NULL,
                                           MPI_ERRORS_RETURN, &c),
          MPI_ERR_GROUP);
    OK(MPI_Group_free(&remote));
    if (size > 2) { /* one side names a part of the other only: both leaders find out */
        int leader = size - size / 2 - 1;
        remote = half(!mine);
        if (!mine) {
            MPI_Group part;
            OK(MPI_Group_incl(remote, 1, &leader, &part));
            OK(MPI_Group_free(&remote));
            remote = part;
        }
        FAILS(MPI_Intercomm_create_from_groups(local, mine ? leader : 0, remote, 0, "differ",
                                               MPI_INFO_NULL, MPI_ERRORS_RETURN, &c),
              MPI_ERR_ARG);
        OK(MPI_Group_free(&remote));
    }
    OK(MPI_Group_free(&local));
}

static int said;
static MPI_Session who;
static void handler(MPI_Session *s, int *code, ...)
{
    (void)code;
    who = *s;
    said++;
}

/* Objects of two sessions in one call are an error, on the handler of the group's session. */
static void kept_apart(void)
{
    MPI_Errhandler eh;
    MPI_Session other;
    MPI_Group a, b, u;
    MPI_Comm c = st_comm(session, "mpi://WORLD", "apart"), d;
    int result;
    OK(MPI_Session_create_errhandler(handler, &eh));
    OK(MPI_Session_init(MPI_INFO_NULL, eh, &other));
    OK(MPI_Errhandler_free(&eh));
    OK(MPI_Group_from_session_pset(other, "mpi://WORLD", &a));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &b));
    said = 0;
    FAILS(MPI_Group_union(a, b, &u), MPI_ERR_SESSION);
    CHECK_EQ(said, 1);
    CHECK(who == other);
    FAILS(MPI_Group_compare(a, b, &result), MPI_ERR_SESSION);
    FAILS(MPI_Group_translate_ranks(a, 0, NULL, b, NULL), MPI_ERR_SESSION);
    FAILS(MPI_Comm_create_group(c, a, 0, &d), MPI_ERR_SESSION);
    OK(MPI_Comm_create_group(c, b, 0, &d));
    st_use(d);
    OK(MPI_Comm_free(&d));
    OK(MPI_Group_union(a, MPI_GROUP_EMPTY, &u)); /* the empty group belongs to all */
    OK(MPI_Group_free(&u));
    OK(MPI_Group_free(&a));
    OK(MPI_Group_free(&b));
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&other));
}

static void buffers(void)
{
    static char space[4096];
    MPI_Comm c = st_comm(session, "mpi://WORLD", "buffers");
    MPI_Request q;
    void *back;
    int n = -1, got = -1, to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Session_attach_buffer(session, space, sizeof space));
    FAILS(MPI_Session_attach_buffer(session, space, 8), MPI_ERR_BUFFER);
    OK(MPI_Bsend(&rank, 1, MPI_INT, to, 9, c));
    OK(MPI_Recv(&got, 1, MPI_INT, from, 9, c, MPI_STATUS_IGNORE));
    CHECK_EQ(got, from);
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_iflush_buffer(session, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    OK(MPI_Session_detach_buffer(session, &back, &n));
    CHECK(back == space);
    CHECK_EQ(n, sizeof space);
    OK(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Bsend(&rank, 1, MPI_INT, to, 9, c));
    OK(MPI_Recv(&got, 1, MPI_INT, from, 9, c, MPI_STATUS_IGNORE));
    OK(MPI_Session_detach_buffer(session, &back, &n));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    OK(MPI_Comm_free(&c));
}

int main(void)
{
    int host[HOST_RANKS_MAX];
    st_begin();
    session = st_open();
    MPI_Comm c = st_comm(session, "mpi://WORLD", "size");
    MPI_Comm_size(c, &size);
    MPI_Comm_rank(c, &rank);
    host_of_all(c, host);
    on_host = host_count(host, rank, 0, size - 1);
    MPI_Comm_free(&c);
    ST_RUN(psets);
    ST_RUN(groups);
    if (size > 1)
        ST_RUN(subsets);
    ST_RUN(derived);
    ST_RUN(attributes);
    ST_RUN(topologies);
    ST_RUN(strings);
    ST_RUN(intercommunicators);
    ST_RUN(kept_apart);
    ST_RUN(buffers);
    MPI_Session_finalize(&session);
    return st_end();
}
