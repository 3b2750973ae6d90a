// SPDX-License-Identifier: GPL-2.0-only
//
// Changes: rows, AUTO_INCREMENT, and the bulk copies of ALTER TABLE and CREATE TABLE ... SELECT.

#include "ha_frond.h"

#include <algorithm>

#include "plugin.h"

int ha_frond::duplicate(uint32_t index) {
    session_->met_duplicate(index - hidden_);
    return HA_ERR_FOUND_DUPP_KEY;
}

int ha_frond::write_row(const uchar *record) {
    const Frond_reads reads(handler_stats);
    if (keeps_sequence() && !bulk_)
        return write_sequence(nullptr, record);
    const bool numbers = table->next_number_field && record == table->record[0];
    numbers_error_ = 0;
    if (numbers)
        if (const int error = update_auto_increment())
            return numbers_error_ ? numbers_error_ : error;
    frond_txn *txn;
    if (const int error = transaction(&txn))
        return error;
    // Where a statement that is repeated passes over a row without a parent, it has read that there is none. Statements that only
    // insert have no scan that would see to it.
    if (unlikely(use_.repeats != Frond_repeats::NO) && !bulk_ && !foreigns().of.empty())
        lock_for_repetition(txn);
    uint32_t index = 0;
    const int rc = frond_row_insert(txn, rows_, record, use_.write_flags, &index);
    if (unlikely(rc))
        return rc == FROND_DUPLICATE_KEY ? duplicate(index) : frond_to_handler_error(thd(), rc);
    return numbers ? note_auto_increment(txn) : 0;
}

// An unchanged row does not count as changed. The server compares only when it has read all columns
// that it sets, and takes different bytes under two NULLs for a difference; here all columns have
// been read.
static bool row_stays_the_same(const TABLE *table) {
    const my_ptrdiff_t to_old = table->record[1] - table->record[0];
    for (Field **next = table->field; *next; next++) {
        Field *field = *next;
        if (!field->stored_in_db() || !bitmap_is_set(table->write_set, field->field_index))
            continue;
        const bool is_null = field->is_null();
        if (is_null != field->is_null(to_old))
            return false;
        if (!is_null && field->cmp_binary_offset(static_cast<uint>(to_old)))
            return false;
    }
    return true;
}

int ha_frond::update_row(const uchar *old_record, const uchar *new_record) {
    const Frond_reads reads(handler_stats);
    if (keeps_sequence())
        return write_sequence(old_record, new_record);
    if (unlikely(unread_is_missing_)) {
        unread_is_missing_ = false;
        return write_row(new_record);
    }
    if (old_record == table->record[1] && new_record == table->record[0] && row_stays_the_same(table))
        return HA_ERR_RECORD_IS_THE_SAME;
    frond_txn *txn;
    if (const int error = transaction(&txn))
        return error;
    if (unlikely(table->s->long_unique_table || table->s->period.unique_keys))
        if (const int error = lock_moving(old_record, new_record))
            return error;
    uint32_t index = 0;
    const int rc = frond_row_update(txn, rows_, old_record, new_record, use_.write_flags, &index);
    if (unlikely(rc))
        return rc == FROND_DUPLICATE_KEY ? duplicate(index) : frond_to_handler_error(thd(), rc);
    // As in InnoDB, an UPDATE of the column moves the counter past the new value too.
    const Field *numbered = table->found_next_number_field;
    if (numbered && new_record == table->record[0] &&
        bitmap_is_set(table->write_set, numbered->field_index))
        return note_auto_increment(txn);
    return 0;
}

int ha_frond::delete_row(const uchar *record) {
    const Frond_reads reads(handler_stats);
    if (unlikely(unread_is_missing_)) {
        unread_is_missing_ = false;
        return 0;
    }
    frond_txn *txn;
    if (const int error = transaction(&txn))
        return error;
    return frond_to_handler_error(thd(), frond_row_delete(txn, rows_, record, use_.write_flags));
}

// ---------------------------------------------------------------- AUTO_INCREMENT

// record[0] was written: later values must exceed the one in it.
int ha_frond::note_auto_increment(frond_txn *txn) {
    if (table->s->next_number_keypart != 0)
        return 0;
    const Field *field = table->found_next_number_field;
    const longlong value = table->found_next_number_field->val_int();
    const bool positive = value > 0 || (value < 0 && (field->flags & UNSIGNED_FLAG));
    // Also for generated values: SET INSERT_ID gives some that were not reserved here.
    return positive ? frond_to_handler_error(thd(), frond_auto_increment_used(txn, table_, static_cast<uint64_t>(value))) : 0;
}

// The server asks for as many values as it expects rows, and doubles the number each time. As in InnoDB, an INSERT does not
// give unused values back. In other statements most rows have values of their own, so each value is taken only when it
// is used: a reserved value cannot be given back, because another session may have inserted it meanwhile.
static bool reserves_for_rows_to_come(THD *thd) {
    switch (thd_sql_command(thd)) {
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_UPDATE:
    case SQLCOM_UPDATE_MULTI:
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
        return false;
    default:
        return true;
    }
}

// A binary log of text has the first value that a statement took; a replica counts on from it. So a statement that knows how many
// rows it writes takes all its values at once. Other statements have the values to themselves until they end.
static bool needs_all_numbers(THD *thd) {
    switch (thd_sql_command(thd)) {
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_LOAD:
        return true;
    default:
        return false;
    }
}

