// SPDX-License-Identifier: GPL-2.0-only
//
// The handlerton's transaction functions. Those of a commit in two steps are in xa.cc.

#include "server.h"

#include "transaction.h"

#include <atomic>

#include "backup.h"
#include "errors.h"
#include "log.h"
#include "plugin.h"
#include "settings.h"
#include "waits.h"

static std::atomic<uint64_t> sessions{0};

static bool in_transaction(THD *thd) {
    return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

bool frond_ends_transaction(THD *thd, bool all) { return all || !in_transaction(thd); }

// ---------------------------------------------------------------- session

Frond_session::Frond_session(THD *thd)
    : thd_(thd), serial_(sessions.fetch_add(1, std::memory_order_relaxed) << 40) {
    scratch_.serial = serial_;
    frond_remember_session(this);
}

Frond_session::~Frond_session() {
    frond_backup_abandon(backup_);
    frond_forget_session(this);
    detach();
    rollback();
    if (resting_)
        frond_txn_rollback(resting_);
}

Frond_session *Frond_session::existing(THD *thd) {
    return static_cast<Frond_session *>(thd_get_ha_data(thd, frond_hton));
}

Frond_session *Frond_session::of(THD *thd) {
    Frond_session *session = existing(thd);
    if (!session) {
        session = new Frond_session(thd);
        thd_set_ha_data(thd, frond_hton, session);
    }
    return session;
}

int Frond_session::begin() {
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    const bool snapshot = thd_tx_isolation(thd_) >= ISO_REPEATABLE_READ;
    options.isolation = snapshot ? FROND_SNAPSHOT : FROND_READ_COMMITTED;
    // The primary has serialized what a replica applies. Range locks would only delay later transactions.
    const bool serializable = thd_tx_isolation(thd_) == ISO_SERIALIZABLE;
    if (serializable && !thd_is_slave(thd_))
        options.isolation = FROND_SERIALIZABLE;
    options.latest_writes = !frond_uses_snapshot_isolation(thd_) && !serializable;
    options.lock_timeout_ms = timeout_ms_ = frond_lock_timeout_ms(thd_);
    frond_txn *begun = resting_;
    if (const int rc = begun ? frond_txn_wake(begun, &options) : frond_txn_begin(frond_database, &options, &begun))
        return frond_to_handler_error(thd_, rc);
    if (!resting_)
        frond_txn_set_connection(begun, thd_get_thread_id(thd_));
    resting_ = nullptr;
    std::lock_guard<std::mutex> locked(guard_);
    transaction_ = begun;
    locked_rows_ = false;
    wrote_shared_ = false;
    return 0;
}

frond_txn *Frond_session::take(bool may_be_killed) {
    std::lock_guard<std::mutex> locked(guard_);
    frond_txn *taken = transaction_;
    if (taken && may_be_killed) {
        committing_ = frond_txn_id(taken);
        frond_txn_clear_interrupt(taken);
        // clear_interrupt() may have removed a KILL that came just before.
        if (thd_kill_level(thd_) != THD_IS_NOT_KILLED)
            frond_txn_interrupt(taken);
    }
    transaction_ = nullptr;
    in_statement_ = false;
    locked_rows_ = false;
    return taken;
}

int Frond_session::enter(bool temporary) {
    // COM_RESET_CONNECTION and COM_CHANGE_USER hand a transaction that XA PREPARE has prepared over to whoever names it,
    // and do not tell the engine. No other session enters a statement with a prepared one. Until it enters one, a session that
    // was reset has the handle: nothing may depend on that (FROND_BY_NAME).
    if (prepared_) {
        detach();
        rollback_scratch();
        drop_temporary_tables();
    }
    if (const int error = temporary ? enter_scratch() : enter_shared())
        return error;
    trans_register_ha(thd_, false, frond_hton, 0);
    if (in_transaction(thd_))
        trans_register_ha(thd_, true, frond_hton, 0);
    return 0;
}

int Frond_session::enter_shared() {
    if (!in_statement_) {
        serial_++;
        if (!transaction_) {
            if (const int error = begin())
                return error;
        } else {
            const uint64_t timeout = frond_lock_timeout_ms(thd_);
            if (timeout != timeout_ms_)
                frond_txn_set_lock_timeout(transaction_, timeout_ms_ = timeout);
            frond_txn_clear_interrupt(transaction_);
        }
        // A KILL may have come before the transaction began, or been cleared just now. Pass it on again.
        if (thd_kill_level(thd_) != THD_IS_NOT_KILLED)
            frond_txn_interrupt(transaction_);
        statement_start_ = frond_txn_savepoint(transaction_);
        in_statement_ = true;
    }
    return 0;
}

// Nobody else changes the tables: there is nothing to lock, and nothing that a snapshot would hide.
int Frond_session::enter_scratch() {
    if (scratch_.in_statement)
        return 0;
    scratch_.serial++;
    if (!scratch_.txn) {
        frond_txn_options options = FROND_TXN_OPTIONS_INIT;
        options.isolation = FROND_READ_COMMITTED;
        frond_txn *begun = nullptr;
        if (const int rc = frond_txn_begin(frond_scratch(true), &options, &begun))
            return frond_to_handler_error(thd_, rc);
        std::lock_guard<std::mutex> locked(guard_);
        scratch_.txn = begun;
    } else {
        frond_txn_clear_interrupt(scratch_.txn);
    }
    if (thd_kill_level(thd_) != THD_IS_NOT_KILLED)
        frond_txn_interrupt(scratch_.txn);
    scratch_.statement_start = frond_txn_savepoint(scratch_.txn);
    scratch_.in_statement = true;
    return 0;
}

frond_txn *Frond_session::take_scratch() {
    std::lock_guard<std::mutex> locked(guard_);
    frond_txn *taken = scratch_.txn;
    scratch_.txn = nullptr;
    scratch_.in_statement = false;
    return taken;
}

int Frond_session::commit_scratch() {
    frond_txn *taken = take_scratch();
    if (!taken)
        return 0;
    frond_txn_clear_interrupt(taken);
    const int rc = frond_txn_commit(taken);
    if (!rc)
        return 0;
    const int error = frond_to_handler_error(nullptr, rc);
    frond_push_warning(thd_, ER_ERROR_DURING_COMMIT);
    return error;
}

void Frond_session::rollback_scratch() {
    if (frond_txn *taken = take_scratch())
        frond_txn_rollback(taken);
}

void Frond_session::end_statement() {
    if (scratch_.txn) {
        if (scratch_.in_statement)
            frond_txn_release(scratch_.txn, scratch_.statement_start);
        frond_txn_end_statement(scratch_.txn);
    }
    scratch_.in_statement = false;
    if (transaction_) {
        if (in_statement_)
            frond_txn_release(transaction_, statement_start_);
        frond_txn_end_statement(transaction_);
    }
    in_statement_ = false;
}

void Frond_session::undo_statement() {
    if (transaction_ && in_statement_)
        frond_txn_rollback_to(transaction_, statement_start_);
    if (scratch_.txn && scratch_.in_statement)
        frond_txn_rollback_to(scratch_.txn, scratch_.statement_start);
    end_statement();
}

// A commit may wait for memory before it writes to the log. KILL ends that wait, unless the server has already
// written the transaction to the binary log, from where replicas read it.
int Frond_session::commit_now(frond_txn *txn) {
    frond_txn_clear_interrupt(txn);
    if (thd_binlog_format(thd_) == BINLOG_FORMAT_UNSPEC) {
        std::unique_lock<std::mutex> locked(guard_);
        committing_ = frond_txn_id(txn);
        locked.unlock();
        // clear_interrupt() may have removed a KILL that came just before.
        if (thd_kill_level(thd_) != THD_IS_NOT_KILLED)
            frond_txn_interrupt(txn);
    }
    const int rc = frond_txn_commit(txn);
    std::lock_guard<std::mutex> locked(guard_);
    committing_ = 0;
    return rc;
}

// Whether a transaction of shared tables has changed any.
bool Frond_session::has_changes(frond_txn *txn) const { return txn && wrote_shared_ && frond_txn_changes(txn); }

int Frond_session::commit() {
    doubts_ = false;
    const bool wrote_shared = prepared_ ? prepared_changes_ : has_changes(transaction_);
    const int error = prepared_ ? commit_prepared() : commit_shared();
    int of_scratch = 0;
    if (error)
        rollback_scratch();
    else
        of_scratch = commit_scratch();
    drop_temporary_tables();
    // If the shared part wrote anything, it is committed, perhaps in the binary log: then a failure of the scratch part can only be logged.
    return wrote_shared ? error : of_scratch;
}

int Frond_session::commit_shared() {
    frond_txn *taken = take(false);
    if (!taken || rest(taken))
        return 0;
    if (has_changes(taken))
        frond_count_commit();
    const int rc = commit_now(taken);
    int error = 0;
    frond_tell_commit_failure(rc);
    if (rc) {
        error = frond_to_handler_error(nullptr, rc);
        frond_push_warning(thd_, ER_ERROR_DURING_COMMIT);
    }
    return error;
}

int Frond_session::rollback() {
    int error = 0;
    if (prepared_)
        error = rollback_prepared();
    else if (frond_txn *taken = take(false); taken && !rest(taken))
        frond_txn_rollback(taken);
    rollback_scratch();
    drop_temporary_tables();
    return error;
}

bool Frond_session::rest(frond_txn *txn) {
    if (!frond_txn_rest(txn))
        return false;
    resting_ = txn;
    return true;
}

bool Frond_session::drops_later(THD *thd, const char *name) {
    Frond_session *session = thd ? existing(thd) : nullptr;
    if (!session || !session->scratch_.txn || !frond_txn_changes(session->scratch_.txn))
        return false;
    session->dropped_.push_back(name);
    return true;
}

void Frond_session::drop_temporary_tables() {
    for (const std::string &name : dropped_)
        if (frond_table_discard(frond_scratch(false), name.c_str()))
            sql_print_warning("Frond: dropping a temporary table: %s", frond_last_error());
    dropped_.clear();
}

// `NONE`: that transaction had not begun. Rolling back to such a place rolls it back completely.
Frond_session::Place Frond_session::place() {
    return {transaction_ ? frond_txn_savepoint(transaction_) : Place::NONE,
            scratch_.txn ? frond_txn_savepoint(scratch_.txn) : Place::NONE};
}

int Frond_session::rollback_to(const Place &place) {
    int rc = 0;
    if (place.shared == Place::NONE) {
        if (frond_txn *taken = take(false))
            frond_txn_rollback(taken);
    } else if (transaction_) {
        rc = frond_txn_rollback_to(transaction_, place.shared);
    }
    if (place.scratch == Place::NONE)
        rollback_scratch();
    else if (scratch_.txn && !rc)
        rc = frond_txn_rollback_to(scratch_.txn, place.scratch);
    return frond_to_handler_error(thd_, rc);
}

void Frond_session::release(const Place &place) {
    if (transaction_ && place.shared != Place::NONE)
        frond_txn_release(transaction_, place.shared);
    if (scratch_.txn && place.scratch != Place::NONE)
        frond_txn_release(scratch_.txn, place.scratch);
}

void Frond_session::interrupt() {
    std::lock_guard<std::mutex> locked(guard_);
    if (scratch_.txn)
        frond_txn_interrupt(scratch_.txn);
    if (transaction_)
        frond_txn_interrupt(transaction_);
    if (committing_)
        frond_interrupt(frond_database, committing_);
}

// ---------------------------------------------------------------- handlerton

static int commit(handlerton *, THD *thd, bool all) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session)
        return 0;
    if (frond_ends_transaction(thd, all))
        return session->commit();
    session->end_statement();
    return 0;
}

