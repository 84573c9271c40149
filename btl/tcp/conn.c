/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of btl/tcp from nothing to up, and down again: listening, accepting, connecting by
 * one address after the other, the choice between two connections of one pair, dead peers.
 *
 * Simultaneous connects: a process that has sent its hello refuses the higher rank's connection
 * (busy), which then waits for the one that is on its way; a process whose own attempt has not come
 * that far gives it up and takes the other's.  A refused connector tries again later, should the
 * other's attempt fail.
 *
 * A connection is freed at the end of the pass in which it was closed, because epoll's answers may
 * still name it.  Called with the instance serialised by the engine; upward calls only below
 * progress(). */
#include "btl/tcp/tcp.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000u
/* A stranger has this long to prove itself; a process that computes in between connects again. */
#define HALF_NS (5000u * MS)
/* As many strangers at a time.  When all places are taken, the oldest leaves after HALF_SHORT_NS,
 * which is long for a process that answers. */
#define HALF_MAX 64
#define HALF_SHORT_NS (250u * MS)
/* One way is given up for the next when its SYN is not answered for so long. */
#define ATTEMPT_NS (2000u * MS)
#define RETRY_NS (50u * MS)
/* Nobody listens there any more: a process publishes its address only while it does.  Not at once,
 * because its end may be the launcher's to tell. */
#define REFUSED_NS (2000u * MS)
/* A connection that ends without a word usually means that the peer has died, and that the launcher
 * will end this process too; it gets so long to say why. */
#define GRACE_NS (300u * MS)

/* ---- peers ---- */

struct tcp_peer *tcp_peer_find(struct btl_tcp *b, uint32_t rank)
{
    struct tcp_peer *p = b->peers[rank % TCP_BUCKETS];
    while (p && p->base.proc.rank != rank)
        p = p->next;
    return p;
}

struct tcp_peer *tcp_peer_get(struct btl_tcp *b, uint32_t rank)
{
    struct tcp_peer *p = tcp_peer_find(b, rank);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->base.btl = &b->base;
    p->base.proc.rank = rank;
    rt_list_init(&p->xfers);
    rt_list_init(&p->work);
    rt_list_init(&p->cork);
    p->next = b->peers[rank % TCP_BUCKETS];
    b->peers[rank % TCP_BUCKETS] = p;
    return p;
}

static struct btl_tcp *tcp_of(const struct tcp_peer *p) { return (struct btl_tcp *)p->base.btl; }

void tcp_need_work(struct tcp_peer *p)
{
    if (rt_list_empty(&p->work))
        rt_list_append(&tcp_of(p)->work, &p->work);
}

static void routes_free(struct tcp_peer *p)
{
    free(p->routes);
    p->routes = NULL;
    p->nroutes = p->route = 0;
}

/* ---- connections ---- */

void tcp_conn_watch(struct tcp_conn *c, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.ptr = c };
    int epoll = c->state == TCP_UP ? c->tcp->epoll : c->tcp->half_epoll;
    if (c->events == events)
        return;
    if (epoll_ctl(epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e) < 0)
        RT_BUG("epoll_ctl: %m");
    c->events = events;
}

static void set_option(int fd, int level, int name, int value)
{
    if (setsockopt(fd, level, name, &value, sizeof value) < 0)
        log_debug(BTL, "tcp: socket option %d.%d is not set: %m", level, name);
}

/* Keepalive finds a dead host while nothing is on its way; dates.c's look at acknowledgements finds
 * it while something is.  TCP_USER_TIMEOUT would also kill the connection to a live process that
 * computes and so leaves its window closed. */
