/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of this host that other processes may use, as cfg.tcp_if selects, and the order in
 * which a process tries the addresses of a peer: addresses in a common network first, by rate.
 * This file opens no connection. */
#include "btl/tcp/addr.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

size_t tcp_address_len(int naddrs)
{
    return offsetof(struct tcp_address, ifs) + (size_t)naddrs * sizeof(struct tcp_if);
}

const char *tcp_addr_text(const union tcp_sockaddr *a)
{
    static char text[INET6_ADDRSTRLEN + 16];
    char ip[INET6_ADDRSTRLEN] = "?";
    if (a->sa.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->in.sin_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "%s:%d", ip, ntohs(a->in.sin_port));
    } else if (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
        inet_ntop(AF_INET, &a->in6.sin6_addr.s6_addr[12], ip, sizeof ip);
        snprintf(text, sizeof text, "%s:%d", ip, ntohs(a->in6.sin6_port));
    } else if (a->sa.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->in6.sin6_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "[%s]:%d", ip, ntohs(a->in6.sin6_port));
    } else {
        snprintf(text, sizeof text, "an unknown address");
    }
    return text;
}

const char *tcp_fd_text(int fd)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;
    getpeername(fd, &a.sa, &len);
    return tcp_addr_text(&a);
}

/* Length of the address: 4 or 16 bytes. */
static size_t addr_len(const struct tcp_if *i) { return i->family == 4 ? 4 : 16; }

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    if (memcmp(a, b, bits / 8))
        return false;
    unsigned rest = bits % 8;
    return !rest || !((a[bits / 8] ^ b[bits / 8]) >> (8 - rest));
}

/* Whether the address is in `spec`: "10.1.0.0/16", "fd00::/8", or a single address. */
static bool in_subnet(const struct tcp_if *i, const char *spec)
{
    char text[INET6_ADDRSTRLEN + 8];
    uint8_t net[16];
    unsigned max = i->family == 4 ? 32 : 128;

    snprintf(text, sizeof text, "%s", spec);
    char *slash = strchr(text, '/');
    if (slash)
        *slash++ = 0;
    char *end = NULL;
    unsigned long bits = slash ? strtoul(slash, &end, 10) : max;
    if (slash && (end == slash || *end))
        return false;
    if (inet_pton(i->family == 4 ? AF_INET : AF_INET6, text, net) != 1 || bits > max)
        return false;
    return prefix_equal(i->addr, net, (unsigned)bits);
}

/* Whether the list contains the address or the interface name.  The caller handles a leading
 * '^'. */
static bool in_list(const char *list, const char *name, const struct tcp_if *i)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%s", list);
    for (char *save, *e = strtok_r(copy, ",", &save); e; e = strtok_r(NULL, ",", &save))
        if (!strcmp(e, name) || in_subnet(i, e))
            return true;
    return false;
}

static bool is_loopback(const struct tcp_if *i)
{
    static const uint8_t one[16] = { [15] = 1 };
    return i->family == 4 ? i->addr[0] == 127 : !memcmp(i->addr, one, 16);
}

/* Link-local addresses, fe80::/10, need an interface number, which the peer does not have. */
static bool is_link_local(const struct tcp_if *i)
{
    return i->family == 6 && i->addr[0] == 0xfe && (i->addr[1] & 0xc0) == 0x80;
}

static bool is_wanted(const char *name, const struct tcp_if *i)
{
    const char *list = cfg.tcp_if;
    if (is_link_local(i))
        return false;
    if (!*list)
        return !is_loopback(i); /* processes of one place use loopback nevertheless */
    return in_list(list + (*list == '^'), name, i) != (*list == '^') &&
           !(*list == '^' && is_loopback(i));
}

/* Rate in MB/s as the kernel reports it; 0: unknown. */
static uint32_t rate_of(const char *name)
{
    char path[128];
    long mbit = 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%ld", &mbit) != 1 || mbit < 0)
        mbit = 0;
    fclose(f);
    return (uint32_t)(mbit / 8);
}

