/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: stream capture, and graphs.  A graph is the list of operations put on the
 * stream and on those that have waited for its events during the capture, in the order of the
 * calls, or of the kernels added to it; a node is one of these, and only the first node of an
 * instance can be updated.  Launches of one instance run one after another.
 *
 * The rules of a capture were measured (H200, driver 580).  A capture forbids calls that wait or
 * free, allocation by cuMemAlloc and cuMemHostAlloc, and every query of any stream or event.  They
 * return 900, and the capture ends with 901.  A capture in global mode forbids them to each thread
 * whose own mode is global; in thread-local mode to the thread that began the capture; in relaxed
 * mode to no thread.  A thread in the relaxed mode may call everything but cuCtxSynchronize.  That
 * driver allows more than some older ones may: opening handles and launching graphs are forbidden
 * here, too. */
#include <stdlib.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

#define GRAPH_MAGIC 0x6a4b1u
struct cu_graph_st {
    uint32_t magic;
    cu_ctx ctx;
    struct fake_op *ops;
};
struct cu_graph_exec_st {
    struct cu_graph_st graph;
    struct fake_dep last; /* stream NULL: never launched */
};

static _Thread_local int thread_mode; /* CU_CAPTURE_GLOBAL */
static struct {
    pthread_mutex_t lock; /* always the innermost lock */
    cu_stream first;
    _Atomic int n;
} captures = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *const forbidden[] = { "cuStreamQuery",
                                         "cuStreamSynchronize",
                                         "cuEventQuery",
                                         "cuEventSynchronize",
                                         "cuMemAlloc_v2",
                                         "cuMemAllocManaged",
                                         "cuMemFree_v2",
                                         "cuMemHostAlloc",
                                         "cuMemFreeHost",
                                         "cuMemHostRegister_v2",
                                         "cuMemHostUnregister",
                                         "cuModuleUnload",
                                         "cuGraphInstantiateWithFlags",
                                         "cuGraphExecDestroy",
                                         "cuPointerSetAttribute",
                                         "cuMemcpy",
                                         "cuMemsetD8_v2",
                                         "cuIpcOpenMemHandle_v2",
                                         "cuIpcCloseMemHandle",
                                         "cuGraphUpload",
                                         "cuGraphLaunch",
                                         "cuCtxSynchronize" };

void fake_capture(cu_stream s, struct fake_op *op)
{
    *s->captured_tail = op;
    s->captured_tail = &op->next;
}

cu_stream fake_capture_of(cu_stream s)
{
    if (s->origin)
        s = s->origin;
    return s->captured_tail ? s : NULL;
}

