/* SPDX-License-Identifier: BSD-3-Clause */
/* A window of the file in an aggregator's memory, and the messages that say where data belong in
 * it. */
#ifndef WM_IO_WINDOW_H
#define WM_IO_WINDOW_H

#include "mpi/io/iop.h"

/* Memory that grows and is kept between accesses. */
struct wm_room {
    char *p;
    int64_t size;
};
/* Makes it at least nbytes long and keeps what it holds.  0 or -RT_ENOMEM. */
int wm_room_grow(struct wm_room *r, int64_t nbytes);

/* n pieces of the file of `len` bytes each, `stride` bytes apart: a regular layout takes only a few
 * of these structs. */
struct wm_pieces {
    int64_t off, len, stride, n;
};
/* Appends to `out`, which holds *used bytes, where positions [pos, pos + len) of the view are in
 * the file, in this order.  0 or -RT_ENOMEM. */
int wm_pieces_put(const struct wm_view *v, int64_t pos, int64_t len, struct wm_room *out,
                  int64_t *used);

struct wm_window {
    int fd;
    const struct rt_io_fs *fs;
    int64_t high;     /* of all windows of the access */
    int64_t from, to; /* of the file */
    int64_t end;      /* after wm_window_read(): the end of the file, or more */
    int64_t unit;     /* power of two; divides `from`, `to` and all pieces */
    char *image;      /* to - from bytes */
    uint64_t *marks;  /* a bit for each unit: a rank writes it, or wants to read it */
};
/* Room for the image and the marks of a window of `len` bytes.  0 or -RT_ENOMEM. */
int wm_window_rooms(int64_t len, struct wm_room *image, struct wm_room *marks);
/* Removes all marks. */
void wm_window_clear(struct wm_window *w);
/* Marks the pieces of `n` groups; copies their data into the image if `data` is not NULL.  Several
 * processes may do so in one window. */
void wm_window_put(struct wm_window *w, const struct wm_pieces *g, int64_t n, const char *data);
/* Copies the pieces' data out of the image up to the end of the file; returns their bytes. */
int64_t wm_window_get(const struct wm_window *w, const struct wm_pieces *g, int64_t n, char *data);
/* The same for positions [pos, pos + len) of an ordered view, all in the window. */
void wm_window_fill(struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len,
                    const char *data);
int64_t wm_window_fetch(const struct wm_window *w, const struct wm_view *v, int64_t pos,
                        int64_t len, char *data);
/* How many of these bytes are before the end of the file. */
int64_t wm_window_before(const struct wm_window *w, const struct wm_view *v, int64_t pos,
                         int64_t len);
/* Reads the window: these positions to `data`, and marks them; all other bytes to the image.
 * Returns the bytes of the window before the end of the file, or -RT_E... */
int64_t wm_window_scatter(struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len,
                          char *data);
/* Whether any byte of these positions has a mark. */
bool wm_window_marked(const struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len);
/* wm_window_write() writes the marked bytes and no others; wm_window_read() reads the marked bytes
 * and short gaps between them.  0 or -RT_E... */
int wm_window_write(const struct wm_window *w);
int wm_window_read(struct wm_window *w);

#endif
