/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of one mpirun: see family.h.  In the first mpirun: requests, members, connectedness.  In
 * the mpirun of a member: the requests of its ranks are passed on to the first mpirun. */
#include "launcher/host/ask.h"
#include "launcher/host/spawn.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/family_state.h"
#include "launcher/mpirun/head_state.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/tree/describe.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Jobs for which the numbers of ranks can be looked up although the jobs have ended: those spawned
 * last.  The owner of these names is the negative number of the job. */
#define COUNTS_KEPT 64
#define OWN 1 /* number of the job of the first mpirun itself */
/* Between SIGTERM and SIGKILL for an adopted process, as for ranks. */
#define GRACE_NS 400000000

static void take_frames(struct launch_job *job, struct member *m);

/* ---- answers and notices ---- */

static void send_on(struct frame_chan *chan, struct frame_out *o)
{
    if (frame_end(o) < 0 || frame_send(chan, o->buf, o->len) == -RT_ENOMEM)
        log_error(LAUNCH, "out of memory for a message to another mpirun");
    frame_flush(chan);
    frame_out_fini(o);
}

static void send_to_node(struct launch_job *job, uint32_t node, struct frame_out *o)
{
    if (frame_end(o) == 0)
        tree_send(&job->head->tree, node, o->buf, o->len);
    else
        log_error(LAUNCH, "out of memory for a message to host %s", job->hosts[node].name);
    frame_out_fini(o);
}

void family_answer(struct launch_job *job, const struct asker *to, int err,
                   const struct launch_list *words)
{
    struct frame_out o = { 0 };

    if (to->gone)
        return;
    if (to->call) {
        launch_ask_answer(to->call, err, words);
        return;
    }
    frame_begin(&o, FRAME_ANSWER, to->node);
    frame_put_u32(&o, to->number);
    frame_put_int(&o, err);
    launch_put_list(&o, words ? words->v : NULL, words ? (size_t)words->n : 0);
    if (to->via)
        send_on(&to->via->chan, &o);
    else
        send_to_node(job, to->node, &o);
}

static void put_notice(struct frame_out *o, uint32_t node, int rank, const char *nspace, int code)
{
    frame_begin(o, FRAME_NOTICE, node);
    frame_put_int(o, rank);
    frame_put_str(o, nspace);
    frame_put_int(o, code);
}

/* Notifies a rank of this mpirun's own job that a job which it has spawned has ended. */
static void notice_own(struct launch_job *job, int rank, const char *nspace, int code)
{
    struct frame_out o = { 0 };
    if (rank < 0 || rank >= job->n || !job->ranks[rank].running)
        return;
    if (!job->head) {
        launch_ask_ended(job->nspace, rank, nspace, code);
        return;
    }
    put_notice(&o, (uint32_t)job->ranks[rank].node, rank, nspace, code);
    send_to_node(job, (uint32_t)job->ranks[rank].node, &o);
}

static void notice(struct launch_job *job, const struct asker *to, const char *nspace, int code)
{
    struct frame_out o = { 0 };
    if (to->gone)
        return;
    if (!to->via) {
        notice_own(job, to->rank, nspace, code);
        return;
    }
    put_notice(&o, 0, to->rank, nspace, code);
    send_on(&to->via->chan, &o);
}

/* ---- deaths ---- */

static void send_death(struct frame_chan *to, const char *nspace, int rank)
{
    struct frame_out o = { 0 };
    frame_begin(&o, FRAME_DIED, 0);
    frame_put_str(&o, nspace);
    frame_put_int(&o, rank);
    send_on(to, &o);
}

void family_died(struct launch_job *job, const char *nspace, int rank)
{
    struct family *f = job->family;
    if (f->has_up) {
        send_death(&f->up, nspace, rank);
        return;
    }
    struct family_death *more = realloc(f->deaths, (size_t)(f->ndeaths + 1) * sizeof *more);
    if (!more) {
        log_error(LAUNCH, "out of memory to report that rank %d of %s has died", rank, nspace);
        return;
    }
    f->deaths = more;
    snprintf(more[f->ndeaths].nspace, sizeof more->nspace, "%s", nspace);
    more[f->ndeaths++].rank = rank;
    for (struct member *m = f->members; m; m = m->next)
        if (m->up && !m->adopted && strcmp(m->nspace, nspace))
            send_death(&m->chan, nspace, rank);
}

