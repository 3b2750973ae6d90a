// SPDX-License-Identifier: GPL-2.0-only
//
// Foreign keys without an open table: names, lists, RENAME and DROP, and what CREATE and ALTER TABLE define.
//
// ALTER TABLE by copy: the copy gets all foreign keys that the table will have. New ones are checked while rows are
// copied. Those that the table already has wait in the copy, so that nothing is checked twice. The renames at the
// end move each foreign key with its table. Foreign keys of other tables refer to the table by its name.

#include "ha_frond.h"

#include <algorithm>

#include "foreign.h"
#include "plugin.h"
#include "schema.h"
#include "sql_table.h"
#include "table_cache.h"

// Exported by the server, declared in none of its headers.
extern "C" ulonglong thd_start_utime(const MYSQL_THD thd);
// Likewise, for plugins: the header of this service is not among those above.
extern "C" void *thd_mdl_context(MYSQL_THD thd);

// ---------------------------------------------------------------- names

std::string frond_to_file(const std::string &name) {
    char encoded[FN_REFLEN];
    return std::string(encoded, tablename_to_filename(name.c_str(), encoded, sizeof encoded));
}

std::string frond_from_file(const std::string &encoded) {
    if (encoded[0] == '#') // of a copy: no user can give such a name
        return encoded;
    char name[FN_REFLEN];
    return std::string(name, filename_to_tablename(encoded.c_str(), name, sizeof name, true));
}

bool frond_has_column(const std::vector<std::string> &columns, const char *name) {
    return std::any_of(columns.begin(), columns.end(), [&](const std::string &column) {
        return !my_strcasecmp(system_charset_info, column.c_str(), name);
    });
}

std::string frond_database_of(const std::string &table) { return table.substr(0, table.find('/')); }

std::string frond_table_of(const std::string &table) {
    const size_t slash = table.find('/');
    return slash == std::string::npos ? table : table.substr(slash + 1);
}

static std::string lowered(LEX_CSTRING name) {
    std::string text(name.str, name.length);
    if (lower_case_table_names) {
        text.push_back('\0');
        my_casedn_str(files_charset_info, &text[0]);
        text.resize(strlen(text.c_str()));
    }
    return text;
}

bool frond_is_copy(const char *table) {
    const char *slash = strchr(table, '/');
    return slash && !strncmp(slash + 1, "#sql", 4);
}

Frond_foreign::Frond_foreign(const frond_foreign &from)
    : name(from.name), table(from.table), parent(from.parent),
      columns(from.columns, from.columns + from.column_count),
      parent_columns(from.parent_columns, from.parent_columns + from.column_count),
      on_delete(from.on_delete), on_update(from.on_update), state(from.state),
      child_index(from.child_index ? from.child_index : ""), parent_index(from.parent_index ? from.parent_index : "") {
    if (from.nullable)
        nullable.assign(from.nullable, from.nullable + from.column_count);
}

const char *Frond_foreign::short_name() const {
    const size_t slash = name.find('/');
    return name.c_str() + (slash == std::string::npos ? 0 : slash + 1);
}

// ---------------------------------------------------------------- lists

std::vector<Frond_foreign> frond_all_foreigns(const std::string &table, bool as_parent) {
    std::vector<Frond_foreign> found;
    auto collect = [](void *ctx, const frond_foreign *foreign) {
        static_cast<std::vector<Frond_foreign> *>(ctx)->emplace_back(*foreign);
    };
    if (frond_database)
        frond_foreign_list(frond_database, table.c_str(), as_parent, collect, &found);
    return found;
}

std::vector<Frond_foreign> frond_foreigns_of(const std::string &table, bool as_parent) {
    std::vector<Frond_foreign> all = frond_all_foreigns(table, as_parent);
    auto hidden = [&](const Frond_foreign &f) {
        const bool is_coming = f.state == FROND_FOREIGN_CHECKING || f.state == FROND_FOREIGN_GUARDING;
        return f.state == FROND_FOREIGN_WAITING || (as_parent ? frond_is_copy(f.table.c_str()) : is_coming);
    };
    all.erase(std::remove_if(all.begin(), all.end(), hidden), all.end());
    return all;
}

// ---------------------------------------------------------------- definitions

static uint32_t action(enum_fk_option option) {
    switch (option) {
    case FK_OPTION_CASCADE:
        return FROND_CASCADE;
    case FK_OPTION_SET_NULL:
        return FROND_SET_NULL;
    case FK_OPTION_NO_ACTION:
        return FROND_NO_ACTION;
    default:
        return FROND_RESTRICT;
    }
}

