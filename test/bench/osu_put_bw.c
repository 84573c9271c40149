/* SPDX-License-Identifier: BSD-3-Clause */
/* See rma.c. */
#include "test/bench/rma.h"

int main(int argc, char **argv) { return rma_main(argc, argv, "osu_put_bw"); }
