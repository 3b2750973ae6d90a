// SPDX-License-Identifier: GPL-2.0-only
//
// ALTER TABLE without a copy: which changes need none, and making them.
//
//   instant     names, defaults, comments, CHECK constraints, more members of an ENUM or SET; DROP INDEX; columns
//               that are added with a constant, dropped, moved, may be NULL, or are longer VARCHARs or wider integers;
//               virtual columns; DROP FOREIGN KEY; AUTO_INCREMENT; page size and compression, of pages that are written from
//               now on; options that mean nothing here
//   in place    ADD INDEX and UNIQUE, several at once, also with DROP INDEX and changes of columns; ADD FOREIGN KEY; others read
//               and write meanwhile
//   anew        another primary key, FORCE: the core makes the table anew, beside others that read and write
//
// The core decides whether rows and keys can stay as they are (frond_alter_check). This file decides about what the core
// does not know. In doubt the table is copied.
//
// Partitions are tables of the core with the same definition. ha_partition calls each one's functions, but for the commit: the
// first one's makes the changes of all.
//
// One record of the core puts the new definition and the version of its .frm file (TABLE_SHARE::tabledef_version) into
// force. When the server finds an unfinished ALTER after a crash, check_version() tells it which .frm file is the
// right one.

#include "ha_frond.h"

#include <algorithm>
#include <memory>

#include "alter_columns.h"
#include "foreign.h"
#include "log.h"
#include "plugin.h"
#include "schema.h"

namespace {

constexpr alter_table_operations INDEX_CHANGES = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX |
                                                 ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;
// The table is made anew.
constexpr alter_table_operations PRIMARY_CHANGES = ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX | ALTER_RECREATE_TABLE;
constexpr alter_table_operations COLUMN_CHANGES = ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN |
                                                  ALTER_STORED_COLUMN_ORDER | ALTER_COLUMN_NULLABLE |
                                                  ALTER_STORED_COLUMN_TYPE | ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE |
                                                  ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_VIRTUAL_COLUMN |
                                                  ALTER_VIRTUAL_COLUMN_ORDER;
constexpr alter_table_operations FOREIGN_CHANGES = ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;
// Flags of the parser that add nothing to those above, and changes of the .frm file alone.
constexpr alter_table_operations HARMLESS = ALTER_PARSER_ADD_COLUMN | ALTER_PARSER_DROP_COLUMN | ALTER_CHANGE_COLUMN |
                                            ALTER_ADD_INDEX | ALTER_DROP_INDEX | ALTER_COLUMN_ORDER |
                                            ALTER_INDEX_ORDER | ALTER_CHANGE_INDEX_COMMENT |
                                            ALTER_CHANGE_COLUMN_DEFAULT | ALTER_COLUMN_INDEX_LENGTH | ALTER_CONVERT_TO;

} // namespace

// The new definition, as the core wants to have it.
struct Altered {
    Frond_schema schema;
    frond_table_spec table = {};
    std::vector<int32_t> index_from, column_from;
    std::vector<frond_column_layout> layout;
    // A record with the values that existing rows get in new columns.
    std::vector<uchar> defaults;
    std::vector<std::string> foreigns_gone;
    std::vector<const char *> gone_names;
    std::vector<Frond_foreign> foreigns_new;
    std::unique_ptr<Frond_definitions> new_definitions;
    bool unchecked = false;
    frond_alter_spec spec = {};

    explicit Altered(TABLE *altered) : schema(altered) {}

    // Another primary key, or the same one again: all is made anew.
    bool anew() const { return index_from[0] != 0; }
};

namespace {

struct Frond_change : public inplace_alter_handler_ctx {
    frond_alter *alter = nullptr;
    // Of the table, or of one partition.
    ha_frond *owner = nullptr;
    frond_rows *rows = nullptr;
    // Indexes are built, or parents looked for.
    bool takes_time = false;
    std::vector<int32_t> column_from;
    std::vector<Frond_foreign> foreigns_new;
    // The new ones are not checked.
    bool unchecked = false;