static bool if_from(const struct ifaddrs *a, struct tcp_if *i)
{
    const uint8_t *mask;
    if (!a->ifa_addr || !a->ifa_netmask || !(a->ifa_flags & IFF_UP))
        return false;
    *i = (struct tcp_if){ 0 };
    if (a->ifa_addr->sa_family == AF_INET) {
        i->family = 4;
        memcpy(i->addr, &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr, 4);
        mask =
            (const uint8_t *)&((const struct sockaddr_in *)(const void *)a->ifa_netmask)->sin_addr;
    } else if (a->ifa_addr->sa_family == AF_INET6) {
        i->family = 6;
        memcpy(i->addr, &((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr, 16);
        mask = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)a->ifa_netmask)
                   ->sin6_addr;
    } else {
        return false;
    }
    for (size_t k = 0; k < addr_len(i); k++)
        i->prefix += (uint8_t)__builtin_popcount(mask[k]);
    return true;
}

/* A number for this host, since its boot, and its network namespace. */
static uint64_t place(void)
{
    struct rt_sha256 s;
    uint8_t out[RT_SHA256_LEN];
    char boot[64] = "";
    struct stat st = { 0 };
    uint64_t number;

    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f) {
        if (!fgets(boot, sizeof boot, f))
            boot[0] = 0;
        fclose(f);
    }
    if (!boot[0] || stat("/proc/self/ns/net", &st) < 0)
        return 0; /* unknown: not equal to that of any process */
    rt_sha256_init(&s);
    rt_sha256_add(&s, boot, strlen(boot));
    rt_sha256_add(&s, &st.st_ino, sizeof st.st_ino);
    rt_sha256_end(&s, out);
    memcpy(&number, out, sizeof number);
    return number;
}

int tcp_ifs_find(struct btl_tcp *b)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0) {
        log_error(BTL, "tcp: the addresses of this host cannot be listed: %m");
        return -RT_ESYS;
    }
    b->place = place();
    b->nifs = 0;
    for (const struct ifaddrs *a = all; a && b->nifs < TCP_ADDRS_MAX; a = a->ifa_next) {
        struct tcp_if i;
        if (!if_from(a, &i) || !is_wanted(a->ifa_name, &i))
            continue;
        i.mb_per_s = rate_of(a->ifa_name);
        i.index = (uint16_t)if_nametoindex(a->ifa_name);
        b->ifs[b->nifs++] = i;
    }
    freeifaddrs(all);
    if (b->nifs || !*cfg.tcp_if || *cfg.tcp_if == '^')
        return 0;
    log_error(BTL, "tcp: no address of this host matches WEFT_TCP_IF=%s; ip address shows them",
              cfg.tcp_if);
    return -RT_EINVAL;
}

int tcp_address_read(const void *blob, size_t len, struct tcp_address **out)
{
    struct tcp_address head;
    if (len < tcp_address_len(0))
        return -RT_EINVAL;
    memcpy(&head, blob, tcp_address_len(0));
    if (head.version != TCP_ADDRESS_VERSION || head.naddrs > TCP_ADDRS_MAX ||
        len != tcp_address_len(head.naddrs) || !head.port)
        return -RT_EINVAL;
    *out = malloc(len); /* only the published part */
    if (!*out)
        return -RT_ENOMEM;
    memcpy(*out, blob, len);
    return 0;
}

static void sockaddr_make(const struct tcp_if *i, uint16_t port, union tcp_sockaddr *out)
{
    memset(out, 0, sizeof *out);
    if (i->family == 4) {
        out->in.sin_family = AF_INET;
        out->in.sin_port = htons(port);
        memcpy(&out->in.sin_addr, i->addr, 4);
    } else {
        out->in6.sin6_family = AF_INET6;
        out->in6.sin6_port = htons(port);
        memcpy(&out->in6.sin6_addr, i->addr, 16);
    }
}

