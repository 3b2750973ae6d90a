/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What the tables of information_schema share: rows, filling, plugins.
 */
#ifndef FROND_INFORMATION_SCHEMA_ROW_H
#define FROND_INFORMATION_SCHEMA_ROW_H

#include "server.h"

#include <string>

#include "plugin.h"
#include "sql_acl.h"
#include "sql_i_s.h"
#include "sql_table.h"

// A name as it is written in file names, as people write it. Of a partition ("t#P#p0") the end stays as it is.
inline std::string plain_name(const char *from, size_t length) {
    const std::string name(from, length);
    const size_t end = name.compare(0, 1, "#") ? std::min(name.find("#P#"), name.size()) : name.size();
    char text[FN_REFLEN];
    const uint converted = filename_to_tablename(name.substr(0, end).c_str(), text, sizeof text, true);
    return std::string(text, converted) + name.substr(end);
}

// DECIMAL(9, 2)
#define FROND_RATIO Show::Decimal(902)

// Stores the columns of a row from left to right.
class Schema_row {
public:
    Schema_row(THD *thd, TABLE *table) : thd_(thd), table_(table), field_(table->field) {
        restore_record(table, s->default_values);
    }

    Schema_row &number(ulonglong value) {
        (*field_)->set_notnull();
        (*field_++)->store(static_cast<longlong>(value), true);
        return *this;
    }

    Schema_row &number_or_null(ulonglong value) { return value ? number(value) : null(); }

    Schema_row &text(const char *value, size_t length) {
        (*field_)->set_notnull();
        (*field_++)->store(value, length, system_charset_info);
        return *this;
    }

    Schema_row &text(const std::string &value) { return text(value.data(), value.size()); }

    Schema_row &text_or_null(const std::string &value) { return value.empty() ? null() : text(value); }

    Schema_row &yes_or_no(bool value) { return value ? text("YES", 3) : text("NO", 2); }

    // With two decimals, as a column of the type FROND_RATIO has; NULL where nothing is counted.
    Schema_row &ratio(ulonglong of, ulonglong to) {
        if (!to)
            return null();
        (*field_)->set_notnull();
        (*field_++)->store(static_cast<double>(of) / static_cast<double>(to));
        return *this;
    }

    // A moment that many microseconds ago.
    Schema_row &ago(ulonglong micros) {
        const ulonglong now = my_hrtime().val;
        const ulonglong then = micros < now ? now - micros : 0;
        timeval value;
        value.tv_sec = static_cast<time_t>(then / 1000000);
        value.tv_usec = static_cast<suseconds_t>(then % 1000000);
        (*field_)->set_notnull();
        (*field_++)->store_timestamp_dec(value, 6);
        return *this;
    }

    Schema_row &ago_or_null(ulonglong micros) { return micros ? ago(micros) : null(); }

    Schema_row &null() {
        (*field_++)->set_null();
        return *this;
    }

    // Database and table of a name like "shop/sale", both written as in file names.
    Schema_row &table_name(const char *path) {
        const char *slash = strchr(path, '/');
        if (!slash)
            return null().text_or_null(plain_name(path, strlen(path)));
        return text(plain_name(path, static_cast<size_t>(slash - path)))
            .text(plain_name(slash + 1, strlen(slash + 1)));
    }

    Schema_row &text_or_null(const char *value) { return *value ? text(value, strlen(value)) : null(); }

    // True when there is no room for it or the statement was killed: the list ends.
    bool store() { return schema_table_store_record(thd_, table_) || thd_kill_level(thd_) != THD_IS_NOT_KILLED; }

private:
    THD *thd_;
    TABLE *table_;
    Field **field_;
};

struct Schema_filling {
    THD *thd;
    TABLE *table;
    bool failed;
};

// One row of the table that is being filled. Not 0: the list ends.
template <typename Info, void (*put)(Schema_row &, const Info *)> int emit_schema_row(void *to, const Info *info) {
    Schema_filling &filling = *static_cast<Schema_filling *>(to);
    Schema_row row(filling.thd, filling.table);
    put(row, info);
    return filling.failed = row.store();
}

// Fills a table with all that the list function `each` tells; `put` makes a row of one thing.
template <typename Info, int (*each)(frond_db *, int (*)(void *, const Info *), void *),
          void (*put)(Schema_row &, const Info *)>
int fill_schema_table(THD *thd, TABLE_LIST *tables, COND *) {
    if (check_global_access(thd, PROCESS_ACL, false))
        return 1;
    Schema_filling filling = {thd, tables->table, false};
    if (frond_database)
        each(frond_database, emit_schema_row<Info, put>, &filling);
    return filling.failed;
}

template <Show::Column *columns, typename Info, int (*each)(frond_db *, int (*)(void *, const Info *), void *),
          void (*put)(Schema_row &, const Info *)>
int init_schema_table(void *p) {
    ST_SCHEMA_TABLE *schema = static_cast<ST_SCHEMA_TABLE *>(p);
    schema->fields_info = columns;
    schema->fill_table = fill_schema_table<Info, each, put>;
    return 0;
}

#define FROND_SCHEMA_TABLE(name, description, init)                                                                    \
    {MYSQL_INFORMATION_SCHEMA_PLUGIN, &interface, name,    "The Frond authors", description, PLUGIN_LICENSE_GPL, init, \
     nullptr, 0x0001, nullptr, nullptr, "0.1", MariaDB_PLUGIN_MATURITY_EXPERIMENTAL}

#endif