static int rollback(handlerton *, THD *thd, bool all) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session)
        return 0;
    if (frond_ends_transaction(thd, all))
        return session->rollback();
    session->undo_statement();
    return 0;
}

static int close_connection(handlerton *hton, THD *thd) {
    Frond_session *session = Frond_session::existing(thd);
    // Takes LOCK_thd_data. After this, no KILL has the pointer.
    thd_set_ha_data(thd, hton, nullptr);
    delete session;
    return 0;
}

// The caller holds LOCK_thd_data, so the session is not deleted meanwhile.
static void kill_query(handlerton *, THD *thd, enum thd_kill_levels) {
    if (Frond_session *session = Frond_session::existing(thd))
        session->interrupt();
}

static int savepoint_set(handlerton *, THD *thd, void *place) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session || !session->is_in_transaction())
        return HA_ERR_NO_SAVEPOINT;
    const Frond_session::Place savepoint = session->place();
    memcpy(place, &savepoint, sizeof savepoint);
    return 0;
}

static int savepoint_rollback(handlerton *, THD *thd, void *place) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session || !session->is_in_transaction())
        return HA_ERR_NO_SAVEPOINT;
    Frond_session::Place savepoint;
    memcpy(&savepoint, place, sizeof savepoint);
    return session->rollback_to(savepoint);
}

