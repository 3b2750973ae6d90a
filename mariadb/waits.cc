// SPDX-License-Identifier: GPL-2.0-only
//
// Lock waits, told to the server.
//
// A replica that applies transactions in parallel commits them in the order of its primary. When a transaction waits for
// a row that a later one has locked, both would wait for ever, because the later one waits for its turn to commit. The
// server knows the order, the engine knows the waits. So each wait is reported with the holders of the lock; the server
// kills the holders that have to commit later (kill_query() ends their waits at once) and runs them again.
//
// Invariants
//  WT1. A thread holds `guard` while it uses a session of the list, or its THD. The engine may hold latches when it
//     calls code that takes the guard (`victim`), so no thread calls the engine while it has the guard.
//  WT2. A holder is reported under the guard of its session, and only if it has a transaction. So what the server reads
//     of its THD is valid.

#include "server.h"

#include "waits.h"

#include <mutex>
#include <unordered_map>

#include "transaction.h"

// Exported by the server for engines, declared in none of its headers.
extern "C" int thd_need_wait_reports(const MYSQL_THD thd);
extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern "C" int thd_deadlock_victim_preference(const MYSQL_THD thd1, const MYSQL_THD thd2);

static std::mutex guard;
static std::unordered_map<uint64_t, Frond_session *> sessions;

void frond_remember_session(Frond_session *session) {
    std::lock_guard<std::mutex> locked(guard);
    sessions[thd_get_thread_id(session->thd())] = session;
}

void frond_forget_session(Frond_session *session) {
    std::lock_guard<std::mutex> locked(guard);
    sessions.erase(thd_get_thread_id(session->thd()));
}

// The caller holds the guard.
static Frond_session *session_of(uint64_t connection) {
    const auto found = sessions.find(connection);
    return found == sessions.end() ? nullptr : found->second;
}

std::string frond_statement_of(uint64_t connection) {
    char text[1024];
    std::lock_guard<std::mutex> locked(guard);
    Frond_session *session = session_of(connection);
    return session ? std::string(text, thd_query_safe(session->thd(), text, sizeof text)) : std::string();
}

// ---------------------------------------------------------------- what the engine tells

static PSI_stage_info stage_waiting = {0, "Waiting for a row lock (Frond)", 0};

// The stage before the wait of this thread.
static thread_local PSI_stage_info stage_before;

// Called by the thread that is about to wait.
static void waits(void *, uint64_t connection, const uint64_t *holders, size_t count) {
    THD *thd = current_thd;
    if (!thd || thd_get_thread_id(thd) != connection)
        return;
    set_thd_stage_info(thd, &stage_waiting, &stage_before, __func__, __FILE__, __LINE__);
    if (thd_need_wait_reports(thd)) {
        std::lock_guard<std::mutex> locked(guard);
        for (size_t i = 0; i < count; i++) {
            Frond_session *holder = session_of(holders[i]);
            if (!holder)
                thd_rpl_deadlock_check(thd, nullptr);
            else if (holder->thd() != thd)
                holder->while_in_transaction([thd, holder] { thd_rpl_deadlock_check(thd, holder->thd()); });
        }
    }
    thd_wait_begin(thd, THD_WAIT_ROW_LOCK);
}

static void waited(void *, uint64_t connection) {
    THD *thd = current_thd;
    if (!thd || thd_get_thread_id(thd) != connection)
        return;
    thd_wait_end(thd);
    set_thd_stage_info(thd, &stage_before, nullptr, __func__, __FILE__, __LINE__);
}

// Both sessions wait inside the engine meanwhile. The one that has to commit later gives way.
static int victim(void *, uint64_t a, uint64_t b) {
    std::lock_guard<std::mutex> locked(guard);
    Frond_session *first = session_of(a), *second = session_of(b);
    return first && second ? thd_deadlock_victim_preference(first->thd(), second->thd()) : 0;
}

static size_t statement(void *, uint64_t connection, char *text, size_t size) {
    const std::string found = frond_statement_of(connection);
    const size_t length = std::min(found.size(), size);
    memcpy(text, found.data(), length);
    return length;
}

void frond_watch_waits(frond_db *database) {
#ifdef HAVE_PSI_INTERFACE
    static PSI_stage_info *stages[] = {&stage_waiting};
    if (PSI_server)
        PSI_server->register_stage("frond", stages, array_elements(stages));
#endif
    frond_wait_hooks hooks{};
    hooks.struct_size = sizeof hooks;
    hooks.waits = waits;
    hooks.waited = waited;
    hooks.victim = victim;
    hooks.statement = statement;
    frond_set_wait_hooks(database, &hooks);
}
