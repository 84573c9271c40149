/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of the library's kernels, except those on streams of the application.  A kernel is
 * launched as the only node of an instantiated graph, whose function, grid and parameters are set
 * each time.  That takes 1.3 us of the processor, and a flag stored by the kernel is seen after
 * 6.05 us (90 % of them: 6.2); cuLaunchKernel takes 2.95 us and 7.65 (8.8; H200, driver 580).
 * Setting them does not affect launches that still run.  Drivers that do not have such graphs, or
 * refuse (older ones refuse a change of the function), launch by cuLaunchKernel.  Under the
 * domain's lock. */
#include "runtime/gpu/launch.h"
#include "runtime/base/log.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/images.h"

_Static_assert(RT_GPU_KERNELS <= 32, "a bit each");

static bool have_functions(void)
{
    return rt_cuda.graph_create && rt_cuda.graph_add_kernel && rt_cuda.graph_instantiate &&
           rt_cuda.graph_upload && rt_cuda.graph_set_kernel && rt_cuda.graph_launch &&
           rt_cuda.graph_exec_destroy && rt_cuda.graph_destroy;
}

static struct cu_kernel_node node(cu_function f, unsigned grid, unsigned block, void **params)
{
    return (struct cu_kernel_node){ f, grid, 1, 1, block, 1, 1, 0, params, NULL };
}

/* The users that launch: flights of batches and launches, and last the polling kernel. */
#define NEXECS (MOVE_BATCHES + MOVE_LAUNCHES + 1)
static cu_graph_exec *exec_of(struct move_state *m, int i)
{
    return i == NEXECS - 1 ? &m->linger.exec : &m->flights[i].exec;
}

static cu_stream stream_of(const struct move_state *m, int i)
{
    return i == NEXECS - 1 ? m->linger.stream : i < MOVE_BATCHES ? m->batch[i] : m->g->kernels;
}

/* Uploaded now, so that a launch takes no memory. */
static cu_result make(struct move_state *m)
{
    struct rt_gpu_linger none = { 0 };
    void *params[] = { &none };
    struct cu_kernel_node k = node(m->g->fn[RT_GPU_LINGER], 1, 32, params);
    cu_result r = rt_cuda.graph_create(&m->graphs.graph, 0);

    if (r != CU_OK)
        m->graphs.graph = NULL; /* discards what the driver has stored */
    else
        r = rt_cuda.graph_add_kernel(&m->graphs.node, m->graphs.graph, NULL, 0, &k);
    for (int i = 0; r == CU_OK && i < NEXECS; i++) {
        r = rt_cuda.graph_instantiate(exec_of(m, i), m->graphs.graph, 0);
        if (r != CU_OK)
            *exec_of(m, i) = NULL;
        else
            r = rt_cuda.graph_upload(*exec_of(m, i), stream_of(m, i));
    }
    return r;
}

void move_graphs_init(struct move_state *m)
{
    const char *name = NULL;

    if (!rt_gpu_has_kernels(m->g) || !have_functions())
        return;
    cu_result r = make(m);
    if (r == CU_OK)
        return;
    rt_cuda.get_error_name(r, &name);
    log_info(GPU, "no graphs on GPU %d (%s): launching kernels takes 1.6 us longer",
             m->g->info.ordinal, name ? name : "unknown error");
    move_graphs_fini(m);
}

void move_graphs_fini(struct move_state *m)
{
    for (int i = 0; i < NEXECS; i++) {
        if (*exec_of(m, i))
            rt_cuda.graph_exec_destroy(*exec_of(m, i));
        *exec_of(m, i) = NULL;
    }
    if (m->graphs.graph)
        rt_cuda.graph_destroy(m->graphs.graph);
    m->graphs.graph = NULL;
}

static cu_result launch_graph(struct move_state *m, cu_graph_exec exec,
                              const struct cu_kernel_node *k, cu_stream s)
{
    int was = rt_gpu_capture_relax(); /* once for both calls */
    cu_result r = rt_cuda.graph_set_kernel(exec, m->graphs.node, k);

    if (r == CU_OK)
        r = rt_cuda.graph_launch(exec, s);
    rt_gpu_capture_restore(was);
    return r;
}

cu_result move_kernel(struct move_state *m, cu_graph_exec exec, enum rt_gpu_kernel k, unsigned grid,
                      unsigned block, cu_stream s, void *params)
{
    void *list[] = { params };
    struct cu_kernel_node n = node(m->g->fn[k], grid, block, list);

    if (exec && !(m->graphs.refused & 1u << k)) {
        if (launch_graph(m, exec, &n, s) == CU_OK)
            return CU_OK;
        m->graphs.refused |= 1u << k;
    }
    return rt_cuda.launch_kernel(n.f, grid, 1, 1, block, 1, 1, 0, s, list, NULL);
}
