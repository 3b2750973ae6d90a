// SPDX-License-Identifier: GPL-2.0-only
//
// Commit in two steps, for the binary log, for transactions over several engines, and for XA. The decisions are in
// docs/rfcs/0006-prepared-transactions.md.
//
//   prepare()          survives a crash from now on, neither committed nor rolled back; may fail
//   commit_ordered()   visible, in the order of the binary log; another thread may call it; cannot fail
//   commit()           cleans up; does the whole commit if commit_ordered() was not called
//
// If Frond cannot commit what the server counts as committed, the server is stopped: it would show a database that
// differs from the binary log. The next start commits the transaction.

#include "server.h"

#include "transaction.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include "backup.h"
#include "errors.h"
#include "log.h"
#include "mysqld.h"
#include "plugin.h"

// For tests: FROND_CRASH_POINT=name:n kills the process when it reaches the point of that name for the n-th time.
void frond_crash_point(const char *name) {
    struct Point {
        std::string name;
        std::atomic<long> left{0};
        Point() {
            const char *text = getenv("FROND_CRASH_POINT");
            const char *colon = text ? strrchr(text, ':') : nullptr;
            if (!colon)
                return;
            name.assign(text, colon);
            left = atol(colon + 1);
        }
    };
    static Point point;
    if (!point.name.empty() && point.name == name && --point.left == 0)
        kill(getpid(), SIGKILL);
}

// XAER_NOTA of the XA standard: the name is not known. No header of the server has the number.
static constexpr int XA_NOT_A_NAME = -4;

[[noreturn]] static void stop_server(const char *what) {
    sql_print_error("Frond: %s: %s. The server is stopped, as the transaction counts as ended elsewhere; the next "
                    "start ends it here",
                    what, frond_last_error());
    abort();
}

static_assert(sizeof(XID) == sizeof(MYSQL_XID), "both are the same bytes");

static frond_xid to_frond(const MYSQL_XID &xid) {
    frond_xid to{};
    to.format = xid.formatID;
    to.gtrid_length = static_cast<uint32_t>(xid.gtrid_length);
    to.bqual_length = static_cast<uint32_t>(xid.bqual_length);
    static_assert(sizeof to.data == sizeof xid.data, "both have 64 bytes twice");
    memcpy(to.data, xid.data, sizeof to.data);
    return to;
}

// Whether XA START gave the name. The server makes up a name for any other transaction.
static bool is_explicit(const MYSQL_XID &xid) {
    static const char own[] = {'M', 'y', 'S', 'Q', 'L', 'X', 'i', 'd'};
    return memcmp(xid.data, own, sizeof own) != 0;
}

// ---------------------------------------------------------------- session

// KILL may interrupt it while it waits, because the server has not written anything to the binary log yet.
int Frond_session::prepare() {
    MYSQL_XID xid;
    thd_get_xid(thd_, &xid);
    frond_txn *taken = take(true);
    if (!taken)
        return 0;
    prepared_changes_ = has_changes(taken);
    const frond_xid name = to_frond(xid);
    frond_prepared *prepared = nullptr;
    const int ended_by = is_explicit(xid) ? FROND_BY_NAME : opt_bin_log ? FROND_BY_COORDINATOR : FROND_BY_HANDLE;
    const int rc = frond_txn_prepare(taken, &name, ended_by, &prepared);
    {
        std::lock_guard<std::mutex> locked(guard_);
        committing_ = 0;
        prepared_ = rc ? nullptr : prepared;
    }
    if (rc) {
        frond_tell_commit_failure(rc);
        return frond_to_handler_error(nullptr, rc);
    }
    waits_for_commit_ = is_explicit(xid);
    is_ordered_ = false;
    frond_crash_point("after_prepare");
    return 0;
}

frond_prepared *Frond_session::take_prepared() {
    std::lock_guard<std::mutex> locked(guard_);
    frond_prepared *taken = prepared_;
    prepared_ = nullptr;
    return taken;
}

void Frond_session::commit_ordered() {
    if (!prepared_)
        return; // The transaction only read: commit() does the rest.
    frond_crash_point("before_commit_ordered");
    if (wrote_shared_)
        frond_count_commit();
    if (frond_prepared_commit_ordered(prepared_))
        stop_server("committing a prepared transaction");
    is_ordered_ = true;
    frond_crash_point("after_commit_ordered");
}

// A commit that the binary log has recorded need not be durable here as well: after a crash the server commits it
// again. There are two exceptions. The server does not remember the decision of XA COMMIT. And without a binary log it
// records decisions in tc.log, which this version rolls back in recovery; so the logs of all engines are synced
// here, because InnoDB also relies on being told again.
int Frond_session::commit_prepared() {
    frond_prepared *prepared = take_prepared();
    const bool in_tc_log = is_ordered_ && !opt_bin_log;
    const bool waits = !is_ordered_ || waits_for_commit_ || in_tc_log;
    if (!is_ordered_)
        frond_count_commit();
    if (in_tc_log) {
        flushes_for_commit_ = true;
        ha_flush_logs();
        flushes_for_commit_ = false;
    }
    if (frond_prepared_commit(prepared, waits))
        stop_server("committing a prepared transaction");
    return 0;
}