static void on_died(struct launch_job *job, struct frame *f, bool pass)
{
    const char *nspace = frame_get_text(&f->in);
    int rank = frame_get_int(&f->in);
    if (!frame_in_ok(&f->in) || rank < 0) {
        f->in.bad = true;
        return;
    }
    launch_death_publish(job, nspace, rank);
    if (pass)
        family_died(job, nspace, rank);
}

/* ---- connected jobs ---- */

static struct member *member_of(struct family *f, int number)
{
    struct member *m = f->members;
    while (m && m->number != number)
        m = m->next;
    return m;
}

/* Number of the job with that namespace; 0: not one of this mpirun's. */
static int number_of(const struct launch_job *job, const char *nspace)
{
    if (!strcmp(job->nspace, nspace))
        return OWN;
    for (const struct member *m = job->family->members; m; m = m->next)
        if (!strcmp(m->nspace, nspace))
            return m->number;
    return 0;
}

static int find_edge(const struct family *f, int a, int b)
{
    for (int i = 0; i < f->nedges; i++)
        if ((f->edges[i].a == a && f->edges[i].b == b) ||
            (f->edges[i].a == b && f->edges[i].b == a))
            return i;
    return -1;
}

static int join(struct family *f, int a, int b)
{
    struct member *ma = member_of(f, a), *mb = member_of(f, b);
    if (a == 0 || b == 0 || a == b)
        return 0;
    if (ma)
        ma->met = true;
    if (mb)
        mb->met = true;
    if (find_edge(f, a, b) >= 0)
        return 0;
    struct edge *edges = realloc(f->edges, (size_t)(f->nedges + 1) * sizeof *edges);
    if (!edges)
        return -RT_ENOMEM;
    f->edges = edges;
    edges[f->nedges++] = (struct edge){ a, b };
    return 0;
}

static void part(struct family *f, int a, int b)
{
    int i = find_edge(f, a, b);
    if (i >= 0)
        f->edges[i] = f->edges[--f->nedges];
}

static void end_member(struct member *m)
{
    struct frame_out o = { 0 };
    if (m->ending)
        return;
    m->ending = true;
    if (m->adopted) {
        m->kill_at_ns = rt_now_ns() + GRACE_NS;
        kill(m->pid, SIGTERM);
        return;
    }
    frame_begin(&o, FRAME_QUIT, 0);
    send_on(&m->chan, &o);
}

/* Ends the jobs that a failed job has spawned and that have not been connected yet. */
static void fall_early(struct family *f, int number)
{
    for (struct member *m = f->members; m; m = m->next)
        if (!m->met && !m->asker.gone && number == (m->asker.via ? m->asker.via->number : OWN))
            end_member(m);
}

/* Ends the jobs that are connected to a job that has failed, and removes its connections. */
static void fall(struct launch_job *job, int number, int code)
{
    struct family *f = job->family;
    fall_early(f, number);
    for (int i = 0; i < f->nedges;) {
        struct edge e = f->edges[i];
        if (e.a != number && e.b != number) {
            i++;
            continue;
        }
        f->edges[i] = f->edges[--f->nedges];
        int other = e.a == number ? e.b : e.a;
        struct member *m = member_of(f, other);
        if (m && m->adopted && !m->ending)
            launch_report(job, "spawned job %d has failed; ending process %d, connected to it",
                          number, (int)m->pid);
        if (m)
            end_member(m);
        if (other == OWN && !job->ending && job->nrunning) {
            launch_report(job,
                          "spawned job %d has failed; ending the %d rank%s connected to it; exit "
                          "code %d",
                          number, job->nrunning, job->nrunning == 1 ? "" : "s", code);
            launch_end_begin(job, code);
        }
        fall(job, other, code);
        i = 0;
    }
}

