/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of librdmacm that this library calls: a table, filled from librdmacm.so.1 at run
 * time, as in driver.h.  Field names are those of rdma_cma.h without rdma_.  For devices whose
 * queue pairs need rdma_cm (iWARP).  In a build without rdma_cma.h rt_cm_load() fails. */
#ifndef RT_IB_CM_H
#define RT_IB_CM_H

#include "runtime/ib/ib.h"

struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_conn_param;
struct rdma_event_channel;
struct sockaddr;

enum { RT_CM_AUTO, RT_CM_NEVER, RT_CM_ALWAYS }; /* cfg.verbs_connect */

/* FIELD(field, version of the symbol, result, parameters) */
#define CM_FUNCTIONS(FIELD) \
    FIELD(create_event_channel, 1.0, struct rdma_event_channel *, (void)) \
    FIELD(destroy_event_channel, 1.0, void, (struct rdma_event_channel * ch)) \
    FIELD(get_cm_event, 1.0, int, (struct rdma_event_channel * ch, struct rdma_cm_event * *event)) \
    FIELD(ack_cm_event, 1.0, int, (struct rdma_cm_event * event)) \
    FIELD(create_id, 1.0, int, \
          (struct rdma_event_channel * ch, struct rdma_cm_id * *id, void *context, int ps)) \
    FIELD(destroy_id, 1.0, int, (struct rdma_cm_id * id)) \
    FIELD(bind_addr, 1.0, int, (struct rdma_cm_id * id, struct sockaddr * at)) \
    FIELD(listen, 1.0, int, (struct rdma_cm_id * id, int backlog)) \
    FIELD(get_src_port, 1.0, uint16_t, (struct rdma_cm_id * id)) \
    FIELD(resolve_addr, 1.0, int, \
          (struct rdma_cm_id * id, struct sockaddr * from, struct sockaddr * to, int timeout_ms)) \
    FIELD(resolve_route, 1.0, int, (struct rdma_cm_id * id, int timeout_ms)) \
    FIELD(connect, 1.0, int, (struct rdma_cm_id * id, struct rdma_conn_param * param)) \
    FIELD(establish, 1.2, int, (struct rdma_cm_id * id)) \
    FIELD(accept, 1.0, int, (struct rdma_cm_id * id, struct rdma_conn_param * param)) \
    FIELD(reject, 1.0, int, (struct rdma_cm_id * id, const void *data, uint8_t len)) \
    FIELD(event_str, 1.0, const char *, (int event)) \
    FIELD(init_qp_attr, 1.2, int, (struct rdma_cm_id * id, struct ibv_qp_attr * attr, int *mask))

#define CM_FIELD(field, version, result, params) result(*field) params;
struct rt_cm_api {
    CM_FUNCTIONS(CM_FIELD)
};
#undef CM_FIELD

/* NULL until rt_cm_load() has returned 0; then constant until the process ends. */
extern const struct rt_cm_api *rt_cm;

/* Opens librdmacm.  -RT_ENOENT: the library is missing or lacks a function; rt_cm_why_not() returns
 * the reason for messages.  Further calls are cheap.  One thread at a time. */
int rt_cm_load(void);
const char *rt_cm_why_not(void);

/* For a port of a device that is reached only by IP addresses: its address as a GID, and its
 * network interface (16 bytes).  -RT_ENOENT: no address of an interface that is up leads to the
 * port; -RT_ESYS: see errno. */
int rt_cm_address(const char *dev, uint8_t port, union ibv_gid *gid, char *ifname);

#endif