static void set_options(int fd)
{
    int s = cfg.net_timeout_s;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, s > 3 ? s / 2 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, s > 7 ? s / 8 : 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

static struct tcp_conn *conn_new(struct btl_tcp *b, int fd, enum tcp_state state)
{
    struct tcp_conn *c = calloc(1, sizeof *c);
    struct tcp_shake *s = calloc(1, sizeof *s);
    if (!c || !s) {
        free(c);
        free(s);
        return NULL;
    }
    c->tcp = b;
    c->fd = fd;
    c->state = state;
    c->shake = s;
    c->since_ns = rt_now_ns();
    rt_list_init(&c->link);
    rt_list_append(&b->half, &c->link);
    b->nhalf_in += state == TCP_WAIT_HELLO;
    set_options(fd);
    return c;
}

static bool is_accepted(const struct tcp_conn *c)
{
    return c->state == TCP_WAIT_HELLO || c->state == TCP_WAIT_PROOF;
}

static void lane_forget(struct tcp_peer *p, const struct tcp_conn *c)
{
    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i] == c) {
            p->lanes[i] = p->lanes[--p->nlanes];
            p->lanes_wanted = false; /* has to be asked for again */
            return;
        }
}

static void listener_watch(struct btl_tcp *b, bool on)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };
    if (b->listening == on || b->listener < 0)
        return;
    if (epoll_ctl(b->half_epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, b->listener, &e) < 0)
        RT_BUG("epoll_ctl: %m");
    b->listening = on;
}

void tcp_conn_close(struct tcp_conn *c)
{
    struct btl_tcp *b = c->tcp;
    struct tcp_peer *p = c->peer;
    if (c->state == TCP_CLOSED)
        return;
    if (is_accepted(c) && --b->nhalf_in < HALF_MAX)
        listener_watch(b, true);
    if (c->state == TCP_UP && c->purpose == TCP_FOR_MAIN)
        tcp_in_drop(c);
    close(c->fd); /* leaves epoll by itself */
    c->fd = -1;
    c->state = TCP_CLOSED;
    free(c->shake);
    c->shake = NULL;
    rt_list_del(&c->link);
    rt_list_append(&b->dead, &c->link);
    if (p && p->main == c) {
        p->main = NULL;
        p->up = false;
    } else if (p) {
        lane_forget(p, c);
    }
}

/* ---- the end of a peer ---- */

static void close_all(struct tcp_peer *p)
{
    tcp_xfers_fail(p, -RT_EPEER);
    while (p->nlanes)
        tcp_conn_close(p->lanes[p->nlanes - 1]);
    if (p->main)
        tcp_conn_close(p->main);
    free(p->out.buf);
    p->out = (struct tcp_out){ 0 };
    routes_free(p);
    p->retry_ns = p->losing_ns = 0;
}

static void tell(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_of(p);
    if (p->told)
        return;
    p->told = true;
    if (p->base.up && !b->closing)
        b->up.down(b->up.arg, &p->base, -RT_EPEER);
}

void tcp_peer_lost(struct tcp_peer *p, const char *why)
{
    if (p->lost)
        return;
    log_at(BTL, tcp_of(p)->closing ? RT_LOG_INFO : RT_LOG_ERROR, "tcp: rank %u is lost: %s",
           p->base.proc.rank, why);
    p->lost = true;
    close_all(p);
    tell(p);
}

/* The peer has said that nothing more comes, and its connection has ended: no error, unless
 * somebody still wants something of it. */
static void peer_left(struct tcp_peer *p)
{
    bool wanted = !rt_list_empty(&p->xfers) || p->out.tail > p->out.head;
    p->lost = true;
    close_all(p);
    if (wanted) {
        log_info(BTL, "tcp: rank %u has ended and will not receive what is sent to it",
                 p->base.proc.rank);
        tell(p);
    }
}

static void losing(struct tcp_peer *p, int err)
{
    p->last_errno = err;
    if (!p->losing_ns)
        p->losing_ns = rt_now_ns();
    tcp_need_work(p);
}

void tcp_conn_broken(struct tcp_conn *c, int err)
{
    struct tcp_peer *p = c->peer;
    bool is_main = p->main == c;
    tcp_conn_close(c);
    if (p->lost)
        return;
    if (is_main && p->bye_in)
        peer_left(p);
    else if (is_main || !rt_list_empty(&p->xfers))
        losing(p, err); /* a lane without a put in it is opened again when one comes */
}

/* ---- connecting ---- */

static void attempt_failed(struct tcp_conn *c, int err);

