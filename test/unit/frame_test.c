/* SPDX-License-Identifier: BSD-3-Clause */
/* Data that mpirun and its agents exchange: values, frames, greetings, descriptions of jobs and
 * parts of trees arrive unchanged; and every truncation, random bytes, flipped bits and impossible
 * lengths end in an error.  The first argument is the seed. */
#include "launcher/host/server.h"
#include "launcher/strings.h"
#include "launcher/tree/describe.h"
#include "launcher/tree/relay.h"
#include "runtime/base/err.h"
#include "test/check.h"

#include <sys/socket.h>
#include <unistd.h>

static uint64_t seed = 20261121;
static int nanswers, nfetches;

static uint32_t rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* ---- what relay.c and rsh.c need in a test without processes ---- */

void launch_call_free(struct launch_call *call)
{
    free(call->data);
    free(call->ranks);
    free(call);
}

void launch_server_answer(struct launch_call *call, int err, const void *data, size_t len)
{
    (void)err, (void)data, (void)len;
    nanswers++;
    launch_call_free(call);
}

int launch_server_fetch(int rank, uint32_t number)
{
    (void)rank, (void)number;
    nfetches++;
    return 0;
}

/* ---- values ---- */

static void fill_values(struct frame_out *o)
{
    frame_begin(o, FRAME_SAY, 7);
    frame_put_u8(o, 200);
    frame_put_u32(o, 0xdeadbeef);
    frame_put_u64(o, 0x123456789abcdef0);
    frame_put_int(o, -5);
    frame_put_bytes(o, "a\0b", 3);
    frame_put_str(o, "text");
    frame_put_str(o, NULL);
    frame_put_str(o, "");
}

static struct frame_in payload(const struct frame_out *o, size_t len)
{
    return (struct frame_in){ o->buf + FRAME_HEADER, o->buf + FRAME_HEADER + len, false };
}

static bool values_are_there(struct frame_in *i)
{
    size_t len = 0;
    bool good = frame_get_u8(i) == 200;
    good &= frame_get_u32(i) == 0xdeadbeef;
    good &= frame_get_u64(i) == 0x123456789abcdef0;
    good &= frame_get_int(i) == -5;
    const void *bytes = frame_get_bytes(i, &len);
    good &= bytes && len == 3 && !memcmp(bytes, "a\0b", 3);
    const char *text = frame_get_text(i);
    good &= text && !strcmp(text, "text");
    good &= frame_get_str(i) == NULL;
    text = frame_get_text(i);
    good &= text && !*text;
    return good && frame_in_ok(i);
}

static void values(void)
{
    struct frame_out o = { 0 };
    fill_values(&o);
    CHECK_EQ(frame_end(&o), 0);
    size_t len = o.len - FRAME_HEADER;
    struct frame_in i = payload(&o, len);
    CHECK(values_are_there(&i));
    for (size_t n = 0; n < len; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer detects an access beyond it */
        memcpy(copy, o.buf + FRAME_HEADER, n);
        i = (struct frame_in){ copy, copy + n, false };
        CHECK_MSG(!values_are_there(&i), "%zu of %zu bytes are enough", n, len);
        CHECK(!frame_in_ok(&i));
        free(copy);
    }
    frame_out_fini(&o);
}

static void strings_that_are_none(void)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        { "\1\0\0\0a", 5 },         { "\3\0\0\0a\0\0", 7 },  { "\3\0\0\0abc", 7 },
        { "\377\377\377\377a", 5 }, { "\6\0\0\0abcd\0", 9 }, { "\0\0\0\0", 4 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const uint8_t *p = (const uint8_t *)rows[r].bytes;
        struct frame_in i = { p, p + rows[r].len, false };
        CHECK_MSG(frame_get_text(&i) == NULL && i.bad, "row %zu", r);
    }
}

