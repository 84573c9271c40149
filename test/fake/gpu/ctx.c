/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: contexts, each thread's stack of contexts, peer access. */
#include <stdlib.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

#define STACK 64
static __thread struct {
    cu_ctx ctx[STACK];
    int n;
} stack;

static cu_ctx current(void) { return stack.n ? stack.ctx[stack.n - 1] : NULL; }

/* The caller holds the lock, or tolerates that another thread destroys the context now. */
int fake_ctx_check(cu_ctx c)
{
    struct cu_ctx_st *k;
    int i;

    if (!c)
        return CU_ERROR_INVALID_CONTEXT;
    for (i = 0; i < FAKE_DEVICES; i++)
        if (c == &fake.primary[i]) {
            return c->nref == 0 || c->destroyed ? CU_ERROR_CONTEXT_IS_DESTROYED : c->err;
        }
    for (k = fake.contexts; k && k != c; k = k->next)
        ;
    if (!k)
        return CU_ERROR_INVALID_CONTEXT;
    return c->destroyed ? CU_ERROR_CONTEXT_IS_DESTROYED : c->err;
}

int fake_enter_ctx(const char *symbol, cu_ctx *c)
{
    int err = fake_enter(symbol);

    if (err)
        return err;
    *c = current();
    pthread_mutex_lock(&fake.lock);
    err = fake_ctx_check(*c);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

static _Atomic int nstalls;

int fake_cuda_nstalls(void) { return nstalls; }

static bool application_is_busy(cu_ctx c)
{
    for (cu_stream s = c->streams; s; s = s->next)
        if (!s->urgent && s->completed < s->submitted)
            return true;
    return false;
}

int fake_ctx_wait(cu_ctx c)
{
    cu_stream s;

    pthread_mutex_lock(&fake.lock);
    s = c->streams;
    nstalls += application_is_busy(c);
    pthread_mutex_unlock(&fake.lock);
    for (; s; s = s->next) /* the list only grows, at its head */
        fake_stream_wait(s, UINT64_MAX);
    return c->err;
}

/* A context's objects are destroyed with it. */
static void ctx_end(cu_ctx c)
{
    cu_stream s;

    fake_ctx_wait(c);
    pthread_mutex_lock(&fake.lock);
    for (s = c->streams; s; s = s->next)
        fake_stream_stop(s);
    c->streams = NULL;
    c->null_stream = NULL;
    fake_ctx_free_all(c);
    c->peers = 0;
    c->err = 0;
    pthread_mutex_unlock(&fake.lock);
}

static int streams_alive(cu_ctx c)
{
    cu_stream s;
    int n = 0;

    for (s = c->streams; s; s = s->next)
        n += !s->destroyed && s != c->null_stream;
    return n;
}

int fake_cuda_alive(enum fake_thing what)
{
    struct cu_event_st *e;
    cu_ctx c;
    int i, n = 0;

    pthread_mutex_lock(&fake.lock);
    for (i = 0; i < FAKE_DEVICES; i++)
        n += what == FAKE_RETAINED  ? fake.primary[i].nref
             : what == FAKE_STREAMS ? streams_alive(&fake.primary[i])
                                    : 0;
    for (c = fake.contexts; c && what == FAKE_STREAMS; c = c->next)
        n += streams_alive(c);
    for (e = fake.events; e && what == FAKE_EVENTS; e = e->next)
        n += !e->destroyed && fake_ctx_check(e->ctx) != CU_ERROR_CONTEXT_IS_DESTROYED;
    n += what == FAKE_MEMORY    ? fake_mem_alive()
         : what == FAKE_HANDLES ? fake_handles_alive()
         : what == FAKE_MODULES ? fake_modules_alive()
                                : 0;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static int device_check(const char *symbol, cu_device d)
{
    int err = fake_enter(symbol);

    if (err)
        return err;
    return d >= 0 && d < fake.nvisible ? 0 : CU_ERROR_INVALID_DEVICE;
}

cu_result cuDevicePrimaryCtxGetState(cu_device d, unsigned *flags, int *active)
{
    int err = device_check("cuDevicePrimaryCtxGetState", d);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    *flags = 0;
    *active = fake_ctx_check(&fake.primary[fake.visible[d]]) != CU_ERROR_CONTEXT_IS_DESTROYED;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

cu_result cuDevicePrimaryCtxRetain(cu_ctx *c, cu_device d)
{
    int err = device_check("cuDevicePrimaryCtxRetain", d);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    *c = &fake.primary[fake.visible[d]];
    (*c)->nref++;
    (*c)->destroyed = false; /* after a reset the context starts again, with the same handle */
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device d)
{
    int err = device_check("cuDevicePrimaryCtxRelease_v2", d);
    cu_ctx c;
    bool last;

    if (err)
        return err;
    c = &fake.primary[fake.visible[d]];
    pthread_mutex_lock(&fake.lock);
    err = c->nref ? 0 : CU_ERROR_INVALID_CONTEXT;
    last = c->nref == 1;
    if (c->nref > 1)
        c->nref--;
    pthread_mutex_unlock(&fake.lock);
    if (!err && last) {
        ctx_end(c);
        c->nref = 0;
    }
    return err;
}

/* The context is destroyed for all its users, until it is retained again. */
cu_result cuDevicePrimaryCtxReset_v2(cu_device d)
{
    int err = device_check("cuDevicePrimaryCtxReset_v2", d);
    cu_ctx c;

    if (err)
        return err;
    c = &fake.primary[fake.visible[d]];
    if (c->nref)
        ctx_end(c);
    c->destroyed = true;
    return 0;
}

static int push(cu_ctx c)
{
    if (stack.n == STACK)
        return CU_ERROR_OUT_OF_MEMORY;
    stack.ctx[stack.n++] = c;
    return 0;
}

cu_result cuCtxCreate_v2(cu_ctx *c, unsigned flags, cu_device d)
{
    int err = device_check("cuCtxCreate_v2", d);
    cu_ctx k;

    (void)flags;
    if (err)
        return err;
    k = calloc(1, sizeof(*k));
    if (!k)
        return CU_ERROR_OUT_OF_MEMORY;
    k->dev = fake.visible[d];
    k->ordinal = d;
    pthread_mutex_lock(&fake.lock);
    k->next = fake.contexts;
    fake.contexts = k;
    pthread_mutex_unlock(&fake.lock);
    *c = k;
    return push(k);
}

cu_result cuCtxDestroy_v2(cu_ctx c)
{
    int err = fake_enter("cuCtxDestroy_v2");

    if (!err) {
        pthread_mutex_lock(&fake.lock);
        err = fake_ctx_check(c);
        pthread_mutex_unlock(&fake.lock);
    }
    if (err == CU_ERROR_INVALID_CONTEXT || err == CU_ERROR_CONTEXT_IS_DESTROYED)
        return err;
    if (c->primary)
        return CU_ERROR_INVALID_CONTEXT;
    ctx_end(c);
    pthread_mutex_lock(&fake.lock);
    c->destroyed = true;
    pthread_mutex_unlock(&fake.lock);
    if (current() == c)
        stack.n--;
    return 0;
}

cu_result cuCtxGetCurrent(cu_ctx *c)
{
    int err = fake_enter("cuCtxGetCurrent");

    if (err)
        return err;
    *c = current();
    return 0;
}

cu_result cuCtxSetCurrent(cu_ctx c)
{
    int err = fake_enter("cuCtxSetCurrent");

    if (err)
        return err;
    if (c) {
        pthread_mutex_lock(&fake.lock);
        err = fake_ctx_check(c);
        pthread_mutex_unlock(&fake.lock);
    }
    if (err == CU_ERROR_INVALID_CONTEXT || err == CU_ERROR_CONTEXT_IS_DESTROYED)
        return err;
    if (stack.n)
        stack.n--;
    return c ? push(c) : 0;
}

cu_result cuCtxPushCurrent_v2(cu_ctx c)
{
    int err = fake_enter("cuCtxPushCurrent_v2");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    err = fake_ctx_check(c);
    pthread_mutex_unlock(&fake.lock);
    if (err == CU_ERROR_INVALID_CONTEXT || err == CU_ERROR_CONTEXT_IS_DESTROYED)
        return err;
    return push(c);
}

cu_result cuCtxPopCurrent_v2(cu_ctx *c)
{
    int err = fake_enter("cuCtxPopCurrent_v2");

    if (err)
        return err;
    if (!stack.n)
        return CU_ERROR_INVALID_CONTEXT;
    stack.n--;
    if (c)
        *c = stack.ctx[stack.n];
    return 0;
}

cu_result cuCtxGetDevice(cu_device *d)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuCtxGetDevice", &c);

    if (err)
        return err;
    *d = c->ordinal;
    return 0;
}

cu_result cuCtxEnablePeerAccess(cu_ctx peer, unsigned flags)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuCtxEnablePeerAccess", &c);

    if (err || flags)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    err = fake_ctx_check(peer);
    if (!err && peer->dev == c->dev)
        err = CU_ERROR_INVALID_DEVICE;
    else if (!err && !fake.peer)
        err = CU_ERROR_PEER_ACCESS_UNSUPPORTED;
    else if (!err && c->peers & 1u << peer->dev)
        err = CU_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else if (!err)
        c->peers |= 1u << peer->dev;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuCtxDisablePeerAccess(cu_ctx peer)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuCtxDisablePeerAccess", &c);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    err = fake_ctx_check(peer);
    if (!err && !(c->peers & 1u << peer->dev))
        err = CU_ERROR_PEER_ACCESS_NOT_ENABLED;
    else if (!err)
        c->peers &= ~(1u << peer->dev);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuCtxSynchronize(void)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuCtxSynchronize", &c);

    return err ? err : fake_ctx_wait(c);
}

cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuCtxGetStreamPriorityRange", &c);

    if (err)
        return err;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return 0;
}