    ~Frond_change() override { frond_alter_abort(alter); }
};

bool is_new_key(const Alter_inplace_info *info, uint key) {
    for (uint i = 0; i < info->index_add_count; i++)
        if (info->index_add_buffer[i] == key)
            return true;
    return false;
}

bool is_dropped_key(const Alter_inplace_info *info, const KEY *key) {
    for (uint i = 0; i < info->index_drop_count; i++)
        if (info->index_drop_buffer[i] == key)
            return true;
    return false;
}

bool is_same_key(const KEY &a, const KEY &b) {
    if (a.user_defined_key_parts != b.user_defined_key_parts || ((a.flags ^ b.flags) & HA_NOSAME) || a.algorithm != b.algorithm)
        return false;
    for (uint p = 0; p < a.user_defined_key_parts; p++) {
        const KEY_PART_INFO &x = a.key_part[p], &y = b.key_part[p];
        if (x.fieldnr != y.fieldnr || x.length != y.length || ((x.key_part_flag ^ y.key_part_flag) & (HA_REVERSE_SORT | HA_PART_KEY_SEG)))
            return false;
    }
    return true;
}

// Of a key that the server drops and adds again, because it was the primary one and is not any more: the key of `table` that it was.
int source_of_added(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info, uint n) {
    const KEY &key = altered->key_info[n];
    if (!(info->handler_flags & ALTER_ADD_PK_INDEX) || n == 0)
        return FROND_NEW;
    for (uint k = 0; k < table->s->keys; k++)
        if (is_dropped_key(info, &table->key_info[k]) && is_same_key(table->key_info[k], key) &&
            !my_strcasecmp(system_charset_info, table->key_info[k].name.str, key.name.str))
            return static_cast<int>(k);
    return FROND_NEW;
}

// Which key of `table` is key `n` of the new definition; FROND_NEW: none; -2: unknown.
int source_of_key(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info, uint n) {
    if (is_new_key(info, n))
        return source_of_added(table, altered, info, n);
    const LEX_CSTRING *name = &altered->key_info[n].name;
    for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys)
        if (!my_strcasecmp(system_charset_info, pair.new_key->name.str, name->str))
            name = &pair.old_key->name;
    for (uint k = 0; k < table->s->keys; k++)
        if (!my_strcasecmp(system_charset_info, table->key_info[k].name.str, name->str))
            return is_dropped_key(info, &table->key_info[k]) ? -2 : static_cast<int>(k);
    return -2;
}

// For each column of the new definition, which column of the table it is. False: not known.
bool map_columns(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info, Altered *to) {
    if (!(info->handler_flags & COLUMN_CHANGES)) {
        for (uint f = 0; f < altered->s->fields; f++)
            to->column_from.push_back(static_cast<int32_t>(f));
        return altered->s->fields == table->s->fields;
    }
    List_iterator_fast<Create_field> fields(info->alter_info->create_list);
    while (const Create_field *field = fields++)
        to->column_from.push_back(field->field ? static_cast<int32_t>(field->field->field_index) : FROND_NEW);
    return to->column_from.size() == altered->s->fields;
}

} // namespace

// Whether the columns can change in place, as far as the core cannot tell.
static bool columns_can_change(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info,
                               const Altered &to) {
    if (table->versioned() || altered->versioned() || info->error_if_not_empty)
        return false;
    const bool types_change =
        info->handler_flags & (ALTER_STORED_COLUMN_TYPE | ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE);
    for (uint f = 0; f < altered->s->fields; f++) {
        const int32_t from = to.column_from[f];
        // PARTITION BY KEY hashes a value's bytes, and other functions may depend on the type.
        if (types_change && from != FROND_NEW && (table->field[from]->flags & FIELD_IN_PART_FUNC_FLAG) &&
            (table->field[from]->real_type() != altered->field[f]->real_type() || table->field[from]->charset() != altered->field[f]->charset() ||
             table->field[from]->pack_length() != altered->field[f]->pack_length()))
            return false;
        const bool can = from == FROND_NEW ? frond_has_constant_default(altered, altered->field[f])
                                           : frond_keeps_values(table->field[from], altered->field[f], types_change);
        if (!can)
            return false;
    }
    return true;
}

