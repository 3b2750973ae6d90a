// SPDX-License-Identifier: GPL-2.0-only
//
// Tables: create, open, close, rename, drop, truncate.

#include "ha_frond.h"

#include "collation.h"
#include "foreign.h"
#include "log.h"
#include "plugin.h"
#include "schema.h"
#include "settings.h"

ha_frond::ha_frond(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

ha_frond::~ha_frond() = default;

// Whether statements may be logged as text. A statement that is logged so locks what it reads (ha_frond_lock.cc), so text
// would be right at any level. But with READ COMMITTED applications do not expect such locks, and the server's other engines
// refuse text. With MIXED the server takes text wherever it is offered, and row events need no such locks: so there only
// SERIALIZABLE offers text, whose statements lock in any case.
static bool offers_text(const THD *thd) {
    if (!thd)
        return false;
    // thd_tx_isolation() without a call: the server asks each partition twice in each statement.
    const int level = thd->tx_isolation;
    return level == ISO_SERIALIZABLE || (level == ISO_REPEATABLE_READ && thd->variables.binlog_format == BINLOG_FORMAT_STMT);
}

handler::Table_flags ha_frond::table_flags() const {
    const THD *user = table && table->in_use ? table->in_use : ha_thd();
    return HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_PRIMARY_KEY_IN_READ_INDEX |
           HA_PRIMARY_KEY_REQUIRED_FOR_POSITION | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE |
           HA_TABLE_SCAN_ON_INDEX | HA_PARTIAL_COLUMN_READ | HA_BINLOG_ROW_CAPABLE | (offers_text(user) ? HA_BINLOG_STMT_CAPABLE : 0) |
           HA_CAN_SQL_HANDLER | HA_CAN_VIRTUAL_COLUMNS | HA_CAN_GEOMETRY | HA_AUTO_PART_KEY |
           HA_CRASH_SAFE | HA_CAN_SKIP_LOCKED | HA_ONLINE_ANALYZE | HA_CAN_ONLINE_BACKUPS |
           HA_CAN_TABLES_WITHOUT_ROLLBACK | (table_share && keeps_sequence() ? 0 : HA_CAN_EXPORT) |
           (has_clustering_ ? HA_NON_COMPARABLE_ROWID : 0);
}

ulong ha_frond::index_flags(uint index, uint, bool) const {
    ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_KEYREAD_ONLY;
    if (index == table_share->primary_key || frond_is_clustering(table_share, index))
        flags |= HA_CLUSTERED_INDEX;
    else
        flags |= HA_DO_INDEX_COND_PUSHDOWN;
    return flags;
}

// ---------------------------------------------------------------- create

// Options that the server would accept silently but this engine does not support.
static int refuse_unsupported(const char *name, HA_CREATE_INFO *info) {
    const char *option = info->data_file_name    ? "DATA DIRECTORY"
                         : info->index_file_name ? "INDEX DIRECTORY"
                         : info->tmp_table() && !frond_is_temporary(name)
                             ? "TEMPORARY" // would not be recognised at the next start
                             : nullptr;
    if (!option)
        return 0;
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "Frond", option);
    return HA_WRONG_CREATE_OPTION;
}

// The server checks this for tables without partitions and, for others, at each INSERT.
static int refuse_transaction_ids(TABLE *form) {
    if (!form->versioned(VERS_TRX_ID))
        return 0;
    my_error(ER_VERS_FIELD_WRONG_TYPE, MYF(0), form->vers_start_field()->field_name.str, "TIMESTAMP(6)",
             form->s->table_name.str);
    return HA_ERR_UNSUPPORTED;
}

// Row formats of other engines mean nothing here, except COMPRESSED (Frond_schema::take_options).
static void warn_of_row_format(THD *thd, const HA_CREATE_INFO *info) {
    const char *ignored = nullptr;
    if (info->used_fields & HA_CREATE_USED_ROW_FORMAT)
        switch (info->row_type) {
        case ROW_TYPE_DEFAULT:
        case ROW_TYPE_DYNAMIC:
        case ROW_TYPE_COMPRESSED:
            break;
        default:
            ignored = "ROW_FORMAT, assuming DYNAMIC";
        }
    if ((info->used_fields & HA_CREATE_USED_KEY_BLOCK_SIZE) && info->key_block_size)
        ignored = "KEY_BLOCK_SIZE, see PAGE_SIZE";
    if (ignored)
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION,
                            "Frond: ignoring %s", ignored);
}

// A transaction with an older snapshot would find the table empty instead of the old table's rows
// (DROP and CREATE, TRUNCATE, the copy of an ALTER): as in InnoDB, it gets error 1412. Other
// sessions do not see temporary tables, and their own sees its own rows.
static int refuse_older_snapshots(const char *name) {
    if (frond_is_temporary(name))
        return 0;
    return frond_to_handler_error(nullptr, frond_table_refuse_older_snapshots(frond_database, name));
}

