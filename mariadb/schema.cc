// SPDX-License-Identifier: GPL-2.0-only

#include "server.h"

#include "schema.h"

#include <algorithm>

#include "collation.h"
#include "settings.h"

// The server's names (build_tmptable_filename) are unique as long as it runs, in any directory.
static const char TEMPORARY_PREFIX[] = "#sql-temptable-";

bool frond_is_temporary(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strncmp(name, TEMPORARY_PREFIX, sizeof TEMPORARY_PREFIX - 1))
        return false;
    // ./database/table: `#mysql50##sql-temptable-...`, made by a user.
    return !(path[0] == '.' && path[1] == '/' && slash > path + 1);
}

const char *frond_table_name(const char *path) {
    if (frond_is_temporary(path)) {
        const char *slash = strrchr(path, '/');
        return slash ? slash + 1 : path;
    }
    if (path[0] == '.' && path[1] == '/')
        path += 2;
    return path;
}

// ---------------------------------------------------------------- columns

// The type's name, of a plugin (uuid, inet6, inet4) or of the server.
static bool is_type(const Field *field, const char *name) {
    // Its own object: name() returns one by value, and lex_cstring() a reference into it.
    const Name own = field->type_handler()->name();
    const LEX_CSTRING &type = own.lex_cstring();
    return strlen(name) == type.length && strncasecmp(type.str, name, type.length) == 0;
}

static void describe_string(Field *field, frond_column_spec *column) {
    if (is_type(field, "uuid")) {
        column->type = FROND_UUID;
    } else if (is_type(field, "inet6")) {
        column->type = FROND_INET6;
    } else if (is_type(field, "inet4")) {
        column->type = FROND_INET4;
    } else {
        column->type = field->charset() == &my_charset_bin ? FROND_BINARY : FROND_CHAR;
    }
}

// A column of fractional seconds is "hires" in the formats before MySQL 5.6, where whole seconds are not.
static uint32_t old_temporal(const Field *field, frond_column_type whole_seconds) {
    return field->decimals() ? FROND_OLD_TEMPORAL : whole_seconds;
}

static bool describe_type(Field *field, frond_column_spec *column) {
    switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
        column->type = FROND_INT;
        column->a = (field->flags & UNSIGNED_FLAG) ? 1 : 0;
        return true;
    case MYSQL_TYPE_FLOAT:
        column->type = FROND_FLOAT;
        return true;
    case MYSQL_TYPE_DOUBLE:
        column->type = FROND_DOUBLE;
        return true;
    case MYSQL_TYPE_NEWDECIMAL: {
        const Field_new_decimal *decimal = static_cast<const Field_new_decimal *>(field);
        column->type = FROND_DECIMAL;
        column->a = decimal->precision;
        column->b = decimal->decimals();
        return true;
    }
    case MYSQL_TYPE_YEAR:
        column->type = FROND_YEAR;
        return true;
    case MYSQL_TYPE_NEWDATE:
        column->type = FROND_DATE;
        return true;
    case MYSQL_TYPE_DATE:
        column->type = FROND_OLD_DATE;
        return true;
    case MYSQL_TYPE_TIME2:
        column->type = FROND_TIME;
        column->a = field->decimals();
        return true;
    case MYSQL_TYPE_DATETIME2:
        column->type = FROND_DATETIME;
        column->a = field->decimals();
        return true;
    case MYSQL_TYPE_TIMESTAMP2:
        column->type = FROND_TIMESTAMP;
        column->a = field->decimals();
        return true;
    case MYSQL_TYPE_TIME:
        column->type = old_temporal(field, FROND_OLD_TIME);
        return true;
    case MYSQL_TYPE_DATETIME:
        column->type = old_temporal(field, FROND_OLD_DATETIME);
        return true;
    case MYSQL_TYPE_TIMESTAMP:
        column->type = old_temporal(field, FROND_OLD_TIMESTAMP);
        return true;
    case MYSQL_TYPE_BIT:
        column->type = FROND_BIT;
        column->a = field->field_length;
        return true;
    case MYSQL_TYPE_ENUM:
        column->type = FROND_ENUM;
        return true;
    case MYSQL_TYPE_SET:
        column->type = FROND_SET;
        return true;
    case MYSQL_TYPE_STRING:
        describe_string(field, column);
        return true;
    case MYSQL_TYPE_VARCHAR:
        column->type = FROND_VARCHAR;
        column->a = static_cast<const Field_varstring *>(field)->length_bytes;
        return true;
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_GEOMETRY:
        column->type = FROND_BLOB;
        column->a = static_cast<const Field_blob *>(field)->pack_length_no_ptr();
        return true;
    case MYSQL_TYPE_DECIMAL:
    case MYSQL_TYPE_VAR_STRING:
        // From tables of MySQL 4: kept as bytes, ordered by the server's sort key.
        column->type = FROND_OPAQUE;
        column->a = field->sort_length();
        return true;
    default:
        return false;
    }
}

