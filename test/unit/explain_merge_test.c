/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of hosts in frames: they arrive unchanged; 4096 ranks of 64 hosts are merged and judged;
 * every truncation, bent and random bytes end in an error or in a picture that can be judged and
 * printed.  The first argument is the seed. */
#include "launcher/explain/merge.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "test/check.h"

#include <sys/socket.h>

#define SECOND 1000000000ull

enum { HOSTS = 64, EACH = 64, RANKS = HOSTS * EACH };

static uint64_t seed = 20261129;
static struct explain_rank ranks[RANKS];
static struct explain_wait waits[RANKS][RT_ACTIVITY_NOTES];
static uint32_t numbers[RANKS];
static char names[HOSTS][8];

static uint32_t rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* n ranks of hosts with `each` ranks, that wait for nothing; the clock of each host is its own. */
static void begin(int n, int each)
{
    memset(waits, 0, sizeof waits);
    for (int r = 0; r < n; r++) {
        numbers[r] = (uint32_t)r;
        snprintf(names[r / each], sizeof names[0], "n%d", r / each);
        ranks[r] = (struct explain_rank){ .rank = r,
                                          .host = names[r / each],
                                          .pid = 1000 + r,
                                          .detail = "",
                                          .cpu = -1,
                                          .place = "",
                                          .function = "",
                                          .now_ns = (uint64_t)(100 + r / each) * SECOND,
                                          .published = true,
                                          .use = 1,
                                          .last_call = "",
                                          .waits = waits[r] };
    }
}

static struct rt_wait_note *add(int r, int n, const char *call, enum rt_wait_kind kind, int peer)
{
    struct explain_wait *w = &waits[r][ranks[r].nwaits++];
    w->place = "solve.f90:812";
    w->function = "exchange";
    w->note.since_ns = ranks[r].now_ns - 31 * SECOND;
    snprintf(w->note.call, sizeof w->note.call, "%s", call);
    w->note.item = (struct rt_wait_item){
        kind, 2, peer, peer < 0 ? RT_WAIT_NOBODY : peer, 7, 0, 8
    };
    w->note.comm = (struct rt_wait_comm){ .ctx = 2, .size = n, .rank = r, .nruns = 1 };
    w->note.comm.runs[0].stride = 1;
    w->note.comm.runs[0].count = n;
    w->note.root = -1;
    snprintf(w->note.comm.name, sizeof w->note.comm.name, "MPI_COMM_WORLD");
    return &w->note;
}

/* The payload of a frame with the picture of `n` ranks from `first` on. */
static struct frame_in put(struct frame_out *o, int first, int n, const char *stacks)
{
    struct explain_job part = { .ranks = ranks + first, .nranks = n };
    frame_begin(o, FRAME_PICTURE, 0);
    explain_put(o, &part, "no stack: the kernel forbids ptrace", stacks);
    CHECK_EQ(frame_end(o), 0);
    return (struct frame_in){ o->buf + FRAME_HEADER, o->buf + o->len, false };
}

static char *json_of(const struct explain_job *job)
{
    char *text = NULL;
    size_t len;
    struct explain_verdict v;
    CHECK_EQ(explain_judge(job, &v), 0);
    FILE *f = open_memstream(&text, &len);
    explain_json(job, &v, f);
    explain_print(job, &v, f);
    fclose(f);
    explain_verdict_fini(&v);
    return text;
}