#define SAME_NET 0x40000000u
#define SAME_KIND 0x20000000u

static bool is_private(const struct tcp_if *i)
{
    const uint8_t *a = i->addr;
    if (i->family == 6)
        return (a[0] & 0xfe) == 0xfc;
    return a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) || (a[0] == 192 && a[1] == 168);
}

/* How well `mine` is expected to reach `theirs`; 0: it cannot. */
static uint32_t score_of(const struct tcp_if *mine, const struct tcp_if *theirs)
{
    unsigned bits = mine->prefix < theirs->prefix ? theirs->prefix : mine->prefix;
    if (mine->family != theirs->family)
        return 0;
    if (!memcmp(mine->addr, theirs->addr, sizeof mine->addr) && !is_loopback(mine))
        return 0; /* both hosts have this address: a bridge of containers */
    uint32_t rate = mine->mb_per_s < theirs->mb_per_s ? mine->mb_per_s : theirs->mb_per_s;
    if (bits < addr_len(mine) * 8 && prefix_equal(mine->addr, theirs->addr, bits))
        return SAME_NET + rate;
    return 1 + rate + (is_private(mine) == is_private(theirs) ? SAME_KIND : 0);
}

static int by_score(const void *a, const void *b)
{
    const struct tcp_route *x = a, *y = b;
    return x->score < y->score ? 1 : x->score > y->score ? -1 : 0;
}

/* Loopback reaches processes of the same place, faster than any interface. */
static int add_loopback(const struct btl_tcp *b, const struct tcp_address *to,
                        struct tcp_route *out)
{
    struct tcp_if lo = { .family = 4, .prefix = 8, .addr = { 127, 0, 0, 1 } };
    if (!b->place || b->place != to->place)
        return 0;
    if (*cfg.tcp_if &&
        in_list(cfg.tcp_if + (*cfg.tcp_if == '^'), "lo", &lo) == (*cfg.tcp_if == '^'))
        return 0;
    *out = (struct tcp_route){ .score = UINT32_MAX };
    sockaddr_make(&lo, to->port, &out->to);
    return 1;
}

int tcp_routes(const struct btl_tcp *b, const struct tcp_address *to, struct tcp_route *out)
{
    int n = add_loopback(b, to, out), first = n;
    for (int t = 0; t < to->naddrs && n < TCP_ADDRS_MAX; t++) {
        const struct tcp_if *theirs = &to->ifs[t];
        struct tcp_route r = { .index = theirs->index };
        if (theirs->family != 4 && theirs->family != 6)
            continue;
        for (int m = 0; m < b->nifs; m++) {
            uint32_t score = score_of(&b->ifs[m], theirs);
            if (b->place == to->place && !score)
                score = 1; /* two processes with the same address */
            if (score <= r.score)
                continue;
            r.score = score;
            r.same_net = (score & SAME_NET) != 0;
            sockaddr_make(&b->ifs[m], 0, &r.from);
        }
        if (!r.score)
            continue;
        sockaddr_make(theirs, to->port, &r.to);
        out[n++] = r;
    }
    qsort(out + first, (size_t)(n - first), sizeof *out, by_score);
    return n;
}

bool tcp_is_published(const struct btl_tcp *b, int fd)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;
    struct tcp_if i = { 0 };

    if (getsockname(fd, &a.sa, &len) < 0)
        return false;
    if (a.sa.sa_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&a.in6.sin6_addr)) {
        i.family = 4;
        memcpy(i.addr,
               a.sa.sa_family == AF_INET ? (void *)&a.in.sin_addr
                                         : (void *)&a.in6.sin6_addr.s6_addr[12],
               4);
    } else {
        i.family = 6;
        memcpy(i.addr, &a.in6.sin6_addr, 16);
    }
    if (is_loopback(&i))
        return true;
    for (int k = 0; k < b->nifs; k++)
        if (b->ifs[k].family == i.family && !memcmp(b->ifs[k].addr, i.addr, sizeof i.addr))
            return true;
    return false;
}