static bool is_text(const frond_column_spec &column) {
    return column.type == FROND_CHAR || column.type == FROND_VARCHAR || column.type == FROND_BLOB;
}

void Frond_schema::add_columns() {
    for (Field **next = table_->field; *next; next++) {
        Field *field = *next;
        frond_column_spec column = {};
        column.name = field->field_name.str;
        column.bytes = field->pack_length();
        column.charset = my_charset_bin.number;
        column.max_char_bytes = column.min_char_bytes = 1;
        column.sort = FROND_SORT_BINARY;
        if (field->real_maybe_null())
            column.flags |= FROND_NULLABLE;
        if (!field->stored_in_db())
            column.flags |= FROND_VIRTUAL;
        if (!describe_type(field, &column))
            problem_ = std::string("columns of the type of '") + field->field_name.str + "'";
        // The server converts to it but not from it: error 1112 for every value.
        if (is_text(column) && field->charset() == &my_charset_filename)
            problem_ = "CHARACTER SET filename";
        // A compressed value has no order: the server allows no index on it.
        if (is_text(column) && !field->compression_method() &&
            !frond_collation_describe(field->charset(), &column))
            problem_ = std::string("the collation ") + field->charset()->coll_name.str;
        columns_.push_back(column);
    }
}

// ---------------------------------------------------------------- indexes

bool frond_is_clustering(const TABLE_SHARE *share, uint key) {
    const ha_index_option_struct *options = share->key_info[key].option_struct;
    return key != share->primary_key && options && options->clustering;
}

static frond_part_spec describe_part(const TABLE *table, const KEY_PART_INFO &part) {
    frond_part_spec spec = {};
    spec.column = part.fieldnr - 1;
    spec.descending = (part.key_part_flag & HA_REVERSE_SORT) ? 1 : 0;
    if (part.key_part_flag & HA_PART_KEY_SEG) {
        const Field *field = table->field[spec.column];
        spec.prefix_bytes = part.length;
        spec.prefix_chars = part.length / field->charset()->mbmaxlen;
    }
    return spec;
}

void Frond_schema::add_indexes() {
    if (hidden_) {
        parts_.emplace_back();
        frond_index_spec index = {};
        index.name = "PRIMARY";
        index.unique = 1;
        indexes_.push_back(index);
    }
    for (uint k = 0; k < table_->s->keys; k++) {
        const KEY &key = table_->key_info[k];
        std::vector<frond_part_spec> parts;
        for (uint p = 0; p < key.user_defined_key_parts; p++)
            parts.push_back(describe_part(table_, key.key_part[p]));
        frond_index_spec index = {};
        index.name = key.name.str;
        index.part_count = static_cast<uint32_t>(parts.size());
        index.unique = (key.flags & HA_NOSAME) ? 1 : 0;
        index.clustering = frond_is_clustering(table_->s, k) ? 1 : 0;
        parts_.push_back(std::move(parts));
        indexes_.push_back(index);
    }
    for (size_t i = 0; i < indexes_.size(); i++)
        indexes_[i].parts = parts_[i].data();
}

void Frond_schema::sign() {
    char text[128];
    auto add = [&](size_t n) { signature_.append(text, n); };
    add(my_snprintf(text, sizeof text, "1 %u %u", table_->s->reclength, hidden_));
    for (const frond_column_spec &c : columns_)
        add(my_snprintf(text, sizeof text, ";%u,%u,%u,%u,%u,%u", c.type, c.a, c.b, c.flags, c.bytes,
                        c.charset));
    for (const frond_index_spec &index : indexes_) {
        add(my_snprintf(text, sizeof text, "|%u", index.unique + 2 * index.clustering));
        for (uint32_t p = 0; p < index.part_count; p++)
            add(my_snprintf(text, sizeof text, ",%u:%u:%u", index.parts[p].column,
                            index.parts[p].prefix_bytes, index.parts[p].descending));
    }
}

// FNV-1a. The comparison finds mistakes, not attacks.
static uint64_t add_to_hash(uint64_t hash, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ static_cast<const uchar *>(bytes)[i]) * 0x100000001b3ULL;
    return hash;
}

