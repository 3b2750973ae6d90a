/* SPDX-License-Identifier: GPL-2.0-only
 *
 * From the server's table definition to Frond's: columns, indexes, and where a column lives in a record.
 */
#ifndef FROND_SCHEMA_H
#define FROND_SCHEMA_H

#include <string>
#include <vector>

#include "frond_rows.h"

class THD;
struct TABLE;
struct TABLE_SHARE;
struct HA_CREATE_INFO;
struct ha_index_option_struct;

/* Invariants
 *  SC1. Columns are numbered as in TABLE::field, indexes as in TABLE::key_info, except that a table without a
 *     primary key has an internal index 0 before them: hidden() is 1 then.
 *  SC2. A primary key is the server's index 0. */
class Frond_schema {
public:
    /* Describes `table`. `options` tells whether sizes and compression matter (creation). */
    explicit Frond_schema(TABLE *table);

    /* Adds what CREATE TABLE says beyond columns and keys. Sends an error and returns HA_ERR when a
     * combination is not possible. */
    int take_options(THD *thd, HA_CREATE_INFO *info);
    /* ALTER TABLE without a copy, after take_options(): index `i` is index `from` of `before`. Where no option says
     * something new, the session's defaults do not count: what the index has stays. */
    void keep_options(size_t i, const Frond_schema &before, size_t from, const HA_CREATE_INFO *info);

    /* NULL, or why the table cannot be kept. */
    const char *problem() const { return problem_.empty() ? nullptr : problem_.c_str(); }
    uint32_t hidden() const { return hidden_; }
    uint32_t index_count() const { return static_cast<uint32_t>(indexes_.size()); }

    /* The definition for frond_rows_create(); it points into this object. */
    frond_table_spec spec(uint64_t auto_increment);
    /* The properties that must agree between creation and open for rows to be read correctly: types, sizes,
     * keys. Not names: renaming a column is instant. */
    const std::string &signature() const { return signature_; }
    /* The members of ENUM and SET columns, "column:hash,..."; "" if there are no such columns. Rows hold numbers
     * of members. ALTER TABLE adds some at the end without a copy. */
    const std::string &members() const { return members_; }
    /* ALTER TABLE without a copy: spec() is for the table created then, which `before` described. Both
     * descriptions are right until the server has replaced the .frm file. */
    void replaces(const Frond_schema &before, long long created);
    /* The version of the .frm file that describes the table. */
    void set_version(const LEX_CUSTRING &version);
    std::vector<frond_column_layout> layout() const;

private:
    void add_columns();
    void add_indexes();
    void sign();
    void note_members();
    /* Those of index `index` itself, or NULL. */
    const ha_index_option_struct *options_of(size_t index) const;

    TABLE *table_;
    uint32_t hidden_;
    std::vector<frond_column_spec> columns_;
    std::vector<std::vector<frond_part_spec>> parts_;
    std::vector<frond_index_spec> indexes_;
    std::string signature_;
    std::string members_, members_before_, version_;
    long long created_ = 0;
    std::string meta_;
    std::string problem_;
};

/* Whether the options of a table that is altered ask for another page size or compression. */
bool frond_changes_pages(const TABLE_SHARE *share, const HA_CREATE_INFO *info);

/* Whether key `key` of the table has CLUSTERING=YES. A primary key has the rows anyway. */
bool frond_is_clustering(const TABLE_SHARE *share, uint key);

/* The core's name of a table: the server's path without "./", of a TEMPORARY table what comes after the
 * last slash. So names with a slash are tables of databases, names without one are temporary. */
const char *frond_table_name(const char *path);
/* Whether the path is one that the server gives to TEMPORARY tables. */
bool frond_is_temporary(const char *path);

/* Why the table that has these meta bytes cannot be read by `schema`, or "". Tables of releases that did not note
 * members have none to compare. */
std::string frond_meta_mismatch(const uint8_t *meta, size_t len, const Frond_schema &schema, const TABLE *table);
/* The part of frond_meta_mismatch() about the members of ENUM and SET columns; the meta bytes may be another
 * server's. */
std::string frond_members_mismatch(const uint8_t *meta, size_t len, const Frond_schema &schema, const TABLE *table);
/* Whether the table's definition came with that version of the .frm file. */
bool frond_meta_has_version(const uint8_t *meta, size_t len, const LEX_CUSTRING &version);
/* The time of a table's creation, from its meta bytes; 0 if unknown. */
long long frond_meta_created(const uint8_t *meta, size_t len);

#endif
