/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's name is "weft1:SECRET@ADDRESS:PORT,ADDRESS:PORT...".  The kernel queues connections;
 * the acceptor answers while a process is in MPI_Comm_accept.
 *
 *     acceptor:  challenge   magic, a nonce
 *     connector: proof       magic, a nonce, HMAC of both nonces with the secret
 *     acceptor:  answer      magic, HMAC of both nonces with the secret
 *
 * The answer comes when an accept takes the connection; until then the connector waits. Connections
 * that have proved themselves wait in their order for further accepts; an unauthenticated
 * connection is closed when PENDING_MAX are held. */
#include "mpi/dynamic/port.h"
#include "mpi/base/err.h"
#include "mpi/dynamic/link.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/cfg.h"
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"
#include "runtime/mem/activity.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX "weft1:"
#define SECRET_LEN 16
#define NONCE_LEN 32
#define PENDING_MAX 64
#define ADDRESSES_MAX 16
#define SWAP_NS 60000000000u       /* wm_port_swap() without a byte */
#define TCP_CONNECT_NS 5000000000u /* to one address */
#define LOOK_US 50000              /* time limits, and whether an accept is over */
_Static_assert(PENDING_MAX + 1 <= WM_WAIT_FDS, "an accept waits for all of them");

#define MAGIC_LEN 8
static const char magic[MAGIC_LEN] = "weftprt1";

struct challenge {
    char magic[MAGIC_LEN];
    uint8_t nonce[NONCE_LEN];
};
struct proof {
    char magic[MAGIC_LEN];
    uint8_t nonce[NONCE_LEN], mac[RT_SHA256_LEN];
};
struct answer {
    char magic[MAGIC_LEN];
    uint8_t mac[RT_SHA256_LEN];
};

struct pending { /* an accepted connection */
    int fd;
    struct challenge challenge;
    struct proof proof;
    size_t have; /* bytes of the proof */
};

struct port {
    char *name;
    uint8_t secret[SECRET_LEN];
    int fd;
    struct pending pending[PENDING_MAX]; /* oldest first */
    int npending;
    bool busy, closed; /* an accept uses it; to be freed by that accept */
    struct port *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct port *ports; /* under the mutex */

/* ---- waiting for a process of another job ---- */

static void describe(const void *of, struct rt_wait_note *n)
{
    (void)of; /* what for is known by the call */
    n->item = (struct rt_wait_item){ .kind = RT_WAIT_OTHER, .world = RT_WAIT_FOREIGN };
}

/* step() returns now and then without an event. */
static struct wm_wait wait_for(const struct pollfd *f, int n)
{
    return (struct wm_wait){ .what = { describe, NULL }, .limit_us = LOOK_US, .fds = f, .nfds = n };
}

static void step(struct wm_domain *d, struct wm_wait *w)
{
    rt_lock(&d->lock);
    wm_domain_step(d, w);
    rt_unlock(&d->lock);
}

static void waited(struct wm_domain *d, struct wm_wait *w)
{
    rt_lock(&d->lock);
    wm_domain_left(d, w);
    rt_unlock(&d->lock);
}

/* ---- names ---- */

static void sign(const uint8_t *secret, const char *role, const struct challenge *c,
                 const uint8_t *nonce, uint8_t *mac)
{
    struct {
        char role[16];
        uint8_t nonces[2 * NONCE_LEN];
    } text = { 0 };
    memcpy(text.role, role, strlen(role));
    memcpy(text.nonces, c->nonce, NONCE_LEN);
    memcpy(text.nonces + NONCE_LEN, nonce, NONCE_LEN);
    rt_hmac(secret, SECRET_LEN, &text, sizeof text, mac);
}

static int unhex(const char *text, uint8_t *out)
{
    for (int i = 0; i < SECRET_LEN; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return -RT_EINVAL;
        out[i] = (uint8_t)byte;
    }
    return 0;
}

/* Appends ",ADDRESS:PORT" if there is room. */
static void add_address(char *name, const struct sockaddr *a, int port)
{
    char text[INET6_ADDRSTRLEN], item[INET6_ADDRSTRLEN + 16];
    bool six = a->sa_family == AF_INET6;
    const void *at = six ? (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                         : &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    if (!inet_ntop(a->sa_family, at, text, sizeof text))
        return;
    size_t len = strlen(name);
    bool first = name[len - 1] == '@';
    snprintf(item, sizeof item, six ? "%s[%s]:%d" : "%s%s:%d", first ? "" : ",", text, port);
    if (len + strlen(item) < MPI_MAX_PORT_NAME)
        strcpy(name + len, item);
}

static bool is_usable(const struct ifaddrs *i, bool loopback)
{
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_LOOPBACK) == loopback)
        return false;
    if (i->ifa_addr->sa_family == AF_INET)
        return true;
    const struct sockaddr_in6 *a = (const void *)i->ifa_addr;
    return i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr);
}

