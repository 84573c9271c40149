/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports what the ranks of this host do to mpirun: launcher/explain/merge.h.  A picture takes a
 * tenth of a second.  Its places in the sources may take seconds each, so they are looked up one at
 * a time between turns of the loop.  Main thread only. */
#include "launcher/agent/agent.h"
#include "launcher/explain/collect.h"
#include "launcher/explain/merge.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <stdlib.h>

/* An agent with others below it waits until their first pictures have passed. */
#define BELOW_NS 1000000000u

static struct {
    struct explain_pages *pages; /* NULL: none was asked for yet */
    struct explain_known *known;
    uint32_t number;                 /* of the order for `picture` */
    struct explain_picture *picture; /* not complete yet; NULL: none */
    uint64_t from_ns, until_ns;      /* when places are looked up */
    FILE *f;                         /* for the stacks; NULL: none are asked for */
    char *stacks;
    size_t len;
} look;

static bool is_ready(void)
{
    if (look.pages || agent.phase != AGENT_RUNNING || !agent.job.n)
        return look.pages;
    look.known = calloc((size_t)agent.job.n, sizeof *look.known);
    look.pages = look.known ? explain_pages_new(agent.job.n) : NULL;
    return look.pages;
}

static void send_movement(uint32_t number)
{
    struct frame_out o;
    explain_pages_read(look.pages, look.known);
    uint64_t oldest = explain_pages_oldest_ns(look.pages);
    agent_begin(&o, FRAME_MOVED);
    frame_put_u32(&o, number);
    frame_put_u64(&o, explain_pages_movement(look.pages));
    frame_put_u64(&o, oldest ? rt_now_ns() - oldest : 0);
    agent_end(&o);
}

static void send_picture(bool complete, const char *lacks)
{
    struct frame_out o;
    if (look.f)
        fflush(look.f);
    agent_begin(&o, FRAME_PICTURE);
    frame_put_u32(&o, look.number);
    frame_put_u8(&o, complete);
    explain_put(&o, explain_picture_job(look.picture), lacks, look.stacks ? look.stacks : "");
    agent_end(&o);
}

static void forget_picture(void)
{
    if (look.f)
        fclose(look.f);
    free(look.stacks);
    explain_picture_free(look.picture);
    look.f = NULL;
    look.stacks = NULL;
    look.picture = NULL;
}

static void begin_picture(uint32_t number, bool stacks)
{
    uint64_t now = rt_now_ns();
    forget_picture();
    look.number = number;
    look.from_ns = agent.tree.n ? now + BELOW_NS : now;
    look.until_ns = now + EXPLAIN_LOOK_UP_NS;
    look.picture = explain_picture_take(look.pages, look.known, agent.job.host, agent.job.total);
    if (!look.picture) {
        log_error(LAUNCH, "out of memory for what the ranks of this host wait for");
        return;
    }
    look.f = stacks ? open_memstream(&look.stacks, &look.len) : NULL;
    send_picture(false, "");
}

void agent_look(struct frame *f)
{
    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    uint32_t number = frame_get_u32(&f->in);
    unsigned kind = frame_get_u8(&f->in);
    if (!frame_in_ok(&f->in) || kind >= LOOK_KINDS) {
        f->in.bad = true;
        return;
    }
    if (!is_ready())
        return;
    explain_known_of(&agent.job, look.known);
    if (kind == LOOK_MOVEMENT)
        send_movement(number);
    else
        begin_picture(number, kind == LOOK_STACKS);
}

void agent_look_step(void)
{
    uint64_t now = rt_now_ns();
    if (!look.picture || now < look.from_ns)
        return;
    bool in_time = now < look.until_ns;
    if (in_time && (explain_picture_look_up(look.picture) ||
                    (look.f && explain_picture_stack(look.picture, look.f))))
        return;
    send_picture(true, in_time ? explain_picture_lacks(look.picture)
                               : "some source lines would take too long to find");
    forget_picture();
}

int agent_look_timeout_ms(void)
{
    uint64_t now = rt_now_ns();
    if (!look.picture)
        return -1;
    return now >= look.from_ns ? 0 : (int)((look.from_ns - now) / 1000000 + 1);
}
