// SPDX-License-Identifier: GPL-2.0-only
//
// Statements: which locks their reads take, and how they begin and end in the handler.
//
// Tables are locked by the server's metadata locks; lock_count() is 0 and there is no THR_LOCK. Row locks:
//   written tables, SELECT ... FOR UPDATE          exclusive
//   LOCK IN SHARE MODE                             shared
//   any other read at SERIALIZABLE, inside a       shared
//     transaction, a statement that changes rows,
//     or one with a function or trigger
//   any other read of a statement that is         shared
//     repeated from its text
//   all other reads, also those of                none: they read the snapshot
//     INSERT ... SELECT and of subqueries
//
// A statement that changes rows and goes to the binary log as text is repeated: by replicas, after all statements that were logged
// before it. A replica that applies one repeats it, while it may not have finished earlier ones. In both cases it has to find what
// is there when its transaction commits. So it reads what was committed last, and locks the rows and ranges that it reads, whatever
// the isolation level (`use_.repeats`). Row events are no such statements: they have the rows.

#include "ha_frond.h"

#include "plugin.h"

// Exported by the server, declared in none of its headers.
extern "C" bool thd_binlog_filter_ok(const MYSQL_THD thd);
extern "C" bool thd_sqlcom_can_generate_row_events(const MYSQL_THD thd);

THR_LOCK_DATA **ha_frond::store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) {
    if (type == TL_IGNORE)
        return to; // may be another connection's handler that is being dropped
    // FLUSH TABLES ... WITH READ LOCK asks for the same lock.
    exports_ = type == TL_READ_NO_INSERT && thd_sql_command(thd) == SQLCOM_FLUSH &&
               (thd->lex->type & REFRESH_FOR_EXPORT);
    const bool skip = type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
    const bool shared = type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED;
    read_lock_ = shared ? FROND_LOCK_SHARED : FROND_LOCK_NONE;
    read_wait_ = skip ? FROND_SKIP_LOCKED : FROND_WAIT;
    return to;
}

// A statement whose command changes rows.
static bool is_change(THD *thd) {
    switch (thd_sql_command(thd)) {
    case SQLCOM_INSERT:
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_REPLACE:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_UPDATE:
    case SQLCOM_UPDATE_MULTI:
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
    case SQLCOM_LOAD:
    case SQLCOM_CREATE_TABLE:
        return true;
    default:
        return false;
    }
}

// Whether the statement may write what it has read from other tables. Then a snapshot does not make it serializable, even if
// it is alone in its transaction. A function or trigger may read with one statement and write with the next.
static bool changes_rows(THD *thd) { return thd->in_sub_stmt || thd->lex->requires_prelocking() || is_change(thd); }

// As changes_rows(), once all tables are locked, also those of functions and triggers: a SELECT with a function that only reads
// changes nothing.
static bool locked_to_change(THD *thd) {
    if (!thd->in_sub_stmt && is_change(thd))
        return true;
    for (uint n = 0; thd->lock && n < thd->lock->table_count; n++)
        if (thd->lock->table[n]->reginfo.lock_type >= TL_WRITE_ALLOW_WRITE)
            return true;
    return false;
}

// How changes of the session go to the binary log; BINLOG_FORMAT_UNSPEC when they do not. thd_binlog_format() does not say: it
// returns that value in functions and triggers, too, though their statements are part of the one that is logged.
static ulong log_format(THD *thd) {
    const bool logs = opt_bin_log && thd->variables.sql_log_bin && thd_binlog_filter_ok(thd);
    return logs ? thd->variables.binlog_format : static_cast<ulong>(BINLOG_FORMAT_UNSPEC);
}

