// SPDX-License-Identifier: GPL-2.0-only
//
// Foreign keys of an open table, for the server: SHOW CREATE TABLE, information_schema, messages, the server's own
// checks, and metadata locks. The core enforces them; foreign.cc defines them.

#include "ha_frond.h"

#include <algorithm>
#include <set>

#include "foreign.h"
#include "plugin.h"
#include "sql_show.h"

// Exported by the server, declared in none of its headers.
extern "C" ulonglong thd_start_utime(const MYSQL_THD thd);

// ---------------------------------------------------------------- text

static void add_name(THD *thd, String *to, const std::string &name) {
    append_identifier(thd, to, name.c_str(), name.size());
}

static void add_names(THD *thd, String *to, const std::vector<std::string> &names) {
    to->append(STRING_WITH_LEN(" ("));
    for (size_t i = 0; i < names.size(); i++) {
        if (i)
            to->append(STRING_WITH_LEN(", "));
        add_name(thd, to, names[i]);
    }
    to->append(')');
}

static void add_action(String *to, const char *event, uint32_t action) {
    static const char *const names[] = {nullptr, "NO ACTION", "CASCADE", "SET NULL"};
    if (action == FROND_RESTRICT || action >= array_elements(names))
        return;
    static_assert(FROND_NO_ACTION == 1 && FROND_CASCADE == 2 && FROND_SET_NULL == 3);
    to->append(event, strlen(event));
    to->append(names[action], strlen(names[action]));
}

static void add_table(THD *thd, String *to, const std::string &table, const std::string &database) {
    if (frond_database_of(table) != database) {
        add_name(thd, to, frond_from_file(frond_database_of(table)));
        to->append('.');
    }
    add_name(thd, to, frond_from_file(frond_table_of(table)));
}

// As in SHOW CREATE TABLE.
static void describe(THD *thd, String *to, const Frond_foreign &f) {
    to->append(STRING_WITH_LEN("CONSTRAINT "));
    add_name(thd, to, f.short_name());
    to->append(STRING_WITH_LEN(" FOREIGN KEY"));
    add_names(thd, to, f.columns);
    to->append(STRING_WITH_LEN(" REFERENCES "));
    add_table(thd, to, f.parent, frond_database_of(f.table));
    add_names(thd, to, f.parent_columns);
    add_action(to, " ON DELETE ", f.on_delete);
    add_action(to, " ON UPDATE ", f.on_update);
}

// The texts of the errors 1451 and 1452, and of a cascade that goes too deep, behind "a foreign key constraint fails".
bool ha_frond::get_error_message(int error, String *text) {
    if (error != HA_ERR_NO_REFERENCED_ROW && error != HA_ERR_ROW_IS_REFERENCED &&
        error != HA_ERR_FK_DEPTH_EXCEEDED)
        return false;
    const char *table, *name;
    frond_last_constraint(&table, &name);
    for (const Frond_foreign &f : frond_all_foreigns(table, false)) {
        if (f.name != name)
            continue;
        THD *thd = ha_thd();
        add_table(thd, text, f.table, "");
        text->append(STRING_WITH_LEN(", "));
        describe(thd, text, f);
        break;
    }
    return false;
}

bool ha_frond::get_foreign_dup_key(char *child_table, uint child_table_len, char *child_key,
                                   uint child_key_len) {
    const char *table, *name;
    frond_last_constraint(&table, &name);
    if (!*table)
        return false;
    strmake(child_table, frond_from_file(frond_table_of(table)).c_str(), child_table_len);
    strmake(child_key, name, child_key_len);
    return true;
}

char *ha_frond::get_foreign_key_create_info() {
    const std::vector<Frond_foreign> &all = foreigns().of;
    if (all.empty())
        return nullptr;
    String text;
    for (const Frond_foreign &f : all) {
        text.append(STRING_WITH_LEN(",\n  "));
        describe(ha_thd(), &text, f);
    }
    return strdup(text.c_ptr_safe());
}

void ha_frond::free_foreign_key_create_info(char *text) { free(text); }

// ---------------------------------------------------------------- lists for the server