// The new definition in the core's words. False: it is not one that can be made in place.
static bool describe(const TABLE *table, TABLE *altered, Alter_inplace_info *info, uint hidden, Altered *to) {
    // The core makes the table anew if it gets a primary key, or another one; not if it has none any more.
    if (to->schema.problem() || to->schema.hidden() > hidden || !map_columns(table, altered, info, to))
        return false;
    const bool recreates = info->handler_flags & ALTER_RECREATE_TABLE;
    if (to->schema.hidden())
        to->index_from.push_back(recreates ? FROND_NEW : 0);
    for (uint k = 0; k < altered->s->keys; k++) {
        const int from = source_of_key(table, altered, info, k);
        if (from < FROND_NEW)
            return false;
        const bool anew = from == FROND_NEW || (recreates && to->index_from.empty());
        to->index_from.push_back(anew ? FROND_NEW : from + static_cast<int>(hidden));
        // The server checks that these are unique, and it checks existing rows only while it copies them.
        const KEY &key = altered->key_info[k];
        if (from == FROND_NEW && (key.algorithm == HA_KEY_ALG_LONG_HASH || key.without_overlaps))
            return false;
    }
    to->layout = to->schema.layout();
    to->spec.struct_size = sizeof to->spec;
    to->spec.record_bytes = static_cast<uint32_t>(altered->s->reclength);
    to->spec.index_from = to->index_from.data();
    to->spec.column_from = to->column_from.data();
    restore_record(altered, s->default_values);
    MY_BITMAP *write = dbug_tmp_use_all_columns(altered, &altered->write_set);
    // CURRENT_TIMESTAMP is the statement's time, as in a copy.
    for (uint f = 0; f < altered->s->fields; f++)
        if (to->column_from[f] == FROND_NEW && altered->field[f]->has_default_now_unireg_check())
            altered->field[f]->set_default();
    dbug_tmp_restore_column_map(&altered->write_set, write);
    to->defaults.assign(altered->record[0], altered->record[0] + altered->s->reclength);
    to->spec.defaults = to->defaults.data();
    to->spec.layout = to->layout.data();
    to->spec.table = &to->table;
    for (const std::string &name : to->foreigns_gone)
        to->gone_names.push_back(name.c_str());
    to->spec.foreigns_gone = to->gone_names.data();
    to->spec.foreigns_gone_count = static_cast<uint32_t>(to->gone_names.size());
    to->new_definitions.reset(new Frond_definitions(to->foreigns_new));
    to->spec.foreigns_new = to->new_definitions->foreigns.data();
    to->spec.foreigns_new_count = static_cast<uint32_t>(to->foreigns_new.size());
    to->spec.foreigns_unchecked = to->unchecked;
    return true;
}

// An index over a virtual column. Only the server can compute the column, and it does not before the index exists.
static bool adds_virtual_index(const TABLE *altered, const Alter_inplace_info *info) {
    for (uint i = 0; i < info->index_add_count; i++) {
        const KEY &key = altered->key_info[info->index_add_buffer[i]];
        for (uint p = 0; p < key.user_defined_key_parts; p++)
            if (!altered->field[key.key_part[p].fieldnr - 1]->stored_in_db())
                return true;
    }
    return false;
}

// Whether a column that a foreign key of or to the table has becomes longer: as in InnoDB, child and parent stay alike.
static bool lengthens_foreign(const std::string &name, const TABLE *table, const TABLE *altered, const Altered &to) {
    std::vector<Frond_foreign> of, naming;
    for (uint f = 0; f < altered->s->fields; f++) {
        if (to.column_from[f] < 0 || table->field[to.column_from[f]]->field_length == altered->field[f]->field_length)
            continue;
        if (of.empty() && naming.empty()) {
            of = frond_foreigns_of(name, false);
            naming = frond_foreigns_of(name, true);
        }
        const char *column = table->field[to.column_from[f]]->field_name.str;
        if (std::any_of(of.begin(), of.end(), [&](const Frond_foreign &key) { return frond_has_column(key.columns, column); }) ||
            std::any_of(naming.begin(), naming.end(), [&](const Frond_foreign &key) { return frond_has_column(key.parent_columns, column); }))
            return true;
    }
    return false;
}

