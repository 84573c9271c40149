/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi: messages whose buffer is device memory (design: top of device.c).  Under the
 * domain's lock. */
#ifndef WM_P2P_DEVICE_H
#define WM_P2P_DEVICE_H

#include "mpi/p2p/request.h"

/* Starts a rendezvous of a new send request.  0 or -RT_E... */
int wm_dev_send(struct wm_preq *q);
/* A rendezvous with a device buffer at either end has found its receive. */
void wm_dev_recv(struct wm_preq *q, const struct wm_rts *rts);
/* The sender cannot write into the receiver's buffer: takes another way. */
void wm_dev_put_refused(struct wm_preq *q);
/* Copies an eager message to the device; completes the request when the data are there. */
void wm_dev_deliver(struct wm_preq *q, const struct wm_key *k, const void *data, size_t len);

/* MPI_Finalize has left this message of device memory unfinished and has released its device. */
static inline bool wm_dev_gone(const struct wm_preq *q)
{
    return q->dev && !q->dev->at.g && !q->dev->scattered;
}

/* Waits for copies and releases what is kept for devices: before rt_gpu_fini(). */
void wm_dev_rest(struct wm_domain *d);

#endif