static void counts_that_cannot_be(void)
{
    uint8_t p[16] = { 0xff, 0xff, 0xff, 0x7f };
    struct frame_in i = { p, p + sizeof p, false };
    CHECK(frame_get_count(&i, 1) == 0 && i.bad);
    p[0] = 4, p[1] = p[2] = p[3] = 0;
    i = (struct frame_in){ p, p + sizeof p, false };
    CHECK(frame_get_count(&i, 4) == 0 && i.bad); /* 12 bytes are left */
    p[0] = 3;
    i = (struct frame_in){ p, p + sizeof p, false };
    CHECK(frame_get_count(&i, 4) == 3 && !i.bad);
}

static void encoder_that_fails(void)
{
    struct frame_out o = { 0 };
    frame_begin(&o, FRAME_SAY, 0);
    frame_put_bytes(&o, "", (size_t)FRAME_MAX + 1);
    frame_put_u32(&o, 1);
    CHECK_EQ(frame_end(&o), -RT_ENOMEM);
    frame_begin(&o, FRAME_SAY, 0); /* and works again */
    CHECK_EQ(frame_end(&o), 0);
    frame_out_fini(&o);
}

/* ---- channels ---- */

static void open_channel(struct frame_chan *c, int *feed)
{
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    *feed = fds[1];
    frame_open(c, fds[0], dup(fds[1]));
}

static void close_channel(struct frame_chan *c, int feed)
{
    close(feed);
    frame_close(c);
}

static void frames_in_pieces(void)
{
    struct frame_chan c;
    struct frame f;
    struct frame_out o = { 0 };
    int feed, seen = 0;

    open_channel(&c, &feed);
    fill_values(&o);
    frame_end(&o);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < o.len; i++) {
            CHECK_EQ(write(feed, o.buf + i, 1), 1);
            frame_fill(&c);
            int more = frame_next(&c, &f);
            CHECK_EQ(more, i + 1 == o.len);
            if (more > 0) {
                seen++;
                CHECK(f.type == FRAME_SAY && f.node == 7 && f.raw_len == o.len);
                CHECK(values_are_there(&f.in));
            }
        }
    CHECK_EQ(seen, 3);
    CHECK(!c.eof);
    close(feed);
    close(c.out);
    c.out = -1;
    frame_fill(&c);
    CHECK(c.eof && frame_next(&c, &f) == 0);
    close_channel(&c, -1);
    frame_out_fini(&o);
}

static void headers_that_cannot_be(void)
{
    static const uint8_t rows[][FRAME_HEADER] = {
        { 0, 0, 0, 0, 0, 0, FRAME_VERSION }, /* no type */
        { 0, 0, 0, 0, FRAME_NTYPES, 0, FRAME_VERSION },
        { 0, 0, 0, 0, 1, 1, FRAME_VERSION },
        { 0, 0, 0, 0, 1, 0, FRAME_VERSION + 1 },
        { 0, 0, 0, 0, 1, 0, FRAME_VERSION, 1 },
        { 1, 0, 0, 0x10, 1, 0, FRAME_VERSION }, /* longer than FRAME_MAX */
        { 0xff, 0xff, 0xff, 0xff, 1, 0, FRAME_VERSION },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct frame_chan c;
        struct frame f;
        int feed;
        open_channel(&c, &feed);
        CHECK_EQ(write(feed, rows[r], FRAME_HEADER), FRAME_HEADER);
        frame_fill(&c);
        CHECK_MSG(frame_next(&c, &f) == -RT_EINVAL, "row %zu", r);
        close_channel(&c, feed);
    }
}

struct noise {
    char text[256];
    size_t n;
};

static void hear(void *arg, const void *text, size_t len)
{
    struct noise *noise = arg;
    if (len > sizeof noise->text - noise->n)
        len = sizeof noise->text - noise->n;
    memcpy(noise->text + noise->n, text, len);
    noise->n += len;
}

