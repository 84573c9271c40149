/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: registration, puts, gets. */
#ifndef BTL_VERBS_RMA_H
#define BTL_VERBS_RMA_H

#include "btl/verbs/lane.h"

int verbs_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                  struct btl_mem **out);
int verbs_window_reg(struct btl *b, void *base, size_t len, struct btl_mem **out);
void verbs_mem_dereg(struct btl_mem *m);
void verbs_mems_free(struct verbs *v); /* registrations that were not released */
int verbs_mem_key(const struct btl_mem *m, void *key);
int verbs_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                 struct btl_rmem **out);
void verbs_detach(struct btl_rmem *r);
int verbs_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
              struct btl_op *op);
int verbs_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
              struct btl_op *op);

/* The request with this mark, of a put or get, has completed or failed. */
void verbs_xfer_landed(struct verbs_lane *l, const struct verbs_mark *m, int err);
/* Posts pieces and ends transfers; returns the number of transfers that have ended. */
int verbs_xfers_step(struct verbs_peer *p);
void verbs_xfers_drop(struct verbs_peer *p); /* without calling done() */
void verbs_xfers_free(struct verbs_peer *p); /* after the queue pairs are destroyed */

#endif