/* Ranks in every state and with every kind of detail. */
static void fill(void)
{
    begin(6, 6);
    struct rt_wait_note *n = add(0, 6, "MPI_Waitall", RT_WAIT_REQS, -1);
    n->nreqs = 9;
    n->nunex = 2;
    for (int i = 0; i < RT_ACTIVITY_REQS; i++)
        n->reqs[i] = (struct rt_wait_item){ RT_WAIT_SEND,    4, i, i, 3 + i, UINT32_MAX,
                                            INT64_C(1) << 40 };
    for (int i = 0; i < 2; i++)
        n->unex[i] = (struct rt_wait_item){ RT_WAIT_SEND, 4, -1, RT_WAIT_FOREIGN, -2, 0, i };
    n = add(0, 6, "MPI_Win_unlock", RT_WAIT_TARGET, 3);
    snprintf(n->comm.name, sizeof n->comm.name, "a \"quoted\" window's name...");
    n->comm.nruns = 2;
    n->comm.runs[0].count = 3;
    n->comm.runs[1].first = 5;
    n->comm.runs[1].stride = -1;
    n->comm.runs[1].count = 3;
    n = add(1, 6, "MPI_Bcast", RT_WAIT_COLL, -1);
    n->number = UINT64_C(1) << 40;
    n->root = 5;
    snprintf(n->what, sizeof n->what, "bcast");
    ranks[2].state = EXPLAIN_RUNNING;
    ranks[2].cpu = 0.5;
    ranks[2].place = "chem.f90:77";
    ranks[2].function = "step_chem";
    ranks[2].last_call = "MPI_Waitall";
    ranks[2].faults = (struct rt_activity_faults){ .nfailed = 9,
                                                   .failed = { 3, RT_WAIT_FOREIGN, 5 },
                                                   .nrevoked = 2,
                                                   .revoked = {
                                                       [1] = { 6, "halo" }, [3] = { 8, "rows" } } };
    ranks[2].left_ns = 67 * SECOND;
    ranks[3].state = EXPLAIN_BLOCKED;
    ranks[3].detail = "read";
    ranks[3].nhidden = 2;
    ranks[4].state = EXPLAIN_ENDED;
    ranks[4].status = 9;
    ranks[4].use = 2;
    ranks[5].state = EXPLAIN_UNREADABLE;
    ranks[5].published = false;
    ranks[5].detail = "another user";
}

static void what_is_sent_arrives(void)
{
    struct frame_out o = { 0 };
    fill();
    struct explain_merge *m = explain_merge_new(1, 6);
    struct frame_in in = put(&o, 0, 6, "stack of rank 0:\n  #0 main\n");
    CHECK_EQ(explain_merge_take(m, 0, "n0", numbers, 6, &in), 0);
    frame_out_fini(&o); /* nothing points into the frame */
    char *sent = json_of(&(struct explain_job){ ranks, 6, 6, -1 });
    char *got = json_of(explain_merge_job(m)), text[128];
    CHECK_STR(got, sent);
    explain_merge_lacks(m, text, sizeof text);
    CHECK_STR(text, "host n0: no stack: the kernel forbids ptrace");
    FILE *f = fmemopen(text, sizeof text, "w");
    explain_merge_stacks(m, f);
    fclose(f);
    CHECK_STR(text, "stack of rank 0:\n  #0 main\n");
    free(sent);
    free(got);
    explain_merge_free(m);
}

static void host_that_is_silent(void)
{
    struct frame_out o = { 0 };
    begin(4, 2);
    for (int r = 0; r < 4; r++)
        add(r, 4, "MPI_Recv", RT_WAIT_RECV, (r + 3) % 4);
    struct explain_merge *m = explain_merge_new(2, 4);
    struct frame_in in = put(&o, 0, 2, "");
    CHECK_EQ(explain_merge_take(m, 0, "n0", numbers, 2, &in), 0);
    struct explain_known known[] = { { 2, 1002, false, 0 }, { 3, 1003, true, 9 } };
    CHECK_EQ(explain_merge_absent(m, 1, "n1", "host n1 did not answer", known, 2), 0);
    char *text = json_of(explain_merge_job(m));
    CHECK_STR(strstr(text, "\n]}\n") + 4,
              "2 of 4 ranks wait, directly or through others, for rank 3 (n1, pid 1003)\n"
              "  0-1  MPI_Recv from rank r-1 of each rank r tag 7, 8 B on MPI_COMM_WORLD (4 ranks) "
              "at solve.f90:812, for 31 s\n"
              "  rank 3 (n1, pid 1003) was ended by signal 9\n"
              "kind: left too early: rank 3 has ended, and rank 0 still waits for it in MPI_Recv "
              "from rank 3 tag 7 on MPI_COMM_WORLD at solve.f90:812\n");
    free(text);
    known[1].ended = false;
    CHECK_EQ(explain_merge_absent(m, 1, "n1", "host n1 did not answer", known, 2), 0);
    text = json_of(explain_merge_job(m));
    CHECK_STR(strstr(text, "\n]}\n") + 4,
              "2 of 4 ranks wait, directly or through others, for rank 3 (n1, pid 1003)\n"
              "  0-1  MPI_Recv from rank r-1 of each rank r tag 7, 8 B on MPI_COMM_WORLD (4 ranks) "
              "at solve.f90:812, for 31 s\n"
              "  rank 3 (n1, pid 1003) could not be read: host n1 did not answer\n"
              "kind: unknown: too little is known of the ranks that the others wait for\n");
    free(text);
    in = put(&o, 2, 2, ""); /* and now it answers */
    CHECK_EQ(explain_merge_take(m, 1, "n1", numbers + 2, 2, &in), 0);
    text = json_of(explain_merge_job(m));
    CHECK(strstr(text, "4 of 4 ranks wait") && strstr(text, "kind: cycle of waits: ranks 0 -> 3"));
    free(text);
    explain_merge_free(m);
    frame_out_fini(&o);
}