static void greeting_after_text(void)
{
    static const char text[] = "Welcome!\nLast login\n\0WEFT-AGEN is no greeting\n";
    struct noise noise = { .n = 0 };
    struct frame_chan c;
    struct frame f;
    int feed, here = 0;
    uint8_t greeting[FRAME_GREETING];

    open_channel(&c, &feed);
    CHECK_EQ(frame_greet(&c), 0);
    frame_flush(&c); /* into the test's own pipe */
    CHECK_EQ(read(c.in, greeting, sizeof greeting), FRAME_GREETING);
    CHECK_EQ(write(feed, text, sizeof text - 1), sizeof text - 1);
    for (size_t i = 0; i < sizeof greeting; i++) {
        frame_fill(&c);
        here = frame_greeting(&c, hear, &noise);
        CHECK_EQ(here, 0);
        CHECK_EQ(write(feed, greeting + i, 1), 1);
    }
    frame_fill(&c);
    CHECK_EQ(frame_greeting(&c, hear, &noise), 1);
    CHECK_EQ(c.protocol, FRAME_VERSION);
    CHECK_STR(c.version, PACKAGE_VERSION);
    CHECK(noise.n == sizeof text - 1 && !memcmp(noise.text, text, noise.n));
    CHECK_EQ(frame_next(&c, &f), 0);
    close_channel(&c, feed);
}

static void text_without_greeting(void)
{
    struct frame_chan c;
    char junk[4096];
    int feed, here = 0;

    open_channel(&c, &feed);
    memset(junk, 'x', sizeof junk);
    for (int i = 0; i < 20 && here == 0; i++) {
        CHECK_EQ(write(feed, junk, sizeof junk), sizeof junk);
        frame_fill(&c);
        here = frame_greeting(&c, NULL, NULL);
    }
    CHECK_EQ(here, -RT_EINVAL);
    close_channel(&c, feed);
}

/* The peer has gone, and SIGPIPE has its default action. */
static void peer_that_has_gone(void)
{
    struct frame_chan c;
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    frame_open(&c, fds[0], fds[0]);
    close(fds[1]);
    CHECK_EQ(frame_greet(&c), 0);
    frame_flush(&c);
    CHECK(c.broken && !frame_waiting(&c));
    frame_fill(&c);
    CHECK(c.eof);
    frame_close(&c);
}

static void random_bytes(void)
{
    for (int round = 0; round < 3000; round++) {
        struct frame_chan c;
        struct frame f;
        uint8_t junk[512];
        int feed;
        size_t n = rnd() % sizeof junk;
        for (size_t i = 0; i < n; i++)
            junk[i] = (uint8_t)(rnd() % 4 ? rnd() % 32 : rnd());
        if (n > 8 && rnd() % 2)
            junk[1] = junk[2] = junk[3] = junk[5] = junk[7] = 0, junk[6] = FRAME_VERSION;
        open_channel(&c, &feed);
        CHECK_EQ(write(feed, junk, n), n);
        frame_fill(&c);
        if (round % 2)
            frame_greeting(&c, NULL, NULL);
        while (frame_next(&c, &f) > 0)
            while (!f.in.bad && f.in.at < f.in.end)
                (void)frame_get_str(&f.in);
        close_channel(&c, feed);
    }
}

/* ---- descriptions ---- */

static char *no_vars[] = { "PATH=/bin", "WEFT_LOG=debug", "EMPTY=", NULL };

static void make_job(struct launch_job *job, struct launch_opts *opts)
{
    static struct launch_host hosts[3] = { { .name = "a" }, { .name = "b" }, { .name = "c.d" } };
    static struct launch_rank ranks[7];
    static struct launch_app apps[2];

    *opts = (struct launch_opts){
        .apps = apps,
        .napps = 2,
        .placement = { .pe = 1, .map = LAUNCH_UNSET, .order = LAUNCH_NUMA, .bind = LAUNCH_CORE },
        .display.verbose = true
    };
    memset(apps, 0, sizeof apps);
    launch_list_add(&apps[0].argv, "./prog");
    launch_list_add(&apps[0].argv, "an argument\n");
    launch_list_add(&apps[1].argv, "other");
    launch_list_setenv(&apps[1].env.set, "X", "y=z");
    apps[0].n = 5, apps[1].n = 2, apps[1].first = 5;
    apps[1].wdir = "/tmp";
    for (int r = 0; r < 7; r++)
        ranks[r] = (struct launch_rank){ .rank = r, .app = r > 4, .node = r % 2 * 2 };
    *job = (struct launch_job){ .opts = opts,
                                .hosts = hosts,
                                .nhosts = 3,
                                .n = 7,
                                .total = 7,
                                .ranks = ranks,
                                .env = no_vars,
                                .universe = 12,
                                .nspace = "weft-job" };
}