static bool is_forbidden(const char *symbol)
{
    size_t i;

    for (i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
        if (!strcmp(forbidden[i], symbol))
            return true;
    return false;
}

static bool conflicts(cu_stream s)
{
    if (s->capture_mode == CU_CAPTURE_RELAXED || thread_mode == CU_CAPTURE_RELAXED)
        return false;
    return pthread_equal(s->capturer, pthread_self()) ||
           (s->capture_mode == CU_CAPTURE_GLOBAL && thread_mode == CU_CAPTURE_GLOBAL);
}

int fake_capture_check(const char *symbol)
{
    bool always = !strcmp(symbol, "cuCtxSynchronize");
    cu_stream s;
    int err = 0;

    if (!captures.n || !is_forbidden(symbol))
        return 0;
    pthread_mutex_lock(&captures.lock);
    for (s = captures.first; s; s = s->next_capture)
        if (always || conflicts(s)) {
            s->capture_broken = true;
            err = CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&captures.lock);
    return err;
}

static void captures_add(cu_stream s)
{
    pthread_mutex_lock(&captures.lock);
    s->next_capture = captures.first;
    captures.first = s;
    captures.n++;
    pthread_mutex_unlock(&captures.lock);
}

static void captures_remove(cu_stream s)
{
    cu_stream *at = &captures.first;

    pthread_mutex_lock(&captures.lock);
    while (*at != s)
        at = &(*at)->next_capture;
    *at = s->next_capture;
    captures.n--;
    pthread_mutex_unlock(&captures.lock);
}

static int enter_stream(const char *symbol, cu_stream *s)
{
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    return err ? err : fake_stream_of(c, *s, s);
}

cu_result cuStreamGetCtx(cu_stream s, cu_ctx *c)
{
    int err = enter_stream("cuStreamGetCtx", &s);

    if (!err)
        *c = s->ctx;
    return err;
}

cu_result cuStreamIsCapturing(cu_stream s, int *status)
{
    int err = enter_stream("cuStreamIsCapturing", &s);

    if (err)
        return err;
    pthread_mutex_lock(&s->lock);
    cu_stream of = fake_capture_of(s);
    *status = !of ? CU_CAPTURE_NONE : of->capture_broken ? 2 : 1;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    int was = thread_mode, err = fake_enter("cuThreadExchangeStreamCaptureMode");

    if (err || *mode < 0 || *mode > CU_CAPTURE_RELAXED)
        return err ? err : CU_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = was;
    return 0;
}

cu_result cuStreamBeginCapture_v2(cu_stream s, int mode)
{
    bool null = !s;
    int err = enter_stream("cuStreamBeginCapture_v2", &s);

    if (err || null || mode < 0 || mode > CU_CAPTURE_RELAXED)
        return err ? err : CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&s->lock);
    if (s->captured_tail)
        err = CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else {
        s->captured = NULL;
        s->captured_tail = &s->captured;
        s->capture_broken = false;
        s->capture_mode = mode;
        s->capturer = pthread_self();
        captures_add(s);
    }
    pthread_mutex_unlock(&s->lock);
    return err;
}

static void free_ops(struct fake_op *op)
{
    struct fake_op *next;

    for (; op; op = next) {
        next = op->next;
        free(op->deps);
        free(op);
    }
}

static struct fake_op *copy_op(const struct fake_op *op)
{
    struct fake_op *new = malloc(sizeof(*op) + op->nparams);

    if (!new)
        return NULL;
    memcpy(new, op, sizeof(*op) + op->nparams);
    new->next = NULL;
    new->deps = NULL;
    new->ndeps = 0;
    new->result = NULL;
    return new;
}

static int copy_ops(const struct fake_op *from, struct fake_op **to)
{
    for (*to = NULL; from; from = from->next, to = &(*to)->next)
        if (!(*to = copy_op(from)))
            return CU_ERROR_OUT_OF_MEMORY;
    return 0;
}

cu_result cuStreamEndCapture(cu_stream s, cu_graph *graph)
{
    struct cu_graph_st *g = calloc(1, sizeof(*g));
    int err = enter_stream("cuStreamEndCapture", &s);

    if (err || !g) {
        free(g);
        return err ? err : CU_ERROR_OUT_OF_MEMORY;
    }
    *graph = NULL;
    pthread_mutex_lock(&s->lock);
    if (!s->captured_tail)
        err = CU_ERROR_STREAM_CAPTURE_UNMATCHED;
    else {
        *g = (struct cu_graph_st){ GRAPH_MAGIC, s->ctx, s->captured };
        s->captured_tail = NULL;
        captures_remove(s);
        for (cu_stream other = s->ctx->streams; other; other = other->next)
            if (other->origin == s)
                other->origin = NULL;
        if (s->capture_broken)
            err = CU_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    pthread_mutex_unlock(&s->lock);
    if (err) {
        free_ops(g->ops);
        free(g);
    } else
        *graph = g;
    return err;
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *exec, cu_graph graph, unsigned long long flags)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuGraphInstantiateWithFlags", &c);

    if (err || flags || !graph || graph->magic != GRAPH_MAGIC)
        return err ? err : CU_ERROR_INVALID_VALUE;
    *exec = calloc(1, sizeof(**exec));
    if (!*exec)
        return CU_ERROR_OUT_OF_MEMORY;
    (*exec)->graph.magic = GRAPH_MAGIC;
    (*exec)->graph.ctx = graph->ctx;
    return copy_ops(graph->ops, &(*exec)->graph.ops);
}

