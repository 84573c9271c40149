/* SPDX-License-Identifier: BSD-3-Clause */
/* The machines of node_model_test.c.  `where` names the times of lines that are published; all
 * others are estimates. */
#include "test/fake/node_costs.h"

const struct cost_machine cost_machines[] = {
    { "mesh Xeon, 32 cores", 32, { { 32, 120, 11 } }, 300, 35, "fitted to docs/BENCHMARKS.md" },
    { "2 x EPYC 9654",
      192,
      { { 8, 24, 28 }, { 96, 137, 10 }, { 192, 215, 6 } },
      250,
      25,
      "lines: published 22 to 26, 136 to 139, 190 to 240 ns" },
    { "2 x Xeon 8480",
      112,
      { { 56, 110, 12 }, { 112, 220, 6 } },
      300,
      35,
      "lines: published 110 to 220 ns" },
    { "one L3 (Zen 4)", 16, { { 16, 24, 28 } }, 250, 25, "lines: published 22 to 26 ns" },
    { "EPYC 7763", 64, { { 8, 24, 25 }, { 64, 110, 10 } }, 250, 30, "other L3: estimate" },
    { "2 x Grace", 144, { { 72, 60, 20 }, { 144, 190, 10 } }, 250, 25, "estimate" },
    { 0 }
};
