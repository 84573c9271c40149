/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that no engine sends, as faulty memory or a faulty network make them: each is dropped,
 * or ends the process with a message that names the sender.  No case may crash, or blame this
 * library.  Each case runs in a process of its own, with a send and a receive under way. */
#include "mpi/p2p/arrive.h"
#include "test/fake/p2p_world.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mpi/p2p/part.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/cfg.h"
#include "test/check.h"
#include "test/unit/capture.h"

enum { ME = 0, FROM = 1, LONG = 5000, FRAMES = 400 };

static struct rt_layout bytes_layout;
static char sent[LONG], room[LONG];
static struct rt_req *send_req, *recv_req;

/* A frame in memory of exactly its length, so that the address sanitizer sees each access. */
static void frame(struct btl_hdr h, const void *data, size_t len)
{
    char *copy = calloc(1, len ? len : 1);
    memcpy(copy, data, len);
    wm_on_recv(dom[ME], &eps[ME]->peers[FROM].base, &h, copy, len);
    free(copy);
}

static struct btl_hdr header(enum wm_kind kind, int tag)
{
    return wm_hdr(kind, wm_ctx(&comm[ME], false), tag, FROM);
}

/* An announced send to FROM, and a receive from it. */
static void begin(void)
{
    world_up((struct knobs){ .put = true });
    struct wm_msg m = { .buf = sent,
                        .count = LONG,
                        .layout = &bytes_layout,
                        .comm = &comm[ME],
                        .peer = FROM,
                        .tag = 7 };
    wm_p2p_isend(&m, WM_STANDARD, &send_req);
    m.buf = room;
    wm_p2p_irecv(&m, &recv_req);
}

static void short_rts(void) { frame(header(WM_RTS, 7), "1234", 4); }
static void short_unexpected_rts(void) { frame(header(WM_RTS, 8), "1234", 4); }
static void short_sync(void) { frame(header(WM_EAGER_SYNC, 7), "1", 1); }
static void short_cts(void) { frame(header(WM_CTS, 0), "1234", 4); }
static void short_part(void) { frame(header(WM_PART_INIT, 0), "1", 1); }
static void unknown_control(void) { frame(header(WM_CONTROL, 4711), "", 0); }
static void negative_rts(void)
{
    struct wm_rts r = { .len = -8 };
    frame(header(WM_RTS, 7), &r, sizeof r);
}

static void early(int64_t len)
{
    struct wm_rts r = { .len = 64, .flags = WM_RTS_EARLY, .early = len };
    frame(header(WM_RTS, 7), &r, sizeof r);
    frame(header(WM_EARLY, 0), sent, 65);
}
static void early_beyond(void) { early(64); }
static void early_negative(void) { early(-64); }

static void cts(int64_t off, int64_t len, uint32_t stream, int64_t step)
{
    struct wm_cts c = {
        .off = off, .len = len, .sender = send_req->obj.handle, .stream = stream, .step = step
    };
    frame(header(WM_CTS, 0), &c, sizeof c);
}
static void cts_beyond(void) { cts(8, LONG, WM_STREAM_CHUNKS, 0); }
static void cts_before(void) { cts(-8, 8, WM_STREAM_CHUNKS, 0); }
static void cts_no_step(void) { cts(0, LONG, WM_STREAM_PIECES, 0); }
static void cts_no_stream(void) { cts(0, LONG, 77, 100); }

static void part_negative(void)
{
    struct wm_part_init init = { .nbytes = -1, .partitions = -1 };
    frame(header(WM_PART_INIT, 0), &init, sizeof init);
}

static void data_beyond(void)
{
    struct wm_rts r = { .len = 64, .flags = WM_RTS_PACKS };
    frame(header(WM_RTS, 7), &r, sizeof r);
    frame(header(WM_DATA, (int)recv_req->obj.handle), sent, 65);
}

/* Of a request that is no message. */
static void other_request(void)
{
    static const struct rt_req_ops ops = { .name = "another" };
    struct rt_req *r = wm_req_alloc(&ops);
    memset((char *)r + sizeof *r, 0x11, WM_REQ_MAX - sizeof *r);
    struct wm_fin f = { .req = r->obj.handle };
    frame(header(WM_FIN_PUT, 0), &f, sizeof f);
    frame(header(WM_SYNC_ACK, 0), &f, sizeof f);
    frame(header(WM_CANCELLED, 0), &f, sizeof f);
    struct wm_cts c = { .sender = f.req };
    frame(header(WM_CTS, 0), &c, sizeof c);
}