// Options that are in the .frm file alone, and the next AUTO_INCREMENT value.
static ulong options_without_copy(const TABLE *table) {
    // The default character set is for columns that come later. The columns that CONVERT TO changes are looked at one by one.
    ulong options = HA_CREATE_USED_CHECKSUM | HA_CREATE_USED_MAX_ROWS | HA_CREATE_USED_PACK_KEYS |
                    HA_CREATE_USED_DEFAULT_CHARSET | HA_CREATE_USED_CHARSET;
    // ha_partition keeps a counter of its own, and the server looks for the largest value of a group.
    if (!table->part_info && !table->s->sequence && (!table->found_next_number_field || table->s->next_number_keypart == 0))
        options |= HA_CREATE_USED_AUTO;
    return options;
}

// Keys have values without their length: those of a longer VARCHAR are the same, and so is the beginning of its values.
Compare_keys ha_frond::compare_key_parts(const Field &old_field, const Column_definition &new_field,
                                         const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const {
    const Compare_keys equal = handler::compare_key_parts(old_field, new_field, old_part, new_part);
    const uint was = old_field.key_length(), is = new_field.char_length * new_field.charset->mbmaxlen;
    if (equal != Compare_keys::NotEqual || old_field.real_type() != MYSQL_TYPE_VARCHAR || is <= was ||
        new_field.type_handler() != old_field.type_handler() || new_field.charset != old_field.charset() ||
        old_field.compression_method() || new_field.compression_method())
        return equal;
    if (old_part.length == was && new_part.length == is)
        return Compare_keys::EqualButKeyPartLength;
    return old_part.length == new_part.length && old_part.length < was ? Compare_keys::Equal : equal;
}

// A row format that create() takes without a warning.
static bool is_known(enum row_type format) {
    return format == ROW_TYPE_DEFAULT || format == ROW_TYPE_DYNAMIC || format == ROW_TYPE_COMPRESSED;
}

// What the server says of a change without `ours` and without options that need no copy.
enum_alter_inplace_result ha_frond::check_rest(TABLE *altered, Alter_inplace_info *info, alter_table_operations ours) {
    const alter_table_operations all = info->handler_flags;
    HA_CREATE_INFO *create = info->create_info;
    const ulong used = create->used_fields;
    const auto options = create->option_struct;
    const enum row_type format = create->row_type;
    info->handler_flags &= ~ours;
    create->used_fields &= ~options_without_copy(table);
    create->option_struct = table->s->option_struct;
    if (is_known(create->row_type) && is_known(table->s->row_type))
        create->row_type = table->s->row_type;
    const enum_alter_inplace_result rest = handler::check_if_supported_inplace_alter(altered, info);
    info->handler_flags = all;
    create->used_fields = used;
    create->option_struct = options;
    create->row_type = format;
    return rest;
}

enum_alter_inplace_result ha_frond::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info) {
    if (discarded_) {
        print_error(refuse_discarded(), MYF(0));
        return HA_ALTER_ERROR;
    }
    if (info->handler_flags & ALTER_VIRTUAL_GCOL_EXPR)
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    // A table becomes a sequence, or a sequence a table: the server checks the row while it copies.
    if ((table->s->sequence != nullptr) != (altered->s->sequence != nullptr)) {
        info->unsupported_reason = "SEQUENCE";
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    }
    alter_table_operations ours = info->handler_flags & (INDEX_CHANGES | PRIMARY_CHANGES | COLUMN_CHANGES | FOREIGN_CHANGES);
    // The server sets this flag alone for more members of an ENUM or SET, and for longer VARCHARs that it would copy.
    if (ours)
        ours |= info->handler_flags & HARMLESS;
    // Everything else must concern the .frm file alone.
    const bool pages_change = frond_changes_pages(table->s, info->create_info);
    const enum_alter_inplace_result rest = check_rest(altered, info, ours);
    if (rest != HA_ALTER_INPLACE_NO_LOCK)
        return rest;
    // ALTERs that pass that check change only the .frm file.
    if (!ours && !pages_change && !table->part_info)
        return HA_ALTER_INPLACE_INSTANT;
    if (pages_change && (table->s->sequence || table->s->tmp_table != NO_TMP_TABLE))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    // ALTER IGNORE may leave rows out, which only a copy does.
    const bool rows_change = ours & (INDEX_CHANGES | PRIMARY_CHANGES | COLUMN_CHANGES);
    if (rows_change &&
        (info->ignore || table->s->sequence || table->s->tmp_table != NO_TMP_TABLE || table->s->long_unique_table ||
         altered->s->long_unique_table || adds_virtual_index(altered, info)))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if (!table->part_info != !altered->part_info || info->alter_info->partition_flags)
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    Altered to(altered);
    bool copies = false;
    if (take_foreigns(altered, info, &to, &copies))
        return HA_ALTER_ERROR;
    if (copies || !describe(table, altered, info, hidden_, &to))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    // A copy warns of a KEY_BLOCK_SIZE.
    if (to.anew() && (table->versioned() || altered->versioned() || info->error_if_not_empty ||
                      (info->create_info->used_fields & HA_CREATE_USED_KEY_BLOCK_SIZE)))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if ((ours & COLUMN_CHANGES) &&
        (!columns_can_change(table, altered, info, to) || lengthens_foreign(name_, table, altered, to)))
        return HA_ALTER_INPLACE_NOT_SUPPORTED;
    if (drops_needed_column(to))
        return HA_ALTER_ERROR;
    to.table = to.schema.spec(0);
    if (const int rc = frond_alter_check(table_, &to.spec)) {
        const std::string index = rc == FROND_BAD_FOREIGN_KEY ? frond_missing_index(name_.c_str(), name_) : "";
        if (index.empty())
            return HA_ALTER_INPLACE_NOT_SUPPORTED;
        my_error(ER_DROP_INDEX_FK, MYF(0), index.c_str());
        return HA_ALTER_ERROR;
    }
    if (to.anew())
        return HA_ALTER_INPLACE_COPY_NO_LOCK;
    const bool takes_time = info->index_add_count || (!to.foreigns_new.empty() && !to.unchecked);
    return takes_time ? HA_ALTER_INPLACE_NOCOPY_NO_LOCK : HA_ALTER_INPLACE_INSTANT;
}

