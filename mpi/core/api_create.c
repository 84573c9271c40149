/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators of some processes of a communicator, given as a group (MPI-5.0 section 7.4.2).  The
 * agreement on the context id also compares the groups.  Any thread; takes the domain's lock. */
#include "mpi/api/bodies.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/core/session.h"
#include "mpi/core/split.h"
#include "mpi/core/comm.h"
#include "mpi/core/lanes.h"
#include "runtime/boot/jobs.h"

static int check_subset(const struct wm_comm *comm, const struct wm_group *group)
{
    int missing = 0;
    if (group->size && wm_session_check(comm->session, group->session, "communicator and group"))
        return MPI_ERR_SESSION;
    if (wm_group_contains(comm->group, group, &missing))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_GROUP,
                  "rank %d of the group is not in the communicator, whose subset the group must be",
                  missing);
}

static uint64_t mix(uint64_t h) /* the finaliser of MurmurHash3, which is in the public domain */
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static uint64_t group_hash(const struct wm_group *g)
{
    uint64_t h = mix(0x9e3779b97f4a7c15ull + (uint64_t)g->size); /* not 0 if empty */
    for (int i = 0; i < g->size; i++) {
        struct rt_name n = rt_boot_name(wm_group_proc(g, i));
        h = mix(h ^ n.job ^ n.rank * 0x9e3779b97f4a7c15ull);
    }
    return h;
}

/* Contributions whose sum over all processes is 0 exactly if all members of every named group name
 * the same group (except for collisions of 64-bit hashes).  The first member of a group adds one
 * term for each member; each member subtracts its own term. */
static uint64_t group_check(const struct wm_group *g)
{
    uint64_t h = group_hash(g), sum = 0;
    if (g->rank == MPI_UNDEFINED)
        return 0;
    for (int i = 0; g->rank == 0 && i < g->size; i++)
        sum += mix(h + (uint64_t)i);
    return sum - mix(h + (uint64_t)g->rank);
}

int wm_api_comm_create(struct wm_comm *comm, struct wm_group *group, struct wm_comm **newcomm)
{
    int err = check_subset(comm, group);
    if (comm->inter) {
        /* All processes of a side must name the same group: rank 0 adds what the others
         * subtract. */
        uint64_t h = mix(group_hash(group)), n = (uint64_t)comm->size;
        struct wm_split s = { .color = group->rank == MPI_UNDEFINED ? -1 : 0,
                              .key = group->rank,
                              .check = comm->rank == 0 ? (n - 1) * h : 0 - h };
        return wm_comm_split(comm, &s, err, newcomm);
    }
    struct wm_ctx_search s = { .err = err, .check = err ? 0 : group_check(group), .users = true };
    return wm_comm_create_checked(comm, group, &s, newcomm);
}

int wm_api_comm_create_group(struct wm_comm *comm, struct wm_group *group, int tag,
                             struct wm_comm **newcomm)
{
    struct wm_comm *c;
    if (comm->inter)
        return wm_err(MPI_ERR_COMM, "the communicator is an intercommunicator, expected an "
                                    "intracommunicator; MPI_Comm_create takes both");
    int err = check_subset(comm, group);
    if (err)
        return err;
    if (group->rank == MPI_UNDEFINED) {
        *newcomm = NULL;
        return MPI_SUCCESS;
    }
    /* The user's tag distinguishes calls of several threads; WM_TAG_COMM itself is for calls over
     * all ranks. */
    const int ntags = WM_TAG_CALL - WM_TAG_COMM - 1;
    struct wm_exch x = { .comm = comm,
                         .members = group,
                         .n = group->size,
                         .me = group->rank,
                         .tag = WM_TAG_COMM + 1 + tag % ntags };
    struct wm_ctx_search s = { .order = (uint64_t)comm->ctx << 32 | (uint32_t)(tag + 1u),
                               .check = group_check(group) };
    s.err = wm_comm_prepare(comm, group, NULL, NULL, &c);
    s.lanes = wm_lanes_offer(c);
    return wm_comm_agree(&x, &s, c, true, newcomm);
}
