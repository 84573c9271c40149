/* SPDX-License-Identifier: BSD-3-Clause */
/* Window memory on a device, mapped by the other processes of the host. */
#ifndef WM_RMA_MAP_H
#define WM_RMA_MAP_H

#include "mpi/rma/op.h"

/* The own memory of a window with a base, if it is device memory; else, or if the device has been
 * lost, NULL.  Resolved when first used, and again when a context has been released since. */
const struct wm_mem *wm_rma_own(struct wm_rma *r);
/* The owner, at creation: publishes a key of its memory to these ranks, if that is possible. */
void wm_rma_map_offer(struct wm_rma *r, const int *ranks);
void wm_rma_map_withdraw(struct wm_rma *r);
/* Starts a put or get by a mapping.  0, or -RT_ENOTSUP: it has to go by messages. */
int wm_rma_map_start(struct wm_rma_op *op);
/* The memory of a target as the device of the own memory addresses it, until the window ends; NULL:
 * that is not possible. */
char *wm_rma_map_address(struct wm_rma *r, struct wm_rma_target *t);
void wm_rma_maps_free(struct wm_rma_target *t);
/* The memory of a target as the device of `near` addresses it, until the device's context is
 * released; NULL: that is not possible.  *atomic: the device's atomic operations are atomic with
 * those of the target's device. */
char *wm_rma_map_reach(struct wm_rma *r, struct wm_rma_target *t, const struct rt_gpu_ptr *near,
                       bool *atomic);
/* The same for the data of a put by a stream of the application, until the window ends. */
char *wm_rma_map_for_stream(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a,
                            const struct rt_gpu_ptr *near);

/* Lets the target's device read the data of a long accumulate, and writes their key.  False: they
 * have to be sent.  wm_rma_op_unlend() ends it. */
bool wm_rma_lend(struct wm_rma_op *op, char key[WM_RMA_KEY]);
void wm_rma_lend_refused(struct wm_rma_op *op); /* the target cannot read them */
/* The target: the data that `rank` has lent, as the device of `near` addresses them, until
 * ops->detach(); NULL: it cannot read them. */
struct btl_rmem *wm_rma_borrow(struct wm_rma *r, int rank, const char *key,
                               const struct rt_gpu_ptr *near, const struct btl_ops **ops);

#endif
