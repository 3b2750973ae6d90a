// SPDX-License-Identifier: GPL-2.0-only
//
// Read-free apply: what the server knows about the event under way, which rows are compared, and counters.

#include "server.h"

#include "log_event.h"
#include "rpl_rli.h"
#include "rpl_utility.h"

#include "read_free.h"

#include <atomic>

#include "errors.h"
#include "settings.h"

// ---------------------------------------------------------------- the event

// table->read_set does not say which columns the event has: when the replica writes a binary log of its own, the
// server adds columns to it.
bool frond_event_has_old_rows(THD *thd, TABLE *table) {
    const rpl_group_info *group = thd_is_slave(thd) ? thd->rgi_slave : nullptr;
    Log_event *event = group ? group->current_event : nullptr;
    if (!event)
        return false;
    const Log_event_type type = event->get_type_code();
    if (!LOG_EVENT_IS_UPDATE_ROW(type) && !LOG_EVENT_IS_DELETE_ROW(type))
        return false;
    const Rows_log_event *rows = static_cast<Rows_log_event *>(event);
    const uint columns = table->s->fields;
    if (rows->get_width() != columns || !bitmap_is_set_all(rows->get_cols()))
        return false;
    for (TABLE_LIST *next = group->tables_to_lock; next; next = next->next_global) {
        if (next->table != table || next->table_id != rows->get_table_id())
            continue;
        const RPL_TABLE_LIST *from = static_cast<RPL_TABLE_LIST *>(next);
        return from->m_tabledef_valid && from->m_tabledef.size() == columns && !from->m_conv_table;
    }
    return false;
}

bool frond_runs_ahead(THD *thd) {
    return thd->rgi_slave && thd->rgi_slave->speculation == rpl_group_info::SPECULATE_OPTIMISTIC;
}

// ---------------------------------------------------------------- which rows are compared

// By chance, not every n-th row: in a load that repeats, every n-th row could always be the same one.
bool frond_verifies_next_row() {
    static constexpr uint64_t MILLION = 1000000;
    const uint64_t wanted = frond_read_free_verify();
    if (wanted == 0 || wanted >= MILLION)
        return wanted != 0;
    static thread_local uint64_t state = my_interval_timer();
    // The generator splitmix64.
    state += 0x9e3779b97f4a7c15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (x ^ (x >> 31)) % MILLION < wanted;
}

// ---------------------------------------------------------------- counters

static std::atomic<uint64_t> unread{0}, verified{0}, divergences{0};

void frond_count_unread_row() { unread.fetch_add(1, std::memory_order_relaxed); }

void frond_count_verified_row() { verified.fetch_add(1, std::memory_order_relaxed); }

void frond_note_divergence(const std::string &what) {
    divergences.fetch_add(1, std::memory_order_relaxed);
    frond_log_trouble(FROND_CONFLICT, what.c_str());
}

void frond_read_free_status(void (*add)(void *ctx, const char *name, uint64_t value), void *ctx) {
    add(ctx, "read_free_rows", unread.load(std::memory_order_relaxed));
    add(ctx, "read_free_verified", verified.load(std::memory_order_relaxed));
    add(ctx, "read_free_divergences", divergences.load(std::memory_order_relaxed));
}
