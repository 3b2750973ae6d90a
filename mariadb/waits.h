/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Lock waits: told to the server, which shows them, and by which a replica finds out that a transaction waits for one
 * that has to commit after it.
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

/* The engine tells of its waits from now on. */
void frond_watch_waits(frond_db *database);

#endif
