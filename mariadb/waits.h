/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Reports lock waits to the server, which shows them. By these reports a replica finds out that a transaction waits
 * for one that has to commit after it.
 */
#ifndef FROND_WAITS_H
#define FROND_WAITS_H

#include <string>

#include "frond.h"

class Frond_session;

/* A connection uses Frond from now on, or does not any more: after the second call nobody else uses the session. */
void frond_remember_session(Frond_session *session);
void frond_forget_session(Frond_session *session);

/* What the connection runs, or "". */
std::string frond_statement_of(uint64_t connection);

/* From now on the engine reports lock waits of `database`. */
void frond_watch_waits(frond_db *database);

#endif
