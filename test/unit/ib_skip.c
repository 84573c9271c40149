/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the tests of runtime/ib in a build without it. */
#include "test/check.h"

static void without_verbs(void) { check_skip("built without the headers of libibverbs"); }

int main(void)
{
    RUN(without_verbs);
    return check_end();
}