static void free_understood(struct launch_job *job, struct launch_opts *opts,
                            struct launch_list *env)
{
    for (int a = 0; a < opts->napps; a++) {
        launch_list_fini(&opts->apps[a].argv);
        launch_list_fini(&opts->apps[a].env.set);
        launch_list_fini(&opts->apps[a].env.keep);
    }
    launch_list_fini(&opts->env.set);
    launch_list_fini(&opts->env.keep);
    free(opts->apps);
    for (int h = 0; h < job->nhosts && job->hosts; h++)
        free(job->hosts[h].name);
    free(job->hosts), free(job->ranks), free(job->by_host), free(job->host_of);
    launch_list_fini(env);
}

/* Reads a description for one host from memory of exactly its length. */
static int read_job(const uint8_t *bytes, size_t len, int node, struct launch_job *job,
                    struct launch_opts *opts, struct launch_list *env, uint8_t **copy)
{
    const char *cwd;
    *copy = malloc(len ? len : 1);
    memcpy(*copy, bytes, len);
    struct frame_in i = { *copy, *copy + len, false };
    *job = (struct launch_job){ .node = node };
    memset(opts, 0, sizeof *opts);
    *env = (struct launch_list){ 0 };
    return launch_understand(&i, job, opts, env, &cwd);
}

static void check_sane(const struct launch_job *job, const struct launch_opts *opts)
{
    int sum = 0;
    for (int h = 0; h < job->nhosts; h++)
        sum += job->hosts[h].nranks;
    CHECK_EQ(sum, job->total);
    CHECK_EQ(job->n, job->hosts[job->node].nranks);
    for (int r = 0; r < job->n; r++)
        CHECK(job->ranks[r].app >= 0 && job->ranks[r].app < opts->napps);
    for (int a = 0; a < opts->napps; a++)
        CHECK(opts->apps[a].argv.n > 0);
}

static void descriptions(void)
{
    struct launch_opts opts, got;
    struct launch_job job, told;
    struct launch_list env;
    struct frame_out o = { 0 };
    uint8_t *copy;

    make_job(&job, &opts);
    frame_begin(&o, FRAME_JOB, FRAME_ALL);
    launch_describe(&o, &job, "/home/x");
    CHECK_EQ(frame_end(&o), 0);
    const uint8_t *bytes = o.buf + FRAME_HEADER;
    size_t len = o.len - FRAME_HEADER;

    CHECK_EQ(read_job(bytes, len, 2, &told, &got, &env, &copy), 0);
    check_sane(&told, &got);
    CHECK(told.n == 3 && told.total == 7 && told.ranks[1].rank == 3 && told.ranks[2].app == 1);
    CHECK(told.hosts[1].node == -1 && told.hosts[2].node == 1 && told.universe == 12);
    CHECK(env.n == 3 && got.placement.order == LAUNCH_NUMA && got.placement.bind == LAUNCH_CORE &&
          got.display.verbose);
    CHECK_STR(told.host, "c.d");
    CHECK_STR(got.apps[0].argv.v[1], "an argument\n");
    CHECK_STR(got.apps[1].env.set.v[0], "X=y=z");
    CHECK_STR(got.apps[1].wdir, "/tmp");
    CHECK(got.apps[0].wdir == NULL);
    free_understood(&told, &got, &env);
    free(copy);

    CHECK_EQ(read_job(bytes, len, 3, &told, &got, &env, &copy), -RT_EINVAL); /* no such host */
    free_understood(&told, &got, &env);
    free(copy);
    for (size_t n = 0; n < len; n++) {
        CHECK_MSG(read_job(bytes, n, 0, &told, &got, &env, &copy) == -RT_EINVAL,
                  "%zu of %zu bytes are enough", n, len);
        free_understood(&told, &got, &env);
        free(copy);
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t *bent = malloc(len);
        memcpy(bent, bytes, len);
        for (uint32_t k = rnd() % 3 + 1; k > 0; k--)
            bent[rnd() % len] = (uint8_t)(rnd() % 3 ? rnd() : rnd() % 2 ? 0xff : 0);
        if (read_job(bent, len, (int)(rnd() % 4), &told, &got, &env, &copy) == 0)
            check_sane(&told, &got);
        free_understood(&told, &got, &env);
        free(copy), free(bent);
    }
    for (int a = 0; a < 2; a++) {
        launch_list_fini(&opts.apps[a].argv);
        launch_list_fini(&opts.apps[a].env.set);
    }
    frame_out_fini(&o);
}

