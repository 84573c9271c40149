/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory and files: a pipeline of two pinned pieces.  While one piece is written to the file
 * (or read from it), the device packs the next (or unpacks the last) into the other.  Of a long
 * contiguous access, GPUDirect Storage moves the whole blocks, if it can, and the pipeline the
 * rest.  The domain's lock is held only during calls for the device. */
#include "mpi/io/device.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/pipe.h"

struct pipe {
    struct wm_iop *op;
    struct rt_gpu *g;
    int64_t end; /* of the data to be moved next: [op->moved, end) */
    struct wm_staging rooms;
    struct wm_slot piece[2];
};

static int64_t piece_len(const struct pipe *p, int64_t at)
{
    int64_t rest = p->end - at;
    return rest < RT_GPU_STAGE_LARGE ? rest : RT_GPU_STAGE_LARGE;
}

/* Starts packing or unpacking [at, at + len) of the user's data. */
static void begin(struct pipe *p, struct wm_slot *t, int64_t at, int64_t len)
{
    const struct wm_iop *op = p->op;
    char *room = p->rooms.room[t - p->piece];
    *t = (struct wm_slot){ .m = { op->mem, op->count, op->buf, at, room, len, op->write },
                           .memory = WM_MEMORY_DEVICE,
                           .g = p->g,
                           .by_device = true };
    wm_file_lock(op->file);
    wm_slot_pack(t);
    wm_file_unlock(op->file);
}

static int end(struct pipe *p, struct wm_slot *t)
{
    wm_file_lock(p->op->file);
    while (t->busy) {
        rt_gpu_progress();
        rt_relax();
    }
    wm_file_unlock(p->op->file);
    return t->err;
}

static int write_range(struct pipe *p, struct wm_rooms *r)
{
    struct wm_iop *op = p->op;
    int64_t at = op->moved, len = piece_len(p, at);
    int i = 0, err = 0;
    begin(p, &p->piece[0], at, len);
    while (at < p->end && !err) {
        int64_t next = at + len, next_len = next < p->end ? piece_len(p, next) : 0;
        err = end(p, &p->piece[i]);
        if (!err && next_len)
            begin(p, &p->piece[1 - i], next, next_len);
        if (!err) {
            int64_t got = wm_iop_move(op, r, p->rooms.room[i], op->pos + at, len);
            err = got < 0 ? (int)got : 0;
            op->moved += err ? 0 : got;
        }
        at = next;
        len = next_len;
        i = 1 - i;
    }
    return err;
}

static int read_range(struct pipe *p, struct wm_rooms *r)
{
    struct wm_iop *op = p->op;
    int err = 0;
    for (int i = 0; op->moved < p->end && !err; i = 1 - i) {
        int64_t len = piece_len(p, op->moved);
        err = end(p, &p->piece[i]);
        if (err)
            break;
        int64_t got = wm_iop_move(op, r, p->rooms.room[i], op->pos + op->moved, len);
        if (got < 0)
            return (int)got;
        if (got > 0)
            begin(p, &p->piece[i], op->moved, got);
        op->moved += got;
        if (got < len)
            break;
    }
    return err;
}

/* Moves [op->moved, to) of the data; less at the end of the file. */
static int by_pipe(struct pipe *p, struct wm_rooms *r, int64_t to)
{
    p->end = to;
    if (p->op->moved >= to)
        return 0;
    return p->op->write ? write_range(p, r) : read_range(p, r);
}

/* ---- GPUDirect Storage ---- */

/* Contiguous memory of the device and one range of the file. */
static bool storage_may(const struct pipe *p)
{
    struct wm_iop *op = p->op;
    return op->nbytes >= WM_STORAGE_LEAST && op->mem->contig && op->view->file->contig &&
           rt_gpu_lies_on(p->g, &op->where.at) &&
           rt_io_gds_ready(&op->file->gds, op->file->fd, &op->file->fs);
}