cu_result cuGraphCreate(cu_graph *graph, unsigned flags)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuGraphCreate", &c);

    if (err || flags)
        return err ? err : CU_ERROR_INVALID_VALUE;
    *graph = calloc(1, sizeof(**graph));
    if (!*graph)
        return CU_ERROR_OUT_OF_MEMORY;
    (*graph)->magic = GRAPH_MAGIC;
    (*graph)->ctx = c;
    return 0;
}

cu_result cuGraphAddKernelNode(cu_graph_node *node, cu_graph graph, const cu_graph_node *after,
                               size_t nafter, const struct cu_kernel_node *k)
{
    struct fake_op **last;
    cu_ctx c;
    int err = fake_enter_ctx("cuGraphAddKernelNode", &c);

    (void)after;
    if (err || !graph || graph->magic != GRAPH_MAGIC || nafter)
        return err ? err : CU_ERROR_INVALID_VALUE;
    for (last = &graph->ops; *last; last = &(*last)->next)
        ;
    err = fake_kernel_op(c, k, last);
    if (!err)
        *node = (cu_graph_node)(void *)*last;
    return err;
}

static int enter_exec(const char *symbol, cu_graph_exec exec, cu_stream *s)
{
    int err = enter_stream(symbol, s);

    if (!err && (!exec || exec->graph.magic != GRAPH_MAGIC || exec->graph.ctx != (*s)->ctx))
        err = CU_ERROR_INVALID_VALUE;
    return err;
}

cu_result cuGraphUpload(cu_graph_exec exec, cu_stream s)
{
    return enter_exec("cuGraphUpload", exec, &s);
}

cu_result cuGraphExecKernelNodeSetParams(cu_graph_exec exec, cu_graph_node node,
                                         const struct cu_kernel_node *k)
{
    struct fake_op *op, *old;
    cu_ctx c;
    int err = fake_enter_ctx("cuGraphExecKernelNodeSetParams", &c);

    if (err || !exec || exec->graph.magic != GRAPH_MAGIC || !exec->graph.ops || !node)
        return err ? err : CU_ERROR_INVALID_VALUE;
    err = fake_kernel_op(exec->graph.ctx, k, &op);
    if (err)
        return err;
    old = exec->graph.ops;
    op->next = old->next;
    exec->graph.ops = op;
    free(old);
    return 0;
}

/* The first operation waits for the previous launch. */
static int launch_first(cu_graph_exec exec, cu_stream s, struct fake_op *op)
{
    if (op && exec->last.stream && (op->deps = malloc(sizeof(*op->deps)))) {
        op->deps[0] = exec->last;
        op->ndeps = 1;
    }
    return fake_submit(s, op);
}

cu_result cuGraphLaunch(cu_graph_exec exec, cu_stream s)
{
    struct fake_op *op;
    int err = enter_exec("cuGraphLaunch", exec, &s);

    for (op = err ? NULL : exec->graph.ops; op && !err; op = op->next)
        err = op == exec->graph.ops ? launch_first(exec, s, copy_op(op))
                                    : fake_submit(s, copy_op(op));
    if (!err) {
        pthread_mutex_lock(&s->lock);
        exec->last.stream = s;
        exec->last.ticket = s->submitted;
        pthread_mutex_unlock(&s->lock);
    }
    return err;
}

cu_result cuGraphExecDestroy(cu_graph_exec exec)
{
    int err = fake_enter("cuGraphExecDestroy");

    if (err || !exec || exec->graph.magic != GRAPH_MAGIC)
        return err ? err : CU_ERROR_INVALID_VALUE;
    free_ops(exec->graph.ops);
    free(exec);
    return 0;
}

cu_result cuGraphDestroy(cu_graph graph)
{
    int err = fake_enter("cuGraphDestroy");

    if (err || !graph || graph->magic != GRAPH_MAGIC)
        return err ? err : CU_ERROR_INVALID_VALUE;
    free_ops(graph->ops);
    free(graph);
    return 0;
}
