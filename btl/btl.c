/* SPDX-License-Identifier: BSD-3-Clause */
/* The check that the published capabilities of an instance agree with its functions. */
#include "btl/btl.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* The first disagreement of this instance, or NULL. */
static const char *disagreement(const struct btl *b)
{
    const struct btl_ops *o = b->ops;
    const struct btl_caps *c = &b->caps;
    bool rma = c->flags & (BTL_PUT | BTL_GET);

    if (!o->open || !o->close || !o->address || !o->add_peer || !o->del_peer || !o->progress)
        return "a required call is missing";
    if (!o->send && (c->eager_max || c->send_mem || o->poll))
        return "messages are offered without a function to send them";
    if (!o->send && !rma)
        return "neither messages nor remote memory are offered";
    if ((c->flags & BTL_PUT) && (!o->put || !c->put_mb_per_s))
        return "put is offered without a function or a rate";
    if ((c->flags & BTL_GET) && (!o->get || !c->get_mb_per_s))
        return "get is offered without a function or a rate";
    if ((!(c->flags & BTL_PUT) && c->put_mb_per_s) || (!(c->flags & BTL_GET) && c->get_mb_per_s))
        return "a rate is published for a call that is not offered";
    if (rma && (!o->mem_reg || !o->mem_dereg || !o->mem_key || !o->attach || !o->detach))
        return "put or get is offered without registration or attachment";
    if (rma && (!c->key_len || c->key_len > BTL_KEY_MAX || !c->rma_mem))
        return "put or get is offered without a key length of 1 to 32 bytes or a kind of memory";
    if ((c->flags & BTL_EXPECT) && (!o->expect || !(c->flags & BTL_PUT)))
        return "expect is offered without a function, or without put";
    if ((c->flags & BTL_WINDOW) &&
        (!o->window_reg || !(c->flags & BTL_PUT) || !(c->flags & BTL_GET)))
        return "windows are offered without a function, or without put and get";
    if (c->early_max && (!o->send || !(c->flags & BTL_PUT)))
        return "early bytes are offered without messages, or without put for the rest";
    if ((o->send && !c->send_mem) || !c->latency_ns || !c->mb_per_s)
        return "a kind of memory, the latency or the rate is missing";
    return NULL;
}

int btl_check(const struct btl *b)
{
    const char *why = disagreement(b);

    if (!why)
        return 0;
    log_error(BTL, "transport %s: capabilities and functions disagree: %s", b->ops->name, why);
    return -RT_EINTERN;
}