// Foreign keys that go and come. Returns whether an error was sent.
bool ha_frond::take_foreigns(TABLE *altered, const Alter_inplace_info *info, Altered *to, bool *copies) {
    if ((info->handler_flags & ALTER_DROP_FOREIGN_KEY) &&
        frond_dropped_foreigns(name_, info->alter_info, &to->foreigns_gone))
        return true;
    to->unchecked = thd_test_options(thd(), OPTION_NO_FOREIGN_KEY_CHECKS);
    if (info->handler_flags & ALTER_ADD_FOREIGN_KEY)
        *copies = table->part_info || info->ignore || table->s->tmp_table != NO_TMP_TABLE ||
                  !frond_added_foreigns(name_, table->s->table_name.str, info->alter_info, altered, &to->foreigns_new);
    return false;
}

// Whether a foreign key needs a column that goes; sends an error then.
bool ha_frond::drops_needed_column(const Altered &to) const {
    if (!has_foreign_keys())
        return false;
    for (uint f = 0; f < table->s->fields; f++)
        if (std::find(to.column_from.begin(), to.column_from.end(), static_cast<int32_t>(f)) == to.column_from.end() &&
            foreigns_need(table->field[f], to.foreigns_gone))
            return true;
    return false;
}

// ---------------------------------------------------------------- the change

// Puts the row in the table's record into that of the new definition.
static void as_altered(TABLE *table, TABLE *altered, const std::vector<int32_t> &from) {
    restore_record(altered, s->default_values);
    MY_BITMAP *read = dbug_tmp_use_all_columns(table, &table->read_set);
    MY_BITMAP *write = dbug_tmp_use_all_columns(altered, &altered->write_set);
    for (uint f = 0; f < altered->s->fields; f++) {
        if (from[f] == FROND_NEW || !altered->field[f]->stored_in_db())
            continue;
        Field *was = table->field[from[f]], *is = altered->field[f];
        if (was->is_null()) {
            is->set_null();
            continue;
        }
        is->set_notnull();
        // Not stored anew: a zero date would be an error. The NULL flags may have some bits of a BIT.
        if (was->real_type() == is->real_type() && was->pack_length() == is->pack_length() && was->real_type() != MYSQL_TYPE_BIT)
            memcpy(is->ptr, was->ptr, is->pack_length());
        else
            was->save_in_field(is);
    }
    dbug_tmp_restore_column_map(&altered->write_set, write);
    dbug_tmp_restore_column_map(&table->read_set, read);
}