void Frond_schema::note_members() {
    for (size_t c = 0; c < columns_.size(); c++) {
        if (columns_[c].type != FROND_ENUM && columns_[c].type != FROND_SET)
            continue;
        const TYPELIB *members = static_cast<const Field_enum *>(table_->field[c])->typelib;
        uint64_t hash = 0xcbf29ce484222325ULL;
        for (uint m = 0; m < members->count; m++) {
            uchar length[4];
            int4store(length, members->type_lengths[m]);
            hash = add_to_hash(hash, length, sizeof length);
            hash = add_to_hash(hash, members->type_names[m], members->type_lengths[m]);
        }
        char text[64];
        members_.append(text, my_snprintf(text, sizeof text, "%s%u:%016llx", members_.empty() ? "" : ",",
                                          static_cast<uint>(c), static_cast<ulonglong>(hash)));
    }
}

Frond_schema::Frond_schema(TABLE *table)
    : table_(table), hidden_(table->s->primary_key >= MAX_KEY ? 1 : 0) {
    if (!hidden_ && table->s->primary_key != 0)
        problem_ = "a primary key that is not the first index";
    add_columns();
    add_indexes();
    sign();
    note_members();
}

// ---------------------------------------------------------------- options

static bool is_page_size(ulonglong size) {
    return size == 0 || (size >= 4096 && size <= 65536 && (size & (size - 1)) == 0);
}

static int refuse_option(const char *option) {
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "Frond", option);
    return HA_WRONG_CREATE_OPTION;
}

// What a table's and an index's options say of it; 0: nothing.
struct Frond_asked {
    ulonglong page_size = 0, level = 0;
    uint compression = FROND_COMPRESSION_DEFAULT;

    Frond_asked(const ha_table_option_struct *of_table, const ha_index_option_struct *own, enum row_type row_type) {
        if (row_type == ROW_TYPE_COMPRESSED)
            compression = FROND_COMPRESSION_ZSTD;
        if (of_table)
            take(*of_table);
        if (own)
            take(*own);
    }

    bool same_compression(const Frond_asked &other) const { return compression == other.compression && level == other.level; }

private:
    template <class Options> void take(const Options &options) {
        if (options.page_size)
            page_size = options.page_size;
        if (options.compression)
            compression = options.compression;
        if (options.compression_level)
            level = options.compression_level;
    }
};

const ha_index_option_struct *Frond_schema::options_of(size_t index) const {
    return index < hidden_ ? nullptr : table_->key_info[index - hidden_].option_struct;
}

int Frond_schema::take_options(THD *thd, HA_CREATE_INFO *info) {
    const ha_table_option_struct *of_table = info->option_struct;
    if (of_table && !is_page_size(of_table->page_size))
        return refuse_option("PAGE_SIZE: a power of two from 4096 to 65536");
    for (size_t i = 0; i < indexes_.size(); i++) {
        frond_index_spec &index = indexes_[i];
        const ha_index_option_struct *own = options_of(i);
        if (own && !is_page_size(own->page_size))
            return refuse_option("PAGE_SIZE: a power of two from 4096 to 65536");
        const Frond_asked asked(of_table, own, info->row_type);
        index.page_bytes = asked.page_size ? static_cast<uint32_t>(asked.page_size) : frond_default_page_size(thd);
        index.compression = asked.compression ? asked.compression : frond_default_compression(thd);
        index.compression_level = static_cast<int32_t>(asked.level);
    }
    return 0;
}

bool frond_changes_pages(const TABLE_SHARE *share, const HA_CREATE_INFO *info) {
    if ((info->row_type == ROW_TYPE_COMPRESSED) != (share->row_type == ROW_TYPE_COMPRESSED))
        return true;
    const ha_table_option_struct *was = share->option_struct, *is = info->option_struct;
    if (!was || !is)
        return was != is;
    return was->page_size != is->page_size || was->compression != is->compression ||
           was->compression_level != is->compression_level;
}

void Frond_schema::keep_options(size_t i, const Frond_schema &before, size_t from, const HA_CREATE_INFO *info) {
    const TABLE_SHARE *share = before.table_->s;
    const Frond_asked was(share->option_struct, before.options_of(from), share->row_type);
    const Frond_asked is(info->option_struct, options_of(i), info->row_type);
    if (was.page_size == is.page_size)
        indexes_[i].page_bytes = 0;
    // The engine's default by its name: "default" leaves an index as it is.
    if (was.same_compression(is))
        indexes_[i].compression = FROND_COMPRESSION_DEFAULT;
    else if (indexes_[i].compression == FROND_COMPRESSION_DEFAULT)
        indexes_[i].compression = FROND_COMPRESSION_LZ4;
}

// ---------------------------------------------------------------- results

void Frond_schema::replaces(const Frond_schema &before, long long created) {
    created_ = created;
    if (before.members_ != members_)
        members_before_ = before.members_;
}

