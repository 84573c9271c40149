/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: values and ranges of each type, precedence of the sources, unknown names, and the
 * printed table. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <sys/stat.h>
#include <sys/wait.h>

static void bad(const char *name, const char *text)
{
    capture_begin();
    int err = rt_cfg_set(name, text, RT_CFG_CMD);
    const char *said = capture_end();
    CHECK_MSG(err == -RT_EINVAL, "%s=%s gave %d", name, text, err);
    CHECK_MSG(strstr(said, text) != NULL, "'%s' does not name the value %s", said, text);
}

static void sizes(void)
{
    CHECK_EQ(rt_cfg_set("shm_eager", "512", RT_CFG_CMD), 0);
    CHECK_EQ(cfg.shm_eager, 512);
    CHECK_EQ(rt_cfg_set("WEFT_SHM_EAGER", "16k", RT_CFG_CMD), 0);
    CHECK_EQ(cfg.shm_eager, 16384);
    bad("shm_eager", "17K");
    bad("shm_eager", "-1");
    bad("shm_eager", "8X");
    bad("shm_eager", "8K8");
    bad("shm_eager", "99999999999999999999");
    bad("shm_eager", "9999999999999G");
    CHECK_EQ(cfg.shm_eager, 16384); /* a bad value changes nothing */
}

static void numbers_words_and_flags(void)
{
    CHECK_EQ(rt_cfg_set("spin_us", "250", RT_CFG_CMD), 0);
    CHECK_EQ(cfg.spin_us, 250);
    bad("spin_us", "-2");
    bad("spin_us", "1000001");
    bad("spin_us", "10x");
    bad("spin_us", " 10");
    CHECK_EQ(rt_cfg_set("shm_large", "copy", RT_CFG_CMD), 0);
    CHECK_EQ(cfg.shm_large, 2);
    bad("shm_large", "cm");
    bad("shm_large", "auto,cma");
    CHECK_EQ(rt_cfg_set("check_leaks", "on", RT_CFG_CMD), 0);
    CHECK(cfg.check_leaks);
    CHECK_EQ(rt_cfg_set("check_leaks", "No", RT_CFG_CMD), 0);
    CHECK(!cfg.check_leaks);
    bad("check_leaks", "maybe");
    CHECK_EQ(rt_cfg_set("btl", "self", RT_CFG_CMD), 0);
    CHECK_STR(cfg.btl, "self");
}

static void nearest_names(void)
{
    CHECK_STR(rt_cfg_nearest("shm_eagre"), "shm_eager");
    CHECK_STR(rt_cfg_nearest("WEFT_SPINUS"), "spin_us");
    CHECK_STR(rt_cfg_nearest("colll"), "coll");
    CHECK(rt_cfg_nearest("entirely_different") == NULL);
    capture_begin();
    CHECK_EQ(rt_cfg_set("shm_eagr", "8K", RT_CFG_CMD), -RT_ENOENT);
    CHECK(strstr(capture_end(), "WEFT_SHM_EAGER") != NULL);
}

/* Each row's default must be a valid value, and the printed value must parse to the same value. */
static void values_round_trip(void)
{
    for (int i = 0; i < rt_cfg_count(); i++) {
        char text[256], again[256];
        enum rt_cfg_source source;
        const struct rt_cfg_row *row = rt_cfg_row(i);
        CHECK_EQ(rt_cfg_set(row->name, row->def, RT_CFG_DEFAULT), 0);
        rt_cfg_value(i, text, sizeof text, &source);
        CHECK_STR(text, row->def);
        CHECK_EQ(source, RT_CFG_DEFAULT);
        CHECK_EQ(rt_cfg_set(row->env, text, RT_CFG_CMD), 0);
        rt_cfg_value(i, again, sizeof again, &source);
        CHECK_STR(again, text);
        CHECK_EQ(source, RT_CFG_CMD);
    }
}

