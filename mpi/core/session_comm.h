/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators from groups of sessions. */
#ifndef WM_CORE_SESSION_COMM_H
#define WM_CORE_SESSION_COMM_H

/* Releases what sessions share, when the library goes to rest. */
void wm_session_rest(void);

#endif
