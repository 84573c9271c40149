/* SPDX-License-Identifier: BSD-3-Clause */
/* See icoll.c; the operation is a row of coll_kinds.c. */
#include "test/bench/coll.h"

int main(int argc, char **argv) { return icoll_main(argc, argv, "alltoallv"); }
