/* SPDX-License-Identifier: BSD-3-Clause */
/* Error codes: every code has a text of its own, in either sign, and no number crashes. */
#include "runtime/base/err.h"
#include "test/check.h"

#include <limits.h>

static void every_code_has_text(void)
{
    for (int e = 1; e < RT_ERR_COUNT; e++) {
        CHECK(strlen(rt_err_text(e)) > 0);
        CHECK_STR(rt_err_text(-e), rt_err_text(e));
        for (int f = 1; f < e; f++)
            CHECK(strcmp(rt_err_text(e), rt_err_text(f)));
    }
}

static void known_codes(void)
{
    CHECK_STR(rt_err_text(-RT_ENOMEM), "out of memory");
    CHECK_STR(rt_err_text(0), "no error");
}

static void numbers_that_are_no_code(void)
{
    static const int odd[] = { RT_ERR_COUNT, -RT_ERR_COUNT, INT_MAX, INT_MIN };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        CHECK_STR(rt_err_text(odd[i]), "unknown error");
}

int main(void)
{
    RUN(every_code_has_text);
    RUN(known_codes);
    RUN(numbers_that_are_no_code);
    return check_end();
}
