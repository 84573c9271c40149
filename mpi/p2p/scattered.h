/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of derived types whose data lie in several allocations, perhaps on devices (absolute
 * addresses, structures of pointers).  Legal, rare, and moved piece by piece.  Under the domain's
 * lock. */
#ifndef WM_P2P_SCATTERED_H
#define WM_P2P_SCATTERED_H

#include <stdbool.h>
#include "runtime/layout/layout.h"

/* Bytes [pos, pos + len) of the packed form of `count` elements at `user`, to or from `packed`. */
struct wm_packing {
    const struct rt_layout *l;
    int64_t count;
    char *user;
    int64_t pos;
    char *packed;
    int64_t len;
    bool pack;
};

/* Whether any piece is device memory; any thread. */
bool wm_scattered_look(const struct rt_layout *l, int64_t count, const void *buf);
/* 0 when each piece is host memory or lies in one allocation of device memory; else -RT_EADDR. */
int wm_scattered_check(const struct rt_layout *l, int64_t count, const void *buf);
/* `packed` is host memory; done on return.  0, -RT_E... */
int wm_scattered_copy(const struct wm_packing *p);

#endif
