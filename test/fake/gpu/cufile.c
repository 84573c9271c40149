/* SPDX-License-Identifier: BSD-3-Clause */
/* A libcufile for the fake CUDA driver: the libcufile.so.0 of the build tree.  It moves the data by
 * pread(2) and pwrite(2), and ends the process if the library makes a mistake: transfers that are
 * not whole blocks, without a context, of an unknown or closed file; a descriptor registered twice
 * or never deregistered.
 *
 *   FAKE_CUFILE=nvfs:2,supports:0x10,most:65536,fail:cuFileWrite:3
 *     nvfs      version of the driver nvidia-fs; 0: compatibility mode; default 2
 *     supports  bits of the file systems, default all
 *     most      bytes of one transfer at most
 *     fail      the function fails at that call, from 1 on, and at all later ones */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4096
#define FILES 64
#define EXPORT __attribute__((visibility("default")))

extern int cuCtxGetCurrent(void **ctx);
extern int cuMemcpy(uint64_t dst, uint64_t src, size_t nbytes);

struct error {
    int err, cu_err;
};
struct props {
    unsigned major, minor;
    size_t poll, direct_max;
    unsigned supports, control, features, cache, buffer, pinned, batch, timeout;
};
struct descr {
    int type, pad, fd, pad2;
    const void *ops;
};

EXPORT struct error cuFileDriverOpen(void);
EXPORT struct error cuFileDriverGetProperties(struct props *out);
EXPORT struct error cuFileHandleRegister(void **handle, struct descr *d);
EXPORT void cuFileHandleDeregister(void *handle);
EXPORT ssize_t cuFileRead(void *handle, void *base, size_t len, off_t file_off, off_t dev_off);
EXPORT ssize_t cuFileWrite(void *handle, const void *base, size_t len, off_t file_off,
                           off_t dev_off);
EXPORT int64_t fake_cufile_moved(void);

static struct {
    pthread_mutex_t mutex;
    bool open;
    struct file {
        bool used;
        int fd;
    } file[FILES];
    int64_t moved;
    char fails[64];
    int ncalls;
} fake = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "fake libcufile: %s\n", what);
    abort();
}

/* The value of a word of FAKE_CUFILE. */
static unsigned long setting(const char *name, unsigned long otherwise)
{
    const char *v = getenv("FAKE_CUFILE"), *at = v ? strstr(v, name) : NULL;
    return at ? strtoul(at + strlen(name) + 1, NULL, 0) : otherwise;
}

static bool fails(const char *function)
{
    char word[80];
    snprintf(word, sizeof word, "fail:%s", function);
    unsigned long nth = setting(word, 0);
    return nth && (unsigned long)++fake.ncalls >= nth;
}

static struct error result(const char *function)
{
    return (struct error){ fails(function) ? 5030 : 0, 0 };
}

struct error cuFileDriverOpen(void)
{
    struct error e = result("cuFileDriverOpen");
    fake.open = !e.err;
    return e;
}

struct error cuFileDriverGetProperties(struct props *out)
{
    must(fake.open, "properties before cuFileDriverOpen");
    memset(out, 0, sizeof *out);
    out->major = (unsigned)setting("nvfs", 2);
    out->supports = (unsigned)setting("supports", ~0ul & ~(1u << 11));
    return result("cuFileDriverGetProperties");
}

struct error cuFileHandleRegister(void **handle, struct descr *d)
{
    struct file *f = NULL;
    must(fake.open, "a file before cuFileDriverOpen");
    must(d->type == 1 && fcntl(d->fd, F_GETFD) >= 0, "a file without an open descriptor");
    pthread_mutex_lock(&fake.mutex);
    struct error e = result("cuFileHandleRegister");
    for (int i = 0; i < FILES && !e.err; i++) {
        must(!fake.file[i].used || fake.file[i].fd != d->fd, "a descriptor registered twice");
        f = fake.file[i].used ? f : &fake.file[i];
    }
    if (!e.err) {
        must(f != NULL, "too many files");
        *f = (struct file){ true, d->fd };
        *handle = f;
    }
    pthread_mutex_unlock(&fake.mutex);
    return e;
}

void cuFileHandleDeregister(void *handle)
{
    struct file *f = handle;
    pthread_mutex_lock(&fake.mutex);
    must(f >= fake.file && f < fake.file + FILES && f->used, "an unknown file deregistered");
    must(fcntl(f->fd, F_GETFD) >= 0, "a file deregistered after its descriptor was closed");
    f->used = false;
    pthread_mutex_unlock(&fake.mutex);
}

static ssize_t move(bool write, struct file *f, uint64_t dev, size_t len, off_t off)
{
    size_t most = setting("most", 1 << 20), part = len < most ? len : most;
    void *ctx = NULL, *room = malloc(part);
    must(cuCtxGetCurrent(&ctx) == 0 && ctx, "a transfer without a current context");
    pthread_mutex_lock(&fake.mutex);
    must(f >= fake.file && f < fake.file + FILES && f->used, "a transfer of an unknown file");
    bool failed = fails(write ? "cuFileWrite" : "cuFileRead");
    pthread_mutex_unlock(&fake.mutex);
    must(len && len % BLOCK == 0 && off % BLOCK == 0, "a transfer that is not whole blocks");
    ssize_t n = failed ? -5030 : 0;
    if (!failed && write) {
        must(cuMemcpy((uint64_t)(uintptr_t)room, dev, part) == 0, "no memory of a device");
        n = pwrite(f->fd, room, part, off);
    } else if (!failed) {
        memset(room, 0x5a, part); /* what is not in the file changes memory, too */
        n = pread(f->fd, room, part, off);
        must(cuMemcpy(dev, (uint64_t)(uintptr_t)room, part) == 0, "no memory of a device");
    }
    free(room);
    if (n > 0)
        __atomic_fetch_add(&fake.moved, n, __ATOMIC_SEQ_CST);
    return n;
}

ssize_t cuFileRead(void *handle, void *base, size_t len, off_t file_off, off_t dev_off)
{
    return move(false, handle, (uint64_t)(uintptr_t)base + (uint64_t)dev_off, len, file_off);
}

ssize_t cuFileWrite(void *handle, const void *base, size_t len, off_t file_off, off_t dev_off)
{
    return move(true, handle, (uint64_t)(uintptr_t)base + (uint64_t)dev_off, len, file_off);
}

int64_t fake_cufile_moved(void) { return __atomic_load_n(&fake.moved, __ATOMIC_SEQ_CST); }

__attribute__((destructor)) static void end(void)
{
    for (int i = 0; i < FILES; i++)
        must(!fake.file[i].used, "a file is still registered at the end of the process");
}
