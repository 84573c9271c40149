/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that spawns jobs and publishes names as its arguments say, in order, for the tests of the
 * launcher.  It uses runtime/boot, not MPI.  "R:word": for rank R only.
 *
 *   init fini              the calls of boot.h
 *   publish=NAME=VALUE     print the result: "ok" or the error
 *   lookup=NAME            print the value or the error
 *   await=NAME             wait until it is published
 *   unpublish=NAME
 *   set=KEY=VALUE          for the next command: n (default 1), command (default: launch/rank),
 * wdir, path, soft, host, env; for the next spawn: hostfile, map_by also=WORD+WORD...      another
 * command before the one of the next spawn, with these arguments spawn=WORD+WORD...     spawn (","
 * separates words, too, if there is no "+"), print the result and the numbers of ranks join part
 * the job spawned last ended                  wait until it has ended fds                    print
 * the number of open descriptors times=N ... again      do the words between N times sleep=MS
 * exit=N */
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"
#include "test/descriptors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, WORDS = 32 };

static char program[4096], last[256];
static struct rt_boot_app apps[MOST];
static struct rt_boot_spawn what;
static char *args[MOST][WORDS], *env[MOST][WORDS];

static const char *result(int err) { return err ? rt_err_text(err) : "ok"; }

static void reset(void)
{
    memset(apps, 0, sizeof apps);
    memset(args, 0, sizeof args);
    memset(env, 0, sizeof env);
    what = (struct rt_boot_spawn){ .apps = apps };
    for (int a = 0; a < MOST; a++)
        apps[a] = (struct rt_boot_app){
            .command = program, .n = 1, .args = args[a], .env = env[a]
        };
}

static int set(char *text)
{
    char *v = strchr(text, '=');
    struct rt_boot_app *app = &apps[what.napps];
    const struct {
        const char *key, **to;
    } rows[] = {
        { "command", &app->command }, { "wdir", &app->wdir }, { "path", &app->path },
        { "soft", &app->soft },       { "host", &app->host }, { "hostfile", &what.hostfile },
        { "map_by", &what.map_by },
    };
    *v++ = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(text, rows[i].key)) {
            *rows[i].to = v;
            return 0;
        }
    if (!strcmp(text, "n"))
        app->n = atoi(v);
    else if (!strcmp(text, "env"))
        for (int i = 0; i < WORDS - 1; i++) {
            if (env[what.napps][i])
                continue;
            env[what.napps][i] = v;
            break;
        }
    else
        return 1;
    return 0;
}

/* Ends the command that is being described. */
static void add(const char *text)
{
    char *copy = strdup(text), *save = NULL;
    int n = 0;
    const char *sep = strchr(text, '+') ? "+" : ",";
    for (char *w = strtok_r(copy, sep, &save); w && n < WORDS - 1; w = strtok_r(NULL, sep, &save))
        args[what.napps][n++] = strdup(w);
    what.napps++;
    free(copy);
}

static void spawn(const char *text)
{
    char key[300], counts[128] = "?";
    add(text);
    int err = rt_boot_spawn(&what, last);
    if (!err) {
        snprintf(key, sizeof key, "%s%s", RT_BOOT_KEY_COUNTS, last);
        rt_boot_lookup(key, counts, sizeof counts);
    }
    printf("spawned: %s %s\n", result(err), err ? "" : counts);
    fflush(stdout);
    for (int a = 0; a < what.napps; a++)
        for (int i = 0; i < WORDS; i++)
            free(args[a][i]);
    reset();
}

/* A copy that lives as long as the program. */
static char *keep(const char *text)
{
    static char store[1 << 16];
    static size_t used;
    size_t len = strlen(text) + 1;
    if (used + len > sizeof store)
        used = 0;
    used += len;
    return memcpy(store + used - len, text, len);
}

static int act(char *w)
{
    char *v = strchr(w, '='), *eq, value[1024];
    size_t len = v ? (size_t)(v++ - w) : strlen(w);
#define IS(name) (len == strlen(name) && !strncmp(w, name, len))
    if (IS("init"))
        return rt_boot_init() < 0;
    if (IS("set"))
        return set(v);
    if (IS("fini"))
        rt_boot_fini();
    else if (IS("publish") && (eq = strchr(v, '='))) {
        snprintf(value, sizeof value, "%.*s", (int)(eq - v), v);
        printf("%s\n", result(rt_boot_publish(value, eq + 1)));
    } else if (IS("lookup")) {
        int err = rt_boot_lookup(v, value, sizeof value);
        printf("%s\n", err ? result(err) : value);
    } else if (IS("await"))
        while (rt_boot_lookup(v, value, sizeof value) < 0)
            usleep(1000);
    else if (IS("unpublish"))
        printf("%s\n", result(rt_boot_unpublish(v)));
    else if (IS("also"))
        add(v);
    else if (IS("spawn"))
        spawn(v);
    else if (IS("join"))
        return rt_boot_join(last) < 0;
    else if (IS("part"))
        return rt_boot_part(last) < 0;
    else if (IS("ended"))
        while (!rt_boot_ended(last))
            usleep(1000);
    else if (IS("fds"))
        printf("%d\n", descriptors());
    else if (IS("sleep"))
        usleep((useconds_t)atoi(v) * 1000);
    else if (IS("exit"))
        _exit(atoi(v));
    else {
        fprintf(stderr, "unknown word %s\n", w);
        return 1;
    }
    fflush(stdout);
    return 0;
}

static int act_all(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        char *w = argv[i], *end, word[4096];
        long rank = strtol(w, &end, 10);
        if (end != w && *end == ':') {
            if (rank != atoi(getenv("PMIX_RANK") ? getenv("PMIX_RANK") : "0"))
                continue;
            w = end + 1;
        }
        if (!strncmp(w, "times=", 6)) {
            int n = 0;
            while (i + 1 + n < argc && strcmp(argv[i + 1 + n], "again"))
                n++;
            for (int k = atoi(w + 6); k > 0; k--)
                if (act_all(n, argv + i + 1))
                    return 1;
            i += n + 1;
            continue;
        }
        snprintf(word, sizeof word, "%s", w);
        if (act(!strncmp(w, "set=", 4) ? keep(w) : word)) {
            fprintf(stderr, "%s failed\n", w);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    snprintf(program, sizeof program, "%.*s/rank", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    reset();
    return act_all(argc - 1, argv + 1);
}
