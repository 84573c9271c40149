/* SPDX-License-Identifier: BSD-3-Clause */
/* See pcoll.c; the operation is a row of coll_kinds.c. */
#include "test/bench/coll.h"

int main(int argc, char **argv) { return pcoll_main(argc, argv, "alltoall"); }
