// SPDX-License-Identifier: GPL-2.0-only
//
// SHOW GLOBAL STATUS LIKE 'Frond%' and SHOW ENGINE FROND STATUS.

#include "server.h"

#include "plugin.h"
#include "read_free.h"

// The engine's counters as the server needs them: an array that outlives the call. Names are
// collected once (the engine's are stable), values at each SHOW STATUS. Two statements at a time
// may mix values of both.
static constexpr size_t COUNTERS = 128;
static char names[COUNTERS][48];
static ulonglong values[COUNTERS];
static SHOW_VAR counters[COUNTERS + 1];
static size_t collected;
static std::mutex guard;

static void collect(void *, const char *name, uint64_t value) {
    if (collected >= COUNTERS)
        return;
    const size_t i = collected++;
    if (!counters[i].name) {
        strmake_buf(names[i], name);
        counters[i].name = names[i];
        counters[i].value = &values[i];
        counters[i].type = SHOW_LONGLONG;
    }
    values[i] = value;
}

static void count_table(void *count, const char *) { ++*static_cast<uint64_t *>(count); }

static int show_counters(MYSQL_THD, st_mysql_show_var *var, void *, system_status_var *,
                         enum_var_type) {
    std::lock_guard<std::mutex> locked(guard);
    collected = 0;
    if (frond_database) {
        frond_status(frond_database, collect, nullptr);
        frond_read_free_status(collect, nullptr);
        // Other counters of TEMPORARY tables are of no use to an operator.
        uint64_t temporary_tables = 0;
        if (frond_db *scratch = frond_scratch(false))
            frond_table_list(scratch, count_table, &temporary_tables);
        collect(nullptr, "temporary_tables", temporary_tables);
    }
    var->type = SHOW_ARRAY;
    var->value = counters;
    return 0;
}

st_mysql_show_var frond_status_variables[] = {
    {"Frond", reinterpret_cast<void *>(show_counters), SHOW_FUNC},
    {NullS, NullS, SHOW_LONG},
};

bool frond_show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type kind) {
    if (kind != HA_ENGINE_STATUS || !frond_database)
        return false;
    char *text = frond_status_text(frond_database);
    if (!text)
        return true;
    const bool failed = print(thd, STRING_WITH_LEN("Frond"), STRING_WITH_LEN(""), text, strlen(text));
    frond_free(text);
    return failed;
}
