/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds out whether a process that does not answer HELLOs, or that does not complete requests, is
 * alive.  handshake.c answers only while the process is inside MPI.  A separate thread with its own
 * ports answers a ping at any time.  So a peer that is not calling MPI can be distinguished from a
 * peer that has ended and from a path that does not reach the peer.
 *
 * The thread sleeps until a ping arrives.  It accesses only those data of the transport that are
 * constant while it runs, blocks all signals, and logs nothing.
 *
 * Ping and pong carry an HMAC with a key of the pinged process, made from the key in its address.
 * A process that has accepted a connection without fetching the address gets this key, encrypted,
 * in the HELLO.  A pong carries the number of its ping; each number counts once. */
#include "btl/verbs/alive.h"
#include "btl/verbs/dgram.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STACK_NBYTES (256u << 10) /* includes thread-local variables of other libraries */

enum { PING = 1, PONG };
struct ping {
    uint32_t magic;
    uint8_t version, kind, pad[2];
    uint32_t from, to; /* ranks in the job */
    uint32_t number;
    uint32_t qkey, port; /* destination of the pong */
    struct rt_ib_addr back;
    uint8_t nonce[16]; /* of the connection being set up */
    uint8_t mac[RT_SHA256_LEN];
};
_Static_assert(sizeof(struct ping) <= VERBS_DGRAM_MAX, "a question fits into a datagram");

struct verbs_alive {
    int nrails, stop; /* stop: eventfd that ends the thread */
    uint32_t rank;
    bool running;
    pthread_t thread;
    uint8_t key[VERBS_KEY];
    struct answerer {
        struct verbs_alive *a;
        struct verbs_dgram *port;
    } rails[VERBS_RAILS];
};

void verbs_alive_key(const uint8_t key[VERBS_KEY], uint8_t out[VERBS_KEY])
{
    static const char what[] = "is it there?";
    _Static_assert(VERBS_KEY == RT_SHA256_LEN, "an HMAC is a key");
    rt_hmac(key, VERBS_KEY, what, sizeof what, out);
}

static void ping_mac(const struct ping *m, const uint8_t *key, uint8_t out[RT_SHA256_LEN])
{
    rt_hmac(key, VERBS_KEY, m, offsetof(struct ping, mac), out);
}

static bool ping_good(const struct ping *m, size_t len, uint8_t kind, const uint8_t *key)
{
    uint8_t mac[RT_SHA256_LEN];
    if (len != sizeof *m || m->magic != VERBS_MAGIC || m->version != VERBS_VERSION ||
        m->kind != kind)
        return false;
    ping_mac(m, key, mac);
    return rt_hmac_equal(mac, m->mac);
}

/* ---- the thread ---- */

static void on_ping(void *arg, const void *data, size_t len)
{
    struct answerer *r = arg;
    struct ping m;
    memcpy(&m, data, len < sizeof m ? len : sizeof m);
    if (!ping_good(&m, len, PING, r->a->key) || m.to != r->a->rank)
        return;
    m.kind = PONG;
    m.to = m.from;
    m.from = r->a->rank;
    ping_mac(&m, r->a->key, m.mac);
    verbs_dgram_send(r->port, &m.back, m.port, m.qkey, &m, sizeof m);
}

/* Arms the event for later pings and answers all that have arrived. */
static void answer(struct answerer *r)
{
    verbs_dgram_arm(r->port);
    while (verbs_dgram_take(r->port, on_ping, r) > 0)
        continue;
}

static void *run(void *arg)
{
    struct verbs_alive *a = arg;
    struct pollfd fd[VERBS_RAILS + 1] = { { .fd = a->stop, .events = POLLIN } };
    prctl(PR_SET_NAME, "weft-alive");
    /* The second condition avoids a warning of gcc 14 (-Wstringop-overflow). */
    for (int i = 0; i < a->nrails && i < VERBS_RAILS; i++)
        fd[i + 1] = (struct pollfd){ .fd = verbs_dgram_fd(a->rails[i].port), .events = POLLIN };
    for (;;) {
        for (int i = 0; i < a->nrails; i++)
            answer(&a->rails[i]);
        if (poll(fd, (nfds_t)a->nrails + 1, -1) < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i <= a->nrails; i++) /* asked to end, or the program has closed the
                                              * descriptors */
            if (fd[i].revents & (i ? POLLERR | POLLHUP | POLLNVAL : ~0))
                return NULL;
    }
}