/* ---- requests ---- */

/* Passes a request on to the first mpirun. */
static void pass_on(struct launch_job *job, const struct asker *from,
                    const struct launch_list *words)
{
    struct family *f = job->family;
    struct passed *p = calloc(1, sizeof *p);
    struct frame_out o = { 0 };

    if (!p || f->up.broken) {
        free(p);
        family_answer(job, from, -RT_ENOTSUP, NULL);
        return;
    }
    *p = (struct passed){ .next = f->passed, .number = ++f->npassed, .asker = *from };
    f->passed = p;
    frame_begin(&o, FRAME_ASK, 0);
    frame_put_u32(&o, p->number);
    frame_put_int(&o, from->rank);
    launch_put_list(&o, words->v, (size_t)words->n);
    send_on(&f->up, &o);
}

/* The ranks of this mpirun's job that have ended, "0-3,7-7". */
static int ended_ranks(const struct launch_job *job, struct launch_list *result)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return -RT_ENOMEM;
    for (int r = 0; r < job->n; r++) {
        int first = r;
        while (r < job->n && !job->ranks[r].running)
            r++;
        if (r > first)
            fprintf(f, "%s%d-%d", ftell(f) ? "," : "", first, r - 1);
    }
    int err = fclose(f) ? -RT_ENOMEM
              : len     ? launch_list_add(result, RT_BOOT_KEY_ENDED)
                        : -RT_ENOENT;
    if (!err)
        err = launch_list_add(result, text);
    free(text);
    return err;
}

static bool asks_for_ended(const struct launch_list *words)
{
    return words->n == 2 && !strcmp(words->v[0], "lookup") &&
           !strcmp(words->v[1], RT_BOOT_KEY_ENDED);
}

static void ask(struct launch_job *job, const struct asker *from, const struct launch_list *words)
{
    struct family *f = job->family;
    struct launch_list result = { 0 };
    int own = from->via ? from->via->number : OWN, err;

    if (!from->via && asks_for_ended(words)) {
        err = ended_ranks(job, &result);
        family_answer(job, from, err, &result);
        launch_list_fini(&result);
        return;
    }
    if (f->has_up) {
        pass_on(job, from, words);
        return;
    }
    if (!strcmp(words->v[0], "spawn")) {
        spawns_ask(job, from, words);
        return;
    }
    bool linking = words->n == 3 && !strcmp(words->v[0], "publish");
    if (linking && !strcmp(words->v[1], RT_BOOT_KEY_JOIN)) {
        err = join(f, own, number_of(job, words->v[2]));
    } else if (linking && !strcmp(words->v[1], RT_BOOT_KEY_PART)) {
        part(f, own, number_of(job, words->v[2]));
        err = 0;
    } else {
        err = names_ask(&f->names, own, words, &result);
    }
    family_answer(job, from, err, &result);
    launch_list_fini(&result);
}

void family_ask(struct launch_job *job, struct launch_call *call, int rank)
{
    struct asker from = { .call = call, .rank = rank };
    ask(job, &from, &call->words);
}

void family_ask_from(struct launch_job *job, uint32_t node, uint32_t number, int rank,
                     const struct launch_list *words)
{
    struct asker from = { .node = node, .number = number, .rank = rank };
    ask(job, &from, words);
}

/* ---- the end of a member ---- */

/* The error of a spawn whose job did not start, from the exit code of its mpirun. */
static int start_error(int code)
{
    return code == LAUNCH_EXIT_NOPROG || code == LAUNCH_EXIT_NOEXEC ? -RT_ENOFILE : -RT_ESPAWN;
}

static void forget(struct family *f, struct member *m)
{
    for (struct member *other = f->members; other; other = other->next)
        other->asker.gone |= other->asker.via == m;
    spawns_forget(f, m);
    for (int i = 0; i < f->nedges;)
        if (f->edges[i].a == m->number || f->edges[i].b == m->number)
            f->edges[i] = f->edges[--f->nedges];
        else
            i++;
    names_drop(&f->names, m->number);
    frame_close(&m->chan);
    launch_list_fini(&m->uses);
    hwloc_bitmap_free(m->cpus);
    free(m);
}