static int savepoint_release(handlerton *, THD *thd, void *place) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session || !session->is_in_transaction())
        return 0;
    Frond_session::Place savepoint;
    memcpy(&savepoint, place, sizeof savepoint);
    session->release(savepoint);
    return 0;
}

// Row locks survive a rollback to a savepoint. While there may be some, metadata locks must stay, so that no table
// is dropped.
static bool savepoint_rollback_can_release_mdl(handlerton *, THD *thd) {
    const Frond_session *session = Frond_session::existing(thd);
    return !session || !session->may_hold_row_locks();
}

// The caller holds LOCK_commit_ordered, and taking a snapshot does not block.
static int start_consistent_snapshot(handlerton *, THD *thd) {
    Frond_session *session = Frond_session::of(thd);
    if (const int error = session->enter())
        return error;
    if (thd_tx_isolation(thd) >= ISO_REPEATABLE_READ)
        return frond_to_handler_error(thd, frond_txn_snapshot(session->transaction()));
    push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                 "Frond: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with "
                 "REPEATABLE READ isolation level.");
    return 0;
}

void frond_install_transactions(handlerton *hton) {
    hton->savepoint_offset = sizeof(Frond_session::Place);
    hton->commit = commit;
    hton->rollback = rollback;
    hton->close_connection = close_connection;
    hton->kill_query = kill_query;
    hton->savepoint_set = savepoint_set;
    hton->savepoint_rollback = savepoint_rollback;
    hton->savepoint_release = savepoint_release;
    hton->savepoint_rollback_can_release_mdl = savepoint_rollback_can_release_mdl;
    hton->start_consistent_snapshot = start_consistent_snapshot;
}
