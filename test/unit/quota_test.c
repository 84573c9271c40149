/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of control groups, in folders that look like /proc and /sys/fs/cgroup: both versions,
 * groups above the process's own, paths that are not mounted, files that make no sense. */
#include "runtime/base/quota.h"
#include "test/check.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/quota_test.XXXXXX";

static void make_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + sizeof root; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind;
    return at->level ? remove(path) : 0;
}

static void remove_files(void) { CHECK(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0); }

/* Up to three files below sys/fs/cgroup, and what is read. */
static const struct row {
    const char *cgroup, *files[3][2];
    int cores;
} rows[] = {
    { "0::/\n", { { NULL } }, 0 },
    { "0::/\n", { { "cpu.max", "max 100000\n" } }, 0 },
    { "0::/\n", { { "cpu.max", "200000 100000\n" } }, 2 },
    { "0::/\n", { { "cpu.max", "150000 100000\n" } }, 2 },
    { "0::/\n", { { "cpu.max", "1000 100000\n" } }, 1 },
    { "0::/\n", { { "cpu.max", "nonsense\n" } }, 0 },
    { "0::/\n", { { "cpu.max", "" } }, 0 },
    { "0::/\n", { { "cpu.max", "200000 0\n" } }, 0 },
    { "0::/\n", { { "cpu.max", "9223372036854775807 1\n" } }, 0 },
    { "0::/a/b\n", { { "a/b/cpu.max", "max 100000" }, { "a/cpu.max", "300000 100000" } }, 3 },
    { "0::/a/b\n", { { "a/b/cpu.max", "400000 100000" }, { "a/cpu.max", "300000 100000" } }, 3 },
    { "0::/a/b\n", { { "a/b/cpu.max", "400000 100000" }, { "a/cpu.max", "600000 100000" } }, 4 },
    /* The path of the host, in a container that has its own group as the root of the mount. */
    { "0::/docker/0123\n", { { "cpu.max", "50000 25000" } }, 2 },
    { "0::/../other\n", { { "cpu.max", "50000 25000" } }, 2 },
    { "4:cpu,cpuacct:/a\n",
      { { "cpu,cpuacct/a/cpu.cfs_quota_us", "250000" },
        { "cpu,cpuacct/a/cpu.cfs_period_us", "100000" } },
      3 },
    { "4:cpuset:/\n3:cpuacct,cpu:/a\n0::/\n",
      { { "cpu/a/cpu.cfs_quota_us", "250000" }, { "cpu/a/cpu.cfs_period_us", "100000" } },
      3 },
    { "4:cpu:/\n", { { "cpu/cpu.cfs_quota_us", "-1" }, { "cpu/cpu.cfs_period_us", "100000" } }, 0 },
    { "4:cpuset:/\n",
      { { "cpuset/cpu.cfs_quota_us", "1" }, { "cpuset/cpu.cfs_period_us", "1" } },
      0 },
    { "nonsense\n:\n::\n0:\n", { { "cpu.max", "200000 100000" } }, 2 },
    { "", { { "cpu.max", "200000 100000" } }, 0 },
};

static void known_limits(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make_file("proc/7/cgroup", rows[i].cgroup);
        for (int k = 0; k < 3 && rows[i].files[k][0]; k++) {
            char name[256];
            snprintf(name, sizeof name, "sys/fs/cgroup/%s", rows[i].files[k][0]);
            make_file(name, rows[i].files[k][1]);
        }
        CHECK_MSG(rt_quota_cores(root, 7) == rows[i].cores, "row %zu: %d, expected %d", i,
                  rt_quota_cores(root, 7), rows[i].cores);
        remove_files();
    }
}

static void no_such_process(void) { CHECK_EQ(rt_quota_cores(root, 7), 0); }

/* Whatever the limit of this machine is, it is a number of cores or none. */
static void this_process(void) { CHECK(rt_quota_cores("", getpid()) >= 0); }

int main(void)
{
    CHECK(mkdtemp(root) != NULL);
    RUN(known_limits);
    RUN(no_such_process);
    RUN(this_process);
    rmdir(root);
    return check_end();
}