/* All addresses of this host; loopback last, for a host without others. */
static void add_addresses(char *name, int port)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return;
    int n = 0;
    for (int loopback = 0; loopback < 2; loopback++)
        for (struct ifaddrs *i = all; i && n < ADDRESSES_MAX; i = i->ifa_next)
            if (is_usable(i, loopback)) {
                add_address(name, i->ifa_addr, port);
                n++;
            }
    freeifaddrs(all);
}

/* The next address of "ADDRESS:PORT,..."; NULL: none, or malformed (*bad). */
static const char *next_address(const char *p, struct sockaddr_storage *out, socklen_t *len,
                                bool *bad)
{
    char host[INET6_ADDRSTRLEN];
    unsigned port;
    int n = 0;
    if (!*p)
        return NULL;
    struct sockaddr_in *four = (void *)out;
    struct sockaddr_in6 *six = (void *)out;
    memset(out, 0, sizeof *out);
    *len = *p == '[' ? sizeof *six : sizeof *four;
    *bad = true;
    if (sscanf(p, *p == '[' ? "[%45[0-9a-fA-F:.]]:%u%n" : "%45[0-9.]:%u%n", host, &port, &n) != 2 ||
        n == 0 || port < 1 || port > 65535 || (p[n] && p[n] != ','))
        return NULL;
    if (*p == '[') {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((in_port_t)port);
    } else {
        four->sin_family = AF_INET;
        four->sin_port = htons((in_port_t)port);
    }
    if (inet_pton(*p == '[' ? AF_INET6 : AF_INET, host,
                  *p == '[' ? (void *)&six->sin6_addr : (void *)&four->sin_addr) != 1)
        return NULL;
    *bad = false;
    return p + n + (p[n] == ',');
}

/* ---- open and close ---- */

static int listen_any(int family, int *port)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a = { 0 };
    socklen_t len = family == AF_INET6 ? sizeof a.six : sizeof a.four;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), off = 0;
    if (fd < 0)
        return -1;
    a.sa.sa_family = (sa_family_t)family;
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &a.sa, len) < 0 || listen(fd, 4096) < 0 || getsockname(fd, &a.sa, &len) < 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(family == AF_INET6 ? a.six.sin6_port : a.four.sin_port);
    return fd;
}

int wm_port_open(char *name)
{
    int number = 0;
    struct port *p = calloc(1, sizeof *p);
    if (!p || rt_random(p->secret, sizeof p->secret) < 0) {
        free(p);
        return wm_err(MPI_ERR_NO_MEM, "no memory for a port");
    }
    p->fd = listen_any(AF_INET6, &number);
    if (p->fd < 0)
        p->fd = listen_any(AF_INET, &number);
    if (p->fd < 0) {
        free(p);
        return wm_err(MPI_ERR_OTHER, "no TCP port to listen on: %s", strerror(errno));
    }
    const size_t max = MPI_MAX_PORT_NAME;
    int n = snprintf(name, max, PREFIX);
    for (int i = 0; i < SECRET_LEN; i++)
        n += snprintf(name + n, max - (size_t)n, "%02x", p->secret[i]);
    strcpy(name + n, "@");
    add_addresses(name, number);
    p->name = strdup(name);
    if (!p->name)
        RT_BUG("out of memory: the name of a port");
    pthread_mutex_lock(&mutex);
    p->next = ports;
    ports = p;
    pthread_mutex_unlock(&mutex);
    return MPI_SUCCESS;
}