bool family_exited(struct launch_job *job, pid_t pid, int status)
{
    struct family *f = job->family;
    struct member **p = f ? &f->members : NULL;

    while (p && *p && ((*p)->pid != pid || (*p)->adopted))
        p = &(*p)->next;
    if (!p || !*p)
        return false;
    struct member *m = *p;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    frame_fill(&m->chan);
    take_frames(job, m);
    *p = m->next;
    if (!m->up) {
        family_answer(job, &m->asker, start_error(code), NULL);
    } else {
        if (!m->met) /* otherwise no rank waits; PMIx keeps 2.5 KB of each notice */
            notice(job, &m->asker, m->nspace, code);
        bool failed = code && !m->ending && !m->left;
        if (failed)
            fall(job, m->number, code);
        if (failed && !job->exit_code)
            job->exit_code = code;
    }
    forget(f, m);
    return true;
}

/* The adopted process has ended, or its connection has.  Without MPI_Finalize that is a failure. */
static void adopted_gone(struct launch_job *job, struct member *m)
{
    struct member **p = &job->family->members;
    while (*p != m)
        p = &(*p)->next;
    *p = m->next;
    if (!m->left && !m->ending)
        fall(job, m->number, LAUNCH_EXIT_FAIL);
    forget(job->family, m);
}

/* ---- frames of members ---- */

static void on_up(struct launch_job *job, struct member *m, struct frame *f)
{
    const char *nspace = frame_get_text(&f->in), *counts = frame_get_text(&f->in),
               *cpus = frame_get_str(&f->in);
    struct launch_list words = { 0 }, result = { 0 };
    launch_get_list(&f->in, &m->uses);
    if (!frame_in_ok(&f->in) || m->up) {
        f->in.bad = true;
        return;
    }
    m->up = true;
    snprintf(m->nspace, sizeof m->nspace, "%s", nspace);
    m->cpus = cpus ? hwloc_bitmap_alloc() : NULL;
    if (m->cpus)
        hwloc_bitmap_list_sscanf(m->cpus, cpus);
    int err = launch_list_add(&words, "publish") ||
              launch_list_addf(&words, "%s%s", RT_BOOT_KEY_COUNTS, nspace) ||
              launch_list_add(&words, counts);
    if (!err)
        names_ask(&job->family->names, -m->number, &words, &result);
    if (m->number > COUNTS_KEPT)
        names_drop(&job->family->names, COUNTS_KEPT - m->number);
    launch_list_fini(&words);
    if (!err)
        err = launch_list_add(&words, nspace);
    family_answer(job, &m->asker, err ? -RT_ENOMEM : 0, &words);
    launch_list_fini(&words);
    for (int i = 0; i < job->family->ndeaths && !m->adopted; i++)
        send_death(&m->chan, job->family->deaths[i].nspace, job->family->deaths[i].rank);
}

static void on_ask(struct launch_job *job, struct member *m, struct frame *f)
{
    struct asker from = { .via = m, .number = frame_get_u32(&f->in) };
    struct launch_list words = { 0 };
    from.rank = frame_get_int(&f->in);
    launch_get_list(&f->in, &words);
    if (!frame_in_ok(&f->in) || words.n == 0)
        f->in.bad = true;
    else
        ask(job, &from, &words);
    launch_list_fini(&words);
}

static void take_frames(struct launch_job *job, struct member *m)
{
    struct frame f;
    while (frame_next(&m->chan, &f) > 0) {
        if (f.type == FRAME_UP)
            on_up(job, m, &f);
        else if (f.type == FRAME_ASK)
            on_ask(job, m, &f);
        else if (f.type == FRAME_DONE)
            m->left = true;
        else if (f.type == FRAME_DIED)
            on_died(job, &f, true);
        if (f.in.bad) {
            log_error(LAUNCH, "invalid message from the mpirun of job %d", m->number);
            end_member(m);
        }
    }
}

