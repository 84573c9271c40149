/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: a listening socket, a name with its addresses and a secret, and the first records of a
 * connection, with which both ends prove that they know the secret.  Nothing here is collective. */
#ifndef WM_DYNAMIC_PORT_H
#define WM_DYNAMIC_PORT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include "mpi/base/mpi_int.h"

struct wm_domain;
struct wm_dial;      /* link.h: how->name, stop, limit_s */
struct rt_wait_note; /* runtime/mem/activity.h */

/* A wait for another process: zero at first. */
struct wm_port_wait {
    bool foreign;   /* published when it lasts: it ends with wm_port_waited() */
    unsigned quiet; /* grows while nothing happens */
    uint64_t begin_ns;
    struct rt_wait_note *note;
    bool published;
};
/* Waits for events of n descriptors for a short time, and makes progress.  Without the domain's
 * lock. */
void wm_port_poll(struct wm_domain *d, struct pollfd *f, int n, struct wm_port_wait *w);
void wm_port_waited(struct wm_port_wait *w);

/* Makes a port; its name (MPI_MAX_PORT_NAME bytes) holds addresses and a secret.  Closing it
 * ends the connections that wait there.  Return MPI_SUCCESS or what wm_err() returned. */
int wm_port_open(char *name);
int wm_port_close(const char *name);
/* The descriptor of a connection whose other end knows the port's secret.  Return MPI_SUCCESS or
 * what wm_err() returned. */
int wm_port_accept(struct wm_domain *d, const struct wm_dial *how, int *fd);
int wm_port_connect(struct wm_domain *d, const struct wm_dial *how, int *fd);
/* Sends n_out bytes and receives n_in bytes at the same time.  0, -RT_EPEER, -RT_ETIMEOUT: nothing
 * moved for a minute. */
int wm_port_swap(struct wm_domain *d, int fd, const void *out, size_t n_out, void *in, size_t n_in);

#endif