static void port_free(struct port *p)
{
    for (int i = 0; i < p->npending; i++)
        close(p->pending[i].fd);
    close(p->fd);
    free(p->name);
    free(p);
}

static struct port **find(const char *name) /* under the mutex */
{
    struct port **p = &ports;
    while (*p && strcmp((*p)->name, name))
        p = &(*p)->next;
    return p;
}

static int not_here(const char *name)
{
    return wm_err(MPI_ERR_PORT,
                  "argument port_name: \"%.60s\" is not a port that this process has opened with "
                  "MPI_Open_port and not closed",
                  name);
}

int wm_port_close(const char *name)
{
    pthread_mutex_lock(&mutex);
    struct port **at = find(name), *p = *at;
    if (p) {
        *at = p->next;
        rt_store_release(&p->closed, true); /* pairs with past(), without the mutex */
    }
    bool idle = p && !p->busy;
    pthread_mutex_unlock(&mutex);
    if (!p)
        return not_here(name);
    if (idle)
        port_free(p);
    return MPI_SUCCESS;
}

/* Takes the port for an accept; one at a time. */
static int acquire(const char *name, struct port **out)
{
    pthread_mutex_lock(&mutex);
    struct port *p = *find(name);
    bool busy = p && p->busy;
    if (p && !busy)
        p->busy = true;
    pthread_mutex_unlock(&mutex);
    if (!p)
        return not_here(name);
    if (busy)
        return wm_err(MPI_ERR_PORT, "another thread of this process accepts at this port");
    *out = p;
    return MPI_SUCCESS;
}

static void release(struct port *p)
{
    pthread_mutex_lock(&mutex);
    p->busy = false;
    bool closed = p->closed;
    pthread_mutex_unlock(&mutex);
    if (closed)
        port_free(p);
}

/* ---- moving bytes ---- */

static bool would_block(void) { return errno == EAGAIN || errno == EINTR; }

struct part {
    char *at;
    size_t n;
};

/* Moves what can move now.  1: some bytes; 0; -RT_EPEER. */
static int move(int fd, struct part *p, bool out)
{
    if (!p->n)
        return 0;
    ssize_t n = out ? send(fd, p->at, p->n, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : recv(fd, p->at, p->n, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && !would_block()))
        return -RT_EPEER;
    p->at += n > 0 ? n : 0;
    p->n -= n > 0 ? (size_t)n : 0;
    return n > 0;
}

int wm_port_swap(struct wm_domain *d, int fd, const void *out, size_t n_out, void *in, size_t n_in)
{
    struct part to = { (char *)(uintptr_t)out, n_out }, from = { in, n_in };
    struct pollfd f = { .fd = fd };
    struct wm_wait w = wait_for(&f, 1);
    uint64_t last = rt_now_ns();
    int err = 0;
    while (!err && (to.n || from.n)) {
        int sent = move(fd, &to, true), got = sent < 0 ? sent : move(fd, &from, false);
        if (got < 0) {
            err = got;
        } else if (sent || got) {
            last = rt_now_ns();
        } else if (rt_now_ns() - last > SWAP_NS) {
            err = -RT_ETIMEOUT;
        } else {
            f.events = (short)((to.n ? POLLOUT : 0) | (from.n ? POLLIN : 0));
            step(d, &w);
        }
    }
    waited(d, &w);
    return err;
}

int wm_port_record(struct wm_domain *d, int fd, const char *head, void *buf, size_t len,
                   uint64_t until)
{
    struct pollfd f = { .fd = fd, .events = POLLIN };
    struct wm_wait w = wait_for(&f, 1);
    int err = 0;
    for (size_t have = 0; !err && have < len;) {
        ssize_t n = recv(fd, (char *)buf + have, len - have, MSG_DONTWAIT);
        have += n > 0 ? (size_t)n : 0;
        if (n == 0)
            err = -RT_EPEER;
        else if (n < 0 && !would_block())
            err = -RT_ESYS;
        else if (memcmp(buf, head, have < MAGIC_LEN ? have : MAGIC_LEN))
            err = -RT_EINVAL;
        else if (n < 0 && until && rt_now_ns() > until)
            err = -RT_ETIMEOUT;
        else if (n < 0)
            step(d, &w);
    }
    waited(d, &w);
    return err;
}

