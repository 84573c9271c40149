/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --paths: the transports between ranks.  Rank 0 connects to every rank as the message
 * engine does, and prints the capabilities of each transport.  Predicted time: latency plus size
 * divided by rate. */
#include "launcher/info/info.h"
#include "launcher/info/job.h"
#include "runtime/base/cfg.h"

#include <string.h>

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

static void print_paths(struct btl *open[], int n)
{
    static const size_t sizes[] = { 8, 4096, 65536, 1048576 };
    printf("Transports on %s, best first\n", rt_boot.host);
    for (int i = 0; i < n; i++)
        print_transport(open[i]);
    printf("\nFrom rank 0 to    by       predicted us:   8 B   4 KiB  64 KiB   1 MiB\n");
    for (int r = 0; r < rt_boot.size; r++) {
        struct btl *b = info_connect(open, n, (struct rt_proc){ 0, (uint32_t)r });
        printf("  rank %-5d       %-8s               ", r, b ? b->ops->name : "out of reach");
        for (size_t s = 0; b && s < sizeof sizes / sizeof sizes[0]; s++)
            printf(" %7.2f", predict_us(&b->caps, sizes[s]));
        printf("\n");
    }
    info_gpu_paths();
}

int info_paths(const char *self) { return info_in_job(self, "--paths", print_paths); }