int frond_leave_dropped(std::vector<Frond_foreign> *all, const Alter_info *alter) {
    List_iterator<Alter_drop> drops(const_cast<Alter_info *>(alter)->drop_list);
    while (const Alter_drop *drop = drops++) {
        if (drop->type != Alter_drop::FOREIGN_KEY)
            continue;
        auto found = std::find_if(all->begin(), all->end(), [&](const Frond_foreign &f) {
            return !my_strcasecmp(system_charset_info, f.short_name(), drop->name);
        });
        if (found != all->end()) {
            all->erase(found);
        } else if (!drop->drop_if_exists) {
            my_error(ER_CANT_DROP_FIELD_OR_KEY, MYF(0), "FOREIGN KEY", drop->name);
            return HA_ERR_GENERIC;
        }
    }
    return 0;
}

// The largest number in a generated name of the table.
static ulong last_number(const std::vector<Frond_foreign> &all, const std::string &table) {
    const std::string prefix = table + FROND_GENERATED;
    ulong last = 0;
    for (const Frond_foreign &f : all)
        if (!strncmp(f.short_name(), prefix.c_str(), prefix.size()))
            last = std::max(last, strtoul(f.short_name() + prefix.size(), nullptr, 10));
    return last;
}

static Frond_foreign define(const Foreign_key &key, const std::string &table, const char *table_name, ulong *number) {
    Frond_foreign f;
    f.table = table;
    const std::string database = frond_database_of(table);
    const std::string parent_database = key.ref_db.str ? frond_to_file(lowered(key.ref_db)) : database;
    f.parent = parent_database + "/" + frond_to_file(lowered(key.ref_table));
    f.name = database + "/" +
             (key.constraint_name.str ? std::string(key.constraint_name.str, key.constraint_name.length)
                                      : std::string(table_name) + FROND_GENERATED + std::to_string(++*number));
    List_iterator<Key_part_spec> columns(const_cast<Foreign_key &>(key).columns);
    while (const Key_part_spec *part = columns++)
        f.columns.emplace_back(part->field_name.str, part->field_name.length);
    List_iterator<Key_part_spec> of_parent(const_cast<Foreign_key &>(key).ref_columns);
    while (const Key_part_spec *part = of_parent++)
        f.parent_columns.emplace_back(part->field_name.str, part->field_name.length);
    f.on_delete = action(key.delete_opt);
    f.on_update = action(key.update_opt);
    return f;
}

// The new ones of the statement.
static std::vector<Frond_foreign> defined_by(Alter_info *alter, const std::string &table, const char *table_name, ulong *number) {
    std::vector<Frond_foreign> found;
    List_iterator<Key> keys(alter->key_list);
    // ALTER TABLE and CREATE TABLE ... LIKE list those of the old table as such.
    while (const Key *key = keys++)
        if (key->type == Key::FOREIGN_KEY && !key->old)
            found.push_back(define(*static_cast<const Foreign_key *>(key), table, table_name, number));
    return found;
}

static const char VERSIONED[] = "FOREIGN KEY with SYSTEM VERSIONING";

// A parent of another engine, or one that is missing, is the core's business.
static int is_versioned(THD *thd, TABLE_LIST *parent) {
    handlerton *engine = nullptr;
    if (!ha_table_exists(thd, &parent->db, &parent->table_name, nullptr, nullptr, &engine) || engine != frond_hton)
        return 0;
    TABLE_SHARE *share = tdc_acquire_share(thd, parent, GTS_TABLE);
    if (!share)
        return -1;
    const int versioned = share->versioned != VERS_UNDEFINED;
    tdc_release_share(share);
    return versioned;
}

bool frond_lock_parents(THD *thd, const std::vector<Frond_foreign> &added, const std::string &own, enum_mdl_type type) {
    MDL_context *mdl = static_cast<MDL_context *>(thd_mdl_context(thd));
    for (const Frond_foreign &f : added) {
        if (f.parent == own)
            continue;
        const std::string database = frond_from_file(frond_database_of(f.parent));
        const std::string table = frond_from_file(frond_table_of(f.parent));
        const LEX_CSTRING database_name = {database.c_str(), database.size()}, name = {table.c_str(), table.size()};
        TABLE_LIST parent;
        parent.init_one_table(&database_name, &name, nullptr, TL_READ);
        MDL_request *request = &parent.mdl_request;
        MDL_REQUEST_INIT(request, MDL_key::TABLE, database.c_str(), table.c_str(), type, MDL_TRANSACTION);
        if (mdl->acquire_lock(request, static_cast<double>(thd->variables.lock_wait_timeout)))
            return true;
        // The statement may have had a stronger one.
        if (type == MDL_SHARED_NO_WRITE && request->ticket->get_type() == type)
            request->ticket->downgrade_lock(MDL_SHARED_UPGRADABLE);
        const int versioned = is_versioned(thd, &parent);
        if (versioned > 0)
            my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), VERSIONED);
        if (versioned)
            return true;
    }
    return false;
}

