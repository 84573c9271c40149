/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts without a remote shell (containers): `weftd --wait` listens on each host, and `weftd
 * --call` is the remote shell of mpirun --rsh.  Both run before anything else of the program. */
#ifndef LAUNCHER_AGENT_AWAIT_H
#define LAUNCHER_AGENT_AWAIT_H

/* weftd --wait or --call; the exit code.  Does not return if it has become an agent. */
int agent_await(int argc, char **argv);

#endif
