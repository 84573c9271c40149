/* SPDX-License-Identifier: BSD-3-Clause */
/* Output that the application has left in the buffers of the C library. */
#ifndef RT_BASE_STDIO_H
#define RT_BASE_STDIO_H

/* Flushes all output streams before the process ends by _exit() or is killed, as exit() would do.
 * Takes at most a second; the process must end after it. */
void rt_stdio_flush(void);

#endif