/* ---- parts of the tree ---- */

static int read_tree(const uint8_t *bytes, size_t len, struct tree_conf *conf, int *first, int *end)
{
    char **names = NULL;
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    struct frame_in i = { copy, copy + len, false };
    int err = tree_get(&i, conf, first, end, &names);
    for (int k = 0; err == 0 && k < *end - *first; k++) {
        CHECK(names[k] != NULL);
        free(names[k]);
    }
    if (err == 0)
        free(names);
    free(copy);
    return err;
}

static void parts_of_the_tree(void)
{
    struct tree_conf conf = { .via = TREE_COMMAND,
                              .radix = 4,
                              .timeout_s = 9,
                              .command = (char *)"rsh -x",
                              .agent = (char *)"/opt/weftd" },
                     got;
    char *names[] = { (char *)"n0", (char *)"n1", (char *)"n2" };
    struct tree t = { .conf = &conf, .base = 5, .names = names };
    struct frame_out o = { 0 };
    int first, end;

    frame_begin(&o, FRAME_TREE, 5);
    tree_put(&o, &t, 6, 8);
    CHECK_EQ(frame_end(&o), 0);
    const uint8_t *bytes = o.buf + FRAME_HEADER;
    size_t len = o.len - FRAME_HEADER;
    CHECK_EQ(read_tree(bytes, len, &got, &first, &end), 0);
    CHECK(first == 6 && end == 8 && got.radix == 4 && got.timeout_s == 9 && !got.libpath);
    CHECK_STR(got.command, "rsh -x");
    tree_conf_fini(&got);
    for (size_t n = 0; n < len; n++)
        CHECK_MSG(read_tree(bytes, n, &got, &first, &end) == -RT_EINVAL, "%zu bytes", n);
    for (int round = 0; round < 20000; round++) {
        uint8_t bent[256];
        memcpy(bent, bytes, len);
        for (uint32_t k = rnd() % 3 + 1; k > 0; k--)
            bent[rnd() % len] = (uint8_t)rnd();
        if (read_tree(bent, len, &got, &first, &end) == 0) {
            CHECK(got.radix > 0 && got.timeout_s > 0 && first >= 0 && end > first);
            tree_conf_fini(&got);
        }
    }
    frame_out_fini(&o);
}

/* ---- fences and fetches ---- */

static int nup;

static void count_up(void *arg, const struct frame_out *o)
{
    (void)arg, (void)o;
    nup++;
}

static struct launch_call *make_call(const char *data)
{
    struct launch_call *call = calloc(1, sizeof *call);
    call->data = strdup(data);
    call->len = strlen(data) + 1;
    return call;
}

