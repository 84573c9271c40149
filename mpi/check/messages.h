/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK of point-to-point messages: datatypes of both sides, and buffers in use. */
#ifndef WM_CHECK_MESSAGES_H
#define WM_CHECK_MESSAGES_H

void check_messages_init(void); /* from here on; before the first message */

#endif