static void printed_table_is_shell(void)
{
    char *text = NULL;
    size_t len;
    CHECK_EQ(rt_cfg_set("shm_eager", "8K", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("shm_dir", "/a b'c", RT_CFG_CMD), 0);
    FILE *f = open_memstream(&text, &len);
    rt_cfg_print(f, false);
    fclose(f);
    CHECK(strstr(text, "WEFT_SHM_EAGER=8K  # cmd\n") != NULL);
    CHECK(strstr(text, "WEFT_SHM_DIR='/a b'\\''c'  # cmd\n") != NULL);
    free(text);
    f = open_memstream(&text, &len);
    rt_cfg_print(f, true);
    fclose(f);
    CHECK(strstr(text, "# Valid: a number in 0..16K") != NULL);
    free(text);
}

/* Runs fn in a child, where rt_cfg_load() has not been called yet; returns its exit code and
 * stderr. */
static int in_child(void (*fn)(void), const char **said)
{
    int status = 0;
    fflush(stdout);
    capture_begin();
    pid_t pid = fork();
    if (!pid) {
        check_failed_case = 0;
        fn();
        fflush(stdout);
        _exit(check_failed_case);
    }
    waitpid(pid, &status, 0);
    *said = capture_end();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char config_path[64];

static void source_is(const char *name, enum rt_cfg_source want)
{
    for (int i = 0; i < rt_cfg_count(); i++)
        if (!strcmp(rt_cfg_row(i)->name, name)) {
            char text[64];
            enum rt_cfg_source source;
            rt_cfg_value(i, text, sizeof text, &source);
            CHECK_MSG(source == want, "source of %s is %d, expected %d", name, source, want);
        }
}

static void load_all_sources(void)
{
    setenv("WEFT_CONFIG_FILE", config_path, 1);
    setenv("WEFT_SHM_EAGER", "2K", 1);
    setenv("WEFT_SLEEP_US", "7", 1);
    setenv("WEFT_SET_NAMES", "coll,WEFT_SLEEP_US", 1);
    setenv("WEFT_NODE_X", "1", 1);
    setenv("WEFT_LAUNCH_Y", "1", 1);
    CHECK_EQ(rt_cfg_load(), 0);
    CHECK_EQ(rt_cfg_load(), 0);
    CHECK_EQ(cfg.spin_us, 99);
    CHECK_EQ(cfg.shm_eager, 2048);
    CHECK_EQ(cfg.sleep_us, 7);
    CHECK_STR(cfg.shm_dir, "/tmp/with space");
    source_is("spin_us", RT_CFG_FILE);
    source_is("shm_eager", RT_CFG_ENV);
    source_is("sleep_us", RT_CFG_CMD);
    source_is("log", RT_CFG_DEFAULT);
}

static void write_config(const char *text)
{
    FILE *f = fopen(config_path, "w");
    fputs(text, f);
    fclose(f);
}

static void sources_in_order(void)
{
    const char *said;
    write_config("# comment\n\n spin_us = 99 \nshm_eager=1K\nshm_dir = /tmp/with space\n"
                 "spin_uss = 4\n");
    CHECK_EQ(in_child(load_all_sources, &said), 0);
    CHECK_MSG(strstr(said, "line 6: unknown setting 'spin_uss' ignored; did you mean "
                           "WEFT_SPIN_US?") != NULL,
              "said: %s", said);
}

static void load_unknown(void)
{
    setenv("WEFT_SHM_EAGRE", "2K", 1);
    setenv("WEFT_UTTERLY_DIFFERENT", "1", 1);
    CHECK_EQ(rt_cfg_load(), 0);
}

static void load_unknown_as_rank_1(void)
{
    setenv("PMIX_RANK", "1", 1);
    load_unknown();
}

static void load_unknown_already_warned(void)
{
    setenv("WEFT_LAUNCH_WARNED", "WEFT_SHM_EAGRE,WEFT_UTTERLY_DIFFERENT", 1);
    load_unknown();
}

static void unknown_variables_warn_once(void)
{
    const char *said;
    CHECK_EQ(in_child(load_unknown, &said), 0);
    CHECK(strstr(said, "WEFT_SHM_EAGRE in the environment ignored; did you mean "
                       "WEFT_SHM_EAGER?\n") != NULL);
    CHECK(strstr(said, "WEFT_UTTERLY_DIFFERENT in the environment ignored; 'weft_info") != NULL);
    CHECK_EQ(in_child(load_unknown_as_rank_1, &said), 0);
    CHECK_STR(said, "");
    CHECK_EQ(in_child(load_unknown_already_warned, &said), 0);
    CHECK_STR(said, "");
}

static void load_bad_env(void)
{
    setenv("WEFT_SPIN_US", "soon", 1);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
}

static void load_bad_file(void)
{
    setenv("WEFT_CONFIG_FILE", config_path, 1);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
}

static void load_missing_file(void)
{
    setenv("WEFT_CONFIG_FILE", "/nonexistent/weft.conf", 1);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
}

static void load_bad_log(void)
{
    setenv("WEFT_LOG", "btl:loud", 1);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
}

static void load_bad_part(void)
{
    setenv("WEFT_LOG", "io:info,files:info", 1);
    CHECK_EQ(rt_cfg_load(), -RT_EINVAL);
}

static void load_long_line(void)
{
    setenv("WEFT_CONFIG_FILE", config_path, 1);
    CHECK_EQ(rt_cfg_load(), 0);
    CHECK_EQ(strlen(cfg.btl), 3000);
    CHECK_EQ(cfg.spin_us, 7);
}

/* A long value is one value, and the end of a long comment is not a setting. */
static void long_lines(void)
{
    const char *said;
    static char text[8192];
    int n = snprintf(text, sizeof text, "#%2000s spin_us = 1\nbtl = ", "");
    memset(text + n, 'x', 3000);
    snprintf(text + n + 3000, sizeof text - (size_t)n - 3000, "\nspin_us = 7\n");
    write_config(text);
    CHECK_EQ(in_child(load_long_line, &said), 0);
    CHECK_STR(said, "");
}

static void bad_values_are_errors(void)
{
    const char *said;
    CHECK_EQ(in_child(load_bad_env, &said), 0);
    CHECK(strstr(said, "WEFT_SPIN_US: value 'soon' from the environment is not valid; expected "
                       "a number in -1..1000000\n") != NULL);
    write_config("spin_us\n");
    CHECK_EQ(in_child(load_bad_file, &said), 0);
    CHECK(strstr(said, "line 1: expected 'name = value', found 'spin_us'") != NULL);
    CHECK_EQ(in_child(load_missing_file, &said), 0);
    CHECK(strstr(said, "could not open '/nonexistent/weft.conf'") != NULL);
    CHECK_EQ(in_child(load_bad_log, &said), 0);
    CHECK(strstr(said, "unknown level 'loud'") != NULL);
    CHECK_EQ(in_child(load_bad_part, &said), 0);
    CHECK(strstr(said, "unknown component 'files'; components are base, boot, ") != NULL);
    CHECK(strstr(said, ", io\n") != NULL);
}

int main(void)
{
    extern char **environ;
    for (char **e = environ; *e;) /* the user's own settings must not interfere */
        if (!strncmp(*e, "WEFT_", 5) || !strncmp(*e, "PMIX_RANK", 9)) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
            unsetenv(name);
            e = environ;
        } else {
            e++;
        }
    setenv("HOME", "/nonexistent", 1);
    snprintf(config_path, sizeof config_path, "/tmp/weft-cfg-test.%d", (int)getpid());
    RUN(sources_in_order);
    RUN(long_lines);
    RUN(unknown_variables_warn_once);
    RUN(bad_values_are_errors);
    RUN(sizes);
    RUN(numbers_words_and_flags);
    RUN(nearest_names);
    RUN(values_round_trip);
    RUN(printed_table_is_shell);
    unlink(config_path);
    return check_end();
}