static const char VERSION_LINE[] = "v:";

static std::string version_line(const LEX_CUSTRING &version) {
    std::string line = VERSION_LINE;
    for (size_t i = 0; i < version.length; i++) {
        line += "0123456789abcdef"[version.str[i] >> 4];
        line += "0123456789abcdef"[version.str[i] & 15];
    }
    return line;
}

void Frond_schema::set_version(const LEX_CUSTRING &version) { version_ = version_line(version); }

// The meta bytes are lines, the last one without a newline: the time of creation in decimal; the signature; then, if there
// are any, members of ENUM and SET columns, members before the latest change, and, since an ALTER in place, "v:" with the
// version of the .frm file.
frond_table_spec Frond_schema::spec(uint64_t auto_increment) {
    frond_table_spec spec = {};
    spec.struct_size = sizeof spec;
    spec.columns = columns_.data();
    spec.column_count = static_cast<uint32_t>(columns_.size());
    spec.indexes = indexes_.data();
    spec.index_count = index_count();
    spec.hidden_primary = hidden_;
    spec.auto_increment_column = UINT32_MAX;
    // The table's counter is used only when the column leads its index; otherwise the server looks for the
    // largest value of each group.
    if (table_->found_next_number_field && table_->s->next_number_keypart == 0)
        spec.auto_increment_column = table_->found_next_number_field->field_index;
    spec.auto_increment = auto_increment ? auto_increment : 1;
    meta_ = std::to_string(created_ ? created_ : static_cast<long long>(my_time(0))) + "\n" + signature_;
    for (const std::string *line : {&members_, &members_before_, &version_})
        if (!line->empty())
            meta_ += "\n" + *line;
    spec.meta = reinterpret_cast<const uint8_t *>(meta_.data());
    spec.meta_len = meta_.size();
    return spec;
}

std::vector<frond_column_layout> Frond_schema::layout() const {
    std::vector<frond_column_layout> layout;
    for (Field **next = table_->field; *next; next++) {
        const Field *field = *next;
        frond_column_layout place = {};
        place.offset = static_cast<uint32_t>(field->ptr - table_->record[0]);
        if (field->null_ptr) {
            place.null_offset = static_cast<uint32_t>(field->null_ptr - table_->record[0]);
            place.null_mask = field->null_bit;
        }
        layout.push_back(place);
    }
    return layout;
}

static std::vector<std::string> lines_of(const uint8_t *meta, size_t len) {
    std::vector<std::string> lines(1);
    for (size_t i = 0; i < len; i++) {
        if (meta[i] == '\n')
            lines.emplace_back();
        else
            lines.back() += static_cast<char>(meta[i]);
    }
    return lines;
}

// The first column of which two lists of members differ.
static uint differing_column(const std::string &a, const std::string &b) {
    size_t start = 0;
    for (size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; i++)
        if (a[i] == ',')
            start = i + 1;
    return static_cast<uint>(strtoul(a.c_str() + start, nullptr, 10));
}

std::string frond_meta_mismatch(const uint8_t *meta, size_t len, const Frond_schema &schema, const TABLE *table) {
    std::vector<std::string> lines = lines_of(meta, len);
    if (lines.back().compare(0, 2, VERSION_LINE) == 0)
        lines.pop_back();
    if (lines.size() < 2 || lines[1] != schema.signature())
        return "describe different columns";
    return frond_members_mismatch(meta, len, schema, table);
}

std::string frond_members_mismatch(const uint8_t *meta, size_t len, const Frond_schema &schema, const TABLE *table) {
    std::vector<std::string> lines = lines_of(meta, len);
    if (lines.back().compare(0, 2, VERSION_LINE) == 0)
        lines.pop_back();
    const std::string &members = schema.members();
    // A table without ENUM and SET columns notes only the members before the change, if there were any.
    if (lines.size() <= 2 || members.empty() || std::find(lines.begin() + 2, lines.end(), members) != lines.end())
        return "";
    const uint column = differing_column(members, lines[2]);
    const char *name = column < table->s->fields ? table->field[column]->field_name.str : "?";
    return std::string("have different members for the ENUM or SET column '") + name + "'";
}

bool frond_meta_has_version(const uint8_t *meta, size_t len, const LEX_CUSTRING &version) {
    return lines_of(meta, len).back() == version_line(version);
}

long long frond_meta_created(const uint8_t *meta, size_t len) {
    long long seconds = 0;
    for (size_t i = 0; i < len && meta[i] >= '0' && meta[i] <= '9'; i++)
        seconds = seconds * 10 + (meta[i] - '0');
    return seconds;
}