int ha_frond::create(const char *name, TABLE *form, HA_CREATE_INFO *info) {
    if (const int error = refuse_unsupported(name, info))
        return error;
    if (const int error = refuse_transaction_ids(form))
        return error;
    Frond_schema schema(form);
    if (const char *problem = schema.problem()) {
        my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), problem);
        return HA_ERR_UNSUPPORTED;
    }
    if (const int error = schema.take_options(ha_thd(), info))
        return error;
    warn_of_row_format(ha_thd(), info);
    const frond_table_spec spec = schema.spec(info->auto_increment_value);
    const int rc = create_with_foreigns(frond_table_name(name), form, info, &spec);
    if (rc == HA_ERR_GENERIC)
        return rc;
    if (!rc)
        return refuse_older_snapshots(frond_table_name(name));
    const int error = tell(frond_to_handler_error(nullptr, rc));
    if (error != HA_ERR_TABLE_EXIST && error != HA_ERR_CANNOT_ADD_FOREIGN && error != told_)
        frond_push_warning(ha_thd(), ER_CANT_CREATE_TABLE);
    return error;
}

// ---------------------------------------------------------------- open

struct Frond_callbacks {
    static ha_frond *self(void *ctx) { return static_cast<ha_frond *>(ctx); }

    // For types like the old DECIMAL the server makes the sort key, from an image that need not be in record[0].
    static void opaque(void *ctx, uint32_t column, const uint8_t *image, uint8_t *dst, size_t len) {
        Field *field = self(ctx)->table->field[column];
        const my_ptrdiff_t distance = image - field->ptr;
        field->move_field_offset(distance);
        field->sort_string(dst, static_cast<uint>(len));
        field->move_field_offset(-distance);
    }

    // The server's check_result_t is passed to the library unchanged.
    static_assert(CHECK_NEG == static_cast<int>(FROND_CONDITION_SKIP) &&
                  CHECK_POS == static_cast<int>(FROND_CONDITION_ACCEPT) &&
                  CHECK_OUT_OF_RANGE == static_cast<int>(FROND_CONDITION_END) &&
                  CHECK_ABORTED_BY_USER == static_cast<int>(FROND_CONDITION_ABORTED));
    static int condition(void *ctx) { return handler_index_cond_check(static_cast<handler *>(self(ctx))); }

    static int killed(void *ctx) { return thd_kill_level(self(ctx)->thd()) != THD_IS_NOT_KILLED; }
};

Frond_share *ha_frond::get_share() {
    lock_shared_ha_data();
    Frond_share *share = static_cast<Frond_share *>(get_ha_share_ptr());
    if (!share) {
        share = new Frond_share;
        set_ha_share_ptr(share);
    }
    unlock_shared_ha_data();
    return share;
}

// A plugin compiled against other class layouts reads wrong values here; it must fail before it writes.
static bool layout_is_right(const TABLE *table, const TABLE_SHARE *share) {
    return table && table->s == share && table->record[0] && share->fields &&
           table->field[0]->table == table;
}