// The foreign keys of the new table `form`. A copy has those of the original that are not dropped, and the new ones.
static int foreigns_of_new(THD *thd, const char *table, const char *original, TABLE *form, HA_CREATE_INFO *info, bool checks,
                           std::vector<Frond_foreign> *all) {
    ulong number = 0;
    if (original) {
        *all = frond_foreigns_of(original, false);
        number = last_number(*all, form->s->table_name.str);
        if (info->alter_info)
            if (const int error = frond_leave_dropped(all, info->alter_info))
                return error;
        for (Frond_foreign &f : *all) {
            f.table = table;
            f.state = FROND_FOREIGN_WAITING;
        }
    }
    std::vector<Frond_foreign> added;
    if (info->alter_info)
        added = defined_by(info->alter_info, table, form->s->table_name.str, &number);
    if (!frond_is_temporary(table) && frond_lock_parents(thd, added, original ? original : table, MDL_SHARED_UPGRADABLE))
        return HA_ERR_GENERIC;
    for (Frond_foreign &f : added) {
        if (original)
            f.state = checks ? FROND_FOREIGN_ADDING : FROND_FOREIGN_WAITING;
        all->push_back(f);
    }
    return 0;
}

// Whether a change of the columns gives entries of keys WITHOUT OVERLAPS another place, as one of the columns is in the primary
// key. The server itself refuses CASCADE for columns of such a key.
static bool moves_periods(const std::vector<std::string> &columns, const TABLE *form) {
    if (!form->s->period.unique_keys || form->s->primary_key >= MAX_KEY)
        return false;
    const KEY &primary = form->key_info[form->s->primary_key];
    return std::any_of(primary.key_part, primary.key_part + primary.user_defined_key_parts,
                       [&](const KEY_PART_INFO &part) { return frond_has_column(columns, part.field->field_name.str); });
}

// A cascade does not compute stored columns, and locks no value for the server's search for overlaps.
static const char *problem_of(const std::vector<Frond_foreign> &all, const TABLE *form) {
    if (form->versioned())
        return VERSIONED;
    bool computed = false;
    for (Field **next = form->field; *next; next++)
        computed |= (*next)->vcol_info && (*next)->stored_in_db();
    auto changes = [](uint32_t action) { return action == FROND_CASCADE || action == FROND_SET_NULL; };
    for (const Frond_foreign &f : all) {
        if (computed && (changes(f.on_update) || f.on_delete == FROND_SET_NULL))
            return "CASCADE or SET NULL in a table with STORED generated columns";
        if (f.on_update == FROND_CASCADE && moves_periods(f.columns, form))
            return "ON UPDATE CASCADE of a primary key in a table with WITHOUT OVERLAPS";
    }
    return nullptr;
}

static std::vector<const char *> pointers(const std::vector<std::string> &texts) {
    std::vector<const char *> all;
    for (const std::string &text : texts)
        all.push_back(text.c_str());
    return all;
}

bool frond_added_foreigns(const std::string &table, const char *table_name, const Alter_info *alter, const TABLE *form,
                          std::vector<Frond_foreign> *added) {
    ulong number = last_number(frond_foreigns_of(table, false), table_name);
    *added = defined_by(const_cast<Alter_info *>(alter), table, table_name, &number);
    return !problem_of(*added, form);
}

Frond_definitions::Frond_definitions(const std::vector<Frond_foreign> &all) {
    for (const Frond_foreign &f : all) {
        names.push_back(pointers(f.columns));
        names.push_back(pointers(f.parent_columns));
    }
    for (size_t i = 0; i < all.size(); i++) {
        const Frond_foreign &f = all[i];
        frond_foreign to = {};
        to.name = f.name.c_str();
        to.table = f.table.c_str();
        to.parent = f.parent.c_str();
        to.columns = names[2 * i].data();
        to.parent_columns = names[2 * i + 1].data();
        to.column_count = static_cast<uint32_t>(std::min(f.columns.size(), f.parent_columns.size()));
        to.on_delete = f.on_delete;
        to.on_update = f.on_update;
        to.state = f.state;
        foreigns.push_back(to);
    }
}

static int create_child(const char *table, const char *original, const std::vector<Frond_foreign> &all, bool checks,
                        const frond_table_spec *spec) {
    const Frond_definitions definitions(all);
    return frond_rows_create_child(frond_database, table, spec, definitions.foreigns.data(),
                                   static_cast<uint32_t>(definitions.foreigns.size()), original, !checks);
}