/* ---- in the mpirun of a member ---- */

static void on_answer(struct launch_job *job, struct frame *f)
{
    struct family *fam = job->family;
    struct launch_list words = { 0 };
    uint32_t number = frame_get_u32(&f->in);
    int err = frame_get_int(&f->in);
    struct passed **p = &fam->passed;

    launch_get_list(&f->in, &words);
    while (*p && (*p)->number != number)
        p = &(*p)->next;
    if (frame_in_ok(&f->in) && *p) {
        struct passed *passed = *p;
        *p = passed->next;
        family_answer(job, &passed->asker, err, &words);
        free(passed);
    }
    launch_list_fini(&words);
}

static void on_notice(struct launch_job *job, struct frame *f)
{
    int rank = frame_get_int(&f->in);
    const char *nspace = frame_get_text(&f->in);
    int code = frame_get_int(&f->in);
    if (frame_in_ok(&f->in))
        notice_own(job, rank, nspace, code);
}

static void take_orders(struct launch_job *job)
{
    struct family *f = job->family;
    struct frame frame;
    while (frame_next(&f->up, &frame) > 0) {
        if (frame.type == FRAME_ANSWER)
            on_answer(job, &frame);
        else if (frame.type == FRAME_NOTICE)
            on_notice(job, &frame);
        else if (frame.type == FRAME_DIED)
            on_died(job, &frame, false);
        else if (frame.type == FRAME_QUIT)
            launch_end_begin(job, LAUNCH_EXIT_FAIL);
    }
    if (f->up.eof && !job->ending)
        launch_end_begin(job, LAUNCH_EXIT_FAIL);
}

bool family_ends_early(struct launch_job *job)
{
    struct family *f = job->family;
    struct frame frame;
    if (!f->has_up)
        return false;
    frame_fill(&f->up);
    while (frame_next(&f->up, &frame) > 0)
        if (frame.type == FRAME_QUIT)
            return true;
    return f->up.eof;
}

void family_up(struct launch_job *job)
{
    struct family *f = job->family;
    struct launch_list uses = { 0 };
    struct frame_out o = { 0 };
    char counts[1024] = "", *cpus = NULL;
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    size_t at = 0;

    if (!f->has_up) {
        hwloc_bitmap_free(all);
        return;
    }
    for (int a = 0; a < job->opts->napps && at < sizeof counts; a++)
        at += (size_t)snprintf(counts + at, sizeof counts - at, "%s%d", a ? "," : "",
                               job->opts->apps[a].n);
    for (int h = 0; h < job->nhosts; h++)
        if (job->hosts[h].nranks)
            launch_list_addf(&uses, "%s=%d", job->hosts[h].name, job->hosts[h].nranks);
    for (int r = 0; r < job->n && !job->head; r++)
        if (job->ranks[r].cpus)
            hwloc_bitmap_or(all, all, job->ranks[r].cpus);
    if (!hwloc_bitmap_iszero(all))
        hwloc_bitmap_list_asprintf(&cpus, all);
    frame_begin(&o, FRAME_UP, 0);
    frame_put_str(&o, job->nspace);
    frame_put_str(&o, counts);
    frame_put_str(&o, cpus);
    launch_put_list(&o, uses.v, (size_t)uses.n);
    send_on(&f->up, &o);
    free(cpus);
    hwloc_bitmap_free(all);
    launch_list_fini(&uses);
}

void family_left(struct launch_job *job)
{
    struct family *f = job->family;
    struct frame_out o = { 0 };
    if (!f->has_up)
        return;
    frame_begin(&o, FRAME_DONE, 0);
    send_on(&f->up, &o);
}

/* ---- called by the loop ---- */

int family_init(struct launch_job *job)
{
    const struct launch_spawned *o = &job->opts->spawned;
    struct family *f = calloc(1, sizeof *f);
    if (!f)
        return -RT_ENOMEM;
    f->njobs = OWN;
    f->up = (struct frame_chan){ .in = -1, .out = -1 };
    if (o->control_fd && !o->serve) {
        fcntl(o->control_fd, F_SETFD, FD_CLOEXEC);
        frame_open(&f->up, o->control_fd, o->control_fd);
        f->has_up = true;
    }
    job->family = f;
    return 0;
}