static int attempt_start(struct tcp_peer *p, const struct tcp_route *r, enum tcp_purpose purpose,
                         bool bound, struct tcp_conn **out)
{
    struct btl_tcp *b = tcp_of(p);
    socklen_t len = r->to.sa.sa_family == AF_INET ? sizeof r->to.in : sizeof r->to.in6;
    int fd = socket(r->to.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct tcp_conn *c = conn_new(b, fd, TCP_CONNECTING);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->peer = p;
    c->purpose = purpose;
    *out = c;
    if (bound && bind(fd, &r->from.sa, len) < 0)
        log_debug(BTL, "tcp: cannot bind to %s: %m", tcp_addr_text(&r->from));
    log_debug(BTL, "tcp: connecting to rank %u at %s", p->base.proc.rank, tcp_addr_text(&r->to));
    if (connect(fd, &r->to.sa, len) < 0 && errno != EINPROGRESS)
        return -errno;
    tcp_conn_watch(c, EPOLLOUT | EPOLLIN);
    return 0;
}

void tcp_connect(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_of(p);
    uint64_t now = rt_now_ns();
    b->stirred = true;
    if (!p->first_try_ns)
        p->first_try_ns = now;
    p->retry_ns = 0;
    if (!p->routes) {
        p->routes = calloc(TCP_ADDRS_MAX + 1, sizeof *p->routes);
        p->nroutes = p->routes && p->addr ? tcp_routes(b, p->addr, p->routes) : 0;
        p->route = 0;
    }
    for (; p->route < p->nroutes; p->route++) {
        struct tcp_conn *c = NULL;
        int err = attempt_start(p, &p->routes[p->route], TCP_FOR_MAIN, false, &c);
        if (err == 0) {
            p->main = c;
            tcp_need_work(p); /* the kernel may try for minutes: our own limit is looked at */
            return;
        }
        p->last_errno = -err;
        if (c)
            tcp_conn_close(c);
    }
    p->route = 0;
    p->retry_ns = now + RETRY_NS;
    tcp_need_work(p);
}

static void lane_start(struct tcp_peer *p, const struct tcp_route *r, bool bound)
{
    struct tcp_conn *c = NULL;
    int err = attempt_start(p, r, TCP_FOR_LANE, bound, &c);
    if (c)
        p->lanes[p->nlanes++] = c;
    if (err && c)
        attempt_failed(c, -err);
    else if (err)
        losing(p, -err);
}

/* Whether one of the first n routes goes to the same interface. */
static bool is_taken(const struct tcp_route *r, int n, uint16_t index)
{
    for (int i = 0; i < n; i++)
        if (r[i].index == index)
            return true;
    return false;
}

/* Which of the peer's interfaces the main connection goes to. */
static uint16_t main_index(const struct tcp_route *r, int n, const union tcp_sockaddr *to)
{
    for (int i = 0; i < n; i++)
        if (!memcmp(&r[i].to, to, sizeof *to))
            return r[i].index;
    return 0;
}

/* Only the side that made the main connection can: the other asks it. */
static void lanes_ask(struct tcp_peer *p)
{
    struct btl_hdr none = { 0 };
    if (!p->lanes_wanted && tcp_frame_send(p, TCP_WANT_LANE, &none, NULL, 0, NULL, 0, true) == 0)
        p->lanes_wanted = true;
}

/* By the way that the main connection has taken, and by each other network that both are on. */
void tcp_lanes_open(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_of(p);
    if (p->nlanes || !p->up)
        return;
    if (!p->connector) {
        lanes_ask(p);
        return;
    }
    struct tcp_route r[TCP_ADDRS_MAX + 1], used[TCP_LANES_MAX] = { { .score = 0 } };
    socklen_t len = sizeof used[0].to;
    int n = tcp_routes(b, p->addr, r), nused = 1;
    if (getpeername(p->main->fd, &used[0].to.sa, &len) < 0)
        return; /* it has just broken; progress() will find out */
    used[0].index = main_index(r, n, &used[0].to);
    lane_start(p, &used[0], false);
    bool local = b->place && b->place == p->addr->place;
    for (int i = 0; i < n && !local && nused < TCP_LANES_MAX; i++) {
        if (!r[i].same_net || is_taken(used, nused, r[i].index))
            continue;
        used[nused++] = r[i];
        lane_start(p, &r[i], true);
    }
}

/* An attempt has come to nothing: the next way, or the first one again after a while. */
static void attempt_failed(struct tcp_conn *c, int err)
{
    struct tcp_peer *p = c->peer;
    bool is_main = p->main == c;
    log_debug(BTL, "tcp: no connection to rank %u: %s", p->base.proc.rank, strerror(err));
    tcp_conn_close(c);
    if (!is_main) {
        if (!p->nlanes)
            losing(p, err);
        return;
    }
    p->last_errno = err;
    p->route++;
    if (p->route < p->nroutes) {
        tcp_connect(p);
        return;
    }
    p->route = 0;
    p->retry_ns = rt_now_ns() + RETRY_NS;
    tcp_need_work(p);
}

/* ---- up ---- */

static void conn_up(struct tcp_conn *c, struct tcp_peer *p, bool connector)
{
    c->peer = p;
    if (is_accepted(c) && --c->tcp->nhalf_in < HALF_MAX)
        listener_watch(c->tcp, true);
    if (epoll_ctl(c->tcp->half_epoll, EPOLL_CTL_DEL, c->fd, &(struct epoll_event){ 0 }) < 0)
        RT_BUG("epoll_ctl: %m");
    c->events = 0;
    c->state = TCP_UP;
    free(c->shake);
    c->shake = NULL;
    memset(&c->piece_in, 0, sizeof c->piece_in);
    memset(&c->in, 0, sizeof c->in);
    rt_list_del(&c->link);
    rt_list_append(&c->tcp->conns, &c->link);
    tcp_conn_watch(c, EPOLLIN);
    if (c->purpose == TCP_FOR_MAIN) {
        p->main = c;
        p->up = true;
        p->connector = connector;
        p->first_try_ns = p->retry_ns = 0;
        routes_free(p);
        log_debug(BTL, "tcp: connected with rank %u at %s", p->base.proc.rank, tcp_fd_text(c->fd));
        if (p->out.tail > p->out.head) {
            tcp_conn_watch(c, EPOLLIN | EPOLLOUT);
            tcp_out_flush(p);
        }
        return;
    }
    if (!connector)
        p->lanes[p->nlanes++] = c;
    if (!rt_list_empty(&p->xfers))
        tcp_lane_write(c);
}

/* ---- strangers ---- */

static bool same_host(const union tcp_sockaddr *a, const union tcp_sockaddr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    return a->sa.sa_family == AF_INET
               ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
               : !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr);
}