int ha_frond::open(const char *name, int, uint) {
    if (!layout_is_right(table, table_share)) {
        sql_print_error("Frond: the plugin was not built for this server; table '%s' is not opened", name);
        return HA_ERR_INTERNAL_ERROR;
    }
    if (const int error = bind(name))
        return error;
    share_ = get_share();
    // A full scan reads the primary key in order: an UPDATE that changes the key must collect its
    // rows first, or it would meet them again.
    key_used_on_scan = table_share->primary_key;
    ref_length = static_cast<uint>(frond_rows_ref_bytes(rows_));
    refers_by_tuple_ = ref_length == 0;
    if (refers_by_tuple_)
        ref_length = table->key_info[table->s->primary_key].key_length;
    note_clustering();
    fix_covering();
    return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

int ha_frond::bind(const char *name) {
    name_ = frond_table_name(name);
    database_ = frond_database_with(name_.c_str());
    temporary_ = database_ != frond_database;
    if (const int rc = frond_table_open(database_, name_.c_str(), &table_))
        return rc == FROND_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : frond_to_handler_error(nullptr, rc);
    discarded_ = frond_table_is_discarded(table_);
    Frond_schema schema(table);
    const uint8_t *meta = nullptr;
    size_t meta_len = 0;
    int rc = frond_rows_table_meta(table_, &meta, &meta_len);
    const std::string mismatch = rc ? "" : frond_meta_mismatch(meta, meta_len, schema, table);
    if (!mismatch.empty()) {
        unbind();
        return refuse("table '" + name_ + "' and its .frm file " + mismatch +
                      "; the .frm file may have been replaced. Restore it from a backup");
    }
    hidden_ = schema.hidden();
    stats.create_time = static_cast<time_t>(frond_meta_created(meta, meta_len));
    const std::vector<frond_column_layout> layout = schema.layout();
    frond_rows_callbacks callbacks = {};
    callbacks.struct_size = sizeof callbacks;
    callbacks.ctx = this;
    callbacks.weights = frond_collation_weights;
    callbacks.weights_len = frond_collation_weights_len;
    callbacks.char_prefix = frond_collation_char_prefix;
    callbacks.opaque = Frond_callbacks::opaque;
    callbacks.condition = Frond_callbacks::condition;
    callbacks.killed = Frond_callbacks::killed;
    if (!rc)
        rc = frond_rows_bind(table_, layout.data(), static_cast<uint32_t>(layout.size()),
                             table->s->reclength, &callbacks, &rows_);
    if (rc) {
        const int error = frond_to_handler_error(nullptr, rc);
        unbind();
        return error;
    }
    slots_.clear();
    slots_.resize(schema.index_count() + 1);
    wanted_.assign((table->s->fields + 7) / 8, 0);
    note_nullable();
    return 0;
}

// For HA_ERR_TABLE_DEF_CHANGED the server would search another definition and then report that
// there is no table.
int ha_frond::refuse(const std::string &why) {
    refusal_ = why;
    frond_log_trouble(FROND_TABLE_CHANGED, why.c_str());
    return HA_ERR_INCOMPATIBLE_DEFINITION;
}

void ha_frond::unbind() {
    current_ = nullptr;
    for (Frond_slot &slot : slots_)
        frond_scan_close(slot.scan);
    slots_.clear();
    frond_rows_unbind(rows_);
    rows_ = nullptr;
    frond_table_close(table_);
    table_ = nullptr;
}

// The server assumes that a scan of any clustered index returns rows in the order of references, and merges it with other
// scans by that order. Only the primary key has it. So tables with clustering indexes have no index merge.
void ha_frond::note_clustering() {
    has_clustering_ = false;
    have_rows_.clear_all();
    for (uint k = 0; k < table->s->keys; k++) {
        const bool clustering = frond_is_clustering(table->s, k);
        has_clustering_ |= clustering;
        if (clustering || k == table->s->primary_key)
            have_rows_.set_bit(k);
    }
}

// The server assumes that each whole key part can be read from its index (index_flags); some cannot.
void ha_frond::fix_covering() {
    for (uint f = 0; f < table->s->fields; f++) {
        Field *field = table->field[f];
        for (uint k = 0; k < table->s->keys; k++) {
            // As for a primary key, also where the server read the flags before the options.
            if (frond_is_clustering(table->s, k))
                field->part_of_key_not_clustered.clear_bit(k);
            if (!field->part_of_key.is_set(k) || frond_rows_covers(rows_, frond_index(k), f))
                continue;
            field->part_of_key.clear_bit(k);
            field->part_of_key_not_clustered.clear_bit(k);
        }
    }
}

int ha_frond::close() {
    end_export();
    end_bulk(false);
    end_sequence_transaction(false);
    unbind();
    session_ = nullptr;
    return 0;
}

// Not `name`: below a partitioned table it is that of the whole, not of this partition.
handler *ha_frond::clone(const char *, MEM_ROOT *mem_root) {
    handler *copy = handler::clone(name_.c_str(), mem_root);
    if (copy) {
        // store_lock() is not called for clones, and index merges lock theirs for reading, also where they look for the rows of an
        // UPDATE or DELETE. Without locks these would be the rows of a snapshot, to be read again without them: one that somebody
        // has deleted since would be an error instead of no match, and one that came since would be missed.
        ha_frond *frond = static_cast<ha_frond *>(copy);
        frond->read_lock_ = use_.lock != FROND_LOCK_NONE ? use_.lock : read_lock_;
        frond->read_wait_ = read_wait_;
    }
    return copy;
}

// ---------------------------------------------------------------- rename, drop, truncate

int ha_frond::rename_table(const char *from, const char *to) {
    const int rc = frond_rename_with_foreigns(ha_thd(), frond_table_name(from), frond_table_name(to));
    return rc == FROND_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : tell(frond_to_handler_error(nullptr, rc));
}

int ha_frond::delete_table(const char *name) {
    return ht->drop_table(ht, name);
}

int ha_frond::truncate() {
    // Afterwards the name means another table of the core. Nothing of the old one may stay open.
    const std::string name = name_;
    unbind();
    const int rc = frond_table_truncate(database_, name.c_str());
    const int error = bind(name.c_str());
    if (!rc && !error && table->found_next_number_field)
        frond_auto_increment_set(table_, 1);
    if (rc || error)
        return rc ? frond_to_handler_error(nullptr, rc) : error;
    return refuse_older_snapshots(name.c_str());
}

// ---------------------------------------------------------------- options

enum row_type ha_frond::get_row_type() const {
    return table_share && table_share->row_type == ROW_TYPE_COMPRESSED ? ROW_TYPE_COMPRESSED : ROW_TYPE_DYNAMIC;
}

bool ha_frond::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) {
    if (table_changes != IS_EQUAL_YES || (info->used_fields & HA_CREATE_USED_AUTO) ||
        info->data_file_name || info->index_file_name || frond_changes_pages(table->s, info))
        return COMPATIBLE_DATA_NO;
    return COMPATIBLE_DATA_YES;
}

void ha_frond::update_create_info(HA_CREATE_INFO *info) {
    if (!(info->used_fields & HA_CREATE_USED_AUTO)) {
        this->info(HA_STATUS_AUTO);
        info->auto_increment_value = stats.auto_increment_value;
    }
}