int family_adopt(struct launch_job *job)
{
    int fd = job->opts->spawned.control_fd;
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct member *m = calloc(1, sizeof *m);

    if (!m || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        launch_say(job, "--weft-serve: descriptor %d: %s", fd, strerror(errno));
        free(m);
        return -RT_ESYS;
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    frame_open(&m->chan, fd, fd);
    frame_greet(&m->chan);
    m->adopted = true;
    m->asker.gone = true;
    m->pid = peer.pid;
    m->number = ++job->family->njobs;
    job->family->members = m;
    return 0;
}

int family_nfds(const struct launch_job *job)
{
    int n = job->family->has_up;
    for (const struct member *m = job->family->members; m; m = m->next)
        n++;
    return n;
}

static struct pollfd poll_of(const struct frame_chan *c)
{
    short events = (short)(POLLIN | (frame_waiting(c) ? POLLOUT : 0));
    return (struct pollfd){ .fd = c->eof ? -1 : c->in, .events = events };
}

int family_fds(struct launch_job *job, struct pollfd *fds)
{
    struct family *f = job->family;
    int n = 0;
    if (f->has_up)
        fds[n++] = poll_of(&f->up);
    for (struct member *m = f->members; m; m = m->next)
        fds[n++] = poll_of(&m->chan);
    return n;
}

void family_step(struct launch_job *job)
{
    struct family *f = job->family;
    if (f->has_up) {
        frame_flush(&f->up);
        frame_fill(&f->up);
        take_orders(job);
    }
    for (struct member *m = f->members; m; m = m->next) {
        frame_flush(&m->chan);
        frame_fill(&m->chan);
    }
    for (struct member *m = f->members, *next; m; m = next) {
        next = m->next;
        if (m->adopted && frame_greeting(&m->chan, NULL, NULL) <= 0)
            m->chan.eof |= m->chan.noise > 0; /* another program */
        else
            take_frames(job, m);
        if (m->adopted && m->chan.eof)
            adopted_gone(job, m);
        else if (m->kill_at_ns && rt_now_ns() >= m->kill_at_ns) {
            m->kill_at_ns = 0;
            kill(m->pid, SIGKILL);
        }
    }
    if (job->ending && !f->own_failed) {
        f->own_failed = true;
        fall(job, OWN, job->exit_code);
    }
    spawns_step(job);
}

void family_end_all(struct launch_job *job, bool now)
{
    for (struct member *m = job->family->members; m; m = m->next) {
        if (m->adopted) /* it has received the signal, too, and decides itself */
            continue;
        end_member(m);
        if (now)
            kill(m->pid, SIGTERM);
    }
}

void family_signal(struct launch_job *job, int sig)
{
    for (struct member *m = job->family->members; m; m = m->next)
        if (!m->adopted)
            kill(m->pid, sig);
}

uint64_t family_step_at_ns(const struct launch_job *job)
{
    const struct family *f = job->family;
    uint64_t at = spawns_step_at_ns(f);
    for (const struct member *m = f->members; m; m = m->next)
        if (m->kill_at_ns && (!at || m->kill_at_ns < at))
            at = m->kill_at_ns;
    return at;
}

bool family_is_member(const struct launch_job *job) { return job->family->has_up; }

bool family_active(const struct launch_job *job) { return job->family->members != NULL; }

void family_fini(struct launch_job *job)
{
    struct family *f = job->family;
    if (!f)
        return;
    while (f->members) {
        struct member *m = f->members;
        f->members = m->next;
        forget(f, m);
    }
    spawns_fini(f);
    while (f->passed) {
        struct passed *p = f->passed;
        f->passed = p->next;
        free(p);
    }
    frame_close(&f->up);
    names_fini(&f->names);
    free(f->edges);
    free(f->deaths);
    free(f);
    job->family = NULL;
}
