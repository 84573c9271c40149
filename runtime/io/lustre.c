/* SPDX-License-Identifier: BSD-3-Clause */
/* Stripes of Lustre, read and set by its kernel module's own interfaces, so no library of Lustre is
 * needed: an extended attribute has the layout of a file, an ioctl(2) sets that of a new one.  The
 * layout comes from outside, so every offset in it is checked.  No state; any thread. */
#include "runtime/io/io.h"
#include "runtime/base/log.h"
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define MAGIC_V3 0x0bd30bd0u
#define MAGIC_SPECIFIC 0x0bd50bd0u
#define MAGIC_COMPOSITE 0x0bd60bd0u
#define PATTERN_RAID0 1u
#define ALL_TARGETS 0xffffu
#define MIN_STRIPE 65536           /* Lustre rounds to it */
#define MAX_STRIPE 0xffff0000u     /* 32 bits, a multiple of MIN_STRIPE */
#define LAYOUT_MAX 65536           /* of an extended attribute */
#define DELAY (O_NOCTTY | O_ASYNC) /* O_LOV_DELAY_CREATE: no targets before they are set */

/* The starts of struct lov_comp_md_v1 and of its entries, struct lov_comp_md_entry_v1. */
struct composite {
    uint32_t magic, nbytes, generation;
    uint16_t flags, nentries;
    uint16_t mirrors[4];
    uint64_t padding;
};
struct component {
    uint32_t id, flags;
    uint64_t begin, end;
    uint32_t off, nbytes; /* of its lov_user_md, from the start of the layout */
    uint32_t rest[4];
};
_Static_assert(sizeof(struct composite) == 32 && sizeof(struct component) == 48 &&
                   sizeof(struct rt_io_lustre_md) == 32,
               "the layouts of lustre_user.h");

static struct rt_io_stripes parse_plain(const char *layout, size_t nbytes)
{
    struct rt_io_stripes none = { 0 };
    struct rt_io_lustre_md md;
    if (nbytes < sizeof md)
        return none;
    memcpy(&md, layout, sizeof md);
    bool known = md.magic == RT_IO_LUSTRE_V1 || md.magic == MAGIC_V3 || md.magic == MAGIC_SPECIFIC;
    if (!known || !md.stripe_nbytes || (md.pattern & 0xffff) > PATTERN_RAID0)
        return none;
    return (struct rt_io_stripes){ md.stripe_nbytes, md.nstripes == ALL_TARGETS ? 0 : md.nstripes };
}

/* Of several components, the last one with stripes: large files are in it for the greater part. */
static struct rt_io_stripes parse_composite(const char *layout, size_t nbytes)
{
    struct rt_io_stripes found = { 0 };
    struct composite head;
    struct component c;
    if (nbytes < sizeof head)
        return found;
    memcpy(&head, layout, sizeof head);
    for (size_t i = 0; i < head.nentries; i++) {
        size_t at = sizeof head + i * sizeof c;
        if (at + sizeof c > nbytes)
            break;
        memcpy(&c, layout + at, sizeof c);
        if (c.off >= nbytes)
            continue;
        struct rt_io_stripes s = parse_plain(layout + c.off, nbytes - c.off);
        found = s.nbytes ? s : found;
    }
    return found;
}

struct rt_io_stripes rt_io_lustre_parse(const void *layout, size_t nbytes)
{
    uint32_t magic = 0;
    if (nbytes >= sizeof magic)
        memcpy(&magic, layout, sizeof magic);
    return magic == MAGIC_COMPOSITE ? parse_composite(layout, nbytes) : parse_plain(layout, nbytes);
}

struct rt_io_stripes rt_io_lustre_look(int fd)
{
    char layout[LAYOUT_MAX];
    ssize_t n = rt_io_sys->getxattr(fd, RT_IO_LUSTRE_LAYOUT, layout, sizeof layout);
    if (n < 0)
        log_info(IO, "could not read the stripes of a Lustre file: %m");
    return rt_io_lustre_parse(layout, n < 0 ? 0 : (size_t)n);
}

int rt_io_lustre_create(const char *path, int flags, mode_t mode, const struct rt_io_stripes *want)
{
    int64_t nbytes = (want->nbytes + MIN_STRIPE - 1) / MIN_STRIPE * MIN_STRIPE;
    struct rt_io_lustre_md md = {
        .magic = RT_IO_LUSTRE_V1,
        .pattern = PATTERN_RAID0,
        .stripe_nbytes = nbytes < MAX_STRIPE ? (uint32_t)nbytes : MAX_STRIPE,
        .nstripes = (uint16_t)want->n,
        .first = ALL_TARGETS /* any */
    };
    int fd = rt_io_open(path, flags | DELAY, mode);
    if (fd < 0 || rt_io_sys->ioctl(fd, RT_IO_LUSTRE_SET, &md) >= 0)
        return fd;
    log_info(IO, "could not set the stripes of %s: %s; it has those of its folder", path,
             errno == EEXIST ? "the file exists" : strerror(errno));
    rt_io_close(fd); /* old versions cannot write to a file that was opened without targets */
    return rt_io_open(path, flags & ~O_EXCL, mode);
}