/* One warning a host, for the first few hosts: a flood must not fill the disk with the log. */
static void stranger(struct tcp_conn *c, const char *what)
{
    struct btl_tcp *b = c->tcp;
    const int max = sizeof b->warned / sizeof b->warned[0];
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;

    if (getpeername(c->fd, &a.sa, &len) == 0) {
        bool known = b->nwarned >= max;
        for (int i = 0; i < b->nwarned && !known; i++)
            known = same_host(&b->warned[i], &a);
        if (!known) {
            b->warned[b->nwarned++] = a;
            log_warn(BTL,
                     "tcp: a connection from %s %s; it was closed, and nothing else happened "
                     "(told once a host)",
                     tcp_addr_text(&a), what);
        }
    }
    tcp_conn_close(c);
}

/* The one that has been here longest makes room, when it has had time enough. */
static bool make_room(struct btl_tcp *b)
{
    uint64_t now = rt_now_ns();
    struct rt_list *pos;
    rt_list_each (pos, &b->half) {
        struct tcp_conn *c = rt_container(pos, struct tcp_conn, link);
        if (!is_accepted(c))
            continue;
        if (now - c->since_ns < HALF_SHORT_NS)
            return false;
        stranger(c, "did not say who it is, and others wait");
        return true;
    }
    return false;
}