// Row events are no repeated statements, but those of triggers that fire for them are.
Frond_repeats ha_frond::repeats(THD *thd) const {
    if (temporary_ || !changes_rows(thd))
        return Frond_repeats::NO;
    // Parents and children that row events bring along are prelocked, too.
    if (thd->lex->is_stmt_row_injection() && !thd->in_sub_stmt)
        return Frond_repeats::NO;
    // A prepared XA transaction would keep the locks, and its XA COMMIT may come behind statements that wait for them.
    if (thd_is_slave(thd))
        return thd->transaction->xid_state.is_explicit_XA() ? Frond_repeats::NO : Frond_repeats::YES;
    const ulong format = log_format(thd);
    return format == BINLOG_FORMAT_STMT || format == BINLOG_FORMAT_MIXED ? Frond_repeats::PERHAPS : Frond_repeats::NO;
}

// Before the first read of a scan in a statement. By then the server has decided how to log the statement.
void ha_frond::lock_for_repetition(frond_txn *txn) {
    if (use_.repeats == Frond_repeats::PERHAPS)
        use_.repeats = thd()->is_current_stmt_binlog_format_row() || !locked_to_change(thd()) ? Frond_repeats::NO : Frond_repeats::YES;
    if (use_.repeats == Frond_repeats::NO)
        return;
    if (use_.lock == FROND_LOCK_NONE) {
        use_.lock = FROND_LOCK_SHARED;
        session_->locks_rows();
    }
    frond_txn_lock_ranges(txn);
}

void ha_frond::set_lock(THD *thd, uint8_t lock, uint8_t wait) {
    use_.repeats = repeats(thd);
    // Changes need the whole old row, whatever columns the statement reads.
    use_.reads_all_columns = lock == FROND_LOCK_EXCLUSIVE && thd_sql_command(thd) != SQLCOM_SELECT;
    if (temporary_)
        lock = FROND_LOCK_NONE; // nobody else sees the table
    else if (lock == FROND_LOCK_NONE && thd_tx_isolation(thd) == ISO_SERIALIZABLE &&
        (thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) || changes_rows(thd)))
        lock = FROND_LOCK_SHARED;
    use_.lock = lock;
    use_.wait = wait;
    if (lock != FROND_LOCK_NONE)
        session_->locks_rows();
    want_other_columns();
    // Also with unique_checks=0, which every dump sets: the dump may be loaded with REPLACE over
    // existing rows.
    use_.write_flags =
        thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS) ? FROND_WRITE_SKIP_FOREIGN : FROND_WRITE_DEFAULT;
    if (temporary_)
        use_.write_flags |= FROND_WRITE_NO_LOCKS;
}

// Temporary tables are in no backup.
void ha_frond::note_write() {
    if (table->s->tmp_table == NO_TMP_TABLE)
        session_->writes_shared();
}

// The server would refuse as well, without the reason.
static int refuse_text(THD *thd) {
    if (thd_binlog_format(thd) != BINLOG_FORMAT_STMT || !thd_binlog_filter_ok(thd) ||
        !thd_sqlcom_can_generate_row_events(thd))
        return 0;
    my_error(ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, MYF(0),
             " Frond logs statements at the isolation levels REPEATABLE READ and SERIALIZABLE only.");
    return HA_ERR_LOGGING_IMPOSSIBLE;
}

static bool may_copy(THD *thd) {
    switch (thd_sql_command(thd)) {
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_REPAIR:
        return true;
    default:
        return false;
    }
}

// ALTER TABLE is about to copy the table, or partitions of it: from now on nobody else writes it (the metadata lock). What a
// prepared transaction without a session has changed would be missing in the copy if it were committed meanwhile. In-place
// changes may begin with a weaker lock and are checked by the core.
int ha_frond::check_copy(THD *thd) {
    if (!may_copy(thd) || temporary_ || !table->mdl_ticket || table->mdl_ticket->get_type() < MDL_SHARED_NO_WRITE)
        return 0;
    return frond_to_handler_error(nullptr, frond_table_check_copy(database_, name_.c_str()));
}

// Kinds of decisions, beside external_lock()'s types.
static constexpr int STARTS_TO_READ = -1, STARTS_TO_WRITE = -2;

