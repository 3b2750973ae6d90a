// SPDX-License-Identifier: GPL-2.0-only
//
// SEQUENCE: the one row that a sequence has in a table of this engine.
//
// The server's own handler for sequences lies above this one. It counts in memory and writes the row when the
// values that it has reserved are used up (CACHE), for SETVAL and ALTER SEQUENCE: it scans for the row and replaces
// what it finds, and hands out no value before that has succeeded. A mutex of the sequence is held from the scan to
// the end of the write, so no two connections do this at once. The server undoes nothing of it.
//
//   - A change is a transaction of its own, committed before the call returns and as durable as any other
//     (frond_flush_log_at_commit). In the transaction around it, a ROLLBACK would give values back that somebody
//     has, and its row lock would keep other connections from the sequence until it ends.
//   - Reads see what was committed last, in any transaction and at any isolation level, and take no locks: a write
//     that started from an older row would set the sequence back.
//   - The connection's transaction does not know of the table.
//
// Of the calls at the end of a statement the upper handler passes on external_lock() and rnd_end() only, and the
// pointer to what handlers share is not set: info() takes no key statistics. There are no keys.

#include "ha_frond.h"

#include "plugin.h"
#include "schema.h"

// The beginning of a statement or of a scan. CREATE TEMPORARY SEQUENCE writes the row without external_lock().
void ha_frond::enter_sequence() {
    end_sequence_transaction(false);
    session_ = Frond_session::of(thd());
    use_.lock = FROND_LOCK_NONE;
    use_.wait = FROND_WAIT;
    use_.repeats = Frond_repeats::NO;
    // The server compares whole rows, and a change needs the whole old one.
    use_.reads_all_columns = true;
    demand_++;
}

int ha_frond::sequence_lock(int type) {
    if (type == F_UNLCK)
        return end_sequence_transaction(false);
    enter_sequence();
    return 0;
}

int ha_frond::sequence_transaction(frond_txn **txn) {
    if (!sequence_txn_) {
        frond_txn_options options = FROND_TXN_OPTIONS_INIT;
        options.isolation = FROND_READ_COMMITTED;
        if (const int rc = frond_txn_begin(database_, &options, &sequence_txn_))
            return frond_to_handler_error(nullptr, rc);
        frond_txn_set_connection(sequence_txn_, thd_get_thread_id(thd()));
    }
    *txn = sequence_txn_;
    return 0;
}

int ha_frond::end_sequence_transaction(bool keep) {
    frond_txn *txn = sequence_txn_;
    if (!txn)
        return 0;
    for (Frond_slot &slot : slots_) {
        if (slot.scan && slot.serial)
            frond_scan_park(slot.scan);
        slot.serial = 0;
    }
    sequence_txn_ = nullptr;
    if (!keep) {
        frond_txn_rollback(txn);
        return 0;
    }
    // Without the THD: an error here is no reason to roll the connection's transaction back.
    return frond_to_handler_error(nullptr, session_->commit_now(txn));
}

// `old_record` is NULL when the sequence is created.
int ha_frond::write_sequence(const uchar *old_record, const uchar *record) {
    if (!session_)
        enter_sequence();
    frond_txn *txn;
    if (const int error = sequence_transaction(&txn))
        return error;
    uint32_t index = 0;
    const int rc = old_record ? frond_row_update(txn, rows_, old_record, record, use_.write_flags, &index)
                              : frond_row_insert(txn, rows_, record, use_.write_flags, &index);
    const int refused = frond_to_handler_error(nullptr, rc);
    const int error = end_sequence_transaction(!refused);
    if (refused || error || old_record || temporary_)
        return refused ? refused : error;
    // The table survives a crash, and a sequence without its row cannot be opened.
    return frond_to_handler_error(nullptr, frond_sync(frond_database));
}