void tcp_accept(struct btl_tcp *b)
{
    for (int i = 0; i < 32; i++) {
        if (b->nhalf_in >= HALF_MAX && !make_room(b)) {
            listener_watch(b, false);
            return;
        }
        int fd = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                log_error(BTL,
                          "tcp: no descriptor is left for a connection: %m; raise the limit "
                          "(ulimit -n) of %s",
                          rt_boot.host);
                listener_watch(b, false);
            }
            return;
        }
        struct tcp_conn *c = conn_new(b, fd, TCP_WAIT_HELLO);
        if (!c)
            close(fd);
        else if (!tcp_is_published(b, fd))
            stranger(c, "came by an address that WEFT_TCP_IF excludes");
        else
            tcp_conn_watch(c, EPOLLIN);
    }
}

/* The other side has proved itself.  Whether its connection is the one that stays. */
static bool main_welcome(struct tcp_peer *p)
{
    if (p->lost || p->up || p->losing_ns)
        return false;
    if (p->main && p->main->state != TCP_CONNECTING && (uint32_t)rt_boot.rank < p->base.proc.rank)
        return false; /* ours is on its way */
    return true;
}

static bool lane_welcome(const struct tcp_peer *p)
{
    return p->up && !p->lost && p->nlanes < TCP_LANES_MAX;
}

static void proved(struct tcp_conn *c)
{
    const struct tcp_hello *h = &c->shake->hello;
    struct tcp_peer *p = tcp_peer_get(c->tcp, h->from);
    bool is_main = h->purpose == TCP_FOR_MAIN;
    c->purpose = h->purpose;
    bool welcome = p && (is_main ? main_welcome(p) : lane_welcome(p));
    if (tcp_shake_send_verdict(c, welcome ? TCP_ACCEPTED : TCP_BUSY) < 0 || !welcome) {
        tcp_conn_close(c);
        return;
    }
    if (is_main && p->main)
        tcp_conn_close(p->main); /* our own attempt; what was to be sent is in the queue */
    conn_up(c, p, false);
}

static void verdict(struct tcp_conn *c)
{
    struct tcp_peer *p = c->peer;
    if (!tcp_shake_verdict_ok(c, p->addr->key)) {
        log_warn(BTL, "tcp: what listens at %s is not rank %u", tcp_fd_text(c->fd),
                 p->base.proc.rank);
        attempt_failed(c, EPROTO);
    } else if (c->shake->verdict.answer == TCP_BUSY) {
        attempt_failed(c, EBUSY); /* the other's connection is on its way */
    } else {
        conn_up(c, p, true);
    }
}

/* A complete record has come. */
static void record(struct tcp_conn *c)
{
    switch (c->state) {
    case TCP_WAIT_HELLO:
        if (!tcp_shake_hello_ok(c->tcp, &c->shake->hello))
            stranger(c, "is not meant for this process (another job, or another byte order)");
        else if (tcp_shake_send_challenge(c) < 0)
            tcp_conn_close(c);
        else
            c->state = TCP_WAIT_PROOF;
        return;
    case TCP_WAIT_PROOF:
        if (!tcp_shake_proof_ok(c))
            stranger(c, "does not know the key of this job");
        else
            proved(c);
        return;
    case TCP_WAIT_CHALLENGE:
        if (tcp_shake_send_proof(c, c->peer->addr->key) < 0)
            attempt_failed(c, errno);
        else
            c->state = TCP_WAIT_VERDICT;
        return;
    default:
        verdict(c);
    }
}

static void connected(struct tcp_conn *c)
{
    int err = 0;
    socklen_t len = sizeof err;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err) {
        attempt_failed(c, err);
        return;
    }
    c->state = TCP_WAIT_CHALLENGE;
    tcp_conn_watch(c, EPOLLIN);
    if (tcp_shake_send_hello(c, c->peer->base.proc.rank) < 0)
        attempt_failed(c, errno);
}

int tcp_conn_step(struct tcp_conn *c, uint32_t events)
{
    if (c->state == TCP_CONNECTING) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            connected(c);
        return 1;
    }
    enum tcp_shook s = tcp_shake_read(c);
    if (s == TCP_SHAKE_NEXT)
        record(c);
    else if (s != TCP_SHAKE_MORE && !is_accepted(c))
        attempt_failed(c, s == TCP_SHAKE_BAD ? EPROTO : errno ? errno : ECONNRESET);
    else if (s == TCP_SHAKE_BAD)
        stranger(c, "does not speak this protocol");
    else if (s == TCP_SHAKE_END && c->heard && c->state == TCP_WAIT_HELLO)
        stranger(c, "ended in the midst of its first words");
    else if (s == TCP_SHAKE_END) /* a look at the port, or a process that tries another way */
        tcp_conn_close(c);
    return 1;
}