int ha_frond::reserve_numbers(ulonglong offset, ulonglong increment, ulonglong wanted, uint64_t *first, uint64_t *count) {
    frond_txn *txn;
    if (const int error = transaction(&txn))
        return error;
    const bool goes_on = next_insert_id > 0;
    const bool as_text = !temporary_ && !bulk_ && thd_binlog_format(thd()) != BINLOG_FORMAT_UNSPEC &&
                         !thd()->is_current_stmt_binlog_format_row();
    int rc = as_text && !goes_on && needs_all_numbers(thd()) ? frond_auto_increment_lock(txn, table_) : FROND_OK;
    if (!rc)
        rc = frond_auto_increment_reserve(txn, table_, offset, increment, wanted, first, count);
    if (rc == FROND_TOO_BIG)
        return HA_ERR_AUTOINC_READ_FAILED;
    if (rc)
        return frond_to_handler_error(thd(), rc);
    // VALUES (NULL), (1000), (NULL), and another session took 1001: the server has computed it for the last row.
    if (as_text && goes_on && *first != next_insert_id)
        return HA_ERR_AUTOINC_READ_FAILED;
    return 0;
}

void ha_frond::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted,
                                  ulonglong *first, ulonglong *count) {
    if (table->s->next_number_keypart != 0) {
        handler::get_auto_increment(offset, increment, wanted, first, count);
        return;
    }
    uint64_t from = 0, reserved = 0;
    if (wanted == 0 || !reserves_for_rows_to_come(thd()))
        wanted = 1;
    numbers_error_ = reserve_numbers(offset, increment, wanted, &from, &reserved);
    *first = numbers_error_ ? ULONGLONG_MAX : from;
    *count = numbers_error_ ? 0 : reserved;
}

int ha_frond::reset_auto_increment(ulonglong value) {
    return frond_to_handler_error(nullptr, frond_auto_increment_set(table_, value ? value : 1));
}

// ---------------------------------------------------------------- bulk copies

// No other session can see a table that is being built, so its rows need no locks, and a failed
// copy is undone by dropping the table: so the copy has its own transaction. It loads the rows, as LOAD DATA does
// with an empty table.
int ha_frond::begin_bulk() {
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    options.isolation = FROND_READ_COMMITTED;
    if (const int rc = frond_txn_begin(database_, &options, &bulk_))
        return frond_to_handler_error(nullptr, rc);
    use_.write_flags |= FROND_WRITE_NO_LOCKS;
    return 0;
}

int ha_frond::end_bulk(bool keep) {
    frond_txn *txn = bulk_;
    if (!txn)
        return 0;
    bulk_ = nullptr;
    if (!temporary_)
        use_.write_flags &= ~FROND_WRITE_NO_LOCKS;
    for (Frond_slot &slot : slots_)
        slot.serial = 0;
    if (!keep) {
        frond_txn_rollback(txn);
        return 0;
    }
    if (const int rc = Frond_session::of(thd())->commit_now(txn))
        return frond_to_handler_error(thd(), rc);
    if (temporary_)
        return 0;
    // The table is about to replace another. Its rows must be durable before the rename is, and older snapshots must not
    // read it: they would miss rows.
    if (const int rc = frond_sync(frond_database))
        return frond_to_handler_error(thd(), rc);
    const int rc = frond_table_refuse_older_snapshots(frond_database, name_.c_str());
    return frond_to_handler_error(thd(), rc);
}

// AUTO_INCREMENT = n: above the values that there are. Sends an error when it fails.
int ha_frond::raise_auto_increment(ulonglong wanted) {
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    options.isolation = FROND_READ_COMMITTED;
    frond_txn *txn = nullptr;
    frond_scan *scan = nullptr;
    int rc = FROND_NOT_FOUND;
    // Without such a column the number is kept all the same, as SHOW CREATE TABLE has it.
    if (const Field *field = table->found_next_number_field) {
        const uint index = table->s->next_number_index;
        const bool descending = table->key_info[index].key_part[0].key_part_flag & HA_REVERSE_SORT;
        uchar *record = table->record[0];
        rc = frond_txn_begin(database_, &options, &txn);
        if (!rc)
            rc = frond_scan_open(txn, rows_, frond_index(index), FROND_LOCK_NONE, FROND_WAIT, &scan);
        if (!rc)
            rc = descending ? frond_scan_first(scan, record) : frond_scan_last(scan, record);
        if (!rc) {
            MY_BITMAP *old = dbug_tmp_use_all_columns(table, &table->read_set);
            const longlong largest = table->found_next_number_field->val_int();
            dbug_tmp_restore_column_map(&table->read_set, old);
            if (largest > 0 || (field->flags & UNSIGNED_FLAG))
                wanted = std::max(wanted, static_cast<ulonglong>(largest) + (largest != -1));
        }
        frond_scan_close(scan);
        if (txn)
            frond_txn_rollback(txn);
    }
    // An empty table has no last row.
    if (!rc || rc == FROND_NOT_FOUND || rc == FROND_END)
        rc = frond_auto_increment_set(table_, wanted ? wanted : 1);
    if (rc)
        print_error(frond_to_handler_error(nullptr, rc), MYF(0));
    return rc;
}