int Frond_session::rollback_prepared() {
    frond_prepared *prepared = take_prepared();
    const int rc = frond_prepared_rollback(prepared);
    return frond_to_handler_error(nullptr, rc);
}

void Frond_session::detach() {
    if (frond_prepared *prepared = take_prepared())
        frond_prepared_detach(prepared);
}

// ---------------------------------------------------------------- handlerton

// The end of a statement inside a transaction prepares nothing.
static int prepare(handlerton *, THD *thd, bool all) {
    Frond_session *session = Frond_session::existing(thd);
    if (!session || !frond_ends_transaction(thd, all))
        return 0;
    return session->prepare();
}

static void commit_ordered(handlerton *, THD *thd, bool) {
    if (Frond_session *session = Frond_session::existing(thd))
        session->commit_ordered();
}

// The server calls this until it returns fewer than `length` names, and ends transactions between the calls. So the
// list is taken once.
static int recover(handlerton *, XID *list, uint length) {
    static std::vector<MYSQL_XID> left;
    static bool is_listed = false;
    if (!is_listed) {
        auto collect = [](void *ctx, const frond_xid *xid) {
            MYSQL_XID to{};
            to.formatID = static_cast<long>(xid->format);
            to.gtrid_length = xid->gtrid_length;
            to.bqual_length = xid->bqual_length;
            memcpy(to.data, xid->data, sizeof to.data);
            static_cast<std::vector<MYSQL_XID> *>(ctx)->push_back(to);
        };
        if (!frond_database || frond_prepared_list(frond_database, collect, &left))
            return 0;
    }
    const uint count = std::min<uint>(length, static_cast<uint>(left.size()));
    for (uint i = 0; i < count; i++) {
        memcpy(static_cast<void *>(&list[i]), &left.back(), sizeof left.back());
        left.pop_back();
    }
    is_listed = count == length;
    return static_cast<int>(count);
}

// The server ignores the format when it compares names: XA COMMIT 'a','b',7 ends what XA PREPARE 'a','b' prepared.
// Looks for a prepared transaction whose name differs in the format only; if there is one, gives its format to `name`.
static bool find_other_format(frond_xid &name) {
    struct Search {
        frond_xid &name;
        bool found;
    } search{name, false};
    auto compare = [](void *ctx, const frond_xid *xid) {
        auto *search = static_cast<Search *>(ctx);
        frond_xid &name = search->name;
        if (xid->gtrid_length != name.gtrid_length || xid->bqual_length != name.bqual_length ||
            memcmp(xid->data, name.data, name.gtrid_length + name.bqual_length) != 0)
            return;
        name.format = xid->format;
        search->found = true;
    };
    return !frond_prepared_list(frond_database, compare, &search) && search.found;
}

// Called for names of other engines, too: those must get XA_NOT_A_NAME, because the server takes any other answer for
// success.
static int end_by_xid(XID *xid, bool commit) {
    if (!frond_database)
        return XA_NOT_A_NAME;
    MYSQL_XID plain;
    memcpy(&plain, xid, sizeof plain);
    frond_xid name = to_frond(plain);
    if (commit)
        frond_count_commit();
    const auto end = commit ? frond_commit_by_xid : frond_rollback_by_xid;
    int rc = end(frond_database, &name);
    if (rc == FROND_NOT_FOUND && find_other_format(name))
        rc = end(frond_database, &name);
    if (rc == FROND_NOT_FOUND)
        return XA_NOT_A_NAME;
    if (rc)
        stop_server(commit ? "committing a prepared transaction by its name"
                           : "rolling back a prepared transaction by its name");
    return 0;
}

static int commit_by_xid(handlerton *, XID *xid) { return end_by_xid(xid, true); }

static int rollback_by_xid(handlerton *, XID *xid) { return end_by_xid(xid, false); }

// The binary log was rotated, and the server asks when it may forget the commits in the old file: when they are durable
// here. If the sync fails, the server is never answered and keeps the old file until it restarts.
static void commit_checkpoint_request(void *cookie) {
    frond_crash_point("before_checkpoint");
    if (frond_database && frond_sync(frond_database)) {
        sql_print_error("Frond: syncing the log for the binary log: %s", frond_last_error());
        return;
    }
    commit_checkpoint_notify_ha(cookie);
    frond_crash_point("after_checkpoint");
}

void frond_install_xa(handlerton *hton) {
    hton->prepare = prepare;
    hton->commit_ordered = commit_ordered;
    hton->recover = recover;
    hton->commit_by_xid = commit_by_xid;
    hton->rollback_by_xid = rollback_by_xid;
    hton->commit_checkpoint_request = commit_checkpoint_request;
}

// The server asks for prepared transactions only at its start. A plugin that is installed later warns instead.
void frond_tell_of_prepared() {
    uint count = 0;
    auto add = [](void *ctx, const frond_xid *) { ++*static_cast<uint *>(ctx); };
    if (mysqld_server_started && !frond_prepared_list(frond_database, add, &count) && count)
        sql_print_warning("Frond: %u prepared transactions keep their locks, and the server does not ask for them as the "
                          "plugin was installed while it runs: use plugin-load-add and restart",
                          count);
}
