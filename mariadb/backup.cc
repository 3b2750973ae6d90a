// SPDX-License-Identifier: GPL-2.0-only
//
// Backups of a running server. The decisions are in docs/rfcs/0011-backup.md.
//
//   SET SESSION frond_backup = 'begin'       a session asks for a pin
//   SET SESSION frond_backup = 'shorten'     the log is made short, so that less of it is copied
//   BACKUP STAGE START                       prepare_for_backup()
//   FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS     flush_logs(): takes the pin, anew if there is one
//   BACKUP STAGE END                         end_backup(): breaks the pin if a transaction has committed since
//   SET SESSION frond_backup = 'describe', 'log_copied', 'end'
//
// With 'begin_other' other sessions run the stages: those of mariadb-backup, which runs BACKUP STAGE in one connection and
// flushes in another one, before BLOCK_COMMIT and several times after it. Each flush takes the pin again; END decides
// about the last one.

#include "server.h"

#include "backup.h"

#include <atomic>
#include <string>
#include <vector>

#include "errors.h"
#include "log.h"
#include "plugin.h"
#include "schema.h"
#include "settings.h"
#include "sql_acl.h"
#include "transaction.h"

// Connection that asked for a pin, or 0; any connection's stages count when `any_stages`.
static std::atomic<uint64_t> asking{0};
static std::atomic<bool> any_stages{false};
// Connection between BACKUP STAGE START and END, or 0.
static std::atomic<uint64_t> staging{0};
// Number of commits when the pin was taken, and whether END has to compare it.
static std::atomic<uint64_t> commits_at_mark{0};
static std::atomic<bool> marked{false};
static std::atomic<uint64_t> commits{0};

void frond_count_commit() { commits.fetch_add(1, std::memory_order_relaxed); }

// Microseconds.
static const ulonglong SHORTEN_TIME = 30 * 1000 * 1000;
static const ulong SHORTEN_PAUSE = 20 * 1000;

static uint64_t connection() { return current_thd ? thd_get_thread_id(current_thd) : 0; }

static bool step(const char *name, uint64_t *id) { return frond_backup(frond_database, name, id) == FROND_OK; }

// Whether the stages of this connection are those that a pin waits for.
static bool is_awaited() {
    const uint64_t who = asking;
    uint64_t armed = 0;
    return who && frond_database && step("armed", &armed) && armed && (any_stages || who == connection());
}

// Other backup programs do not copy this engine's directory, so their backups would succeed without its tables. They
// are refused here. This function has no result; an error in the diagnostics area makes the statement fail, and so the
// program stops.
static void prepare_for_backup() {
    staging = connection();
    marked = false;
    if (is_awaited())
        return;
    std::vector<std::string> names;
    auto collect = [](void *ctx, const char *name) {
        if (*name && !frond_is_temporary(name))
            static_cast<std::vector<std::string> *>(ctx)->push_back(name);
    };
    const bool unknown = !frond_database || frond_table_list(frond_database, collect, &names);
    if (names.empty() && !unknown)
        return;
    char text[MYSQL_ERRMSG_SIZE];
    const char *first = names.empty() ? "?" : names[0].c_str();
    my_snprintf(text, sizeof text,
                "Frond: this backup does not hold the tables of the engine (%u, '%s' is one): use 'frond backup', "
                "which drives mariadb-backup, or mariadb-dump",
                static_cast<uint>(names.size()), first);
    THD *thd = current_thd;
    sql_print_error("%s", text);
    if (!thd)
        return;
    if (frond_allows_incomplete_backup())
        push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_CHECK_NOT_IMPLEMENTED, text);
    else
        my_printf_error(ER_CHECK_NOT_IMPLEMENTED, "%s. frond_allow_incomplete_backup = ON allows it all the same",
                        MYF(0), text);
}

static bool flush_logs(handlerton *) {
    if (!frond_database)
        return false;
    // Frond also has the server call this in a COMMIT over several engines, which relies on the sync. FLUSH TABLES may commit.
    const Frond_session *session = current_thd ? Frond_session::existing(current_thd) : nullptr;
    const bool is_commit = session && session->flushes_for_commit();
    const bool is_flush = current_thd && !is_commit && thd_sql_command(current_thd) == SQLCOM_FLUSH;
    if (staging && is_flush && is_awaited()) {
        const bool again = marked;
        commits_at_mark = commits.load();
        uint64_t taken = 0;
        if (!step("mark", &taken)) {
            sql_print_error("Frond: pinning the tables for a backup: %s", frond_last_error());
            return true;
        }
        marked = taken != 0;
        // Commits may be blocked by now; the first flush has synced the log, and 'describe' does before it is copied.
        if (again && marked)
            return false;
    }
    return frond_sync(frond_database) != 0;
}

static void end_backup() {
    if (marked && frond_database) {
        uint64_t none = 0;
        step(commits_at_mark == commits ? "proven" : "unproven", &none);
    }
    marked = false;
    staging = 0;
}

void frond_backup_abandon(uint64_t id) {
    if (!id || !frond_database)
        return;
    step("abandon", &id);
    if (asking == connection())
        asking = 0;
}

// Has the engine work towards a short log for as long as it helps, but no longer than is sensible before a backup: what is
// left of the log is copied.
static bool shorten(THD *thd, uint64_t id) {
    const ulonglong end = microsecond_interval_timer() + SHORTEN_TIME;
    for (uint64_t more = 1; more;) {
        more = id;
        if (!step("shorten", &more)) {
            my_printf_error(ER_UNKNOWN_ERROR, "Frond: %s", MYF(0), frond_last_error());
            return true;
        }
        if (thd_kill_level(thd) != THD_IS_NOT_KILLED) {
            my_error(ER_QUERY_INTERRUPTED, MYF(0));
            return true;
        }
        if (microsecond_interval_timer() >= end)
            break;
        if (more)
            my_sleep(SHORTEN_PAUSE);
    }
    return false;
}

// Takes the step. On failure returns true with an error in the diagnostics area.
bool frond_backup_step(THD *thd, uint step_number) {
    static const char *const steps[] = {"", "begin", "begin", "shorten", "describe", "log_copied", "end"};
    if (check_global_access(thd, RELOAD_ACL))
        return true;
    if (!frond_database || step_number >= array_elements(steps))
        return true;
    Frond_session *session = Frond_session::of(thd);
    uint64_t id = session->backup();
    if (step_number <= FROND_BACKUP_BEGIN_OTHER) {
        frond_backup_abandon(id);
        session->set_backup(0);
        if (step_number == FROND_BACKUP_NONE)
            return false;
    }
    if (step_number == FROND_BACKUP_SHORTEN)
        return shorten(thd, id);
    if (!step(steps[step_number], &id)) {
        my_printf_error(ER_UNKNOWN_ERROR, "Frond: %s", MYF(0), frond_last_error());
        return true;
    }
    if (step_number <= FROND_BACKUP_BEGIN_OTHER) {
        session->set_backup(id);
        any_stages = step_number == FROND_BACKUP_BEGIN_OTHER;
        asking = connection();
    } else if (step_number == FROND_BACKUP_END) {
        session->set_backup(0);
    }
    return false;
}

void frond_install_backup(handlerton *hton) {
    hton->flush_logs = flush_logs;
    hton->prepare_for_backup = prepare_for_backup;
    hton->end_backup = end_backup;
}