// A statement locks all partitions of a table one after the other, and may use one of a thousand. What it decides for the first is
// kept, and the others get it without the server's functions being asked again: all that these look at is the statement's. A
// partition has no foreign keys.
bool ha_frond::use_as_decided(THD *thd, int kind) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session || discarded_ || exports_)
        return false;
    const Frond_decision &made = session->decision();
    if (made.table != table || made.serial != session->serial() || made.query != thd->query_id || made.lex != thd->lex ||
        made.kind != kind || made.read_lock != read_lock_ || made.read_wait != read_wait_ || !session->in_statement())
        return false;
    session_ = session;
    use_ = made.use;
    want_other_columns();
    return true;
}

void ha_frond::note_decision(THD *thd, int kind) {
    if (table->part_info && !temporary_ && !keeps_sequence() && !may_copy(thd))
        session_->decision() = {table, thd->lex, session_->serial(), thd->query_id, kind, read_lock_, read_wait_, use_};
}

int ha_frond::unlock() {
    end_export();
    return keeps_sequence() ? sequence_lock(F_UNLCK) : 0;
}

int ha_frond::external_lock(THD *thd, int type) {
    if (type == F_UNLCK)
        return unlikely(exporting_ || keeps_sequence()) ? unlock() : 0;
    if (use_as_decided(thd, type))
        return 0;
    if (type == F_WRLCK && !(table_flags() & HA_BINLOG_STMT_CAPABLE) && !keeps_sequence() && !temporary_)
        if (const int error = refuse_text(thd))
            return error;
    if (unlikely(discarded_) && !thd_tablespace_op(thd))
        return refuse_discarded();
    if (unlikely(exports_))
        if (const int error = begin_export(thd))
            return error;
    if (keeps_sequence())
        return sequence_lock(type);
    if (type == F_RDLCK)
        if (const int error = check_copy(thd))
            return error;
    session_ = Frond_session::of(thd);
    if (const int error = session_->enter(temporary_))
        return error;
    // The look-ups for UNIQUE over a BLOB and WITHOUT OVERLAPS may use a clone that is locked for
    // reading while its table is written: they have to see rows committed after the snapshot.
    const bool checks_unique = type == F_RDLCK && table->file != this &&
                               (table->s->long_unique_table || table->s->period.unique_keys) &&
                               table->reginfo.lock_type >= TL_WRITE_ALLOW_WRITE;
    if (type == F_WRLCK) {
        note_write();
        set_lock(thd, FROND_LOCK_EXCLUSIVE, read_wait_);
    } else {
        set_lock(thd, checks_unique ? static_cast<uint8_t>(FROND_LOCK_SHARED) : read_lock_, read_wait_);
    }
    if (type == F_WRLCK)
        if (const int error = lock_relatives(thd))
            return error;
    note_decision(thd, type);
    return 0;
}

// Under LOCK TABLES and for tables that stored functions use, external_lock() was called before the
// statement.
int ha_frond::start_stmt(THD *thd, thr_lock_type type) {
    store_lock(thd, nullptr, type);
    // The isolation level and the format of the binary log may have changed since the table was locked.
    cached_table_flags = table_flags();
    const bool writes = type >= TL_WRITE_ALLOW_WRITE;
    const int kind = writes ? STARTS_TO_WRITE : STARTS_TO_READ;
    if (use_as_decided(thd, kind))
        return 0;
    if (const int error = check_copy(thd))
        return error;
    session_ = Frond_session::of(thd);
    if (const int error = session_->enter(temporary_))
        return error;
    if (writes)
        note_write();
    set_lock(thd, writes ? static_cast<uint8_t>(FROND_LOCK_EXCLUSIVE) : read_lock_, read_wait_);
    if (writes)
        if (const int error = lock_relatives(thd))
            return error;
    note_decision(thd, kind);
    return 0;
}

int ha_frond::transaction(frond_txn **txn) {
    if (bulk_) {
        *txn = bulk_;
        return 0;
    }
    if (keeps_sequence())
        return sequence_transaction(txn);
    // A commit inside the statement (DDL, HANDLER) has ended the transaction. Begin a new one.
    if (!session_->in_statement(temporary_) || !session_->transaction(temporary_)) {
        if (const int error = session_->enter(temporary_))
            return error;
        if (use_.lock != FROND_LOCK_NONE)
            session_->locks_rows();
    }
    *txn = session_->transaction(temporary_);
    return 0;
}

