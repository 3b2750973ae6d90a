/* SPDX-License-Identifier: GPL-2.0-only
 *
 * From frond_error to the server's HA_ERR_*, with the transaction marked where the error demands it.
 */
#ifndef FROND_ERRORS_H
#define FROND_ERRORS_H

#include "frond.h"

class THD;

/* The server's code of a failed call. Errors that leave the transaction unusable (deadlock, conflict) mark it
 * for rollback; damage and failing disks are logged. `thd` may be NULL outside of statements. */
int frond_to_handler_error(THD *thd, int error);

/* Writes an error that the operator must know to the server's log: at most a line a second for each
 * `error`, with the number of errors in between. Errors of statements are logged here and nowhere else. */
void frond_log_trouble(int error, const char *text);

/* As frond_to_handler_error(), for the calls after which END and NOT_FOUND are expected: no message, no marking. */
inline int frond_read_result(THD *thd, int rc, int end_code);

/* Copies the message of this thread's last failure to the session's warnings. */
void frond_push_warning(THD *thd, int handler_error);

#include "my_base.h"

inline int frond_read_result(THD *thd, int rc, int end_code) {
    if (rc == FROND_OK)
        return 0;
    if (rc == FROND_END || rc == FROND_NOT_FOUND)
        return end_code;
    return frond_to_handler_error(thd, rc);
}

/* Sends the error of a commit or prepare that waited and was refused, so that clients try the transaction again; not for
 * other errors, which the server reports. */
void frond_tell_commit_failure(int error);

#endif
