/* SPDX-License-Identifier: BSD-3-Clause */
/* Assertions for test programs; needs no library.  A program is a list of cases run by
 * CHECK_MAIN-style code:
 *     int main(void) { RUN(case_a); RUN(case_b); return check_end(); }
 * Output is TAP; the exit status is 0 (all passed), 1 (a check failed) or 77 (skipped:
 * check_skip("why")). */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failed_case, check_failures, check_cases;

#define CHECK(cond) CHECK_MSG((cond), "%s", #cond)
#define CHECK_MSG(cond, ...) \
    do { \
        if (!(cond)) { \
            check_failed_case = 1; \
            printf("# %s:%d: failed: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            fflush(stdout); \
        } \
    } while (0)
#define CHECK_EQ(a, b) \
    do { \
        long long check_a = (long long)(a), check_b = (long long)(b); \
        CHECK_MSG(check_a == check_b, "%s is %lld, expected %s, %lld", #a, check_a, #b, check_b); \
    } while (0)
#define CHECK_STR(a, b) \
    do { \
        const char *check_a = (a), *check_b = (b); \
        CHECK_MSG(check_a &&check_b && !strcmp(check_a, check_b), "%s is \"%s\", expected \"%s\"", \
                  #a, check_a ? check_a : "(null)", check_b ? check_b : "(null)"); \
    } while (0)
#define RUN(fn) \
    do { \
        check_failed_case = 0; \
        fn(); \
        check_cases++; \
        check_failures += check_failed_case; \
        printf("%sok %d - %s\n", check_failed_case ? "not " : "", check_cases, #fn); \
        fflush(stdout); \
    } while (0)

static inline int check_end(void)
{
    printf("1..%d\n", check_cases);
    return check_failures ? 1 : 0;
}

static inline void check_skip(const char *why)
{
    printf("1..0 # SKIP %s\n", why);
    fflush(stdout);
    exit(77);
}

#endif
