/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUDirect Storage: transfers between device memory and a file without host memory, by NVIDIA's
 * libcufile, which is opened at run time and stays open, because the application may use it, too.
 * Its binary interface is declared here (values and layouts of cuFile 1.0 to 1.15).
 *
 * Only whole blocks of the file go through libcufile.  To write a part of a block, libcufile reads
 * the block, changes it and writes it back, which would overwrite what another process has written
 * to the block meanwhile.  In compatibility mode libcufile copies through host memory; the callers'
 * own path is faster, so this mode counts as no support.  The mutex guards the opening of libcufile
 * and the registration of files; transfers run concurrently. */
#include "runtime/io/io.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/stream_ops.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CFG_IO_GDS_AUTO 0 /* positions of the words in cfg.def */
#define CFG_IO_GDS_OFF 2
#define DRIVER_FILE "/proc/driver/nvidia-fs/version"

enum { CF_OK = 0, CF_ALREADY_OPEN = 5026 };
struct cf_error {
    int err, cu_err;
};
struct cf_props {
    unsigned major, minor; /* of the driver nvidia-fs; 0: not loaded */
    size_t poll, direct_max;
    unsigned supports; /* bits CF_... */
    unsigned control, features, cache, buffer, pinned, batch, timeout;
    char later[256]; /* of newer versions */
};
enum {
    CF_LUSTRE = 1 << 0,
    CF_NFS = 1 << 2,
    CF_GPFS = 1 << 3,
    CF_NVME = 1 << 4,
    CF_NVMEOF = 1 << 5,
    CF_SCSI = 1 << 6,
    CF_BEEGFS = 1 << 9,
    CF_PEER = 1 << 11 /* NVMe devices by peer-to-peer DMA of the kernel, without nvidia-fs */
};
#define CF_DISK (CF_NVME | CF_NVMEOF | CF_SCSI | CF_PEER)
struct cf_descr {
    int type; /* 1: a descriptor */
    union {
        int fd;
        void *other;
    } handle;
    const void *ops;
};

static struct {
    struct cf_error (*open)(void);
    struct cf_error (*props)(struct cf_props *out);
    struct cf_error (*add)(void **handle, struct cf_descr *descr);
    void (*drop)(void *handle);
    ssize_t (*read)(void *handle, void *base, size_t len, off_t file_off, off_t dev_off);
    ssize_t (*write)(void *handle, const void *base, size_t len, off_t file_off, off_t dev_off);
} cf;
static const struct {
    const char *symbol;
    void **at;
} names[] = { { "cuFileDriverOpen", (void **)(void *)&cf.open },
              { "cuFileDriverGetProperties", (void **)(void *)&cf.props },
              { "cuFileHandleRegister", (void **)(void *)&cf.add },
              { "cuFileHandleDeregister", (void **)(void *)&cf.drop },
              { "cuFileRead", (void **)(void *)&cf.read },
              { "cuFileWrite", (void **)(void *)&cf.write } };

static struct {
    pthread_mutex_t mutex;
    bool tried;
    char why[96]; /* empty: the library is usable */
    struct cf_props props;
} lib = { .mutex = PTHREAD_MUTEX_INITIALIZER };

#define NO(...) snprintf(lib.why, sizeof lib.why, __VA_ARGS__)

static void open_library(void)
{
    void *so = dlopen("libcufile.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        NO("there is no libcufile.so.0");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(so, names[i].symbol);
        memcpy(names[i].at, &f, sizeof f);
        if (!f) {
            NO("libcufile has no %s", names[i].symbol);
            return;
        }
    }
    struct cf_error e = cf.open();
    if (e.err != CF_OK && e.err != CF_ALREADY_OPEN) {
        NO("cuFileDriverOpen returned %d", e.err);
        return;
    }
    e = cf.props(&lib.props);
    if (e.err != CF_OK)
        NO("cuFileDriverGetProperties returned %d", e.err);
    else if (!lib.props.major && !lib.props.minor && !(lib.props.supports & CF_PEER))
        NO("libcufile is in compatibility mode: driver nvidia-fs is not loaded");
}

/* Under the mutex. */
static void look(void)
{
    if (lib.tried)
        return;
    lib.tried = true;
    if (cfg.io_gds == CFG_IO_GDS_OFF)
        NO("setting io_gds is off");
    else if (cfg.io_gds == CFG_IO_GDS_AUTO && access(DRIVER_FILE, F_OK) < 0)
        NO("driver nvidia-fs is not loaded");
    else
        open_library();
    log_info(IO, "GPUDirect Storage: %s", lib.why[0] ? lib.why : "available");
}

/* The bits by which a driver says that it supports a file system; 0: none does. */
static unsigned needs(const struct rt_io_fs *fs)
{
    switch (fs->kind) {
    case RT_IO_LOCAL:
        return CF_DISK;
    case RT_IO_NFS:
        return CF_NFS;
    case RT_IO_LUSTRE:
        return CF_LUSTRE;
    case RT_IO_GPFS:
        return CF_GPFS;
    case RT_IO_MEMORY:
        return 0;
    case RT_IO_OTHER:
        break;
    }
    return strcmp(fs->name, "beegfs") ? 0 : CF_BEEGFS;
}

static void add_file(struct rt_io_gds *s, int fd, const struct rt_io_fs *fs)
{
    struct cf_descr d = { .type = 1, .handle.fd = fd };
    snprintf(s->why, sizeof s->why, "%s", lib.why);
    if (!lib.why[0] && !(lib.props.supports & needs(fs)))
        snprintf(s->why, sizeof s->why, "the driver does not support file system %s", fs->name);
    if (s->why[0] || fd < 0)
        return;
    struct cf_error e = cf.add(&s->handle, &d);
    if (e.err == CF_OK)
        return;
    s->handle = NULL;
    snprintf(s->why, sizeof s->why, "cuFileHandleRegister returned %d for the file", e.err);
    log_info(IO, "%s; device memory goes through host memory", s->why);
}

bool rt_io_gds_ready(struct rt_io_gds *s, int fd, const struct rt_io_fs *fs)
{
    int was = rt_gpu_capture_relax();
    pthread_mutex_lock(&lib.mutex);
    look();
    if (!s->tried)
        add_file(s, fd, fs);
    s->tried = true;
    bool ready = !s->why[0];
    pthread_mutex_unlock(&lib.mutex);
    rt_gpu_capture_restore(was);
    return ready;
}

int64_t rt_io_gds_move(struct rt_io_gds *s, bool write, void *dev, int64_t len, int64_t off)
{
    int was = rt_gpu_capture_relax();
    int64_t done = 0;
    ssize_t n = 0;
    while (done < len) {
        int64_t rest = len - done;
        size_t part = (size_t)(rest < RT_IO_GDS_CALL ? rest : RT_IO_GDS_CALL);
        n = write ? cf.write(s->handle, dev, part, off + done, done)
                  : cf.read(s->handle, dev, part, off + done, done);
        if (n <= 0)
            break;
        done += n;
        if (n % RT_IO_GDS_BLOCK)
            break;
    }
    rt_gpu_capture_restore(was);
    if (n < 0)
        log_info(IO, "%s returned %lld; the rest of the data goes through host memory",
                 write ? "cuFileWrite" : "cuFileRead", (long long)n);
    return done;
}

void rt_io_gds_close(struct rt_io_gds *s)
{
    if (s->handle)
        cf.drop(s->handle);
    *s = (struct rt_io_gds){ 0 };
}
