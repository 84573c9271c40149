/* SPDX-License-Identifier: BSD-3-Clause */
/* Job threads, for system calls on buffered files, which block.  Threads start when there are more
 * jobs than idle threads, at most MAX of them: the kernel serialises writes to one file by the lock
 * of its inode, so more threads gain nothing.  They run jobs only, and no signal handlers of the
 * program.  Beside a bound rank they use the other cores of the job on this host: an idle core
 * copies data into the page cache while the rank computes.  Any thread may submit. */
#include "runtime/io/io.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"
#include <pthread.h>
#include <string.h>

#define MAX 4

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct rt_io_job *first, **last; /* queue, in order */
    int nqueued, nidle, nthreads;
    pthread_t thread[MAX];
    bool stop;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static void *work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&pool.mutex);
    for (;;) {
        while (!pool.first && !pool.stop) {
            pool.nidle++;
            pthread_cond_wait(&pool.wake, &pool.mutex);
            pool.nidle--;
        }
        struct rt_io_job *job = pool.first;
        if (!job)
            break;
        pool.first = job->next;
        pool.nqueued--;
        pthread_mutex_unlock(&pool.mutex);
        job->run(job);
        rt_store_release(&job->done, 1u); /* results before done; from here on the job's memory is
                                             its owner's */
        rt_bell_ring_self();
        pthread_mutex_lock(&pool.mutex);
    }
    pthread_mutex_unlock(&pool.mutex);
    return NULL;
}

/* Under the mutex. */
static void start_thread(void)
{
    cpu_set_t cpus;
    int err = rt_thread_start(&pool.thread[pool.nthreads], NULL, work, NULL);
    if (!err && rt_boot_cpus(&cpus)) /* on failure the thread keeps its binding */
        pthread_setaffinity_np(pool.thread[pool.nthreads], sizeof cpus, &cpus);
    if (!err)
        pthread_setname_np(pool.thread[pool.nthreads++], "weft-io");
    else
        log_info(IO, "could not start a thread for files: %s; files are accessed by the caller",
                 strerror(err));
}

int rt_io_submit(struct rt_io_job *job)
{
    job->done = 0;
    job->next = NULL;
    pthread_mutex_lock(&pool.mutex);
    if (pool.nidle <= pool.nqueued && pool.nthreads < MAX)
        start_thread();
    bool served = pool.nthreads > 0;
    if (served) {
        if (!pool.first)
            pool.last = &pool.first;
        *pool.last = job;
        pool.last = &job->next;
        pool.nqueued++;
        pthread_cond_signal(&pool.wake);
    }
    pthread_mutex_unlock(&pool.mutex);
    return served ? 0 : -RT_ESYS;
}

void rt_io_fini(void)
{
    pthread_mutex_lock(&pool.mutex);
    pool.stop = true;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 0; i < pool.nthreads; i++)
        pthread_join(pool.thread[i], NULL);
    pool.nthreads = 0;
    pool.stop = false;
}
