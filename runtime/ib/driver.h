/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of libibverbs that this library calls: a table, filled from libibverbs.so.1 at run
 * time, so that the library is not linked against libibverbs.  Field names are those of verbs
 * without ibv_.  Functions that verbs.h inlines through the context's operations (ibv_post_send,
 * ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq) need no symbol and are called
 * directly.  Inlines and macros that call a symbol (ibv_reg_mr, ibv_query_port,
 * ibv_query_gid_table, ibv_create_qp_ex) would not link and are not used. */
#ifndef RT_IB_DRIVER_H
#define RT_IB_DRIVER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* MUST(field, version of the symbol, result, parameters), and MAY: NULL in older libraries. */
#define IB_FUNCTIONS(MUST, MAY) \
    MUST(get_device_list, 1.1, struct ibv_device **, (int *n)) \
    MUST(free_device_list, 1.1, void, (struct ibv_device * *list)) \
    MUST(get_device_name, 1.1, const char *, (struct ibv_device * d)) \
    MUST(open_device, 1.1, struct ibv_context *, (struct ibv_device * d)) \
    MUST(close_device, 1.1, int, (struct ibv_context * c)) \
    MUST(query_device, 1.1, int, (struct ibv_context * c, struct ibv_device_attr * a)) \
    MUST(query_port, 1.1, int, \
         (struct ibv_context * c, uint8_t port, struct _compat_ibv_port_attr * a)) \
    MUST(query_gid, 1.1, int, \
         (struct ibv_context * c, uint8_t port, int index, union ibv_gid *gid)) \
    MUST(alloc_pd, 1.1, struct ibv_pd *, (struct ibv_context * c)) \
    MUST(dealloc_pd, 1.1, int, (struct ibv_pd * pd)) \
    MUST(reg_mr, 1.1, struct ibv_mr *, (struct ibv_pd * pd, void *addr, size_t len, int access)) \
    MAY(reg_mr_iova2, 1.8, struct ibv_mr *, \
        (struct ibv_pd * pd, void *addr, size_t len, uint64_t iova, unsigned access)) \
    MAY(reg_dmabuf_mr, 1.12, struct ibv_mr *, \
        (struct ibv_pd * pd, uint64_t off, size_t len, uint64_t iova, int fd, int access)) \
    MUST(dereg_mr, 1.1, int, (struct ibv_mr * mr)) \
    MUST(create_comp_channel, 1.0, struct ibv_comp_channel *, (struct ibv_context * c)) \
    MUST(destroy_comp_channel, 1.0, int, (struct ibv_comp_channel * ch)) \
    MUST(create_cq, 1.1, struct ibv_cq *, \
         (struct ibv_context * c, int n, void *arg, struct ibv_comp_channel *ch, int vector)) \
    MUST(destroy_cq, 1.1, int, (struct ibv_cq * cq)) \
    MUST(get_cq_event, 1.1, int, (struct ibv_comp_channel * ch, struct ibv_cq * *cq, void **arg)) \
    MUST(ack_cq_events, 1.1, void, (struct ibv_cq * cq, unsigned n)) \
    MUST(create_qp, 1.1, struct ibv_qp *, (struct ibv_pd * pd, struct ibv_qp_init_attr * a)) \
    MUST(modify_qp, 1.1, int, (struct ibv_qp * qp, struct ibv_qp_attr * a, int mask)) \
    MUST(destroy_qp, 1.1, int, (struct ibv_qp * qp)) \
    MUST(create_srq, 1.1, struct ibv_srq *, (struct ibv_pd * pd, struct ibv_srq_init_attr * a)) \
    MUST(destroy_srq, 1.1, int, (struct ibv_srq * srq)) \
    MUST(create_ah, 1.1, struct ibv_ah *, (struct ibv_pd * pd, struct ibv_ah_attr * a)) \
    MUST(destroy_ah, 1.1, int, (struct ibv_ah * ah)) \
    MUST(get_async_event, 1.1, int, (struct ibv_context * c, struct ibv_async_event * e)) \
    MUST(ack_async_event, 1.1, void, (struct ibv_async_event * e)) \
    MUST(wc_status_str, 1.1, const char *, (enum ibv_wc_status s)) \
    MUST(event_type_str, 1.1, const char *, (enum ibv_event_type e)) \
    MUST(fork_init, 1.1, int, (void))

#define IB_FIELD(field, version, result, params) result(*field) params;
struct rt_ib_api {
    IB_FUNCTIONS(IB_FIELD, IB_FIELD)
    /* _ibv_query_gid_table, IBVERBS_1.11; NULL in older libraries. */
    ssize_t (*query_gid_table)(struct ibv_context *c, struct ibv_gid_entry *entries, size_t n,
                               uint32_t flags, size_t entry_nbytes);
};
#undef IB_FIELD

/* A library opened at run time, and the table for its functions. */
struct rt_ib_symbol {
    const char *name, *version; /* libibverbs keeps symbols of older versions from an interface of
                                 * 2006 */
    size_t off;                 /* of the function's pointer in the table */
    bool must;                  /* otherwise the pointer is NULL if the library lacks the symbol */
};
struct rt_ib_lib {
    const char *so;
    const struct rt_ib_symbol *symbols;
    size_t n;
    void *table;
    char why_not[256]; /* reason for messages; empty unless opening has failed */
};
/* Opens the library once; it stays open until the process ends.  -RT_ENOENT: the library is missing
 * or lacks a function, see `why_not`; later calls do not try again. */
int rt_ib_lib_open(struct rt_ib_lib *lib);

/* NULL until rt_ib_load() has returned 0; then constant until the process ends. */
extern const struct rt_ib_api *rt_ib;

/* Opens libibverbs.  -RT_ENOENT: the library is missing or lacks a function; rt_ib_why_not()
 * returns the reason for messages.  Further calls are cheap.  One thread at a time. */
int rt_ib_load(void);
const char *rt_ib_why_not(void);
/* ibv_query_port(), whose inline form calls a symbol.  0 or an errno. */
int rt_ib_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out);

#endif