/* Through a channel, as an agent and the head do. */
static void send_host(struct frame_chan chan[2], struct explain_merge *m, int host)
{
    struct frame_out o = { 0 };
    struct frame f;
    put(&o, host * EACH, EACH, "");
    CHECK_EQ(frame_send(&chan[0], o.buf, o.len), 0);
    for (int more = 0; !more; more = frame_next(&chan[1], &f)) {
        frame_flush(&chan[0]);
        frame_fill(&chan[1]);
    }
    CHECK_EQ(f.type, FRAME_PICTURE);
    CHECK_EQ(explain_merge_take(m, host, names[host], numbers + host * EACH, EACH, &f.in), 0);
    frame_out_fini(&o);
}

/* All ranks but two neighbours of different hosts are in a barrier; each of these two waits for the
 * other one. */
static void many_hosts(void)
{
    struct frame_chan chan[2];
    struct explain_verdict v;
    char text[8192];
    int fds[2], lines = 0;
    begin(RANKS, EACH);
    for (int r = 0; r < RANKS; r++)
        if (r == EACH - 1 || r == EACH)
            add(r, RANKS, "MPI_Recv", RT_WAIT_RECV, r == EACH ? EACH - 1 : EACH);
        else
            snprintf(add(r, RANKS, "MPI_Barrier", RT_WAIT_COLL, -1)->what, 20, "barrier");
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++)
        frame_open(&chan[i], fds[i], fds[i]);
    uint64_t from = rt_now_ns();
    struct explain_merge *m = explain_merge_new(HOSTS, RANKS);
    for (int i = 0; i < HOSTS; i++)
        send_host(chan, m, i);
    uint64_t sent = rt_now_ns();
    struct explain_job *job = explain_merge_job(m);
    job->seconds = 30;
    CHECK_EQ(explain_judge(job, &v), 0);
    FILE *f = fmemopen(text, sizeof text, "w");
    explain_print(job, &v, f);
    fclose(f);
    printf("# %d ranks on %d hosts: %.1f ms to pack, send and unpack, %.1f ms to judge and print\n",
           RANKS, HOSTS, (double)(sent - from) / 1e6, (double)(rt_now_ns() - sent) / 1e6);
    CHECK_STR(
        text,
        "no progress for 30 s: 4096 of 4096 ranks wait, directly or through others, for "
        "each other\n"
        "  0-62,65-4095  MPI_Barrier #0, 8 B on MPI_COMM_WORLD (4096 ranks) at "
        "solve.f90:812, for 31 s\n"
        "  63-64         MPI_Recv from different ranks tag 7, 8 B on MPI_COMM_WORLD (4096 ranks)"
        " at solve.f90:812, for 31 s\n"
        "kind: cycle of waits: ranks 63 -> 64 -> 63; all receive first; let one send "
        "first, or use MPI_Sendrecv\n");
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    CHECK(lines <= 12);
    explain_verdict_fini(&v);
    explain_merge_free(m);
    for (int i = 0; i < 2; i++)
        frame_close(&chan[i]);
}

/* ---- malformed frames ---- */

/* A copy, so that a sanitizer detects an access beyond it. */
static int take(struct explain_merge *m, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    struct frame_in in = { copy, copy + len, false };
    int err = explain_merge_take(m, 0, "n0", numbers, 6, &in);
    free(copy);
    return err;
}

