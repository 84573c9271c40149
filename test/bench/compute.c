/* SPDX-License-Identifier: BSD-3-Clause */
/* See compute.h. */
#include "test/bench/compute.h"
#include "test/bench/device.h"
#include "test/bench/limits.h"
#include "runtime/gpu/images.h"
#include <stdio.h>

enum { TRIES = 5, CPU_STEPS = 200000, GPU_STEPS = 40000, THREADS = 256 };

static volatile double sink; /* keeps the computation from being optimised away */

static struct {
    bool gpu;
    double fixed_us, steps_per_us; /* 0 until calibrated */
    cu_function kernel;
    cu_stream stream;
    int blocks;
} c;

static void compute_gpu(long steps)
{
    struct bench_kernel k = { .rounds = (uint32_t)steps };
    void *params[] = { &k };

    device_must(device_cu.launch_kernel(c.kernel, (unsigned)c.blocks, 1, 1, THREADS, 1, 1, 0,
                                        c.stream, params, NULL),
                "bench_work");
    device_must(device_cu.stream_synchronize(c.stream), "cuStreamSynchronize");
}

static void compute_cpu(long steps)
{
    double x = sink + 1.0;

    for (long i = 0; i < steps; i++)
        x = x * 0.999999 + 1e-6;
    sink = x;
}

void compute(long steps)
{
    if (c.gpu)
        compute_gpu(steps);
    else
        compute_cpu(steps);
}

/* The quickest of several tries is the one that nothing disturbed. */
static double quickest_us(long steps)
{
    double best = 1e30;

    for (int i = 0; i < TRIES; i++) {
        double start = bench_now();
        compute(steps);
        double took = bench_now() - start;
        best = took < best ? took : best;
    }
    return best * 1e6;
}

static void calibrate(void)
{
    long steps = c.gpu ? GPU_STEPS : CPU_STEPS;
    double once = quickest_us(steps), twice = c.gpu ? quickest_us(2 * steps) : 2 * once;

    if (twice <= once * 1.1) /* disturbed */
        twice = 2 * once;
    c.steps_per_us = (double)steps / (twice - once);
    c.fixed_us = once - (twice - once);
}

long compute_steps(double us)
{
    if (c.steps_per_us <= 0)
        calibrate();
    us -= c.fixed_us;
    return us > 0 ? (long)(us * c.steps_per_us) : 0;
}

static bool open_gpu(const char **why)
{
    cu_module module;
    cu_device d;
    cu_result r;

    *why = "these benchmarks were built without nvcc";
    if (!rt_gpu_images[0].name)
        return false;
    r = device_cu.module_load_data(&module, rt_gpu_images[0].data);
    if (!r)
        r = device_cu.module_get_function(&c.kernel, module, "bench_work");
    if (!r)
        r = device_cu.device_get(&d, device_ordinal());
    if (!r)
        r = device_cu.device_get_attribute(&c.blocks, CU_DEV_MULTIPROCESSORS, d);
    if (!r)
        r = device_cu.stream_create_with_priority(&c.stream, CU_STREAM_NON_BLOCKING, 0);
    if (r)
        device_cu.get_error_string(r, why);
    c.gpu = !r;
    return c.gpu;
}

int compute_open(struct bench *b)
{
    const char *why = "";
    int bad, first;

    if (!b->opt.gpu_compute)
        return 0;
    bad = open_gpu(&why) ? b->nranks : b->rank;
    MPI_Allreduce(&bad, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == b->rank)
        fprintf(stderr, "%s: rank %d: -r gpu: the device cannot compute: %s\n", b->spec->name,
                b->rank, why);
    return first < b->nranks ? BENCH_NO_DEVICE : 0;
}
