/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime/ib without a device: lists of ports, the choice among GIDs, rates, addressing, and that a
 * machine without devices opens nothing. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/ib/rail.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <arpa/inet.h>
#include <sched.h>

static void lists_of_ports(void)
{
    CHECK_EQ(rt_ib_listed("", "mlx5_0", 1), 0);
    CHECK_EQ(rt_ib_listed("mlx5_0", "mlx5_0", 2), 0);
    CHECK_EQ(rt_ib_listed("mlx5_0", "mlx5_01", 1), -1);
    CHECK_EQ(rt_ib_listed("mlx5_2:1,mlx5_0", "mlx5_0", 1), 1);
    CHECK_EQ(rt_ib_listed("mlx5_2:1,mlx5_0", "mlx5_2", 2), -1);
    CHECK_EQ(rt_ib_listed("mlx5_*", "mlx5_bond_0", 1), 0);
    CHECK_EQ(rt_ib_listed("mlx5_?:2", "mlx5_7", 2), 0);
    CHECK_EQ(rt_ib_listed("^mlx5_0,mlx5_1:2", "mlx5_0", 1), -1);
    CHECK_EQ(rt_ib_listed("^mlx5_0,mlx5_1:2", "mlx5_1", 2), -1);
    CHECK_EQ(rt_ib_listed("^mlx5_0,mlx5_1:2", "mlx5_1", 1), 0);
    CHECK_EQ(rt_ib_listed("^", "mlx5_1", 1), 0);
}

static void wrong_lists(void)
{
    int len = 0;
    CHECK(!rt_ib_list_bad("", &len) && !rt_ib_list_bad("^mlx5_0:12,x*", &len));
    CHECK(rt_ib_list_bad("mlx5_0:", &len) && len == 7);
    const char *bad = rt_ib_list_bad("mlx5_0,b:x,c", &len);
    CHECK(bad && !strncmp(bad, "b:x", 3) && len == 3);
    CHECK(rt_ib_list_bad("a,,b", &len) && len == 0);
    CHECK(rt_ib_list_bad(":1", &len) && rt_ib_list_bad("a:0", &len) &&
          rt_ib_list_bad("a:1111", &len) && rt_ib_list_bad("a:1:2", &len));
}

static void libraries_opened_at_run_time(void)
{
    struct {
        ssize_t (*here)(void *, size_t, unsigned);
        void (*missing)(void);
    } t;
    char byte;
    struct rt_ib_symbol symbols[] = {
        { "getrandom", "GLIBC_2.25", 0, true },
        { "getrandom", "GLIBC_1.0", sizeof t.here, false },
    };
    struct rt_ib_lib lib = { .so = "libc.so.6", .symbols = symbols, .n = 2, .table = &t };
    struct rt_ib_lib none = { .so = "libnone.so.1" };
    CHECK_EQ(rt_ib_lib_open(&lib), 0);
    CHECK(t.here(&byte, 1, 0) == 1 && !t.missing && !*lib.why_not);
    symbols[1].must = true;
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(rt_ib_lib_open(&lib), -RT_ENOENT);
        CHECK_STR(lib.why_not, "libc.so.6 is too old: it has no getrandom");
        CHECK_EQ(rt_ib_lib_open(&none), -RT_ENOENT);
        CHECK(strstr(none.why_not, "libnone.so.1"));
    }
}

static union ibv_gid gid(const char *text)
{
    union ibv_gid g;
    CHECK(inet_pton(AF_INET6, text, g.raw) == 1);
    return g;
}

/* Best first; each is preferred to the next. */
static void gids_in_order(void)
{
    static const struct {
        const char *gid;
        bool v2;
        enum rt_ib_if state;
    } order[] = {
        { "::ffff:10.1.2.3", true, RT_IB_IF_UP },
        { "2001:db8::1", true, RT_IB_IF_UP },
        { "fd00::1", true, RT_IB_IF_UP },
        { "fe80::1", true, RT_IB_IF_UP },
        { "::ffff:10.1.2.3", false, RT_IB_IF_UP },
        { "fe80::1", false, RT_IB_IF_UP },
        { "::ffff:10.1.2.3", true, RT_IB_IF_UNKNOWN },
        { "::ffff:10.1.2.3", true, RT_IB_IF_NO_ADDRESS },
        { "::ffff:10.1.2.3", true, RT_IB_IF_DOWN },
    };
    int last = 1 << 30;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        union ibv_gid g = gid(order[i].gid);
        int score = rt_ib_gid_score(&g, order[i].v2, order[i].state);
        CHECK_MSG(score < last, "GID %zu has %d, the one before %d", i, score, last);
        last = score;
    }
    CHECK_EQ(last, -1);
    union ibv_gid zero = gid("::");
    CHECK_EQ(rt_ib_gid_score(&zero, true, RT_IB_IF_UP), -1);
}

static void rates(void)
{
    CHECK_EQ(rt_ib_mbit(2, 128), 400000); /* 4 lanes of NDR */
    CHECK_EQ(rt_ib_mbit(2, 32), 100000);
    CHECK_EQ(rt_ib_mbit(16, 64), 100000);
    CHECK_EQ(rt_ib_mbit(1, 1), 2000);
    CHECK_EQ(rt_ib_mbit(0, 32), 0);
    CHECK_EQ(rt_ib_mbit(2, 77), 0);
}

