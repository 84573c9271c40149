/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of connection attempts, unauthenticated connections, lost peers, and connections on which
 * nothing is acknowledged.  Called by progress(). */
#include "btl/tcp/timers.h"
#include "btl/tcp/accept.h"
#include "btl/tcp/addr.h"
#include "btl/tcp/connect.h"
#include "btl/tcp/disconnect.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/tcp.h> /* libc's struct tcp_info has fewer fields */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define MS 1000000u
/* An unauthenticated connection must send its next record within this time.  A process that leaves
 * MPI during connection setup connects again. */
#define HALF_NS (5000u * MS)
/* If the SYN to an address is not answered within this time, the next address is tried. */
#define ATTEMPT_NS (2000u * MS)
/* If a connection is refused for this long, the process has ended: it publishes its address only
 * while it listens.  The delay lets the launcher report the end of the process first. */
#define REFUSED_NS (2000u * MS)
/* An attempt that has begun shortly before the end of the time limit gets this time. */
#define LAST_NS (1000u * MS)
/* A connection that ends without a goodbye usually means that the peer has died and that the
 * launcher will end this process too.  The launcher has this time to print the reason. */
#define GRACE_NS (300u * MS)
/* Added to net_timeout_s: the peer's kernel sends a keepalive packet every net_timeout_s / 2, and
 * at least every second. */
#define SILENT_MORE_NS (1000u * MS)

/* After a long time outside MPI this process may be the late one. */
static bool has_unread(const struct tcp_conn *c)
{
    int n = 0;
    return ioctl(c->fd, FIONREAD, &n) == 0 && n > 0;
}

static void half_timer(struct tcp_conn *c, uint64_t now)
{
    const struct tcp_peer *p = c->peer;
    if (tcp_is_accepted(c)) {
        if (now - c->since_ns <= HALF_NS || has_unread(c))
            return;
        if (c->state == TCP_WAIT_PROOF)
            tcp_conn_close(c); /* a process that left MPI during connection setup; it connects
                                * again */
        else
            tcp_reject(c, "did not send its first record in time");
    } else if (c->state == TCP_CONNECTING && now - c->since_ns > ATTEMPT_NS &&
               (p->main != c || p->nroutes > 1)) {
        tcp_attempt_failed(c, ETIMEDOUT);
    } else if (c->state == TCP_WAIT_CHALLENGE && p->main == c && p->nroutes > 1 &&
               now - c->since_ns > tcp_instance(p)->timeout_ns / 2) {
        tcp_attempt_failed(c, ETIMEDOUT); /* another program may listen at this address */
    }
}

/* What a user can check after this error of a connection attempt. */
static const char *advice(int err)
{
    if (err == ECONNREFUSED)
        return ", so its process has ended";
    if (err == EMFILE || err == ENFILE)
        return " here; raise the limit (ulimit -n)";
    return "; check routes and firewalls";
}

/* Whether the peer has not been reached within the time limit.  A process that has been outside MPI
 * for that time has tried too seldom, so one attempt must have begun after the limit, or be in
 * progress for a while. */
static bool is_out_of_time(const struct tcp_peer *p, uint64_t now)
{
    uint64_t limit = p->first_try_ns + tcp_instance(p)->timeout_ns;
    return now > limit && (p->main ? now - p->main->since_ns > LAST_NS : p->try_ns > limit);
}

static void connect_timer(struct tcp_peer *p, uint64_t now)
{
    uint64_t spent = now - p->first_try_ns;
    char why[160];
    bool trying = p->first_try_ns && !p->up && (!p->main || p->main->state == TCP_CONNECTING);
    if (trying && (is_out_of_time(p, now) ||
                   (p->last_errno == ECONNREFUSED && !p->main && spent > REFUSED_NS))) {
        snprintf(why, sizeof why, "no connection to it within %.1f s: %s%s", (double)spent / 1e9,
                 p->nroutes ? strerror(p->last_errno ? p->last_errno : ETIMEDOUT)
                            : "none of its addresses can be reached from this host",
                 advice(p->last_errno));
        tcp_peer_lost(p, why);
    } else if (p->retry_ns && now >= p->retry_ns && !p->main && !p->up) {
        tcp_connect(p);
    }
}