std::string frond_missing_index(const char *table, const std::string &original) {
    const char *child, *name;
    frond_last_constraint(&child, &name);
    if (!strstr(frond_last_error(), "has no index"))
        return "";
    const bool own = !strcmp(child, table);
    for (const Frond_foreign &f : frond_foreigns_of(own ? original : child, false))
        if (f.name == name)
            return own ? f.child_index : f.parent_index;
    return "";
}

int ha_frond::create_with_foreigns(const char *table, TABLE *form, HA_CREATE_INFO *info,
                                   const frond_table_spec *spec) {
    THD *thd = ha_thd();
    const bool checks = !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS);
    std::string original;
    if (frond_is_copy(table)) {
        original = Frond_session::of(thd)->altered(thd_start_utime(thd));
        // The copy's share has the name that it will get, from which only ALTER TABLE ... RENAME differs.
        if (original.empty())
            original = frond_to_file(form->s->db.str) + "/" + frond_to_file(form->s->table_name.str);
    }
    const char *of = original.empty() ? nullptr : original.c_str();
    std::vector<Frond_foreign> all;
    if (const int error = foreigns_of_new(thd, table, of, form, info, checks, &all))
        return error;
    if (all.empty() && frond_foreigns_of(of ? of : table, true).empty())
        return frond_rows_create(frond_database_with(table), table, spec);
    if (const char *problem = problem_of(all, form)) {
        my_error(ER_CHECK_NOT_IMPLEMENTED, MYF(0), problem);
        return HA_ERR_GENERIC;
    }
    if (frond_is_temporary(table) && !all.empty()) {
        push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CANNOT_ADD_FOREIGN,
                     "Frond: a TEMPORARY table has no foreign keys");
        return FROND_BAD_FOREIGN_KEY;
    }
    const int rc = create_child(table, of, all, checks, spec);
    if (rc != FROND_BAD_FOREIGN_KEY)
        return rc;
    const std::string why = frond_last_error();
    const std::string index = of ? frond_missing_index(table, original) : "";
    if (!index.empty()) {
        my_error(ER_DROP_INDEX_FK, MYF(0), index.c_str());
        return HA_ERR_GENERIC;
    }
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CANNOT_ADD_FOREIGN, "Frond: %s",
                        why.c_str());
    return rc;
}

int frond_dropped_foreigns(const std::string &table, const Alter_info *alter, std::vector<std::string> *names) {
    const std::vector<Frond_foreign> all = frond_foreigns_of(table, false);
    std::vector<Frond_foreign> left = all;
    if (const int error = frond_leave_dropped(&left, alter))
        return error;
    for (const Frond_foreign &f : all)
        if (std::none_of(left.begin(), left.end(), [&](const Frond_foreign &l) { return l.name == f.name; }))
            names->push_back(f.name);
    return 0;
}

// ---------------------------------------------------------------- rename, drop

int frond_rename_with_foreigns(THD *thd, const char *from, const char *to) {
    const bool aside = frond_is_copy(to), in_place = frond_is_copy(from);
    if (aside || in_place) {
        std::string altered;
        if (thd && in_place)
            altered = Frond_session::of(thd)->altered(thd_start_utime(thd));
        return frond_table_rename_child(frond_database_with(from), from, to,
                                        aside ? FROND_RENAME_ASIDE : FROND_RENAME_IN_PLACE,
                                        altered.empty() ? nullptr : altered.c_str(), nullptr, 0);
    }
    // A new table name changes generated names; a new database changes all names.
    const std::string old_database = frond_database_of(from) + "/", database = frond_database_of(to) + "/";
    const std::string old_generated = old_database + frond_from_file(frond_table_of(from)) + FROND_GENERATED;
    const std::string generated = database + frond_from_file(frond_table_of(to)) + FROND_GENERATED;
    const char *const prefixes[] = {old_generated.c_str(), generated.c_str(), old_database.c_str(),
                                    database.c_str()};
    return frond_table_rename_child(frond_database_with(from), from, to, FROND_RENAME_FOLLOW, nullptr, prefixes,
                                    array_elements(prefixes));
}

int frond_drop_with_foreigns(THD *thd, const char *table) {
    if (!thd || frond_is_copy(table) || thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS))
        return frond_table_drop_parent(frond_database, table, "");
    // DROP DATABASE may drop a parent first: the children follow.
    if (thd_sql_command(thd) == SQLCOM_DROP_DB)
        return frond_table_drop_parent(frond_database, table, (frond_database_of(table) + "/").c_str());
    return frond_table_drop(frond_database, table);
}