/* Any kinds, lengths and contents; where a request is named, often one that exists.  Keys are left
 * out: this transport trusts them. */
static void random_frames(void)
{
    char data[2 * EAGER];
    for (int i = 0; i < FRAMES; i++) {
        enum wm_kind kind = (enum wm_kind)rnd(WM_CONTROL + 1);
        size_t len = rnd(50) ? 200 + rnd(100) : rnd(24);
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (char)(rnd(30) ? 0 : rnd(256));
        uint32_t handle = rnd(2) ? send_req->obj.handle : recv_req->obj.handle;
        if (kind == WM_CTS)
            memcpy(data + offsetof(struct wm_cts, sender), &handle, sizeof handle);
        else if (kind != WM_RTS)
            memcpy(data, &handle, sizeof handle);
        if (kind == WM_CTS)
            data[offsetof(struct wm_cts, stream)] = (char)(1 + rnd(3));
        struct btl_hdr h = header(kind, rnd(2) ? 7 : (int)rnd(8));
        if (kind == WM_DATA && rnd(2))
            h.tag = (int)handle;
        if (kind == WM_CONTROL)
            h.tag = (int)rnd(WM_RMA_MESSAGE);
        frame(h, data, len);
        if (rnd(4) == 0)
            wm_progress(dom[ME]);
    }
}

/* Runs it in a child; returns what the child has printed. */
static const char *run(void (*fn)(void), int *status_p)
{
    capture_begin();
    pid_t pid = fork();
    if (pid == 0) {
        begin();
        fn();
        _exit(0);
    }
    waitpid(pid, status_p, 0);
    return capture_end();
}

static void ends(const char *name, void (*fn)(void), const char *why)
{
    int status;
    const char *text = run(fn, &status);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s: status %x: %s", name, status,
              text);
    CHECK_MSG(strstr(text, "rank 1 sent a malformed message: ") && strstr(text, why), "%s: %s",
              name, text);
    CHECK_MSG(!strstr(text, "defect of Weft"), "%s: %s", name, text);
}

#define ENDS(fn, why) ends(#fn, fn, why)
static void frames_that_end_the_job(void)
{
    ENDS(short_rts, "4 bytes of kind");
    ENDS(short_unexpected_rts, "4 bytes of kind");
    ENDS(short_sync, "1 bytes of kind");
    ENDS(short_cts, "4 bytes of kind");
    ENDS(short_part, "1 bytes of kind");
    ENDS(unknown_control, "control message of unknown kind 4711");
    ENDS(negative_rts, "a message of -8 bytes");
    ENDS(early_beyond, "but 64 were missing");
    ENDS(early_negative, "a message of 64 bytes");
    ENDS(cts_beyond, "a message of 5000");
    ENDS(cts_before, "8 bytes at -8");
    ENDS(cts_no_step, "a message of 5000");
    ENDS(cts_no_stream, "a message of 5000");
    ENDS(part_negative, "-1 partitions of -1 bytes");
    ENDS(data_beyond, "more than were requested");
}

static void handles_of_other_requests_are_dropped(void)
{
    int status;
    const char *text = run(other_request, &status);
    CHECK_MSG(status == 0, "status %x: %s", status, text);
}

static void random_frames_crash_nothing(void)
{
    const char *given = getenv("TEST_SEED");
    unsigned long first = given ? strtoul(given, NULL, 10) : 1, n = given ? 1 : 60;
    for (unsigned long s = first; s < first + n; s++) {
        int status;
        seed = s;
        const char *text = run(random_frames, &status);
        bool named = strstr(text, "rank 1 sent a malformed message: ");
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == named &&
                      !strstr(text, "defect of Weft"),
                  "seed %lu: status %x: %s", s, status, text);
    }
}

int main(void)
{
    rt_cfg_load();
    rt_layout_basic(&bytes_layout, 1, 1, RT_ELEM_BYTE);
    RUN(frames_that_end_the_job);
    RUN(handles_of_other_requests_are_dropped);
    RUN(random_frames_crash_nothing);
    return check_end();
}
