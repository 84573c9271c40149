/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake transport keeps the contract with every kind of injected misbehaviour, and it detects
 * users that violate the contract. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/fake/btl_conformance.h"
#include "test/fake/btl_fake.h"
#include "test/unit/capture.h"

static uint32_t delay, percent;

static bool prepare(void)
{
    fake_net.nranks = 1;
    fake_net.seed = 7;
    fake_net.delay_max = delay;
    fake_net.eagain_percent = percent;
    fake_net.eager_max = 3000;
    return true;
}

static void keeps_the_contract(void)
{
    struct btl_variant v = { "fake", "fake", 1, BTL_PUT | BTL_GET, prepare, NULL };

    for (delay = 0; delay <= 9; delay += 9)
        for (percent = 0; percent <= 30; percent += 30)
            CHECK_EQ(btl_conformance(&v), 0);
}

/* ---- three ranks in this process ---- */

static struct btl *b[3];
static struct btl_peer *peer[3][3];
static int downs, got[3], order[64], norder;

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)data;
    (void)len;
    CHECK_EQ(h->src, from->proc.rank);
    CHECK_EQ(h->tag, got[from->proc.rank]++); /* in order from each sender */
    CHECK(arg == &b[2]);
    order[norder++ % 64] = (int)from->proc.rank;
}

static void on_down(void *arg, struct btl_peer *p, int err)
{
    (void)arg;
    CHECK_EQ(p->proc.rank, 1);
    CHECK_EQ(err, -RT_EPEER);
    downs++;
}

static void open_three(uint32_t seed)
{
    fake_net.nranks = 3;
    fake_net.seed = seed;
    fake_net.delay_max = 20;
    memset(got, 0, sizeof got);
    norder = downs = 0;
    for (int r = 0; r < 3; r++) {
        struct btl_up up = { on_recv, on_down, &b[r], 0 };
        fake_net.me = r;
        CHECK_EQ(btl_fake_ops.open(&up, &b[r], 1), 1);
        for (uint32_t k = 0; k < 3; k++)
            CHECK_EQ(b[r]->ops->add_peer(b[r], &(struct rt_proc){ 0, k }, NULL, 0, &peer[r][k]), 0);
    }
}

static void close_three(void)
{
    for (int r = 0; r < 3; r++)
        b[r]->ops->close(b[r]);
    fake_net_reset();
}

static void senders_overtake_each_other(void)
{
    bool mixed = false;

    open_three(3);
    for (int i = 0; i < 20; i++)
        for (uint32_t r = 0; r < 2; r++)
            CHECK_EQ(b[r]->ops->send(peer[r][2], &(struct btl_hdr){ 0, i, r }, "x", 1), 0);
    for (int i = 0; i < 1000 && norder < 40; i++)
        b[2]->ops->progress(b[2]);
    CHECK_EQ(norder, 40);
    for (int i = 0; i < 40; i++)
        mixed = mixed || order[i] != i % 2;
    CHECK(mixed);
    close_three();
}

static int op_err;
static void op_done(struct btl_op *op, int err)
{
    (void)op;
    op_err = err;
}

static void a_lost_peer(void)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    struct btl_op op = { op_done };
    char key[BTL_KEY_MAX], buf[8] = "1234567";

    open_three(4);
    CHECK_EQ(b[1]->ops->mem_reg(b[1], buf, 8, NULL, &m), 0);
    CHECK_EQ(b[1]->ops->mem_key(m, key), 0);
    CHECK_EQ(b[0]->ops->attach(peer[0][1], key, NULL, &r), 0);
    CHECK_EQ(b[0]->ops->put(r, 0, NULL, "abcdefg", 8, &op), 0);
    fake_net_kill(1);
    op_err = 1;
    for (int i = 0; i < 50; i++)
        b[0]->ops->progress(b[0]);
    CHECK_EQ(op_err, -RT_EPEER);
    CHECK_EQ(downs, 1);
    CHECK_STR(buf, "1234567");
    CHECK_EQ(b[0]->ops->send(peer[0][1], &(struct btl_hdr){ 0 }, "x", 1), -RT_EPEER);
    b[0]->ops->detach(r);
    CHECK_EQ(fake_net.live_rmem, 0);
    close_three();
}

static void the_nth_call_fails(void)
{
    open_three(5);
    fake_net.fail_call = fake_net.calls + 2;
    fake_net.fail_err = -RT_ENOMEM;
    CHECK_EQ(b[0]->ops->send(peer[0][2], &(struct btl_hdr){ 0 }, "x", 1), 0);
    CHECK_EQ(b[0]->ops->send(peer[0][2], &(struct btl_hdr){ 0 }, "x", 1), -RT_ENOMEM);
    CHECK_EQ(b[0]->ops->send(peer[0][2], &(struct btl_hdr){ 0 }, "x", 1), 0);
    close_three();
}

static void wrong_use_is_found(void)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    struct btl_op op = { op_done };
    char key[BTL_KEY_MAX], buf[8] = "1234567";

    open_three(6);
    CHECK_EQ(b[1]->ops->mem_reg(b[1], buf, 8, NULL, &m), 0);
    CHECK_EQ(b[1]->ops->mem_key(m, key), 0);
    CHECK_EQ(b[0]->ops->attach(peer[0][1], key, NULL, &r), 0);
    CHECK_EQ(b[0]->ops->put(r, 0, NULL, "abcdefg", 8, &op), 0);
    b[0]->ops->detach(r);
    CHECK_EQ(fake_net.violations, 1);
    b[1]->ops->mem_dereg(m);
    op_err = 1;
    for (int i = 0; i < 50; i++)
        b[0]->ops->progress(b[0]);
    CHECK_EQ(fake_net.violations, 2);
    CHECK_EQ(op_err, -RT_EINVAL);
    b[0]->ops->detach(r);
    close_three();
}

int main(void)
{
    rt_cfg_load();
    RUN(keeps_the_contract);
    RUN(senders_overtake_each_other);
    RUN(a_lost_peer);
    RUN(the_nth_call_fails);
    RUN(wrong_use_is_found);
    return check_end();
}