/* The end of the data that libcufile may move.  A read over the end of the file changes memory for
 * bytes that the file does not have (libcufile 1.15), so libcufile reads below the end only. */
static int64_t storage_end(const struct wm_iop *op, int64_t off)
{
    int64_t size = op->write ? INT64_MAX : rt_io_size(op->file->fd);
    if (size < 0 || op->nbytes <= size - off)
        return size < 0 ? size : op->nbytes;
    return size > off ? size - off : 0;
}

/* The whole blocks of the file, after the bytes in front of them. */
static int by_storage(struct pipe *p, struct wm_rooms *r)
{
    struct wm_iop *op = p->op;
    int64_t off = op->view->disp + op->pos, block = RT_IO_GDS_BLOCK;
    int64_t head = (block - off % block) % block, last = storage_end(op, off);
    int64_t len = (last - head) / block * block;
    if (last < 0 || len <= 0)
        return last < 0 ? (int)last : 0;
    int err = by_pipe(p, r, head);
    if (err || op->moved < head)
        return err;
    for (int i = 0; i < 2 && !err; i++)
        err = end(p, &p->piece[i]);
    wm_file_lock(op->file);
    int in = err ? err : rt_gpu_enter(p->g);
    wm_file_unlock(op->file);
    if (in < 0)
        return in;
    op->moved += rt_io_gds_move(&op->file->gds, op->write, op->buf + head, len, off + head);
    rt_gpu_leave(in);
    return 0;
}

static int by_device(struct pipe *p, struct wm_rooms *r)
{
    int err = storage_may(p) ? by_storage(p, r) : 0;
    return err ? err : by_pipe(p, r, p->op->nbytes);
}

static int move(struct wm_iop *op, char *room, int64_t n)
{
    wm_file_lock(op->file);
    int err = wm_iop_pack(op, op->moved, room, n);
    wm_file_unlock(op->file);
    return err;
}

/* Data on several devices, or no pinned memory is left: piece by piece, without a pipeline. */
static int by_pieces(struct wm_iop *op, struct wm_rooms *r)
{
    const int64_t most = sizeof r->image;
    while (op->moved < op->nbytes) {
        int64_t n = op->nbytes - op->moved < most ? op->nbytes - op->moved : most;
        int err = op->write ? move(op, r->image, n) : 0;
        int64_t got = err ? err : wm_iop_move(op, r, r->image, op->pos + op->moved, n);
        if (got > 0 && !op->write) {
            err = move(op, r->image, got);
            got = err ? err : got;
        }
        if (got < 0)
            return (int)got;
        op->moved += got;
        if (got < n)
            break;
    }
    return 0;
}

static int open_pipe(struct pipe *p)
{
    struct wm_iop *op = p->op;
    p->g = op->where.at.g;
    wm_file_lock(op->file);
    int err = wm_staging_pinned(&p->rooms, p->g, RT_GPU_STAGE_LARGE, 2);
    if (err >= 0 && p->rooms.n < 2)
        err = -RT_ENOMEM;
    wm_file_unlock(op->file);
    return err < 0 ? err : 0;
}

static void close_pipe(struct pipe *p)
{
    for (int i = 0; i < 2; i++)
        end(p, &p->piece[i]);
    wm_file_lock(p->op->file);
    wm_staging_give(&p->rooms);
    wm_file_unlock(p->op->file);
}

int wm_device_run(struct wm_iop *op, struct wm_rooms *r)
{
    struct pipe p = { .op = op };
    bool scattered = op->where.kind == WM_MEMORY_SCATTERED;
    int err = scattered ? 0 : open_pipe(&p);
    if (scattered || err == -RT_ENOMEM)
        err = by_pieces(op, r);
    else if (!err)
        err = by_device(&p, r);
    for (int i = 0; i < 2 && !err; i++) /* of a read, the last pieces */
        err = end(&p, &p.piece[i]);
    close_pipe(&p);
    return err;
}
