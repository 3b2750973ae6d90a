// SPDX-License-Identifier: GPL-2.0-only
//
// Statistics for the optimizer and for people, costs, ANALYZE, CHECK, OPTIMIZE.

#include "ha_frond.h"

#include "log.h"
#include "plugin.h"
#include "schema.h"
#include "settings.h"

// The optimizer counts in blocks of this many uncompressed bytes.
static constexpr uint BLOCK_BYTES = 16384;

void Frond_reads::end() {
    frond_read_counts counts;
    frond_reads_end(&counts);
    to_->pages_accessed += counts.accessed;
    to_->pages_read_count += counts.from_file;
    to_->pages_prefetched += counts.read_ahead;
    to_->pages_read_time += static_cast<ulonglong>(static_cast<double>(counts.nanos) * timer_tracker_frequency() / 1e9);
}

int ha_frond::info(uint flags) {
    if (flags & (HA_STATUS_VARIABLE | HA_STATUS_CONST)) {
        frond_table_stats now = {};
        now.struct_size = sizeof now;
        // For people (see below): planning needs no DATA_FREE.
        const bool shown = flags & (HA_STATUS_TIME | HA_STATUS_VARIABLE_EXTRA);
        now.with_file = shown;
        if (const int rc = frond_table_statistics(table_, &now))
            return frond_to_handler_error(nullptr, rc);
        stats.records = now.rows;
        // With 0 rows the optimizer treats the table as a constant, but it may have rows by the time the plan runs. SHOW
        // TABLE STATUS shows the true number: it sets TIME, which reaches partitions as VARIABLE_EXTRA.
        if (stats.records == 0 && !shown && !(flags & HA_STATUS_OPEN))
            stats.records = 1;
        stats.deleted = 0;
        stats.data_file_length = now.data_bytes;
        stats.index_file_length = now.index_bytes;
        if (shown)
            stats.delete_length = now.free_bytes;
        // NULL after a restart, as InnoDB's.
        stats.update_time = static_cast<time_t>(now.updated);
        stats.mean_rec_length = now.rows ? static_cast<ulong>(now.data_bytes / now.rows) : 0;
        stats.block_size = BLOCK_BYTES;
        stats.mrr_length_per_rec = ref_length + sizeof(void *);
    }
    // The optimizer asks for variable statistics only. A partitioned table takes the constant ones from its largest
    // partition; those of other partitions must not replace them.
    if ((flags & HA_STATUS_CONST) || ((flags & HA_STATUS_VARIABLE) && share_ && !table->part_info))
        refresh_key_statistics();
    if ((flags & HA_STATUS_VARIABLE) && share_ && !table->part_info)
        show_key_statistics(flags & HA_STATUS_TIME);
    if ((flags & HA_STATUS_AUTO) && table_)
        stats.auto_increment_value = frond_auto_increment_get(table_);
    if (flags & HA_STATUS_ERRKEY)
        errkey = session_ ? session_->duplicate() : MAX_KEY;
    return 0;
}

bool ha_frond::key_statistics_are_current(const Frond_share *share) const {
    return share->has_statistics && share->statistics == frond_table_statistics_number(table_) &&
           share->method == frond_stats_method();
}

// The core samples large tables in the background: a statement uses what there is.
void ha_frond::refresh_key_statistics() {
    Frond_share *share = share_ ? share_ : get_share();
    if (keeps_sequence())
        return;
    frond_table_sample_small(table_);
    if (likely(key_statistics_are_current(share)))
        return;
    std::lock_guard<std::mutex> locked(share->guard);
    if (!key_statistics_are_current(share))
        take_key_statistics(share);
}

// Rows per value of the first parts of a key; 0: not known.
static double rows_per_key(const frond_part_statistics &part, double rows, Frond_stats_method method) {
    const double distinct = static_cast<double>(part.distinct), nulls = static_cast<double>(part.nulls);
    const double whole = distinct - static_cast<double>(part.distinct_nulls);
    double values = distinct;
    if (method == FROND_NULLS_UNEQUAL)
        values = whole + nulls;
    if (method == FROND_NULLS_IGNORED) {
        values = whole;
        rows = std::max(rows - nulls, 0.0);
    }
    return values > 0 ? std::max(rows / values, 1.0) : 1;
}

// rec_per_key belongs to the TABLE_SHARE: all handlers of the table see the numbers. They are half of the true ones. The
// optimizer does not know how few rows of a small table match a condition without an index (one region of five), so with
// true numbers every join that begins there seems to reach all rows. Its other constants were chosen beside InnoDB, which
// halves them too.
void ha_frond::take_key_statistics(Frond_share *share) {
    frond_part_statistics of_parts[MAX_REF_PARTS];
    const uint64_t number = frond_table_statistics_number(table_);
    const Frond_stats_method method = frond_stats_method();
    if (share->rows_per_value.empty())
        share->rows_per_value.assign(table->s->ext_key_parts, 1);
    ulong *exact = share->rows_per_value.data();
    for (uint k = 0; k < table->s->keys; exact += table->s->key_info[k++].ext_key_parts) {
        const KEY &key = table->s->key_info[k];
        const uint parts = std::min<uint>(key.user_defined_key_parts, MAX_REF_PARTS);
        uint32_t known = 0;
        uint64_t sampled = 0;
        if (frond_rows_statistics(rows_, frond_index(k), of_parts, parts, &known, &sampled))
            continue;
        // Before the first sample of a large table, or of a new index: the optimizer guesses.
        const double unknown = stats.records > 1 ? 0 : 1;
        for (uint p = 0; p < key.ext_key_parts; p++) {
            // Parts appended from the primary key make the entry unique.
            double rows = p < parts ? unknown : 1;
            if (p < known)
                rows = rows_per_key(of_parts[p], static_cast<double>(sampled), method);
            if ((key.flags & HA_NOSAME) && !(key.flags & HA_NULL_PART_KEY) && p + 1 == parts)
                rows = 1;
            exact[p] = static_cast<ulong>(rows + 0.5);
            key.rec_per_key[p] = exact[p] ? std::max<ulong>(exact[p] / 2, 1) : 0;
        }
    }
    share->statistics = number;
    share->method = method;
    share->has_statistics = true;
}