// Reports a duplicate: the row at `ref` and another one have the same value in key `key` of the new definition, whose columns come
// from `from`.
bool ha_frond::alter_duplicate(TABLE *altered, const std::vector<int32_t> &from, uint32_t index, const uchar *ref) {
    KEY *key = &altered->key_info[index - (altered->s->primary_key >= MAX_KEY ? 1 : 0)];
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    options.isolation = FROND_READ_COMMITTED;
    frond_txn *txn = nullptr;
    frond_scan *scan = nullptr;
    if (ref && !frond_txn_begin(database_, &options, &txn) &&
        !frond_scan_open(txn, rows_, 0, FROND_LOCK_NONE, FROND_WAIT, &scan) &&
        !frond_scan_fetch(scan, ref, table->record[0])) {
        as_altered(table, altered, from);
        print_keydup_error(altered, key, MYF(0));
    } else {
        my_printf_error(ER_DUP_ENTRY, "Duplicate entry for key '%s'", MYF(0), key->name.str);
    }
    frond_scan_close(scan);
    if (txn)
        frond_txn_rollback(txn);
    return true;
}

bool ha_frond::alter_failed(TABLE *altered, int rc, uint32_t duplicate, const uchar *ref, const std::vector<int32_t> &from) {
    if (!rc)
        return false;
    if (rc == FROND_DUPLICATE_KEY)
        return alter_duplicate(altered, from, duplicate, ref);
    print_error(frond_to_handler_error(nullptr, rc), MYF(0));
    return true;
}

// Waits until no earlier statement writes the tables that become parents, and keeps their definitions until this one ends. A
// later statement that writes one learns of the new child when it begins, and locks the child's definition with its own; it need
// not wait.
bool ha_frond::meet_parents(const std::vector<Frond_foreign> &added) {
    return table->mdl_ticket && frond_lock_parents(thd(), added, name_, MDL_SHARED_NO_WRITE);
}

bool ha_frond::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
    if (!(info->handler_flags & (INDEX_CHANGES | PRIMARY_CHANGES | COLUMN_CHANGES | FOREIGN_CHANGES)) && !table->part_info &&
        !frond_changes_pages(table->s, info->create_info))
        return false;
    Altered to(altered);
    bool copies = false;
    if (take_foreigns(altered, info, &to, &copies) || to.schema.take_options(thd(), info->create_info))
        return true;
    if (copies || !describe(table, altered, info, hidden_, &to)) {
        my_error(ER_ALTER_OPERATION_NOT_SUPPORTED, MYF(0), "ALGORITHM=INPLACE", "ALGORITHM=COPY");
        return true;
    }
    const Frond_schema before(table);
    for (size_t i = 0; i < to.index_from.size(); i++)
        if (to.index_from[i] != FROND_NEW)
            to.schema.keep_options(i, before, static_cast<size_t>(to.index_from[i]), info->create_info);
    if (!(info->handler_flags & (ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX)))
        to.schema.keep_options(0, before, 0, info->create_info);
    to.schema.replaces(before, static_cast<long long>(stats.create_time));
    to.schema.set_version(altered->s->tabledef_version);
    to.table = to.schema.spec(0);
    Frond_change *context = new (thd()->mem_root) Frond_change;
    context->owner = this;
    context->rows = rows_;
    context->takes_time = to.anew() || info->index_add_count || (!to.foreigns_new.empty() && !to.unchecked);
    info->handler_ctx = context;
    if (alter_failed(altered, frond_alter_begin(table_, &to.spec, &context->alter)))
        return true;
    context->column_from = to.column_from;
    context->foreigns_new = to.foreigns_new;
    context->unchecked = to.unchecked;
    // A change that takes time does this later, when others can use the table again: a writer of a parent that waits for the
    // table would be in a deadlock with this statement.
    return !context->takes_time && meet_parents(context->foreigns_new);
}

static int report_progress(void *ctx, uint64_t done, uint64_t total) {
    THD *thd = static_cast<THD *>(ctx);
    thd_progress_report(thd, done, total);
    return thd_kill_level(thd) != THD_IS_NOT_KILLED;
}