int tcp_half_pass(struct btl_tcp *b, int wait_ms)
{
    struct epoll_event e[16];
    int n = epoll_wait(b->half_epoll, e, 16, wait_ms);
    for (int i = 0; i < n; i++) {
        struct tcp_conn *c = e[i].data.ptr;
        if (!c)
            tcp_accept(b);
        else if (c->state != TCP_CLOSED && c->state != TCP_UP)
            tcp_conn_step(c, e[i].events);
    }
    return n > 0 ? n : 0;
}

/* Two round trips when the peer is in MPI.  When it is not, waiting is in vain, and the next peers
 * are given less. */
#define PATIENCE_NS (2u * MS)

void tcp_connect_wait(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_of(p);
    uint64_t now = rt_now_ns(), end = now + b->patience_ns;
    while (p->main && !p->up && now < end) {
        tcp_half_pass(b, (int)((end - now) / MS));
        now = rt_now_ns();
    }
    b->patience_ns = p->up ? PATIENCE_NS : b->patience_ns / 2;
}

/* ---- dates ---- */

static void half_date(struct tcp_conn *c, uint64_t now)
{
    const struct tcp_peer *p = c->peer;
    if (is_accepted(c)) {
        if (now - c->since_ns > HALF_NS && c->state == TCP_WAIT_PROOF)
            tcp_conn_close(c); /* a process that computes in between, and will try again */
        else if (now - c->since_ns > HALF_NS)
            stranger(c, "did not say who it is in time");
    } else if (c->state == TCP_CONNECTING && now - c->since_ns > ATTEMPT_NS &&
               (p->main != c || p->nroutes > 1)) {
        attempt_failed(c, ETIMEDOUT);
    } else if (c->state == TCP_WAIT_CHALLENGE && p->main == c && p->nroutes > 1 &&
               now - c->since_ns > tcp_of(p)->timeout_ns / 2) {
        attempt_failed(c, ETIMEDOUT); /* something else may listen at that address */
    }
}

static void connect_date(struct tcp_peer *p, uint64_t now)
{
    uint64_t spent = now - p->first_try_ns;
    char why[160];
    bool trying = p->first_try_ns && !p->up && (!p->main || p->main->state == TCP_CONNECTING);
    if (trying && (spent > tcp_of(p)->timeout_ns ||
                   (p->last_errno == ECONNREFUSED && !p->main && spent > REFUSED_NS))) {
        snprintf(why, sizeof why, "no connection to it within %.1f s: %s%s", (double)spent / 1e9,
                 p->nroutes ? strerror(p->last_errno ? p->last_errno : ETIMEDOUT)
                            : "no address of it can be reached from here",
                 p->last_errno == ECONNREFUSED ? ", so its process has ended"
                                               : "; look at routes and firewalls");
        tcp_peer_lost(p, why);
    } else if (p->retry_ns && now >= p->retry_ns && !p->main && !p->up) {
        tcp_connect(p);
    }
}

static void work_date(struct tcp_peer *p, uint64_t now)
{
    if (p->bye_in && !p->lost && p->losing_ns)
        peer_left(p);
    if (p->lost) {
        tell(p);
    } else if (p->losing_ns) {
        if (now - p->losing_ns > GRACE_NS)
            tcp_peer_lost(p, p->last_errno ? strerror(p->last_errno)
                                           : "its connection has ended, so its process has");
    } else {
        connect_date(p, now);
    }
    if (p->lost || (!p->losing_ns && (p->up || (!p->retry_ns && !p->main))))
        rt_list_del(&p->work);
}

/* How long has the other side not acknowledged what it should?  While its window is closed the
 * kernel asks ever more rarely, and only a question without answer counts. */