/* ---- accept ---- */

static void forget(struct port *p, int i)
{
    p->npending--;
    memmove(&p->pending[i], &p->pending[i + 1], (size_t)(p->npending - i) * sizeof p->pending[0]);
}

static void drop(struct port *p, int i)
{
    close(p->pending[i].fd);
    forget(p, i);
}

static bool is_proved(const struct pending *c) { return c->have == sizeof c->proof; }

/* Takes new connections and sends their challenges. */
static void take_new(struct port *p)
{
    for (;;) {
        for (int i = 0; p->npending == PENDING_MAX && i < p->npending; i++)
            if (!is_proved(&p->pending[i]))
                drop(p, i);
        if (p->npending == PENDING_MAX)
            return;
        int on = 1, fd = rt_accept(p->fd, NULL, NULL, true);
        if (fd < 0)
            return;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct pending *c = &p->pending[p->npending];
        *c = (struct pending){ .fd = fd };
        memcpy(c->challenge.magic, magic, sizeof magic);
        p->npending++;
        if (rt_random(c->challenge.nonce, NONCE_LEN) < 0 ||
            send(fd, &c->challenge, sizeof c->challenge, MSG_NOSIGNAL) != sizeof c->challenge)
            drop(p, p->npending - 1);
    }
}

/* Reads from one connection.  False: it is to be closed. */
static bool read_proof(const struct port *p, struct pending *c)
{
    if (is_proved(c)) { /* nothing may follow yet; 0: it has gone */
        char byte;
        ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return n < 0 && would_block();
    }
    ssize_t n = recv(c->fd, (char *)&c->proof + c->have, sizeof c->proof - c->have, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && would_block();
    c->have += (size_t)n;
    if (memcmp(c->proof.magic, magic, c->have < sizeof magic ? c->have : sizeof magic))
        return false;
    if (!is_proved(c))
        return true;
    uint8_t mac[RT_SHA256_LEN];
    sign(p->secret, "connector", &c->challenge, c->proof.nonce, mac);
    return rt_hmac_equal(mac, c->proof.mac);
}

/* The oldest connection that has proved itself, answered; -1: none. */
static int answer_one(struct port *p)
{
    for (int i = 0; i < p->npending; i++) {
        struct pending *c = &p->pending[i];
        if (!is_proved(c))
            continue;
        struct answer a;
        memcpy(a.magic, magic, sizeof magic);
        sign(p->secret, "acceptor", &c->challenge, c->proof.nonce, a.mac);
        int fd = c->fd;
        forget(p, i--);
        if (send(fd, &a, sizeof a, MSG_NOSIGNAL) == sizeof a)
            return fd;
        close(fd);
    }
    return -1;
}

/* Whether the accept is over; it has no connection yet. */
static int past(const struct port *p, const struct wm_dial *how, uint64_t until)
{
    int err = how->stop ? how->stop(how->arg) : MPI_SUCCESS;
    if (!err && rt_load_acquire(&p->closed))
        err = wm_err(MPI_ERR_PORT, "the port was closed while this call waited");
    if (!err && until && rt_now_ns() > until)
        err = wm_err(MPI_ERR_PORT, "no process has connected within %d seconds", how->limit_s);
    return err;
}

int wm_port_accept(struct wm_domain *d, const struct wm_dial *how, int *fd)
{
    uint64_t until = how->limit_s ? rt_now_ns() + (uint64_t)how->limit_s * 1000000000u : 0;
    struct pollfd f[PENDING_MAX + 1];
    struct wm_wait w = wait_for(f, 0);
    struct port *p = NULL;
    int err = acquire(how->name, &p);
    if (err)
        return err;
    do {
        take_new(p);
        for (int i = 0; i < p->npending; i++)
            if (!read_proof(p, &p->pending[i]))
                drop(p, i--);
        *fd = answer_one(p);
        if (*fd >= 0)
            break;
        err = past(p, how, until);
        w.nfds = p->npending + 1;
        f[0] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
        for (int i = 0; i < p->npending; i++)
            f[i + 1] = (struct pollfd){ .fd = p->pending[i].fd, .events = POLLIN };
        if (!err)
            step(d, &w);
    } while (!err);
    waited(d, &w);
    release(p);
    return err;
}

/* ---- connect ---- */

/* A TCP connection to the address; -1 with errno. */
static int tcp_to(struct wm_domain *d, const struct sockaddr_storage *a, socklen_t len)
{
    int on = 1, err = 0, fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd f = { .fd = fd, .events = POLLOUT };
    struct wm_wait w = wait_for(&f, 1);
    uint64_t until = rt_now_ns() + TCP_CONNECT_NS;
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (const struct sockaddr *)(const void *)a, len) == 0)
        return fd;
    err = errno;
    while (err == EINPROGRESS) {
        step(d, &w);
        socklen_t n = sizeof err;
        if (poll(&f, 1, 0) > 0)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n);
        else if (rt_now_ns() > until)
            err = ETIMEDOUT;
    }
    waited(d, &w);
    if (!err)
        return fd;
    close(fd);
    errno = err;
    return -1;
}

