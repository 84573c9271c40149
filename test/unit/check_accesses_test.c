/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses to a window in one epoch: which ones conflict, wherever they are in the order. */
#include "mpi/check/accesses.h"
#include "test/check.h"

#define RANKS 4
static struct check_accesses of[RANKS];

static void add(int origin, int target, enum check_access_kind kind, int64_t low, int64_t high)
{
    check_access_add(&of[origin], target, kind, low, high);
}

/* "" if none conflict; empties `of`. */
static const char *conflict(void)
{
    static char text[512];
    char *whole[RANKS];
    const void *message[RANKS];
    const size_t room = 24;
    for (int i = 0; i < RANKS; i++) {
        size_t nbytes = 0;
        whole[i] = check_accesses_take(&of[i], room, &nbytes);
        message[i] = whole[i] ? whole[i] + room : NULL;
        CHECK(!whole[i] == !nbytes);
        CHECK(!of[i].n);
    }
    bool is = check_accesses_conflict(message, RANKS, text, sizeof text);
    for (int i = 0; i < RANKS; i++)
        free(whole[i]);
    return is ? text : "";
}

static void kinds(void)
{
    static const char *const expected[] = { "01101", "11111", "11011", "01100", "11100" };
    for (int a = 0; a < CHECK_ACCESS_KINDS; a++)
        for (int b = 0; b < CHECK_ACCESS_KINDS; b++) {
            add(1, 2, (enum check_access_kind)a, 100, 200);
            add(3, 2, (enum check_access_kind)b, 199, 300);
            CHECK_MSG(!*conflict() == (expected[a][b] == '0'), "kinds %d and %d", a, b);
        }
}

static void apart(void)
{
    CHECK_STR(conflict(), "");
    add(0, 2, CHECK_PUT, 0, 100);
    add(1, 2, CHECK_PUT, 100, 200); /* adjoins */
    add(3, 1, CHECK_PUT, 0, 200);   /* another target */
    add(3, 2, CHECK_PUT, 200, 200); /* empty */
    CHECK_STR(conflict(), "");
}

/* A long access that began before many others. */
static void behind_others(void)
{
    add(0, 2, CHECK_GET, 0, 1000);
    for (int i = 1; i < 50; i++) {
        add(1, 2, CHECK_GET, i, i + 1);
        add(1, 3, CHECK_GET, i, i + 1);
    }
    add(3, 2, CHECK_ACC, 990, 2000);
    CHECK(strstr(conflict(), "10 bytes from byte 990 on of the memory of rank 2: rank 0 reads "));
}

/* Of one process, too: the order of its operations is not defined. */
static void one_origin(void)
{
    for (int i = 0; i < 10; i++)
        add(0, 1, CHECK_PUT, 8 * i, 8 * i + 8);
    CHECK_EQ(of[0].n, 1);
    for (int i = 0; i < 10; i++)
        add(0, 2, CHECK_GET, 0, 8);
    CHECK_EQ(of[0].n, 2);
    CHECK_STR(conflict(), "");
    add(0, 1, CHECK_PUT, 0, 8);
    add(0, 1, CHECK_PUT, 0, 8);
    CHECK(strstr(conflict(), "8 bytes from byte 0 on of the memory of rank 1"));
}

static void limit(void)
{
    for (int64_t i = 0; i < 100000; i++)
        add(0, 1, CHECK_PUT, 16 * i, 16 * i + 8);
    CHECK(of[0].n < 100000);
    add(2, 1, CHECK_GET, 8, 16);
    CHECK_STR(conflict(), "");
}

int main(void)
{
    RUN(kinds);
    RUN(apart);
    RUN(behind_others);
    RUN(one_origin);
    RUN(limit);
    return check_end();
}