bool ha_frond::inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
    Frond_change *context = static_cast<Frond_change *>(info->handler_ctx);
    if (!context || !context->takes_time)
        return false;
    // Before parents are guarded: a cascade of a statement that began earlier would write the table without a metadata lock.
    if (!context->unchecked && meet_parents(context->foreigns_new))
        return true;
    std::vector<uchar> ref(frond_rows_ref_bytes(rows_));
    uint32_t duplicate = 0;
    thd_progress_init(thd(), 1);
    const int rc = frond_alter_build(context->alter, rows_, report_progress, thd(), &duplicate,
                                     ref.empty() ? nullptr : ref.data());
    thd_progress_end(thd());
    return alter_failed(altered, rc, duplicate, ref.empty() ? nullptr : ref.data(), context->column_from) ||
           (context->unchecked && meet_parents(context->foreigns_new));
}

bool ha_frond::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) {
    Frond_change *context = static_cast<Frond_change *>(info->handler_ctx);
    if (!commit) {
        if (context) {
            frond_alter_abort(context->alter);
            context->alter = nullptr;
        }
        return false;
    }
    if ((info->create_info->used_fields & HA_CREATE_USED_AUTO) &&
        raise_auto_increment(info->create_info->auto_increment_value))
        return true;
    if (context && context->alter)
        return commit_changes(altered, info);
    // The core keeps names of columns and indexes, and members of ENUM and SET columns, for messages and for tools that
    // read its files. Rows do not depend on the names, and both lists of members are valid from now on.
    Frond_schema schema(altered);
    schema.replaces(Frond_schema(table), static_cast<long long>(stats.create_time));
    schema.set_version(altered->s->tabledef_version);
    const frond_table_spec spec = schema.spec(0);
    return alter_failed(altered, frond_rows_rename(table_, &spec));
}

bool ha_frond::commit_changes(TABLE *altered, Alter_inplace_info *info) {
    std::vector<Frond_change *> changes;
    if (info->group_commit_ctx)
        for (inplace_alter_handler_ctx **next = info->group_commit_ctx; *next; next++)
            changes.push_back(static_cast<Frond_change *>(*next));
    else
        changes.push_back(static_cast<Frond_change *>(info->handler_ctx));
    // Tells the server that the changes of all partitions are committed.
    info->group_commit_ctx = nullptr;
    std::vector<frond_alter *> alters;
    std::vector<frond_rows *> rows;
    for (Frond_change *change : changes) {
        alters.push_back(change->alter);
        rows.push_back(change->rows);
        change->alter = nullptr;
    }
    std::vector<uchar> ref(frond_rows_ref_bytes(rows_));
    uchar *row = ref.empty() ? nullptr : ref.data();
    uint32_t failed = 0, duplicate = 0;
    const int rc = frond_alter_commit(alters.data(), rows.data(), static_cast<uint32_t>(alters.size()), &failed, &duplicate, row);
    return changes[failed]->owner->alter_failed(altered, rc, duplicate, row, changes[failed]->column_from);
}

// A partitioned table has the name of none of the core's: its first partition tells, as all change together.
static std::string table_or_partition(const char *name) {
    std::string found = name;
    frond_table *opened = nullptr;
    if (!frond_table_open(frond_database, name, &opened)) {
        frond_table_close(opened);
        return found;
    }
    found += "#P#";
    auto note = [](void *ctx, const char *table) {
        std::string *to = static_cast<std::string *>(ctx);
        const size_t length = to->size() - 3;
        if (to->back() == '#' && !strncmp(table, to->c_str(), length) && !strncasecmp(table + length, "#P#", 3) && !strstr(table, "#TMP#") && !strstr(table, "#REN#"))
            *to = table;
    };
    frond_table_list(frond_database, note, &found);
    return found;
}

// Returns 0 if the table already has the definition of that version.
static int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong) {
    frond_table *opened = nullptr;
    if (frond_table_open(frond_database, table_or_partition(frond_table_name(path)).c_str(), &opened))
        return 1;
    const uint8_t *meta = nullptr;
    size_t len = 0;
    const bool same = !frond_rows_table_meta(opened, &meta, &len) && frond_meta_has_version(meta, len, *version);
    frond_table_close(opened);
    return same ? 0 : 1;
}

void frond_install_alter(handlerton *hton) { hton->check_version = check_version; }
