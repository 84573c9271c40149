/* SPDX-License-Identifier: BSD-3-Clause */
/* See job.h. */
#include "launcher/info/job.h"
#include "btl/all/all.h"
#include "launcher/info/info.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/segment.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Larger than the number of transports; one instance of each is examined. */
#define NBTLS 8
#define ADDRESS_BYTES 256
#define PATIENCE_S 5 /* for what another process publishes */

static void ignore_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                        size_t len)
{
    (void)arg, (void)from, (void)h, (void)data, (void)len;
}

static void ignore_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg, (void)peer, (void)err;
}

static int start_under_mpirun(const char *self, const char *section)
{
    char me[PATH_MAX], mpirun[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", me, sizeof me - 1);
    if (n < 0)
        n = snprintf(me, sizeof me, "%s", self);
    me[n] = '\0';
    char *slash = strrchr(me, '/');
    snprintf(mpirun, sizeof mpirun, "%.*s/mpirun", slash ? (int)(slash - me) : 1, slash ? me : ".");
    fflush(stdout);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execl(mpirun, mpirun, "-n", "2", me, section, (char *)NULL);
        printf("could not start %s: %s; use mpirun -n 2 weft_info %s\n", mpirun, strerror(errno),
               section);
        fflush(stdout);
        _exit(1);
    }
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    return pid < 0 || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

static int publish(const char *name, const void *val, size_t len)
{
    char key[64];
    snprintf(key, sizeof key, "info.%s", name);
    return rt_boot_put(key, val, len);
}

void *info_published(struct rt_proc of, const char *name, size_t *len)
{
    char key[64];
    void *val = NULL;
    snprintf(key, sizeof key, "info.%s", name);
    return rt_boot_get(of, key, &val, len, PATIENCE_S) < 0 ? NULL : val;
}

/* Opens the transports of this process and publishes their addresses.  Returns their number, or an
 * error. */
static int open_all(struct btl *open[NBTLS])
{
    static const struct btl_up up = { .recv = ignore_recv, .down = ignore_down };
    char address[ADDRESS_BYTES];
    uint64_t probe = (uint64_t)(uintptr_t)&up;
    int n = 0;
    for (int i = 0; btl_all[i] && n < NBTLS; i++) {
        if (!info_listed(btl_all[i]->name) || btl_all[i]->open(&up, &open[n], 1) < 1)
            continue;
        int len = open[n]->ops->address(open[n], address, sizeof address);
        if (len > 0 && publish(open[n]->ops->name, address, (size_t)len) < 0)
            return -RT_EBOOT;
        n++;
    }
    if (publish(INFO_PROBE, &probe, sizeof probe) < 0)
        return -RT_EBOOT;
    int err = rt_boot_commit();
    return err < 0 ? err : n;
}

struct btl *info_connect(struct btl *open[], int n, struct rt_proc to)
{
    char address[ADDRESS_BYTES];
    for (int i = 0; i < n; i++) {
        struct btl_peer *peer;
        size_t len = 0;
        void *val = NULL;
        if (!open[i]->caps.eager_max)
            continue; /* moves memory only; another transport carries messages */
        if (open[i]->ops->address(open[i], address, sizeof address) > 0) {
            val = info_published(to, open[i]->ops->name, &len);
            if (!val)
                continue;
        }
        int err = open[i]->ops->add_peer(open[i], &to, val, len, &peer);
        free(val);
        if (err < 0)
            continue;
        open[i]->ops->del_peer(peer);
        return open[i];
    }
    return NULL;
}

int info_in_job(const char *self, const char *section, void (*show)(struct btl *open[], int n))
{
    struct btl *open[NBTLS];
    if (!getenv("PMIX_RANK"))
        return start_under_mpirun(self, section);
    if (rt_boot_init() < 0)
        return 1;
    rt_log_identify(rt_boot.host, rt_boot.rank);
    rt_gpu_init(); /* the transport for device memory depends on the devices */
    int code = 1;
    if (rt_node_open(btl_node_pair_nbytes()) == 0) {
        int n = open_all(open);
        if (rt_boot_fence() == 0 && n >= 0) {
            if (rt_boot.rank == 0)
                show(open, n);
            code = rt_boot_fence() < 0;
        }
        for (int i = 0; i < n; i++)
            open[i]->ops->close(open[i]);
        rt_node_close();
    }
    rt_boot_fini();
    return code;
}
