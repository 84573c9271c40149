/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --io: the file system of a file or folder, and how the library accesses a file there.
 * What the library decides is read from the code that decides: the probe of runtime/io, the limits
 * and hints of mpi/io.  The file is opened and not changed.  One thread. */
#include "launcher/info/info.h"
#include "mpi/io/device.h"
#include "mpi/io/hints.h"
#include "mpi/io/plan.h"
#include "runtime/base/err.h"
#include "runtime/io/io.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TEXT 32

static void line(const char *what, const char *found) { printf("  %-14s %s\n", what, found); }

static const char *kind_text(const struct rt_io_fs *fs)
{
    switch (fs->kind) {
    case RT_IO_LOCAL:
        return "local";
    case RT_IO_MEMORY:
        return "in memory";
    case RT_IO_NFS:
        return "network file system";
    case RT_IO_LUSTRE:
    case RT_IO_GPFS:
        return "parallel file system";
    case RT_IO_OTHER:
        break;
    }
    return fs->shared ? "treated as shared by several hosts" : "local";
}

/* Rounded down to a unit that keeps three digits or more. */
static const char *about(uint64_t n, char *text)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    int i = 0;
    for (; i < 4 && n >= 10240; i++)
        n >>= 10;
    snprintf(text, TEXT, "%llu %s", (unsigned long long)n, units[i]);
    return text;
}

static void show_system(int fd, const struct rt_io_fs *fs)
{
    char text[256], a[TEXT], b[TEXT];
    struct statvfs room;
    snprintf(text, sizeof text, "%s, %s; %s", fs->name, kind_text(fs),
             fs->shared ? "several hosts may have it mounted" : "this host only");
    line("file system", text);
    line("block size", info_bytes((size_t)fs->block, a, TEXT));
    if (fstatvfs(fd, &room) == 0) {
        snprintf(text, sizeof text, "%s of %s", about((uint64_t)room.f_bavail * room.f_frsize, a),
                 about((uint64_t)room.f_blocks * room.f_frsize, b));
        line("free space", text);
    }
    info_bytes((size_t)fs->stripes.nbytes, a, TEXT);
    if (fs->stripes.n)
        snprintf(text, sizeof text, "%d targets, %s in a row on each", fs->stripes.n, a);
    else if (fs->stripes.nbytes)
        snprintf(text, sizeof text, "%s in a row on each target; number of targets not reported",
                 a);
    else
        snprintf(text, sizeof text, "none reported (they are read from Lustre and GPFS only)");
    line("stripes", text);
}

static void show_access(int fd, bool folder, bool writable)
{
    char text[256], a[TEXT], b[TEXT], c[TEXT];
    printf("Access by the library\n");
    line("contiguous", "one preadv or pwritev for each run of bytes in the file");
    snprintf(text, sizeof text,
             "runs below %s: up to %s at once with the gaps below %s between them",
             info_bytes(WM_IOP_COARSE, a, TEXT), info_bytes(WM_IOP_SIEVE, b, TEXT),
             info_bytes(WM_IOP_GAP, c, TEXT));
    line("short reads", text);
    line("short writes", "a call for each run: bytes of other writers are not touched");
    line("collective", wm_plan_summary());
    line("locks", "none in the default mode");
    if (folder) /* a lock needs a file */
        line("atomic mode", "locks the range of each access; not tested without a file");
    else if (rt_io_can_lock(fd, writable) == 0)
        line("atomic mode", "locks the range of each access; the file system has such locks");
    else
        line("atomic mode", "not available: the file system has no locks");
}

/* For a folder, the file itself is left out. */
static void show_storage(int fd, bool folder, const struct rt_io_fs *fs)
{
    char text[256], a[TEXT];
    struct rt_io_gds gds = { 0 };
    if (rt_io_gds_ready(&gds, folder ? -1 : fd, fs))
        snprintf(text, sizeof text,
                 "by GPUDirect Storage, contiguous data from %s on; else through "
                 "pinned host memory",
                 info_bytes(WM_STORAGE_LEAST, a, TEXT));
    else
        snprintf(text, sizeof text, "through pinned host memory; not by GPUDirect Storage: %s",
                 gds.why);
    line("device memory", text);
    rt_io_gds_close(&gds);
}

static void show_hints(void)
{
    const char *key, *effect;
    printf("Hints\n");
    for (int i = 0; (key = wm_hints_effect(i, &effect)); i++)
        printf("  %-20s %s\n", key, effect);
}

static int fail(const char *path, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "weft_info: --io %s: %s\n", path, why);
    return 1;
}

/* Opens with as much access as the user has. */
static int open_most(const char *path, bool folder, const char **mode)
{
    static const struct {
        int flags;
        const char *text;
    } modes[] = { { O_RDWR, "read and write" },
                  { O_RDONLY, "read only" },
                  { O_WRONLY, "write only" } };
    if (folder) {
        *mode = access(path, W_OK | X_OK) == 0 ? "files can be created" : "no file can be created";
        return rt_io_open(path, O_RDONLY | O_DIRECTORY, 0);
    }
    int fd = -1;
    for (int i = 0; i < 3 && fd < 0; i++) {
        fd = rt_io_open(path, modes[i].flags, 0);
        *mode = modes[i].text;
    }
    return fd;
}

int info_io(const char *path)
{
    struct stat st;
    struct rt_io_fs fs;
    const char *mode;
    if (stat(path, &st) < 0)
        return fail(path, strerror(errno));
    bool folder = S_ISDIR(st.st_mode);
    if (!folder && !S_ISREG(st.st_mode))
        return fail(path, "neither a file nor a folder");
    int fd = open_most(path, folder, &mode);
    if (fd < 0)
        return fail(path, rt_err_text(fd));
    rt_io_fs_look(fd, &fs);
    printf("%s %s\n", folder ? "Folder" : "File", path);
    line("permissions", mode);
    show_system(fd, &fs);
    show_access(fd, folder, strcmp(mode, "read only") != 0);
    show_storage(fd, folder, &fs);
    show_hints();
    rt_io_close(fd);
    return 0;
}