static void peer_timer(struct tcp_peer *p, uint64_t now)
{
    if (p->bye_in && !p->lost && p->losing_ns)
        tcp_peer_left(p);
    if (p->lost) {
        tcp_peer_notify(p);
    } else if (p->losing_ns) {
        if (now - p->losing_ns > GRACE_NS)
            tcp_peer_lost(p, p->last_errno ? strerror(p->last_errno)
                                           : "its connection has ended, so its process has ended");
    } else {
        connect_timer(p, now);
    }
    if (p->lost || (!p->losing_ns && (p->up || (!p->retry_ns && !p->main))))
        rt_list_del(&p->work);
}

/* Whether data or window probes have been unacknowledged for too long.  While the peer's window is
 * closed, only an unanswered probe counts. */
static bool is_unanswered(struct tcp_conn *c, const struct tcp_info *i, uint64_t now)
{
    uint64_t acked_ns = now - (uint64_t)i->tcpi_last_ack_recv * MS;
    if (!i->tcpi_unacked && !i->tcpi_probes)
        c->stalled_ns = 0;
    else if (!c->stalled_ns || acked_ns > c->stalled_ns)
        c->stalled_ns = now;
    return c->stalled_ns && now - c->stalled_ns > c->tcp->timeout_ns;
}

/* Whether the peer has been silent for too long although data wait for its window.  The kernel
 * probes a closed window less and less often, at the end every two minutes, and between probes
 * nothing is in flight that could stay unacknowledged.  But the peer sends nothing, since this
 * process reads all that arrives, so the peer's kernel sends keepalive packets, also while the peer
 * is not calling MPI. */
static bool is_silent(struct tcp_conn *c, const struct tcp_info *i, uint64_t now)
{
    if (!i->tcpi_notsent_bytes || i->tcpi_segs_in != c->segs_in)
        c->silent_ns = now;
    c->segs_in = i->tcpi_segs_in;
    return now - c->silent_ns > c->tcp->timeout_ns + SILENT_MORE_NS;
}

static const char *conn_is_dead(struct tcp_conn *c, uint64_t now)
{
    struct tcp_info i = { 0 };
    socklen_t len = sizeof i;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
        return NULL;
    bool unanswered = is_unanswered(c, &i, now), silent = is_silent(c, &i, now);
    return unanswered ? "has acknowledged nothing" : silent ? "has been silent" : NULL;
}

/* True: a peer is lost.  Other connections may have been closed with it, so the caller starts
 * again. */
static bool look_at_conns(struct btl_tcp *b, struct rt_list *list, uint64_t now)
{
    struct rt_list *pos;
    rt_list_each (pos, list) {
        struct tcp_conn *c = rt_container(pos, struct tcp_conn, link);
        const char *what = c->peer && c->state != TCP_CONNECTING ? conn_is_dead(c, now) : NULL;
        char why[160];
        if (!what)
            continue;
        snprintf(why, sizeof why, "%s %s for %d s (WEFT_NET_TIMEOUT_S)", tcp_fd_text(c->fd), what,
                 (int)(b->timeout_ns / 1000000000u));
        tcp_peer_lost(c->peer, why);
        return true;
    }
    return false;
}

void tcp_timers(struct btl_tcp *b)
{
    uint64_t now = rt_now_ns();
    struct rt_list *pos, *next;

    rt_list_each_safe (pos, next, &b->half)
        half_timer(rt_container(pos, struct tcp_conn, link), now);
    rt_list_each_safe (pos, next, &b->work)
        peer_timer(rt_container(pos, struct tcp_peer, work), now);
    if (now >= b->next_check_ns) {
        uint64_t every = b->timeout_ns / 8;
        b->next_check_ns = now + (every > 1000u * MS ? 1000u * MS : every);
        while (look_at_conns(b, &b->conns, now) || look_at_conns(b, &b->half, now))
            ;
        if (!b->listening && b->nhalf_in < TCP_HALF_MAX)
            tcp_listener_watch(b, true); /* descriptors may be available again */
    }
}

#define TIMERS_US 50000 /* the shortest timer of a peer or a connection in setup */

int tcp_timers_us(const struct btl_tcp *b)
{
    uint64_t now = rt_now_ns();
    if (!rt_list_empty(&b->work) || !rt_list_empty(&b->half))
        return TIMERS_US;
    if (rt_list_empty(&b->conns) && b->listening)
        return INT_MAX;
    return b->next_check_ns > now ? (int)((b->next_check_ns - now) / 1000u) + 1 : 0;
}
