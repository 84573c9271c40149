/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_split_type by hardware and by process set (MPI-5.0 section 7.4.2), against what
 * /sys says of the cores that each rank may run on.  Bound ranks come with --bind-to. */
#include <sched.h>
#include "test/mpi/hosts.h"
#include "test/mpi/mpitest.h"

static int sys_number(int cpu, const char *what)
{
    char path[128];
    int n = 0;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

static int my_host; /* the lowest rank of this rank's job on its host */
static int my_job;  /* the lowest rank of this rank's job */

/* One number for the package, or the core, within which this rank is bound; -1: in several. */
static int bound_to(bool core)
{
    cpu_set_t set;
    int all = -2, cpu, at;

    if (sched_getaffinity(0, sizeof(set), &set))
        return -1;
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        at = sys_number(cpu, "physical_package_id") * 10000 +
             (core ? 1 + sys_number(cpu, "core_id") : 0);
        all = all == -2 || all == at ? at : -1;
        if (all == -1)
            return -1;
    }
    return all < 0 ? all : my_host * 1000000 + all;
}

static MPI_Info info_of(const char *key, const char *value)
{
    MPI_Info info;

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, value));
    return info;
}

/* `c` holds exactly the ranks that gave the same number, and none that gave -1. */
static void check_members(MPI_Comm c, int mine)
{
    int all[64], want = 0, n = 0, i;

    OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, mt_comm));
    for (i = 0; mine >= 0 && i < mt_size; i++)
        want += all[i] == mine;
    if (c != MPI_COMM_NULL) {
        OK(MPI_Comm_size(c, &n));
        OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, c));
        for (i = 0; i < n; i++)
            CHECK_EQ(all[i], mine);
        OK(MPI_Comm_free(&c));
    }
    CHECK_EQ(n, want);
}

static void guided_by(const char *resource, int type, int mine)
{
    MPI_Comm c;
    MPI_Info info = info_of("mpi_hw_resource_type", resource);

    OK(MPI_Comm_split_type(mt_comm, type, 0, info, &c));
    check_members(c, mine);
    OK(MPI_Info_free(&info));
}

static void guided(void)
{
    for (int i = 0; i < 2; i++) {
        int type = i ? MPI_COMM_TYPE_RESOURCE_GUIDED : MPI_COMM_TYPE_HW_GUIDED;
        guided_by("mpi_shared_memory", type, my_host);
        guided_by("hwloc://Machine", type, my_host);
        guided_by("hwloc://Package", type, bound_to(false));
        guided_by("hwloc://Core", type, bound_to(true));
        guided_by("hwloc://core", type, bound_to(true));
        guided_by("hwloc://Teapot", type, -1);
        guided_by("Package", type, -1);
        guided_by("", type, -1);
    }
}

/* No info, a key that is missing, ranks that name different things. */
static void guided_by_little(void)
{
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Info info;

    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &c));
    CHECK(c == MPI_COMM_NULL);
    info = info_of("color", "blue");
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &c));
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Info_free(&info));
    info = info_of("mpi_hw_resource_type", mt_rank % 2 ? "hwloc://Machine" : "mpi_shared_memory");
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_HW_GUIDED, 0, info, &c));
    check_members(c, 2 * my_host + mt_rank % 2);
    OK(MPI_Info_free(&info));
    info = info_of("mpi_hw_resource_type", "hwloc://Machine");
    OK(MPI_Comm_split_type(mt_comm, mt_rank ? MPI_COMM_TYPE_HW_GUIDED : MPI_UNDEFINED, 0, info,
                           &c));
    check_members(c, mt_rank ? my_host : -1);
    OK(MPI_Info_free(&info));
}

static void process_sets(void)
{
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Info info = info_of("mpi_pset_name", "mpi://WORLD");

    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &c));
    check_members(c, my_job);
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_HW_GUIDED, 0, info, &c)); /* hardware only */
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Info_set(info, "mpi_pset_name", "mpi://SELF"));
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &c));
    check_members(c, mt_rank);
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &c));
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Info_free(&info));
}

/* Down all levels: each is a strict part of the one above, and its name leads to the same part. */
static void unguided(void)
{
    MPI_Comm c = mt_comm, next, same;
    MPI_Info info, of_comm;
    int n, m, depth = 0, flag, cmp;
    char name[64], said[64];

    OK(MPI_Info_create(&info));
    while (c != MPI_COMM_NULL) {
        OK(MPI_Comm_size(c, &n));
        OK(MPI_Comm_split_type(c, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &next));
        CHECK(depth++ < 12);
        if (next != MPI_COMM_NULL) {
            OK(MPI_Comm_size(next, &m));
            CHECK_MSG(m < n, "%d of %d", m, n);
            OK(MPI_Comm_get_info(next, &of_comm));
            OK(MPI_Info_get(of_comm, "mpi_hw_resource_type", 63, name, &flag));
            CHECK(flag);
            OK(MPI_Info_get(info, "mpi_hw_resource_type", 63, said, &flag));
            CHECK(flag);
            CHECK_STR(said, name);
            OK(MPI_Info_free(&of_comm));
        }
        if (n > 1 && next != MPI_COMM_NULL) {
            OK(MPI_Comm_split_type(next, MPI_COMM_TYPE_HW_GUIDED, 0, info, &same));
            CHECK(same != MPI_COMM_NULL);
            OK(MPI_Comm_compare(next, same, &cmp));
            CHECK_EQ(cmp, MPI_CONGRUENT);
            OK(MPI_Comm_free(&same));
        }
        if (c != mt_comm)
            OK(MPI_Comm_free(&c));
        c = next;
    }
    OK(MPI_Info_free(&info));
    if (bound_to(true) >= 0 && mt_size == 2) { /* two ranks on two cores must come apart */
        int mine = bound_to(true), other = -1;
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, mt_peer, 0, &other, 1, MPI_INT, mt_peer, 0, mt_comm,
                        MPI_STATUS_IGNORE));
        CHECK_MSG(mine == other || depth > 1, "ranks on cores %d and %d were not split", mine,
                  other);
    }
}

/* Processes of another job on a host have no window in shared memory with those of this one. */
static void find_host(void)
{
    int host[HOST_RANKS_MAX], rank;
    MPI_Comm c;

    host_of_all(MPI_COMM_WORLD, host);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Allreduce(&mt_rank, &my_job, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    OK(MPI_Comm_split(MPI_COMM_WORLD, host[rank], 0, &c));
    OK(MPI_Allreduce(&mt_rank, &my_host, 1, MPI_INT, MPI_MIN, c));
    OK(MPI_Comm_free(&c));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    find_host();
    MT_RUN(guided);
    MT_RUN(guided_by_little);
    MT_RUN(process_sets);
    MT_RUN(unguided);
    return mt_end();
}
