/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of ranks that only mpirun can serve (ask.h): passed to the head, and answered when the
 * head's answer arrives.  Main thread only. */
#include "launcher/agent/agent.h"
#include "launcher/host/ask.h"
#include "runtime/base/err.h"

#include <stdlib.h>

void agent_ask(const struct launch_event *e)
{
    struct agent_ask *a = calloc(1, sizeof *a);
    struct frame_out o;

    if (!a) {
        launch_ask_answer(e->call, -RT_ENOMEM, NULL);
        return;
    }
    *a = (struct agent_ask){ .next = agent.asks, .number = ++agent.nasked, .call = e->call };
    agent.asks = a;
    agent_begin(&o, FRAME_ASK);
    frame_put_u32(&o, a->number);
    frame_put_int(&o, e->rank);
    launch_put_list(&o, e->call->words.v, (size_t)e->call->words.n);
    agent_end(&o);
}

/* Passes a frame on to another host.  False: the frame is for this host. */
static bool pass_down(struct frame *f)
{
    if (f->node == (uint32_t)agent.first)
        return false;
    tree_send(&agent.tree, f->node, f->raw, f->raw_len);
    return true;
}

void agent_answer(struct frame *f)
{
    struct launch_list words = { 0 };
    struct agent_ask **p = &agent.asks;

    if (pass_down(f))
        return;
    uint32_t number = frame_get_u32(&f->in);
    int err = frame_get_int(&f->in);
    launch_get_list(&f->in, &words);
    while (*p && (*p)->number != number)
        p = &(*p)->next;
    if (!frame_in_ok(&f->in) || !*p) {
        f->in.bad = true;
    } else {
        struct agent_ask *a = *p;
        *p = a->next;
        launch_ask_answer(a->call, err, &words);
        free(a);
    }
    launch_list_fini(&words);
}

void agent_notice(struct frame *f)
{
    if (pass_down(f))
        return;
    int rank = frame_get_int(&f->in);
    const char *nspace = frame_get_text(&f->in);
    int code = frame_get_int(&f->in);
    if (!frame_in_ok(&f->in) || agent.phase < AGENT_RUNNING || rank < 0)
        f->in.bad = true;
    else
        launch_ask_ended(agent.job.nspace, rank, nspace, code);
}