/* ---- opening and closing ---- */

static int refused(const char *what)
{
    log_error(BTL, "could not create %s that answers pings: %m", what);
    return -RT_ESYS;
}

static int start_thread(struct verbs_alive *a)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_NBYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&a->thread, &attr, run, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    a->running = !err;
    errno = err;
    return err ? refused("the thread") : 0;
}

static int rail_open(struct verbs_alive *a, struct verbs_rail *r)
{
    struct answerer *w = &a->rails[a->nrails++];
    w->a = a;
    int err = verbs_dgram_open(r, NULL, r->v->addr.ud_qkey, &w->port);
    if (!err)
        r->v->addr.rails[r->index].alive_port = verbs_dgram_port(w->port);
    return err;
}

int verbs_alive_open(struct verbs *v)
{
    struct verbs_alive *a = calloc(1, sizeof *a);
    if (!a)
        return -RT_ENOMEM;
    v->alive = a;
    a->rank = (uint32_t)rt_boot.rank;
    verbs_alive_key(v->addr.key, a->key);
    a->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = a->stop < 0 ? refused("the event descriptor of the thread") : 0;
    for (int i = 0; i < v->nrails && !err; i++)
        err = rail_open(a, &v->rails[i]);
    return err ? err : start_thread(a);
}

void verbs_alive_close(struct verbs *v)
{
    struct verbs_alive *a = v->alive;
    uint64_t one = 1;
    if (!a)
        return;
    if (a->running && write(a->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(a->thread, NULL);
    for (int i = 0; i < a->nrails; i++)
        verbs_dgram_close(a->rails[i].port);
    if (a->stop >= 0)
        close(a->stop);
    free(a);
    v->alive = NULL;
}

/* ---- sending pings, by the engine ---- */

void verbs_alive_ask(const struct verbs_lane *l)
{
    struct verbs_peer *p = l->peer;
    const struct verbs *v = verbs_of(p);
    const struct verbs_addr_rail *to = &p->addr.rails[l->remote_rail];
    const struct verbs_addr_rail *mine = &v->addr.rails[l->rail->index];
    struct ping m = { .magic = VERBS_MAGIC,
                      .version = VERBS_VERSION,
                      .kind = PING,
                      .from = (uint32_t)rt_boot.rank,
                      .to = p->base.proc.rank,
                      .number = ++p->live.pings,
                      .qkey = v->addr.ud_qkey,
                      .port = mine->ud_qpn,
                      .back = mine->at };
    memcpy(m.nonce, p->setup.nonce, sizeof m.nonce);
    ping_mac(&m, p->live.key, m.mac);
    verbs_dgram_send(l->rail->dgram, &to->at, to->alive_port, p->addr.ud_qkey, &m, sizeof m);
}

bool verbs_alive_answer(struct verbs *v, const void *data, size_t len)
{
    struct verbs_peer *p;
    struct ping m;
    if (len != sizeof m)
        return false;
    memcpy(&m, data, sizeof m);
    struct rt_proc proc = { 0, m.from };
    if (verbs_peer_get(v, proc, false, &p) < 0 || p->state == VERBS_NEW || p->err)
        return true;
    bool fresh = m.number - p->live.pongs - 1 <
                 p->live.pings - p->live.pongs; /* sent, not yet answered */
    if (fresh && m.to == (uint32_t)rt_boot.rank &&
        !memcmp(m.nonce, p->setup.nonce, sizeof m.nonce) && ping_good(&m, len, PONG, p->live.key)) {
        p->live.pongs = m.number;
        p->setup.silent_ms = 0;
        p->live.stuck = 0;
    }
    return true;
}