/* Proves itself and waits for the accept. */
static int present(struct wm_domain *d, int fd, const uint8_t *secret, uint64_t until)
{
    struct challenge c;
    struct proof p;
    struct answer a;
    uint8_t mac[RT_SHA256_LEN];
    memcpy(p.magic, magic, sizeof magic);
    int err = wm_port_record(d, fd, magic, &c, sizeof c, until);
    if (!err)
        err = rt_random(p.nonce, sizeof p.nonce);
    if (err)
        return err;
    sign(secret, "connector", &c, p.nonce, p.mac);
    if (send(fd, &p, sizeof p, MSG_NOSIGNAL) != sizeof p)
        return -RT_EPEER;
    err = wm_port_record(d, fd, magic, &a, sizeof a, until);
    sign(secret, "acceptor", &c, p.nonce, mac);
    return err ? err : rt_hmac_equal(mac, a.mac) ? 0 : -RT_EINVAL;
}

static int malformed(const char *name)
{
    return wm_err(MPI_ERR_PORT,
                  "argument port_name: \"%.60s\" is not the name of a port of Weft, which "
                  "MPI_Open_port returns: " PREFIX "SECRET@ADDRESS:PORT,...",
                  name);
}

static int refused(const char *list, int limit_s, int err, int rc)
{
    if (rc == -RT_ETIMEOUT)
        return wm_err(MPI_ERR_PORT,
                      "no process has called MPI_Comm_accept at %.200s within %d seconds "
                      "(WEFT_CONNECT_S)",
                      list, limit_s);
    return wm_err(MPI_ERR_PORT, "the port at %.200s cannot be reached, or is closed: %s", list,
                  rc == -RT_EINVAL ? "another program, or another port, is there"
                  : rc             ? "the other side has closed the connection"
                                   : strerror(err));
}

int wm_port_connect(struct wm_domain *d, const struct wm_dial *how, int *fd)
{
    const char *name = how->name;
    int limit_s = how->limit_s ? how->limit_s : cfg.connect_s;
    uint8_t secret[SECRET_LEN];
    const size_t head = strlen(PREFIX) + 2 * SECRET_LEN;
    if (strncmp(name, PREFIX, strlen(PREFIX)) || strnlen(name, head + 2) < head + 2 ||
        name[head] != '@' || unhex(name + strlen(PREFIX), secret) < 0)
        return malformed(name);
    uint64_t limit = (uint64_t)limit_s * 1000000000u, until = limit ? rt_now_ns() + limit : 0;
    struct sockaddr_storage a;
    socklen_t len;
    bool bad = false;
    int rc = 0, err = 0;
    const char *list = name + head + 1;
    for (const char *p = list; (p = next_address(p, &a, &len, &bad));) {
        *fd = tcp_to(d, &a, len);
        if (*fd < 0) {
            err = errno;
            continue;
        }
        rc = present(d, *fd, secret, until);
        if (!rc)
            return MPI_SUCCESS;
        close(*fd);
        if (rc == -RT_ETIMEOUT)
            break;
    }
    return bad ? malformed(name) : refused(list, limit_s, err, rc);
}