static void relayed_frames(void)
{
    uint32_t where[] = { 0, 2, 0, 2, 0, 2, 0 };
    struct launch_opts opts;
    struct launch_job job;
    struct tree t = { 0 };
    struct relay r = { .job = &job, .tree = &t, .end = 3, .up = count_up };
    struct frame_out o = { 0 };

    make_job(&job, &opts);
    CHECK_EQ(launch_index_hosts(&job, where), 0);
    struct launch_event fence = { .kind = LAUNCH_FENCE, .call = make_call("mine") };
    relay_event(&r, &fence); /* hosts 0 and 2 take part: not complete */
    CHECK_EQ(nup, 0);
    for (int round = 0; round < 40000; round++) {
        static const enum frame_type types[] = { FRAME_FENCE, FRAME_FENCE_DONE, FRAME_FENCE_WAITS,
                                                 FRAME_FETCH, FRAME_FETCHED };
        enum frame_type type = types[rnd() % 5];
        frame_begin(&o, type, rnd() % 2 ? 0 : rnd() % 5);
        for (uint32_t k = rnd() % 6; k > 0; k--)
            frame_put_u32(&o, rnd() % 3 ? rnd() % 9 : rnd());
        if (rnd() % 2)
            frame_put_str(&o, "weft.key");
        frame_end(&o);
        struct frame f = { .type = type,
                           .node = o.buf[8],
                           .raw = o.buf,
                           .raw_len = o.len,
                           .in = payload(&o, o.len - FRAME_HEADER) };
        relay_frame(&r, &f);
        if (round % 100 == 0)
            relay_step(&r);
    }
    CHECK(nfetches > 0);
    relay_fini(&r);
    nup = 0;
    struct launch_event again = { .kind = LAUNCH_FENCE, .call = make_call("mine") };
    relay_event(&r, &again);
    frame_begin(&o, FRAME_FENCE, 2);
    frame_put_u32(&o, 0);
    frame_put_int(&o, 1);
    frame_put_bytes(&o, "theirs", 6);
    frame_end(&o);
    struct frame f = { .type = FRAME_FENCE, .node = 2, .in = payload(&o, o.len - FRAME_HEADER) };
    relay_frame(&r, &f);
    CHECK(nup == 1 && !f.in.bad);
    nanswers = 0;
    frame_begin(&o, FRAME_FENCE_DONE, FRAME_ALL);
    frame_put_u32(&o, 0);
    frame_put_bytes(&o, "mine theirs", 11);
    frame_end(&o);
    f = (struct frame){ .type = FRAME_FENCE_DONE,
                        .raw = o.buf,
                        .raw_len = o.len,
                        .in = payload(&o, o.len - FRAME_HEADER) };
    relay_frame(&r, &f);
    CHECK(nanswers == 1 && !f.in.bad);
    for (int i = 0; i < job.n; i++)
        job.ranks[i].running = i != 4;
    CHECK(relay_missing(&r) == NULL); /* no host waits */
    for (uint32_t last = 3; last <= 4; last++) {
        frame_begin(&o, FRAME_FENCE_WAITS, 2);
        frame_put_u32(&o, 2);
        frame_put_u32(&o, 1);
        frame_put_u32(&o, last);
        frame_end(&o);
        f = (struct frame){ .type = FRAME_FENCE_WAITS, .in = payload(&o, o.len - FRAME_HEADER) };
        relay_frame(&r, &f);
        CHECK(!f.in.bad && relay_missing(&r) == (last == 4 ? &job.ranks[4] : NULL));
    }
    relay_fini(&r);
    frame_out_fini(&o);
    free(job.by_host), free(job.host_of);
    for (int a = 0; a < 2; a++) {
        launch_list_fini(&opts.apps[a].argv);
        launch_list_fini(&opts.apps[a].env.set);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("# seed %llu\n", (unsigned long long)seed);
    RUN(values);
    RUN(strings_that_are_none);
    RUN(counts_that_cannot_be);
    RUN(encoder_that_fails);
    RUN(frames_in_pieces);
    RUN(headers_that_cannot_be);
    RUN(greeting_after_text);
    RUN(text_without_greeting);
    RUN(peer_that_has_gone);
    RUN(random_bytes);
    RUN(descriptions);
    RUN(parts_of_the_tree);
    RUN(relayed_frames);
    return check_end();
}