// The end of a statement for this handler, which goes back to the server's table cache.
int ha_frond::reset() {
    // The server resets all partitions, and a statement may have read one of a thousand.
    if (likely(!current_ && !semi_consistent_ && !unread_is_missing_ && !reads_ranges_))
        return 0;
    if (reads_ranges_)
        mrr_.dsmrr_close();
    reads_ranges_ = false;
    for (Frond_slot &slot : slots_) {
        if (slot.scan && slot.serial) {
            frond_scan_park(slot.scan);
            slot.serial = 0;
        }
    }
    current_ = nullptr;
    semi_consistent_ = false;
    unread_is_missing_ = false;
    demand_++;
    return 0;
}

int ha_frond::extra(enum ha_extra_function operation) {
    switch (operation) {
    case HA_EXTRA_KEYREAD:
    case HA_EXTRA_NO_KEYREAD:
        want_other_columns();
        return 0;
    case HA_EXTRA_BEGIN_COPY:
    case HA_EXTRA_BEGIN_ALTER_IGNORE_COPY:
        // CREATE TEMPORARY TABLE ... SELECT is part of the transaction around it, whose snapshot
        // would not see rows committed by a separate transaction of the copy. ALTER TABLE ends that
        // transaction. Nor may rows of CREATE TABLE ... SELECT be another transaction's where the statement's own looks
        // them up (WITHOUT OVERLAPS), or holds locks on their parents.
        if (thd_sql_command(thd()) == SQLCOM_CREATE_TABLE &&
            (table->s->tmp_table != NO_TMP_TABLE || table->s->period.unique_keys || has_foreign_keys()))
            return 0;
        return begin_bulk();
    case HA_EXTRA_END_COPY:
        return end_bulk(true);
    case HA_EXTRA_ABORT_COPY:
        return end_bulk(false);
    default:
        return 0;
    }
}

// Errors whose usual text would be wrong or too short. frond_log_trouble() has already logged them,
// so they are not logged again here.
void ha_frond::print_error(int error, myf flags) {
    const char *text = frond_last_error();
    const myf own_flags = flags & ~ME_ERROR_LOG;
    if (flags & ME_WARNING && error == told_) {
        told_ = 0;
        return;
    }
    switch (error) {
    case HA_ERR_TO_BIG_ROW:
        my_printf_error(ER_TOO_BIG_ROWSIZE, "Frond: %s", flags, text);
        return;
    case HA_ERR_RECORD_FILE_FULL:
        my_printf_error(ER_DISK_FULL, "Frond: %s", own_flags, text);
        return;
    case HA_ERR_TABLESPACE_MISSING:
        print_move_error(flags);
        return;
    case HA_ERR_CRASHED:
        my_printf_error(ER_NOT_KEYFILE, "Frond: %s", own_flags, text);
        return;
    case HA_ERR_INTERNAL_ERROR:
        my_printf_error(ER_GET_ERRMSG, "Frond: %s", own_flags, text);
        return;
    case EMFILE:
        handler::print_error(error, own_flags);
        return;
    case HA_ERR_KEY_NOT_FOUND:
        if (divergence_.empty())
            break;
        my_printf_error(ER_KEY_NOT_FOUND, "Frond: %s", own_flags, divergence_.c_str());
        divergence_.clear();
        return;
    case HA_ERR_INCOMPATIBLE_DEFINITION:
        my_printf_error(ER_TABLE_DEF_CHANGED, "Frond: %s", own_flags, refusal_.c_str());
        return;
    default:
        break;
    }
    handler::print_error(error, flags);
}

// When CREATE TABLE or a rename fails, the server reports only the number, unless an error was sent
// before. The warning that CREATE TABLE adds would repeat it.
int ha_frond::tell(int error) {
    switch (error) {
    case HA_ERR_RECORD_FILE_FULL:
    case HA_ERR_CRASHED:
    case HA_ERR_INTERNAL_ERROR:
        print_error(error, MYF(0));
        told_ = error;
    }
    return error;
}