static bool conn_is_dead(struct tcp_conn *c, uint64_t now)
{
    struct tcp_info i = { 0 };
    socklen_t len = sizeof i;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
        return false;
    uint64_t heard = now - (uint64_t)i.tcpi_last_ack_recv * MS;
    if (!i.tcpi_unacked && !i.tcpi_probes)
        c->stalled_ns = 0;
    else if (!c->stalled_ns || heard > c->stalled_ns)
        c->stalled_ns = now;
    return c->stalled_ns && now - c->stalled_ns > c->tcp->timeout_ns;
}

static void look_at_conns(struct btl_tcp *b, struct rt_list *list, uint64_t now)
{
    struct rt_list *pos, *next;
    rt_list_each_safe (pos, next, list) {
        struct tcp_conn *c = rt_container(pos, struct tcp_conn, link);
        char why[160];
        if (!c->peer || c->state == TCP_CONNECTING || !conn_is_dead(c, now))
            continue;
        snprintf(why, sizeof why, "%s has acknowledged nothing for %d s (WEFT_NET_TIMEOUT_S)",
                 tcp_fd_text(c->fd), (int)(b->timeout_ns / 1000000000u));
        tcp_peer_lost(c->peer, why);
        return; /* other connections of the list may have gone with it; the rest next time */
    }
}

int tcp_dates(struct btl_tcp *b)
{
    uint64_t now = rt_now_ns();
    struct rt_list *pos, *next;
    int n = 0;

    rt_list_each_safe (pos, next, &b->half)
        half_date(rt_container(pos, struct tcp_conn, link), now);
    rt_list_each_safe (pos, next, &b->work)
        work_date(rt_container(pos, struct tcp_peer, work), now);
    if (now >= b->next_check_ns) {
        uint64_t every = b->timeout_ns / 8;
        b->next_check_ns = now + (every > 1000u * MS ? 1000u * MS : every);
        look_at_conns(b, &b->conns, now);
        look_at_conns(b, &b->half, now);
        if (!b->listening && b->nhalf_in < HALF_MAX)
            listener_watch(b, true); /* descriptors may have come free */
    }
    return n;
}

/* ---- listening ---- */

static int bind_range(int fd, union tcp_sockaddr *a, socklen_t len)
{
    unsigned lo = 0, hi = 0;
    in_port_t *port = a->sa.sa_family == AF_INET ? &a->in.sin_port : &a->in6.sin6_port;
    if (!*cfg.tcp_ports)
        return bind(fd, &a->sa, len);
    int n = sscanf(cfg.tcp_ports, "%u-%u", &lo, &hi);
    if (n < 1 || lo < 1 || (n == 2 && (hi < lo || hi > 65535)) || lo > 65535) {
        log_error(BTL, "WEFT_TCP_PORTS is \"%s\"; it has the form FIRST-LAST, 1 to 65535",
                  cfg.tcp_ports);
        errno = 0;
        return -1;
    }
    if (n == 1)
        hi = lo;
    unsigned count = hi - lo + 1, start = (unsigned)rt_boot.local_rank % count;
    for (unsigned i = 0; i < count; i++) {
        *port = htons((in_port_t)(lo + (start + i) % count));
        if (bind(fd, &a->sa, len) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

static int listen_on(int family)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = family == AF_INET ? sizeof a.in : sizeof a.in6;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    a.sa.sa_family = (sa_family_t)family; /* the address is zero: all */
    if (family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (*cfg.tcp_ports)
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind_range(fd, &a, len) < 0 || listen(fd, 4096) < 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

int tcp_listen(struct btl_tcp *b)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;
    b->listener = listen_on(AF_INET6);
    if (b->listener < 0 && errno == EAFNOSUPPORT)
        b->listener = listen_on(AF_INET);
    if (b->listener < 0) {
        log_error(BTL, "tcp: no port to listen on%s%s: %m", *cfg.tcp_ports ? " in " : "",
                  cfg.tcp_ports);
        return -RT_ESYS;
    }
    getsockname(b->listener, &a.sa, &len);
    b->port = ntohs(a.sa.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
    listener_watch(b, true);
    return 0;
}
