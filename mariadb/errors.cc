// SPDX-License-Identifier: GPL-2.0-only

#include "server.h"

#include "errors.h"

#include <chrono>
#include <mutex>

#include "log.h"

// With a failing disk every statement fails, and the log may be on that disk: so one line a second
// for each kind of error.
void frond_log_trouble(int error, const char *text) {
    using Clock = std::chrono::steady_clock;
    struct Kind {
        Clock::time_point logged;
        bool was_logged = false;
        ulonglong held_back = 0;
    };
    static std::mutex guard;
    static Kind kinds[32];
    const uint kind = std::min<uint>(static_cast<uint>(-error), array_elements(kinds) - 1);
    char more[80] = "";
    {
        std::lock_guard<std::mutex> locked(guard);
        Kind &of = kinds[kind];
        const Clock::time_point now = Clock::now();
        if (of.was_logged && now - of.logged < std::chrono::seconds(1)) {
            of.held_back++;
            return;
        }
        if (of.held_back)
            my_snprintf(more, sizeof more, " (and %llu errors of this kind since the last line)", of.held_back);
        of = {now, true, 0};
    }
    sql_print_error("Frond: %s (error %d)%s", text, error, more);
}

int frond_to_handler_error(THD *thd, int error) {
    switch (error) {
    case FROND_OK:
        return 0;
    case FROND_END:
        return HA_ERR_END_OF_FILE;
    case FROND_NOT_FOUND:
        return HA_ERR_KEY_NOT_FOUND;
    case FROND_EXISTS:
        return HA_ERR_TABLE_EXIST;
    case FROND_DUPLICATE_KEY:
        return HA_ERR_FOUND_DUPP_KEY;
    case FROND_CONFLICT:
        // As InnoDB with innodb_snapshot_isolation: error 1020 and the transaction is gone. Without the
        // mark, UPDATE IGNORE would pass over the row and the transaction go on with a broken snapshot.
        if (thd)
            thd->mark_transaction_to_rollback(true);
        return HA_ERR_RECORD_CHANGED;
    case FROND_DEADLOCK:
        if (thd)
            thd->mark_transaction_to_rollback(true);
        return HA_ERR_LOCK_DEADLOCK;
    case FROND_LOCK_TIMEOUT:
    case FROND_LOCK_NOWAIT:
        if (thd)
            thd->mark_transaction_to_rollback(false);
        return HA_ERR_LOCK_WAIT_TIMEOUT;
    case FROND_LOCK_TABLE_FULL:
        return HA_ERR_LOCK_TABLE_FULL;
    case FROND_INTERRUPTED:
        return HA_ERR_ABORTED_BY_USER;
    case FROND_TOO_BIG:
        return HA_ERR_TO_BIG_ROW;
    case FROND_TABLE_CHANGED:
        return HA_ERR_TABLE_DEF_CHANGED;
    case FROND_UNSUPPORTED:
        return HA_ERR_UNSUPPORTED;
    case FROND_NO_PARENT:
        return HA_ERR_NO_REFERENCED_ROW;
    case FROND_REFERENCED:
        return HA_ERR_ROW_IS_REFERENCED;
    case FROND_CASCADE_TOO_DEEP:
        return HA_ERR_FK_DEPTH_EXCEEDED;
    case FROND_CASCADE_DUPLICATE:
        return HA_ERR_FOREIGN_DUPLICATE_KEY;
    case FROND_BAD_FOREIGN_KEY:
        return HA_ERR_CANNOT_ADD_FOREIGN;
    case FROND_NO_SPACE:
        frond_log_trouble(error, frond_last_error());
        return HA_ERR_RECORD_FILE_FULL;
    case FROND_TOO_MANY_FILES:
        // "Got error 24 "Too many open files" from storage engine FROND"
        frond_log_trouble(error, frond_last_error());
        return EMFILE;
    case FROND_DISCARDED:
        return HA_ERR_TABLESPACE_MISSING;
    case FROND_CORRUPTION:
    case FROND_UNSUPPORTED_FORMAT:
        frond_log_trouble(error, frond_last_error());
        return HA_ERR_CRASHED;
    case FROND_INVALID_ARGUMENT:
    case FROND_IO:
    case FROND_POISONED:
    case FROND_CLOSED:
    case FROND_BUSY:
    case FROND_PANIC:
    default:
        frond_log_trouble(error, frond_last_error());
        return HA_ERR_INTERNAL_ERROR;
    }
}

void frond_tell_commit_failure(int error) {
    switch (error) {
    case FROND_INTERRUPTED:
        my_error(ER_QUERY_INTERRUPTED, MYF(0));
        break;
    case FROND_DEADLOCK:
        my_error(ER_LOCK_DEADLOCK, MYF(0));
        break;
    case FROND_LOCK_TIMEOUT:
    case FROND_LOCK_NOWAIT:
        my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
        break;
    default:
        break;
    }
}

void frond_push_warning(THD *thd, int handler_error) {
    if (thd && *frond_last_error())
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, handler_error, "Frond: %s",
                            frond_last_error());
}