// The server asks for times when it shows statistics, and before it plans only for what varies. Each open table has its own
// KEYs, which point to the TABLE_SHARE's numbers.
void ha_frond::show_key_statistics(bool to_people) {
    if (keeps_sequence() || !share_->has_statistics)
        return;
    ulong *exact = share_->rows_per_value.data();
    for (uint k = 0; k < table->s->keys; exact += table->s->key_info[k++].ext_key_parts)
        table->key_info[k].rec_per_key = to_people ? exact : table->s->key_info[k].rec_per_key;
}

// ---------------------------------------------------------------- costs

ha_rows ha_frond::records_in_range(uint index, const key_range *low, const key_range *high,
                                   page_range *) {
    const Frond_reads reads(handler_stats);
    const KEY &key = table->key_info[index];
    auto end_of = [&](const key_range *from, frond_range_end *end) {
        if (!from)
            return static_cast<frond_range_end *>(nullptr);
        const uint most = from->keypart_map == HA_WHOLE_KEY ? key.user_defined_key_parts
                                                            : key.ext_key_parts;
        uint parts = 0;
        for (key_part_map map = from->keypart_map; parts < most && (map & 1); map >>= 1)
            parts++;
        end->tuple = from->key;
        end->tuple_len = from->length;
        end->parts = parts;
        return end;
    };
    frond_range_end low_end = {}, high_end = {};
    frond_range_end *from = end_of(low, &low_end), *to = end_of(high, &high_end);
    if (from)
        from->how = low->flag == HA_READ_AFTER_KEY ? FROND_AFTER_KEY : FROND_KEY_EXACT;
    if (to)
        to->how = high->flag == HA_READ_BEFORE_KEY ? FROND_BEFORE_KEY : FROND_KEY_EXACT;
    uint64_t count = 0;
    if (frond_rows_in_range(rows_, frond_index(index), from, to, &count))
        return HA_POS_ERROR;
    // 0 would mean that the range is certainly empty.
    return count ? count : 1;
}

// Reading through an index that has the rows costs as much as that share of a full scan.
double ha_frond::read_time(uint index, uint ranges, ha_rows rows) {
    if (index != table->s->primary_key && !frond_is_clustering(table->s, index))
        return handler::read_time(index, ranges, rows);
    const double scan = scan_time();
    if (rows <= 2)
        return static_cast<double>(rows);
    const ha_rows total = std::max<ha_rows>(stats.records, 1);
    if (total < rows)
        return scan;
    return ranges + static_cast<double>(rows) / static_cast<double>(total) * scan;
}

ha_rows ha_frond::estimate_rows_upper_bound() { return 2 * stats.records + 1000; }

// ---------------------------------------------------------------- maintenance

int ha_frond::analyze(THD *, HA_CHECK_OPT *) {
    if (frond_table_analyze(table_) || info(HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_NO_LOCK))
        return HA_ADMIN_FAILED;
    return HA_ADMIN_OK;
}

static void report_problem(void *ctx, const char *problem) {
    sql_print_error("Frond: CHECK TABLE: %s", problem);
    push_warning_printf(static_cast<THD *>(ctx), Sql_condition::WARN_LEVEL_WARN, ER_NOT_KEYFILE,
                        "Frond: %s", problem);
}

// As after a read: record[0] has the stored columns of a row.
static int compute_virtual(void *ctx) {
    TABLE *table = static_cast<TABLE *>(ctx);
    return table->update_virtual_fields(table->file, VCOL_UPDATE_FOR_READ);
}

/* QUICK reads the pages; without it the entries of all indexes are compared with the rows. */
int ha_frond::check(THD *thd, HA_CHECK_OPT *options) {
    uint64_t problems = 0;
    const int pages_only = (options->flags & T_QUICK) != 0;
    table->use_all_columns();
    const frond_row_computer computer = {table->record[0], compute_virtual, table};
    if (const int rc = frond_rows_check(table_, rows_, pages_only, report_problem, thd,
                                        table->vfield ? &computer : nullptr, &problems)) {
        frond_push_warning(thd, ER_CHECK_NO_SUCH_TABLE);
        return rc == FROND_CORRUPTION ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
    }
    return problems ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
}

static int optimize_killed(void *ctx) {
    return thd_kill_level(static_cast<THD *>(ctx)) != THD_IS_NOT_KILLED;
}

int ha_frond::optimize(THD *thd, HA_CHECK_OPT *) {
    if (frond_table_optimize(table_, optimize_killed, thd)) {
        frond_push_warning(thd, ER_UNKNOWN_ERROR);
        return HA_ADMIN_FAILED;
    }
    return HA_ADMIN_OK;
}
