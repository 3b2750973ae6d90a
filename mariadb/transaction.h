/* SPDX-License-Identifier: GPL-2.0-only
 *
 * What a connection has in Frond: its transaction and where its statement began.
 */
#ifndef FROND_TRANSACTION_H
#define FROND_TRANSACTION_H

#include <mutex>
#include <string>
#include <vector>

#include "frond.h"
#include "frond_rows.h"

class THD;
struct LEX;
struct TABLE;

/* Whether the statement is run again from its text, so that its reads have to lock (ha_frond_lock.cc). PERHAPS: the server has not
 * decided yet. */
enum class Frond_repeats : uint8_t { NO, PERHAPS, YES };

/* How a statement uses a table. */
struct Frond_use {
    /* The lock of the statement's reads. */
    uint8_t lock = FROND_LOCK_NONE;
    uint8_t wait = FROND_WAIT;
    uint8_t write_flags = FROND_WRITE_DEFAULT;
    Frond_repeats repeats = Frond_repeats::NO;
    bool reads_all_columns = false;
};

/* How a statement uses a partition of a table, and from what that follows: the same holds for the other partitions. */
struct Frond_decision {
    const TABLE *table = nullptr;
    const LEX *lex = nullptr;
    /* Of the session. */
    uint64_t serial = 0;
    int64_t query = 0;
    int kind = 0;
    uint8_t read_lock = FROND_LOCK_NONE;
    uint8_t read_wait = FROND_WAIT;
    Frond_use use;
};

/* Invariants
 *  TX1. Only the connection's own thread changes `transaction_`, `prepared_` and `committing_`, under `guard_`. That
 *     thread reads them without the guard; KILL and waiting threads (waits.cc) read them with it. The guard is
 *     held only as long as an interrupt takes, and this thread takes no other lock while it has it.
 *  TX2. No two statements of any connections have the same `serial()`. A scan that remembers it knows whether it
 *     still belongs to the running statement.
 *  TX3. Between enter() and the end of the statement there is a transaction, and the server knows of it.
 *  TX4. A temporary table that the transaction may have changed is dropped when the transaction has ended, because
 *     the core does not drop a table that a transaction uses. The server never uses its name again.
 *  TX5. There is a transaction, or a prepared one, or neither.
 *  TX6. TEMPORARY tables have a transaction of their own, in another database of the core (`scratch_`). It begins when a
 *     statement uses one, is never prepared, and ends with the session's transaction, after it.
 *  TX7. A transaction that has only read is kept in `resting_` for the session's next one. Only the connection's own thread
 *     uses it there. */
class Frond_session {
public:
    /* The session of `thd`, created at first use. */
    static Frond_session *of(THD *thd);
    /* The same, or NULL. */
    static Frond_session *existing(THD *thd);

    explicit Frond_session(THD *thd);
    ~Frond_session();
    Frond_session(const Frond_session &) = delete;
    Frond_session &operator=(const Frond_session &) = delete;

    /* A statement begins to use Frond, or goes on: begins a transaction if there is none, takes the
     * statement's savepoint, registers with the server. Returns an HA_ERR code. */
    int enter(bool temporary = false);

    bool in_statement(bool temporary = false) const { return temporary ? scratch_.in_statement : in_statement_; }
    uint64_t serial(bool temporary = false) const { return temporary ? scratch_.serial : serial_; }
    frond_txn *transaction(bool temporary = false) const { return temporary ? scratch_.txn : transaction_; }
    THD *thd() const { return thd_; }

    /* The statement's last one, or one of an earlier statement. */
    Frond_decision &decision() { return decision_; }

    /* Row locks may be held from now on: metadata locks must outlive them. */
    void locks_rows() { locked_rows_ = true; }
    bool may_hold_row_locks() const { return locked_rows_; }

    /* The number of the key of the last duplicate. It is kept here because the server may ask a different handler
     * for it than the one that found the duplicate: a partitioned table asks the partition that it used last. */
    void met_duplicate(uint key) { duplicate_ = key; }
    uint duplicate() const { return duplicate_; }

    /* A replica's transaction found a row that it did not expect, and is applied again. Until the session's next
     * commit all rows that it changes are compared (ha_frond_replica.cc). */
    bool doubts() const { return doubts_; }
    void set_doubts(bool doubts) { doubts_ = doubts; }

