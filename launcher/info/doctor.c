/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --doctor: finds what makes Weft slower than this machine allows, mostly by trial, and
 * prints what to do. */
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/base/quota.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <linux/membarrier.h>
#include <pmix.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Most room that the share of one rank in the node segment may need; unused room takes no
 * memory. */
#define SHM_PER_CORE ((size_t)64 << 20)

static int nbad;

void info_say(bool good, const char *what, const char *found, const char *advice)
{
    printf("  %-4s %-24s %s\n", good ? "ok" : "SLOW", what, found);
    if (!good) {
        printf("       %-24s -> %s\n", "", advice);
        nbad++;
    }
}

static void check_shm(const struct rt_topo *topo)
{
    struct statvfs fs;
    char found[256], total[32];
    if (statvfs(cfg.shm_dir, &fs) < 0) {
        snprintf(found, sizeof found, "%s: %s", cfg.shm_dir, strerror(errno));
        info_say(false, "shared memory", found,
                 "mount a tmpfs there, or select another folder with WEFT_SHM_DIR");
        return;
    }
    size_t mib = (size_t)fs.f_bavail * fs.f_frsize >> 20;
    snprintf(found, sizeof found, "%s, %s free", cfg.shm_dir,
             info_bytes(mib << 20, total, sizeof total));
    info_say(mib << 20 >= SHM_PER_CORE * (size_t)topo->ncore, "shared memory", found,
             "enlarge it (mount -o remount,size=50% /dev/shm; docker run --shm-size=1g): 64 MiB "
             "for each core are comfortable");
}

/* Whether a process may copy from another process of the same user that is not its child.  A child
 * of this process tries to read this process: Yama's ptrace_scope 1 refuses that direction. */
static void check_cma(void)
{
    int secret = 4711, status = 1;
    pid_t me = getpid(), pid = fork();
    if (pid == 0) {
        int copy = 0;
        struct iovec local = { &copy, sizeof copy }, remote = { &secret, sizeof secret };
        ssize_t n = process_vm_readv(me, &local, 1, &remote, 1, 0);
        _exit(n == (ssize_t)sizeof copy && copy == secret ? 0 : 1);
    }
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    bool works = pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    info_say(
        works, "copies between processes",
        works ? "process_vm_readv works" : "process_vm_readv is refused",
        "in containers: --cap-add=SYS_PTRACE; on the host: sysctl kernel.yama.ptrace_scope=0.  "
        "Oversubscribed nodes "
        "copy large messages through shared memory until then");
}

static void check_membarrier(void)
{
    long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    bool has = offered > 0 && (offered & MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    info_say(
        has, "cheap wake-ups", has ? "membarrier works" : "membarrier(2) is missing or refused",
        "use Linux 4.16 or later, and a seccomp filter that allows membarrier; each send pays a "
        "full fence until then");
}

static void check_cores(const struct rt_topo *topo)
{
    char found[160];
    int quota = rt_quota_cores("", getpid());
    snprintf(found, sizeof found, "%d core%s, %d hardware thread%s may be used", topo->ncore,
             topo->ncore == 1 ? "" : "s", topo->npu, topo->npu == 1 ? "" : "s");
    info_say(topo->ncore > 1, "cores", found,
             "with one core the ranks run in turn; give the job more cores");
    if (!quota || quota >= topo->ncore)
        return;
    snprintf(found, sizeof found, "control groups (cpu.max) stop processes that use more than %d",
             quota);
    info_say(
        false, "processor time", found,
        "start at most as many ranks, or raise the limit (docker run --cpus, systemd CPUQuota)");
}

static void check_pmix(void)
{
    const char *version = PMIx_Get_version();
    char found[256];
    snprintf(found, sizeof found, "%.*s", (int)strcspn(version, "("), version);
    const char *number = version + strcspn(version, "0123456789");
    info_say(strtol(number, NULL, 10) >= 4, "PMIx", found, "install libpmix 4.2 or later");
}

static void check_files(void)
{
    struct rlimit limit;
    char found[96];
    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(found, sizeof found, "%llu open files allowed", (unsigned long long)limit.rlim_max);
    info_say(limit.rlim_max >= 4096, "descriptors", found,
             "raise the hard limit (ulimit -Hn): mpirun needs three for each rank");
}

static void check_build(void)
{
#ifdef WEFT_DEBUG
    info_say(false, "build", "debug build", "configure without --enable-debug for full speed");
#else
    info_say(true, "build", "optimised", "");
#endif
}

int info_doctor(void)
{
    const struct rt_topo *topo = rt_topo_get();
    if (!topo)
        return 1;
    nbad = 0;
    check_build();
    check_cores(topo);
    check_shm(topo);
    check_cma();
    check_membarrier();
    check_pmix();
    check_files();
    info_doctor_host();
    info_doctor_gpu();
    info_doctor_net();
    if (nbad)
        printf("%d finding%s\n", nbad, nbad == 1 ? "" : "s");
    else
        printf("No findings: nothing limits the speed.\n");
    return nbad > 0;
}