static struct rt_ib_rail roce(const char *text)
{
    return (struct rt_ib_rail){ .dev = "fake",
                                .port = 1,
                                .roce = true,
                                .need_grh = true,
                                .gid = gid(text),
                                .gid_index = 3,
                                .mtu = IBV_MTU_4096,
                                .mb_per_s = 12500 };
}

/* An address from another process may hold any bytes. */
static void arbitrary_addresses(void)
{
    struct rt_ib_addr any;
    struct rt_ib_rail r = roce("::ffff:10.1.2.3");
    for (unsigned i = 0; i < 4096; i++) {
        for (size_t k = 0; k < sizeof any; k++)
            ((uint8_t *)&any)[k] = (uint8_t)(i * 31 + k * (i >> 5));
        CHECK(rt_ib_mtu(&r, &any) >= IBV_MTU_256 && rt_ib_mtu(&r, &any) <= IBV_MTU_4096);
    }
}

static void address_vectors(void)
{
    struct rt_ib_rail r = roce("::ffff:10.1.2.3"), to = roce("::ffff:10.1.2.4");
    struct rt_ib_addr a;
    struct ibv_ah_attr ah;
    to.mtu = IBV_MTU_1024;
    rt_ib_addr(&to, &a);
    rt_ib_ah_attr(&r, &a, 5, 106, &ah);
    CHECK(ah.is_global && ah.sl == 5 && ah.grh.traffic_class == 106 && ah.grh.sgid_index == 3);
    CHECK(ah.port_num == 1 && !memcmp(ah.grh.dgid.raw, to.gid.raw, 16) && ah.grh.hop_limit > 1);
    CHECK_EQ(rt_ib_mtu(&r, &a), IBV_MTU_1024);
    struct rt_ib_rail ib = { .dev = "fake", .port = 2, .gid = gid("fe80::1"), .lid = 7 };
    struct rt_ib_rail far = { .dev = "fake", .port = 1, .gid = gid("fe80::2"), .lid = 0x1234 };
    rt_ib_addr(&far, &a);
    rt_ib_ah_attr(&ib, &a, 0, 0, &ah);
    CHECK(!ah.is_global && ah.dlid == 0x1234 && ah.port_num == 2);
    far.need_grh = true;
    rt_ib_addr(&far, &a);
    rt_ib_ah_attr(&ib, &a, 0, 0, &ah);
    CHECK(ah.is_global && ah.dlid == 0x1234);
}

/* Ports of one machine: which are used, in which order, and why the others are not. */
static void ranking(void)
{
    struct rt_ib_dev d[3] = { { .name = "a", .near = false },
                              { .name = "b", .near = true },
                              { .name = "c", .near = true } };
    struct rt_ib_port p[4] = {
        { .dev = &d[0], .num = 1, .mbit = 400000 },
        { .dev = &d[1], .num = 1, .mbit = 400000 },
        { .dev = &d[1], .num = 2, .mbit = 400000, .why_not = "no link" },
        { .dev = &d[2], .num = 1, .mbit = 25000 },
    };
    rt_ib_rank(p, 4);
    CHECK(p[0].dev == &d[1] && p[0].num == 1 && !p[0].why_not[0]);
    CHECK(p[1].dev == &d[0] && !p[1].why_not[0]);
    CHECK(p[2].why_not[0] && p[3].why_not[0]);
    const struct rt_ib_port *slow = p[2].dev == &d[2] ? &p[2] : &p[3];
    CHECK_MSG(strstr(slow->why_not, "WEFT_IB_HCA=c:1"), "%s", slow->why_not);
}

static void cores(void)
{
    cpu_set_t mine;
    char list[32];
    int cpu = 0;
    sched_getaffinity(0, sizeof mine, &mine);
    while (!CPU_ISSET(cpu, &mine))
        cpu++;
    snprintf(list, sizeof list, "%d", cpu);
    CHECK(rt_ib_may_run_on(list) && rt_ib_may_run_on("0-4095") && rt_ib_may_run_on(""));
    CHECK(!rt_ib_may_run_on("8000-8001,8100"));
    CHECK(rt_ib_may_run_on("nonsense"));
}

static void settings(void)
{
    struct rt_ib_rail r[2];
    CHECK(rt_cfg_set("ib_hca", "mlx5_0:x", RT_CFG_TOOL) == 0);
    capture_begin();
    CHECK_EQ(rt_ib_open(r, 2), -RT_EINVAL);
    CHECK(strstr(capture_end(), "'mlx5_0:x'"));
    CHECK(rt_cfg_set("ib_hca", "", RT_CFG_TOOL) == 0);
    if (!rt_ib_possible())
        CHECK_EQ(rt_ib_open(r, 2), 0);
    rt_ib_close(); /* without an open: no effect */
}

int main(void)
{
    if (rt_cfg_load() < 0)
        return 1;
    RUN(lists_of_ports);
    RUN(wrong_lists);
    RUN(libraries_opened_at_run_time);
    RUN(gids_in_order);
    RUN(rates);
    RUN(arbitrary_addresses);
    RUN(address_vectors);
    RUN(ranking);
    RUN(cores);
    RUN(settings);
    return check_end();
}