    /* The core's name of the table that the statement begun at `start` alters; "" if it is not known. ALTER TABLE
     * asks its handler for foreign keys, and then creates a copy without naming the original. */
    void note_altered(const std::string &table, unsigned long long start) {
        altered_ = table;
        altered_at_ = start;
    }
    std::string altered(unsigned long long start) const { return start == altered_at_ ? altered_ : ""; }

    /* A place to roll back to; NONE: there is no transaction yet. */
    struct Place {
        static constexpr uint64_t NONE = UINT64_MAX;
        uint64_t shared, scratch;
    };
    bool is_in_transaction() const { return transaction_ || scratch_.txn; }
    Place place();
    int rollback_to(const Place &place);
    void release(const Place &place);

    /* End of a statement inside a transaction, kept or undone; end of the transaction. */
    void end_statement();
    void undo_statement();
    int commit();
    int rollback();
    /* Commit in two steps (xa.cc). Another thread may call the second one while this thread waits. */
    int prepare();
    void commit_ordered();
    /* As frond_txn_commit(), but KILL can interrupt it. `txn` does not belong to the session (any more). */
    int commit_now(frond_txn *txn);

    /* The statement writes a table that is not temporary: the commit counts for a backup's proof. */
    void writes_shared() { wrote_shared_ = true; }
    /* It has all engines sync their logs for a commit of its own, whatever the statement is. */
    bool flushes_for_commit() const { return flushes_for_commit_; }
    /* The backup that the session has under way, or 0. */
    uint64_t backup() const { return backup_; }
    void set_backup(uint64_t id) { backup_ = id; }

    /* DROP of the temporary table `name`: true if the transaction of `thd` has changes, and the end of it
     * drops the table. */
    static bool drops_later(THD *thd, const char *name);

    /* From another thread (KILL). */
    void interrupt();

    /* From another thread: calls `what` if there is a transaction, prepared or not. The session cannot end it
     * meanwhile. */
    template <typename What> void while_in_transaction(What what) {
        std::lock_guard<std::mutex> locked(guard_);
        if (transaction_ || prepared_ || committing_)
            what();
    }

private:
    std::string altered_;
    unsigned long long altered_at_ = 0;

    int begin();
    int enter_shared();
    int enter_scratch();
    frond_txn *take_scratch();
    int commit_scratch();
    void rollback_scratch();
    int commit_shared();
    /* Ends a transaction that has only read; false if it has done more: then it goes on. */
    bool rest(frond_txn *txn);
    /* Takes the transaction from the session, if it has one. With `may_be_killed`, KILL still reaches it by its number. */
    frond_txn *take(bool may_be_killed);
    /* The same for its prepared transaction. */
    frond_prepared *take_prepared();
    int commit_prepared();
    int rollback_prepared();
    bool has_changes(frond_txn *txn) const;
    /* A prepared transaction goes on without the session. */
    void detach();
    void drop_temporary_tables();

    THD *const thd_;
    Frond_decision decision_;
    uint duplicate_ = MAX_KEY;
    std::mutex guard_;
    frond_txn *transaction_ = nullptr;
    frond_txn *resting_ = nullptr;
    frond_prepared *prepared_ = nullptr;
    /* commit_ordered() has made the prepared transaction visible; commit() does the rest. */
    bool is_ordered_ = false;
    /* That commit() waits until it is durable. */
    bool waits_for_commit_ = false;
    /* It has changes. */
    bool prepared_changes_ = false;
    /* See flushes_for_commit(). */
    bool flushes_for_commit_ = false;
    /* Number of the transaction whose commit KILL may end, or 0. */
    uint64_t committing_ = 0;
    uint64_t serial_;
    uint64_t statement_start_ = 0;
    uint64_t timeout_ms_ = 0;
    bool in_statement_ = false;
    bool locked_rows_ = false;
    bool wrote_shared_ = false;
    bool doubts_ = false;
    uint64_t backup_ = 0;
    /* The transaction of TEMPORARY tables, as the members above for the others. */
    struct Scratch {
        frond_txn *txn = nullptr;
        uint64_t statement_start = 0;
        uint64_t serial = 0;
        bool in_statement = false;
    } scratch_;
    /* Temporary tables dropped in this transaction. */
    std::vector<std::string> dropped_;
};

#endif
