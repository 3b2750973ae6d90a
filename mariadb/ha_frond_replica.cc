// SPDX-License-Identifier: GPL-2.0-only
//
// Read-free apply (docs/rfcs/0013-read-free-apply.md).
//
// Before the server applies an update or deletion from the binary log, it looks the row up: record[0] has the event's
// old row, and the look-up replaces it with the stored row. Where both must be the same, the look-up here only locks
// the row. update_row() and delete_row() then compute the entries of all indexes from the event's row.
//
// Invariants
//  RF1. A row stays unread only if the event has all its columns, the table has the same definition as the primary's,
//     and nothing else needs the stored row: no triggers, versions, foreign keys, or uniqueness that the server checks.
//  RF2. The row is locked before it is changed, as by a look-up that reads.
//  RF3. When a row is read, the stored row is what is replaced, whatever the event says. So its indexes stay consistent.

#include "ha_frond.h"

#include "foreign.h"
#include "plugin.h"
#include "read_free.h"
#include "settings.h"

// The server's slave_exec_mode: what an event does when its row is missing, or there already.
extern ulong slave_exec_mode_options;

// Whether the row of the look-up need not be read (RF1).
bool ha_frond::changes_unread(const uchar *record) {
    const TABLE_SHARE *share = table->s;
    return frond_applies_read_free(thd()) && record == table->record[0] && share->primary_key < MAX_KEY &&
           slave_exec_mode_options != SLAVE_EXEC_MODE_IDEMPOTENT && !table->triggers && !table->versioned() &&
           !share->long_unique_table && !share->period.unique_keys && share->tmp_table == NO_TMP_TABLE && !bulk_ &&
           frond_event_has_old_rows(thd(), table) && !has_foreign_keys();
}

// Key columns and their values, for people.
static std::string key_text(TABLE *table) {
    std::string text;
    const KEY &key = table->key_info[table->s->primary_key];
    for (uint part = 0; part < key.user_defined_key_parts; part++) {
        Field *field = key.key_part[part].field;
        StringBuffer<MAX_FIELD_WIDTH> buffer;
        const String *value = field->val_str(&buffer);
        text += (part ? "," : "") + std::string(field->field_name.str) + "=";
        for (uint32 i = 0; i < value->length() && i < 64; i++) {
            const char c = (*value)[i];
            text += static_cast<uchar>(c) < ' ' ? '?' : c;
        }
    }
    return text;
}

// The first stored column whose value in record[0] differs from that in record[1], or NULL.
static const Field *first_difference(const TABLE *table) {
    const my_ptrdiff_t to_other = table->record[1] - table->record[0];
    for (Field **next = table->field; *next; next++) {
        Field *field = *next;
        if (!field->stored_in_db())
            continue;
        const bool is_null = field->is_null();
        if (is_null != field->is_null(to_other) ||
            (!is_null && field->cmp_binary_offset(static_cast<uint>(to_other))))
            return field;
    }
    return nullptr;
}

void ha_frond::compute_all_virtual() {
    for (Field **f = table->vfield; f && *f; f++)
        if (!(*f)->stored_in_db())
            table->update_virtual_field(*f, true);
}

int ha_frond::rnd_pos_by_record(uchar *record) {
    unread_is_missing_ = false;
    if (likely(!changes_unread(record)))
        return handler::rnd_pos_by_record(record);
    frond_txn *txn;
    if (const int error = transaction(&txn))
        return error;
    int waited = 0;
    if (const int rc = frond_row_lock(txn, rows_, record, &waited))
        return frond_to_handler_error(thd(), rc);
    // The former holder of the lock may have changed the row.
    if (unlikely(waited || session_->doubts() || frond_verifies_next_row()))
        return verify_row(record);
    frond_count_unread_row();
    compute_all_virtual();
    return 0;
}

// Compares the stored row with the event's, which it keeps in record[1]: the server uses that buffer only after the
// look-up. The stored row is what the caller gets (RF3).
int ha_frond::verify_row(uchar *record) {
    memcpy(table->record[1], record, table->s->reclength);
    const int error = handler::rnd_pos_by_record(record);
    if (error && error != HA_ERR_KEY_NOT_FOUND)
        return error;
    const Field *differs = error ? nullptr : first_difference(table);
    if (likely(!error && !differs)) {
        frond_count_verified_row();
        return 0;
    }
    // Earlier transactions may not have been applied yet. The server then rolls this one back and applies it after
    // them; if the rows agree then, there is no divergence.
    if (frond_runs_ahead(thd())) {
        session_->set_doubts(true);
        return HA_ERR_RECORD_CHANGED;
    }
    frond_count_verified_row();
    if (error)
        memcpy(record, table->record[1], table->s->reclength);
    const std::string column = differs ? differs->field_name.str : "";
    const std::string what = "row (" + key_text(table) + ") of table '" + name_ + "' " +
                             (error ? "is missing; its primary changed it"
                                    : "differs in column '" + column + "' from the row that its primary changed");
    frond_note_divergence(what);
    // Not HA_ERR_RECORD_CHANGED, which the server would retry for half a minute.
    if (frond_stops_at_divergence()) {
        divergence_ = what;
        return HA_ERR_KEY_NOT_FOUND;
    }
    if (error) {
        unread_is_missing_ = true;
        compute_all_virtual();
    }
    return 0;
}