static void frames_that_are_cut(void)
{
    struct frame_out o = { 0 };
    fill();
    struct explain_merge *m = explain_merge_new(1, 6);
    struct frame_in in = put(&o, 0, 6, "stack\n");
    size_t len = (size_t)(in.end - in.at);
    for (size_t n = 0; n < len; n++)
        CHECK_MSG(take(m, in.at, n) == -RT_EINVAL, "%zu of %zu bytes are enough", n, len);
    uint8_t *more = calloc(1, len + 1);
    memcpy(more, in.at, len);
    CHECK_EQ(take(m, more, len + 1), -RT_EINVAL);
    CHECK_EQ(explain_merge_job(m)->nranks, 0);
    free(more);
    explain_merge_free(m);
    frame_out_fini(&o);
}

static void frames_that_lie(void)
{
    struct frame_out o = { 0 };
    struct explain_merge *m = explain_merge_new(1, 6);
    for (int what = 0; what < 15; what++) {
        fill();
        struct rt_wait_note *n = &waits[0][0].note;
        switch (what) {
        case 0:
            ranks[3].rank = 2;
            break;
        case 1:
            ranks[0].nwaits = RT_ACTIVITY_NOTES + 1;
            break;
        case 2:
            ranks[2].state = EXPLAIN_UNREADABLE + 1;
            break;
        case 3:
            n->item.kind = RT_WAIT_KINDS;
            break;
        case 4:
            n->item.world = 6;
            break;
        case 5:
            n->item.world = RT_WAIT_NOBODY - 1;
            break;
        case 6:
            n->comm.runs[0].count = 7;
            break;
        case 7:
            n->comm.runs[0].first = 1;
            break;
        case 8:
            n->comm.runs[0].stride = -1;
            break;
        case 9:
            n->comm.size = -1;
            break;
        case 10:
            n->reqs[5].world = 1 << 30;
            break;
        case 11:
            n->item.peer = INT32_MIN;
            break;
        case 12:
            ranks[0].pid = -1;
            break;
        case 13:
            n->nheld = 1;
            n->held[0].world = 6;
            break;
        default:
            n->root = INT32_MAX;
            break;
        }
        if (what == 1)
            ranks[0].waits = waits[0]; /* the next rank's first one follows */
        struct frame_in in = put(&o, 0, 6, "");
        CHECK_MSG(take(m, in.at, (size_t)(in.end - in.at)) == -RT_EINVAL, "lie %d", what);
    }
    explain_merge_free(m);
    frame_out_fini(&o);
}

static void frames_that_are_bent(void)
{
    struct frame_out o = { 0 };
    int naccepted = 0;
    fill();
    struct explain_merge *m = explain_merge_new(1, 6);
    struct frame_in in = put(&o, 0, 6, "stack\n");
    size_t len = (size_t)(in.end - in.at);
    uint8_t *bent = malloc(len);
    for (int round = 0; round < 20000; round++) {
        memcpy(bent, in.at, len);
        for (uint32_t k = rnd() % 4 + 1; k > 0; k--)
            bent[rnd() % len] = (uint8_t)(rnd() % 3 ? rnd() : rnd() % 2 ? 0xff : 0x7f);
        if (round % 4 == 0)
            for (size_t k = 0; k < len; k++)
                bent[k] = (uint8_t)rnd();
        if (take(m, bent, len) < 0)
            continue;
        naccepted++;
        free(json_of(explain_merge_job(m)));
    }
    printf("# %d of 20000 bent pictures were accepted\n", naccepted);
    CHECK(naccepted > 100);
    free(bent);
    explain_merge_free(m);
    frame_out_fini(&o);
}

/* Whatever a user's name contains, the terminal is left alone. */
static void names_with_control_characters(void)
{
    struct frame_out o = { 0 };
    begin(2, 2);
    snprintf(add(0, 2, "MPI_Recv", RT_WAIT_RECV, 1)->comm.name, 28, "\033[2Jred\a");
    struct explain_merge *m = explain_merge_new(1, 2);
    struct frame_in in = put(&o, 0, 2, "");
    CHECK_EQ(explain_merge_take(m, 0, "n0", numbers, 2, &in), 0);
    char *text = json_of(explain_merge_job(m));
    CHECK(strstr(text, "?[2Jred?") && !strchr(text, '\033'));
    free(text);
    explain_merge_free(m);
    frame_out_fini(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("# seed %llu\n", (unsigned long long)seed);
    RUN(what_is_sent_arrives);
    RUN(host_that_is_silent);
    RUN(many_hosts);
    RUN(frames_that_are_cut);
    RUN(frames_that_lie);
    RUN(frames_that_are_bent);
    RUN(names_with_control_characters);
    return check_end();
}
