/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: a listening socket, a name with its addresses and a secret, and the first records of a
 * connection, with which both ends prove that they know the secret.  Nothing here is collective. */
#ifndef WM_DYNAMIC_PORT_H
#define WM_DYNAMIC_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include "mpi/base/mpi_int.h"

struct wm_domain;
struct wm_dial; /* link.h: how->name, stop, limit_s */

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
/* Waits for `len` bytes that begin with the 8 bytes of `head`, and reads no further.  0;
 * -RT_EPEER: closed; -RT_ESYS: failed, with errno; -RT_EINVAL: other data; -RT_ETIMEOUT: not by the
 * time `until`, if it is not 0. */
int wm_port_record(struct wm_domain *d, int fd, const char *head, void *buf, size_t len,
                   uint64_t until);

#endif
