/* SPDX-License-Identifier: BSD-3-Clause */
/* The file system of a file, by the magic number of statfs(2), and for Lustre the stripes, by an
 * ioctl(2) of its kernel module, so no library of Lustre is needed.  No state; any thread. */
#include "runtime/io/io.h"
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

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

/* The start of struct lov_user_md, versions 1 and 3
 * (lustre/include/uapi/linux/lustre/lustre_user.h): what `lfs getstripe` reads. */
struct lov_user_md {
    uint32_t magic, pattern;
    uint64_t object_id, object_seq;
    uint32_t stripe_size;
    uint16_t stripe_count, stripe_offset;
};
#define LOV_MAGIC_V1 0x0bd10bd0u
#define LOV_MAGIC_V3 0x0bd30bd0u
#define LL_IOC_LOV_GETSTRIPE _IOW('f', 155, long)

static void look_lustre(int fd, struct rt_io_fs *out)
{
    union {
        struct lov_user_md md;
        char room[65536]; /* with an entry for each of at most 2000 targets */
    } u;
    memset(&u.md, 0, sizeof u.md);
    u.md.magic = LOV_MAGIC_V3;
    if (ioctl(fd, LL_IOC_LOV_GETSTRIPE, &u) < 0 ||
        (u.md.magic != LOV_MAGIC_V1 && u.md.magic != LOV_MAGIC_V3))
        return; /* a composite layout: only `block` is known */
    out->stripe = u.md.stripe_size;
    out->nstripes = u.md.stripe_count;
}

void rt_io_fs_look(int fd, struct rt_io_fs *out)
{
    struct statfs st;
    *out = (struct rt_io_fs){ .kind = RT_IO_OTHER, .name = "unknown", .shared = true };
    if (fstatfs(fd, &st) < 0)
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
        look_lustre(fd, out);
}
