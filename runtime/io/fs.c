/* SPDX-License-Identifier: BSD-3-Clause */
/* The file system of a file, by the magic number of statfs(2), and its stripes.  GPFS puts each
 * block of the file system on the next disk, and reports the block's length as f_bsize.  No state;
 * any thread. */
#include "runtime/io/io.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct known {
    unsigned magic;
    enum rt_io_kind kind;
    const char *name;
    bool shared;
};

/* Magic numbers: those of statfs(2); for GPFS and others, those that their drivers report. */
static const struct known table[] = {
    { 0xef53, RT_IO_LOCAL, "ext4", false },
    { 0x58465342, RT_IO_LOCAL, "xfs", false },
    { 0x9123683e, RT_IO_LOCAL, "btrfs", false },
    { 0xf2f52010, RT_IO_LOCAL, "f2fs", false },
    { 0x2fc12fc1, RT_IO_LOCAL, "zfs", false },
    { 0x794c7630, RT_IO_LOCAL, "overlay", false },
    { 0x01021994, RT_IO_MEMORY, "tmpfs", false },
    { 0x858458f6, RT_IO_MEMORY, "ramfs", false },
    { 0x6969, RT_IO_NFS, "nfs", true },
    { 0x0bd00bd0, RT_IO_LUSTRE, "lustre", true },
    { 0x47504653, RT_IO_GPFS, "gpfs", true },
    { 0xaad7aaea, RT_IO_OTHER, "panfs", true },
    { 0x19830326, RT_IO_OTHER, "beegfs", true },
    { 0x00c36400, RT_IO_OTHER, "ceph", true },
    { 0xff534d42, RT_IO_OTHER, "cifs", true },
    { 0xfe534d42, RT_IO_OTHER, "smb2", true },
    { 0x01021997, RT_IO_OTHER, "9p", true },
    { 0x65735546, RT_IO_OTHER, "fuse", true },
    { 0x20030528, RT_IO_OTHER, "orangefs", true },
};

void rt_io_fs_look(int fd, struct rt_io_fs *out)
{
    struct statfs st;
    *out = (struct rt_io_fs){ .kind = RT_IO_OTHER, .name = "unknown", .shared = true };
    if (rt_io_sys->statfs(fd, &st) < 0)
        return;
    snprintf(out->name, sizeof out->name, "0x%lx", (unsigned long)(unsigned)st.f_type);
    out->block = st.f_bsize;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].magic != (unsigned)st.f_type)
            continue;
        out->kind = table[i].kind;
        out->shared = table[i].shared;
        snprintf(out->name, sizeof out->name, "%s", table[i].name);
    }
    if (out->kind == RT_IO_LUSTRE)
        out->stripes = rt_io_lustre_look(fd);
    else if (out->kind == RT_IO_GPFS)
        out->stripes.nbytes = out->block;
}

/* The file system of the folder in which a file is, or would be. */
static enum rt_io_kind kind_of_folder(const char *path)
{
    char folder[PATH_MAX] = ".";
    struct rt_io_fs fs = { .kind = RT_IO_OTHER };
    const char *slash = strrchr(path, '/');
    if (slash && (size_t)(slash - path) + 2 > sizeof folder)
        return fs.kind;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
    int fd = rt_io_open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fs.kind;
    rt_io_fs_look(fd, &fs);
    rt_io_close(fd);
    return fs.kind;
}

int rt_io_create(const char *path, int flags, mode_t mode, const struct rt_io_stripes *want)
{
    bool set = want->nbytes || want->n;
    if (set && kind_of_folder(path) == RT_IO_LUSTRE)
        return rt_io_lustre_create(path, flags | O_CREAT, mode, want);
    return rt_io_open(path, flags | O_CREAT, mode);
}