// The server asks at each statement that writes, and a list costs as much as a few rows: the core decodes both tables' schemas.
const Frond_foreigns &ha_frond::foreigns() const {
    const uint64_t version = frond_foreign_version(frond_database);
    if (version == foreigns_.version)
        return foreigns_;
    foreigns_ = {version, frond_foreigns_of(name_, false), frond_foreigns_of(name_, true), {}, {}};
    for (const Frond_foreign &f : foreigns_.naming)
        if (!f.parent_index.empty())
            foreigns_.enforced.push_back(f);
    for (const Frond_foreign &f : foreigns_.of)
        if (f.parent != name_)
            foreigns_.parents.push_back({frond_from_file(frond_database_of(f.parent)),
                                         frond_from_file(frond_table_of(f.parent))});
    return foreigns_;
}

static LEX_CSTRING *lex(THD *thd, const std::string &text) {
    return thd_make_lex_string(thd, nullptr, text.c_str(), text.size(), 1);
}

static enum_fk_option option(uint32_t action) {
    switch (action) {
    case FROND_CASCADE:
        return FK_OPTION_CASCADE;
    case FROND_SET_NULL:
        return FK_OPTION_SET_NULL;
    case FROND_NO_ACTION:
        return FK_OPTION_NO_ACTION;
    default:
        return FK_OPTION_RESTRICT;
    }
}

static int give(THD *thd, const std::vector<Frond_foreign> &all, List<FOREIGN_KEY_INFO> *to) {
    for (const Frond_foreign &f : all) {
        FOREIGN_KEY_INFO info;
        info.foreign_id = lex(thd, f.short_name());
        info.foreign_db = lex(thd, frond_from_file(frond_database_of(f.table)));
        info.foreign_table = lex(thd, frond_from_file(frond_table_of(f.table)));
        info.referenced_db = lex(thd, frond_from_file(frond_database_of(f.parent)));
        info.referenced_table = lex(thd, frond_from_file(frond_table_of(f.parent)));
        info.update_method = option(f.on_update);
        info.delete_method = option(f.on_delete);
        info.referenced_key_name = f.parent_index.empty() ? nullptr : lex(thd, f.parent_index);
        const uint n = static_cast<uint>(f.columns.size());
        for (uint i = 0; i < n; i++) {
            info.foreign_fields.push_back(lex(thd, f.columns[i]));
            info.referenced_fields.push_back(lex(thd, f.parent_columns[i]));
        }
        for (uint i = 0; i < n && i < f.nullable.size(); i++)
            for (const uint parent : {0U, 1U})
                if (f.nullable[i] & (1 << parent))
                    info.set_nullable(thd, parent, i, n);
        FOREIGN_KEY_INFO *copy = static_cast<FOREIGN_KEY_INFO *>(thd_memdup(thd, &info, sizeof info));
        if (!copy || to->push_back(copy))
            return HA_ERR_OUT_OF_MEM;
    }
    return 0;
}

int ha_frond::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *to) {
    return give(thd, foreigns().of, to);
}

// ALTER TABLE calls this before it creates the copy. The session notes the table, because the copy has to know its
// original.
int ha_frond::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *to) {
    Frond_session::of(thd)->note_altered(name_, thd_start_utime(thd));
    const Frond_foreigns &now = foreigns();
    listed_ = {thd->query_id, now.version};
    return give(thd, now.enforced, to);
}

bool ha_frond::referenced_by_foreign_key() const noexcept {
    return table_ && !foreigns().naming.empty();
}

bool ha_frond::can_switch_engines() {
    return !has_foreign_keys();
}

static bool leads(const KEY &key, const std::vector<std::string> &columns) {
    for (size_t i = 0; i < columns.size(); i++)
        if (i >= key.user_defined_key_parts ||
            my_strcasecmp(system_charset_info, key.key_part[i].field->field_name.str, columns[i].c_str()))
            return false;
    return true;
}

