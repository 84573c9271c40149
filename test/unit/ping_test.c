/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of weft_ping without messages: rounds in which every pair occurs once, and the report
 * over invented measurements. */
#include "launcher/ping/ping.h"
#include "test/check.h"

static struct ping_cell cells[40 * 40];
static bool missing[40];
static char names[40][64], text[100000];
static struct ping_table table = { .name = names, .cell = cells, .missing = missing };

/* A network in which all pairs have 10 us and 1000 MB/s. */
static void network(int n)
{
    table.n = n;
    memset(missing, 0, sizeof missing);
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "h%d", i);
        for (int j = 0; j < n; j++)
            cells[i * n + j] = (struct ping_cell){ 10, 1000, 1000, i != j, "tcp" };
    }
}

static void set(int i, int j, double us, double mbs, bool ok)
{
    cells[i * table.n + j] = cells[j * table.n + i] = (struct ping_cell){ us, mbs, mbs, ok, "tcp" };
}

/* Writes the report to `text`. */
static long report(void)
{
    FILE *f = fmemopen(text, sizeof text, "w");
    long bad = ping_report(&table, f);
    fclose(f);
    return bad;
}

static bool says(const char *what) { return strstr(text, what) != NULL; }

static int count(const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void every_pair_meets_once(void)
{
    for (int n = 1; n <= 40; n++) {
        int met[40][40] = { 0 };
        for (int r = 0; r < ping_rounds(n); r++)
            for (int i = 0; i < n; i++) {
                int j = ping_partner(n, r, i);
                CHECK_MSG(j >= -1 && j < n && j != i, "n %d round %d: %d meets %d", n, r, i, j);
                if (j < 0)
                    continue;
                CHECK_MSG(ping_partner(n, r, j) == i, "n %d round %d: %d meets %d, who does not", n,
                          r, i, j);
                met[i][j]++;
            }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                CHECK_MSG(met[i][j] == (i != j), "n %d: %d and %d meet %d times", n, i, j,
                          met[i][j]);
    }
}

static void alike_hosts_are_not_named(void)
{
    for (int n = 2; n <= 40; n++) {
        network(n);
        CHECK_EQ(report(), 0);
        CHECK(!says("slow") && says("all hosts reach each other") && says("tcp"));
        CHECK_MSG(says("Latency, us:") == (n <= PING_MATRIX_MAX), "%d hosts", n);
    }
}

static void slow_pair_is_named(void)
{
    for (int n = 3; n <= 20; n++) {
        network(n);
        set(1, 2, 30, 1000, true);
        CHECK_EQ(report(), 0);
        CHECK_MSG(count("slow") == 1 && says("slow pair: h1 and h2: latency 30 us"), "%d: %s", n,
                  text);
        network(n);
        set(0, n - 1, 10, 400, true);
        CHECK_EQ(report(), 0);
        CHECK_MSG(count("slow") == 1 && says("bandwidth 400 MB/s"), "%d: %s", n, text);
    }
}

static void slow_one_way_is_slow(void)
{
    network(4);
    cells[1 * 4 + 2].out = cells[2 * 4 + 1].in = 100;
    CHECK_EQ(report(), 0);
    CHECK(count("slow") == 1 && says("slow pair: h1 and h2: bandwidth 100 MB/s"));
}

static void slow_host_is_named_instead_of_its_pairs(void)
{
    for (int n = 3; n <= 20; n++) {
        network(n);
        for (int i = 0; i < n - 1; i++)
            set(i, n - 1, 50, 1000, true);
        char want[64];
        snprintf(want, sizeof want, "slow host: h%d: latency 50 us", n - 1);
        CHECK_EQ(report(), 0);
        CHECK_MSG(count("slow") == 1 && says(want), "%d: %s", n, text);
    }
}

static void twice_as_slow_is_usual(void)
{
    network(5);
    set(0, 1, 20, 500, true);
    CHECK_EQ(report(), 0);
    CHECK(!says("slow"));
}

static void unreachable_pair_is_counted(void)
{
    network(4);
    set(0, 3, 0, 0, false);
    CHECK_EQ(report(), 1);
    CHECK(count("unreachable") == 1 && says("unreachable pair: h0 and h3") && !says("slow"));
    network(2);
    cells[0 * 2 + 1].ok = false; /* the two ranks disagree */
    CHECK_EQ(report(), 1);
    CHECK(count("unreachable") == 1 && says("unreachable pair: h0 and h1"));
}

static void unreachable_host_is_named(void)
{
    network(4);
    for (int i = 1; i < 4; i++)
        set(0, i, 0, 0, false);
    CHECK_EQ(report(), 3);
    CHECK(count("unreachable") == 1 && says("unreachable host: h0"));
    network(4);
    for (int i = 0; i < 3; i++)
        set(i, 3, 0, 0, false);
    CHECK_EQ(report(), 3);
    CHECK(count("unreachable") == 1 && says("unreachable host: h3"));
}

static void missing_report_is_taken_from_the_others(void)
{
    network(4);
    set(1, 2, 77.7, 1000, true);
    missing[2] = true;
    memset(&cells[2 * 4], 0, 4 * sizeof cells[0]);
    CHECK_EQ(report(), 0);
    CHECK(says("77.7"));
    missing[1] = true;
    CHECK_EQ(report(), 1);
    CHECK(says("h1 and h2: neither of them reported"));
}

int main(void)
{
    RUN(every_pair_meets_once);
    RUN(alike_hosts_are_not_named);
    RUN(slow_pair_is_named);
    RUN(slow_one_way_is_slow);
    RUN(slow_host_is_named_instead_of_its_pairs);
    RUN(twice_as_slow_is_usual);
    RUN(unreachable_pair_is_counted);
    RUN(unreachable_host_is_named);
    RUN(missing_report_is_taken_from_the_others);
    return check_end();
}
