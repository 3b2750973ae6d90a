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

class THD;

/* Invariants
 *  TX1. `transaction_`, `prepared_` and `committing_` change under `guard_`, and only by the connection's own thread:
 *     that thread reads them freely, KILL and those that wait (waits.cc) read them under the guard. It is held
 *     for no longer than an interrupt takes, and no other lock is taken inside by this side.
 *  TX2. `serial()` is different for any two statements of any two connections: a scan that remembers it knows
 *     whether it still belongs to the running statement.
 *  TX3. Between enter() and the end of the statement there is a transaction, and the server knows of it.
 *  TX4. A temporary table that the transaction may have changed is dropped after its end: the core wants no
 *     transaction to use a table that is dropped. The server never uses its name again.
 *  TX5. There is a transaction, or a prepared one, or neither. */
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
    int enter();

    bool in_statement() const { return in_statement_; }
    uint64_t serial() const { return serial_; }
    frond_txn *transaction() const { return transaction_; }
    THD *thd() const { return thd_; }

    /* Row locks may be held from now on: metadata locks must outlive them. */
    void locks_rows() { locked_rows_ = true; }
    bool may_hold_row_locks() const { return locked_rows_; }

    /* The key of the last duplicate. The server may ask another handler for it than the one that met it: a
     * partitioned table asks that of the partition which it used last for something else. */
    void met_duplicate(uint key) { duplicate_ = key; }
    uint duplicate() const { return duplicate_; }

    /* A replica's transaction found a row that it did not expect, and is applied again: then all rows that it changes are
     * compared (ha_frond_replica.cc), until one of the session's commits. */
    bool doubts() const { return doubts_; }
    void set_doubts(bool doubts) { doubts_ = doubts; }

    /* The table that the statement which began at `start` alters, as the core names it; "" if it is not known.
     * ALTER TABLE asks its handler for foreign keys, and then creates a copy without saying of what. */
    void note_altered(const std::string &table, unsigned long long start) {
        altered_ = table;
        altered_at_ = start;
    }
    std::string altered(unsigned long long start) const { return start == altered_at_ ? altered_ : ""; }

    /* The ends: of a statement inside a transaction, undone or not; of the transaction. */
    void end_statement();
    void undo_statement();
    int commit();
    int rollback();
    /* Commit in two steps (xa.cc): the second one may be called by another thread while this one waits. */
    int prepare();
    void commit_ordered();
    /* Commits `txn`, which is not the session's any more, or never was: as frond_txn_commit(), with KILL. */
    int commit_now(frond_txn *txn);

    /* The statement writes a table that is not temporary: the commit counts for a backup's proof. */
    void writes_shared() { wrote_shared_ = true; }
    /* The backup that the session has under way, or 0. */
    uint64_t backup() const { return backup_; }
    void set_backup(uint64_t id) { backup_ = id; }

    /* DROP of the temporary table `name`: true if the transaction of `thd` has changes, and the end of it
     * drops the table. */
    static bool drops_later(THD *thd, const char *name);

    /* From another thread (KILL). */
    void interrupt();

    /* From another thread: calls `what` if there is a transaction, prepared or about to be, whose session waits if it
     * comes to the end of it meanwhile. */
    template <typename What> void while_in_transaction(What what) {
        std::lock_guard<std::mutex> locked(guard_);
        if (transaction_ || prepared_ || committing_)
            what();
    }

private:
    std::string altered_;
    unsigned long long altered_at_ = 0;

    int begin();
    /* Ends the session's part in its transaction, if it has one; KILL may still reach it by its number. */
    frond_txn *take(bool may_be_killed);
    /* The same for its prepared transaction. */
    frond_prepared *take_prepared();
    int commit_prepared();
    int rollback_prepared();
    /* A prepared transaction goes on without the session. */
    void detach();
    void drop_temporary_tables();

    THD *const thd_;
    uint duplicate_ = MAX_KEY;
    std::mutex guard_;
    frond_txn *transaction_ = nullptr;
    frond_prepared *prepared_ = nullptr;
    /* It is committed, but for what commit() does; commit() waits until that is durable. */
    bool is_ordered_ = false;
    bool waits_for_commit_ = false;
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
    /* Temporary tables dropped in this transaction. */
    std::vector<std::string> dropped_;
};

#endif