bool ha_frond::is_fk_defined_on_table_or_index(uint index) {
    const std::vector<Frond_foreign> &of = foreigns().of, &to = foreigns().naming;
    if (index >= MAX_KEY)
        return has_foreign_keys();
    const KEY &key = table->key_info[index];
    return std::any_of(of.begin(), of.end(), [&](const Frond_foreign &f) { return leads(key, f.columns); }) ||
           std::any_of(to.begin(), to.end(),
                       [&](const Frond_foreign &f) { return leads(key, f.parent_columns); });
}

bool ha_frond::foreigns_need(const Field *column, const std::vector<std::string> &gone) const {
    const char *name = column->field_name.str;
    for (const Frond_foreign &f : foreigns().of) {
        if (std::find(gone.begin(), gone.end(), f.name) != gone.end() || !frond_has_column(f.columns, name))
            continue;
        my_error(ER_FK_COLUMN_CANNOT_DROP, MYF(0), name, f.short_name());
        return true;
    }
    for (const Frond_foreign &f : foreigns().naming) {
        if (std::find(gone.begin(), gone.end(), f.name) != gone.end() || !frond_has_column(f.parent_columns, name))
            continue;
        const std::string child = frond_from_file(frond_database_of(f.table)) + "." + frond_from_file(frond_table_of(f.table));
        my_error(ER_FK_COLUMN_CANNOT_DROP_CHILD, MYF(0), name, f.short_name(), child.c_str());
        return true;
    }
    return false;
}

// ---------------------------------------------------------------- metadata locks

static bool modifies(const Frond_foreign &f) {
    const auto does = [](uint32_t action) { return action == FROND_CASCADE || action == FROND_SET_NULL; };
    return does(f.on_delete) || does(f.on_update);
}

// Whether the statement has metadata locks on all of these children under their present names, and on those into which a
// cascade goes on.
static bool has_locked(MDL_context *mdl, const std::vector<Frond_foreign> &naming, std::set<std::string> *seen) {
    for (const Frond_foreign &f : naming) {
        if (f.parent_index.empty() || !seen->insert(f.table).second)
            continue;
        if (!mdl->is_lock_owner(MDL_key::TABLE, frond_from_file(frond_database_of(f.table)).c_str(),
                                frond_from_file(frond_table_of(f.table)).c_str(), MDL_SHARED_READ))
            return false;
        if (modifies(f) && !has_locked(mdl, frond_foreigns_of(f.table, true), seen))
            return false;
    }
    return true;
}

// When a table is written, the server takes metadata locks on its children, by the names that they have when it asks. While
// it waits for one, the child may be renamed; a cascade would then change a table whose definition is not locked.
int ha_frond::check_children(THD *thd) const {
    // A statement that changes no rows, such as SELECT ... FOR UPDATE, has no list.
    if (listed_.query != thd->query_id || listed_.version == foreigns().version)
        return 0;
    std::set<std::string> seen{name_};
    return has_locked(table->mdl_ticket->get_ctx(), foreigns().enforced, &seen) ? 0 : HA_ERR_TABLE_DEF_CHANGED;
}

// The server does not take metadata locks on parents. They are read, so nobody may replace or drop them before the
// transaction ends.
int ha_frond::lock_relatives(THD *thd) {
    // The server allows no foreign keys of partitioned tables, and none that name one.
    if (table->part_info)
        return 0;
    if (thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS) || table->s->tmp_table != NO_TMP_TABLE || !table->mdl_ticket)
        return 0;
    const bool reads_parents = thd_sql_command(thd) != SQLCOM_DELETE;
    // A parent may be renamed while this waits for its lock; then the names are read again.
    for (uint64_t version = 0; reads_parents && version != foreigns().version;) {
        version = foreigns_.version;
        for (const auto &parent : foreigns_.parents) {
            MDL_request request;
            MDL_REQUEST_INIT(&request, MDL_key::TABLE, parent.first.c_str(), parent.second.c_str(), MDL_SHARED_READ,
                             MDL_TRANSACTION);
            if (table->mdl_ticket->get_ctx()->acquire_lock(&request,
                                                           static_cast<double>(thd->variables.lock_wait_timeout)))
                return HA_ERR_LOCK_WAIT_TIMEOUT;
        }
    }
    return check_children(thd);
}
