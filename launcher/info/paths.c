/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --paths: the transports between ranks.  Started alone, it runs itself with two ranks
 * under the mpirun of its own folder.  Under mpirun, rank 0 opens the transports, connects to every
 * rank as the message engine does, and prints the capabilities of each transport.  Predicted time:
 * latency plus size divided by rate. */
#include "btl/all/all.h"
#include "btl/btl.h"
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
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

static void ignore_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                        size_t len)
{
    (void)arg, (void)from, (void)h, (void)data, (void)len;
}

static void ignore_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg, (void)peer, (void)err;
}

static int start_under_mpirun(const char *self)
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
        execl(mpirun, mpirun, "-n", "2", me, "--paths", (char *)NULL);
        printf("could not start %s: %s; use mpirun -n 2 weft_info --paths\n", mpirun,
               strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    if (pid > 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    return pid < 0 || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

bool info_listed(const char *name)
{
    bool negative = cfg.btl[0] == '^';
    size_t len = strlen(name);
    for (const char *p = cfg.btl + negative; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && !strncmp(p, name, len))
            return !negative;
    return negative;
}

static void print_transport(const struct btl *b)
{
    const struct btl_caps *c = &b->caps;
    char eager[32];
    printf("  %-6s %s\n", b->ops->name, b->ops->help);
    if (c->eager_max)
        printf("         messages up to %s at once, %u ns, %u MB/s",
               info_bytes(c->eager_max, eager, sizeof eager), c->latency_ns, c->mb_per_s);
    else
        printf("         carries only the data of messages, %u ns, %u MB/s", c->latency_ns,
               c->mb_per_s);
    if (c->flags & BTL_PUT)
        printf("; put %u MB/s", c->put_mb_per_s);
    if (c->flags & BTL_GET)
        printf("; get %u MB/s", c->get_mb_per_s);
    if (c->flags & BTL_PTR)
        printf("; direct loads and stores");
    printf("\n");
}

/* Both sides share a large message between put and get, so the rates add up. */
static double predict_us(const struct btl_caps *c, size_t nbytes)
{
    double rate = nbytes > c->eager_max && c->put_mb_per_s + c->get_mb_per_s
                      ? c->put_mb_per_s + c->get_mb_per_s
                      : c->mb_per_s;
    return c->latency_ns / 1e3 + (rate > 0 ? (double)nbytes / rate : 0);
}

/* Publishes the addresses of this process's transports and opens them.  Returns their number, or an
 * error. */
static int open_all(struct btl *open[NBTLS])
{
    static const struct btl_up up = { .recv = ignore_recv, .down = ignore_down };
    char address[ADDRESS_BYTES], key[64];
    int n = 0;
    for (int i = 0; btl_all[i] && n < NBTLS; i++) {
        if (!info_listed(btl_all[i]->name) || btl_all[i]->open(&up, &open[n], 1) < 1)
            continue;
        int len = open[n]->ops->address(open[n], address, sizeof address);
        snprintf(key, sizeof key, "info.%s", open[n]->ops->name);
        if (len > 0 && rt_boot_put(key, address, (size_t)len) < 0)
            return -RT_EBOOT;
        n++;
    }
    int err = rt_boot_commit();
    return err < 0 ? err : n;
}

static struct btl *connect_best(struct btl *open[], int n, struct rt_proc to)
{
    char address[ADDRESS_BYTES], key[64];
    for (int i = 0; i < n; i++) {
        struct btl_peer *peer;
        size_t len = 0;
        void *val = NULL;
        if (!open[i]->caps.eager_max)
            continue; /* moves memory only; another transport carries messages */
        if (open[i]->ops->address(open[i], address, sizeof address) > 0) {
            snprintf(key, sizeof key, "info.%s", open[i]->ops->name);
            if (rt_boot_get(to, key, &val, &len, 5) < 0)
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

static void print_paths(struct btl *open[], int n)
{
    static const size_t sizes[] = { 8, 4096, 65536, 1048576 };
    printf("Transports on %s, best first\n", rt_boot.host);
    for (int i = 0; i < n; i++)
        print_transport(open[i]);
    printf("\nFrom rank 0 to    by       predicted us:   8 B   4 KiB  64 KiB   1 MiB\n");
    for (int r = 0; r < rt_boot.size; r++) {
        struct btl *b = connect_best(open, n, (struct rt_proc){ 0, (uint32_t)r });
        printf("  rank %-5d       %-8s               ", r, b ? b->ops->name : "out of reach");
        for (size_t s = 0; b && s < sizeof sizes / sizeof sizes[0]; s++)
            printf(" %7.2f", predict_us(&b->caps, sizes[s]));
        printf("\n");
    }
    info_gpu_paths();
}

int info_paths(const char *self)
{
    struct btl *open[NBTLS];
    if (!getenv("PMIX_RANK"))
        return start_under_mpirun(self);
    if (rt_boot_init() < 0)
        return 1;
    rt_log_identify(rt_boot.host, rt_boot.rank);
    rt_gpu_init(); /* the transport for device memory depends on the devices */
    int code = 1;
    if (rt_node_open(btl_node_pair_nbytes()) == 0) {
        int n = open_all(open);
        if (rt_boot_fence() == 0 && n >= 0) {
            if (rt_boot.rank == 0)
                print_paths(open, n);
            code = rt_boot_fence() < 0;
        }
        for (int i = 0; i < n; i++)
            open[i]->ops->close(open[i]);
        rt_node_close();
    }
    rt_boot_fini();
    return code;
}
