/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The handler: one open table of one connection.
 *
 * Files: ha_frond_table.cc (create, open, rename, drop), ha_frond_alter.cc (ALTER TABLE without a copy), ha_frond_lock.cc (statements and their locks),
 * ha_frond_move.cc (export, discard, import),
 * ha_frond_write.cc (changes, AUTO_INCREMENT, bulk copies), ha_frond_sequence.cc (the row of a SEQUENCE),
 * ha_frond_foreign.cc and foreign.cc (foreign keys), ha_frond_read.cc (scans), ha_frond_replica.cc (rows that a replica changes
 * unread), ha_frond_info.cc (statistics, costs, maintenance).
 */
#ifndef FROND_HA_FROND_H
#define FROND_HA_FROND_H

#include "server.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "errors.h"
#include "foreign.h"
#include "frond_rows.h"
#include "transaction.h"

/* Data that all handlers of a table share: which key statistics TABLE_SHARE has, and by which frond_stats_method. */
class Frond_share : public Handler_share {
public:
    std::mutex guard;
    /* Rows per value of each part of each index, as they are; the optimizer's are in the TABLE_SHARE. As long as the share. */
    std::vector<ulong> rows_per_value;
    std::atomic<uint64_t> statistics{0};
    std::atomic<uint> method{0};
    std::atomic<bool> has_statistics{false};
};

/* A column that may be NULL: its flag, and its value's bytes in a record. */
struct Frond_nullable {
    uint flag_byte;
    uchar flag;
    uint offset;
    uint bytes;
};

/* One scan of a handler, kept open between statements.
 * The scan belongs to the statement `serial`; in any other it has to be renewed before use. */
struct Frond_slot {
    frond_scan *scan = nullptr;
    uint64_t serial = 0;
    uint64_t demand = 0;
    int lock = 0;
    int wait = 0;
    bool condition = false;
    bool semi_consistent = false;
    /* Virtual columns are read from the entry or computed here, because the server does not compute them in this scan. */
    bool gives_virtual = false;
    bool index_only = false;
    bool all_columns = false;
    bool has_columns = false;
    /* The index of the core whose virtual parts are computed after each row, or one of these. */
    static constexpr int NOTHING = -1, ASKED_COLUMNS = -2;
    int computes = NOTHING;
    std::vector<uint8_t> columns;
};

/* The purpose of a scan: entries of an index, as the server reads it, or whole rows. */
enum Frond_source { READS_INDEX, READS_ROWS };

/* Counts what a call reads, for the slow log and ANALYZE FORMAT=JSON. `to` is NULL unless the server asks. */
class Frond_reads {
public:
    explicit Frond_reads(ha_handler_stats *to) : to_(unlikely(to != nullptr) && frond_reads_begin() ? to : nullptr) {}
    ~Frond_reads() {
        if (unlikely(to_ != nullptr))
            end();
    }
    Frond_reads(const Frond_reads &) = delete;

private:
    void end();
    ha_handler_stats *to_;
};

class ha_frond final : public handler {
public:
    ha_frond(handlerton *hton, TABLE_SHARE *share);
    ~ha_frond() override;

    /* ---- what the engine can do ---- */
    Table_flags table_flags() const override;
    ulong index_flags(uint index, uint part, bool all_parts) const override;
    const char *index_type(uint) override { return "BTREE"; }
    /* Indexes whose order costs no more than a scan of the table, so that ORDER BY and GROUP BY without LIMIT may use them: those
     * that have the rows. The server adds covering ones. */
    const key_map *keys_to_use_for_scanning() override { return &have_rows_; }
    enum row_type get_row_type() const override;
    uint max_supported_keys() const override { return MAX_KEY; }
    uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
    uint max_supported_key_length() const override { return 3072; }
    uint max_supported_key_part_length() const override { return 3072; }
    uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }

    /* ---- tables ---- */
    int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
    int open(const char *name, int mode, uint test_if_locked) override;
    int close() override;
    handler *clone(const char *name, MEM_ROOT *mem_root) override;
    int rename_table(const char *from, const char *to) override;
    int delete_table(const char *name) override;
    int truncate() override;
    bool check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) override;
    Compare_keys compare_key_parts(const Field &old_field, const Column_definition &new_field,
                                   const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const override;
    enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
                                                               Alter_inplace_info *info) override;
    bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
    bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
    bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;
    void update_create_info(HA_CREATE_INFO *info) override;
    int discard_or_import_tablespace(my_bool discards) override;

    /* ---- statements ---- */
    uint lock_count() const override { return 0; }
    THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
    int external_lock(THD *thd, int type) override;
    int start_stmt(THD *thd, thr_lock_type type) override;
    int reset() override;
    int extra(enum ha_extra_function operation) override;
    void column_bitmaps_signal() override { want_other_columns(); }
    void print_error(int error, myf flags) override;
    bool get_error_message(int error, String *text) override;

    /* ---- foreign keys ---- */
    char *get_foreign_key_create_info() override;
    void free_foreign_key_create_info(char *text) override;
    int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *to) override;
    int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *to) override;
    bool referenced_by_foreign_key() const noexcept override;
    bool can_switch_engines() override;
    bool is_fk_defined_on_table_or_index(uint index) override;
    bool get_foreign_dup_key(char *child_table, uint child_table_len, char *child_key,
                             uint child_key_len) override;

    /* ---- changes ---- */
    int write_row(const uchar *record) override;
    int update_row(const uchar *old_record, const uchar *new_record) override;
    int delete_row(const uchar *record) override;
    void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                            ulonglong *count) override;
    int reset_auto_increment(ulonglong value) override;

    /* ---- reads ---- */
    int index_init(uint index, bool sorted) override;
    int index_end() override;
    int index_read_map(uchar *record, const uchar *key, key_part_map map,
                       enum ha_rkey_function how) override;
    int index_read_last_map(uchar *record, const uchar *key, key_part_map map) override;
    int index_read_idx_map(uchar *record, uint index, const uchar *key, key_part_map map,
                           enum ha_rkey_function how) override;
    int index_next(uchar *record) override;
    int index_next_same(uchar *record, const uchar *key, uint length) override;
    int index_prev(uchar *record) override;
    int index_first(uchar *record) override;
    int index_last(uchar *record) override;
    int rnd_init(bool scan) override;
    int rnd_end() override;
    int rnd_next(uchar *record) override;
    int rnd_pos(uchar *record, uchar *pos) override;
    int rnd_pos_by_record(uchar *record) override;
    void position(const uchar *record) override;
    int cmp_ref(const uchar *a, const uchar *b) override;
    void unlock_row() override;
    void try_semi_consistent_read(bool on) override;
    bool was_semi_consistent_read() override;
    Item *idx_cond_push(uint index, Item *condition) override;
    int multi_range_read_init(RANGE_SEQ_IF *seq, void *param, uint n_ranges, uint mode,
                              HANDLER_BUFFER *buf) override;
    int multi_range_read_next(range_id_t *range) override;
    ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *seq, void *param, uint n_ranges,
                                        uint *bufsz, uint *flags, Cost_estimate *cost) override;
    ha_rows multi_range_read_info(uint index, uint n_ranges, uint keys, uint key_parts, uint *bufsz,
                                  uint *flags, Cost_estimate *cost) override;
    int multi_range_read_explain_info(uint mode, char *text, size_t size) override;

    /* ---- statistics and maintenance ---- */
    int info(uint flags) override;
    ha_rows records_in_range(uint index, const key_range *low, const key_range *high,
                             page_range *pages) override;
    double read_time(uint index, uint ranges, ha_rows rows) override;
    ha_rows estimate_rows_upper_bound() override;
    int analyze(THD *thd, HA_CHECK_OPT *options) override;
    int check(THD *thd, HA_CHECK_OPT *options) override;
    int optimize(THD *thd, HA_CHECK_OPT *options) override;

private:
    friend struct Frond_callbacks;

    // First among the members, and small: the server calls each partition of a table several times in each statement, also those in
    // which it has no row. The handlers of a thousand partitions do not fit into the processor's cache, but the last members of
    // `handler`, which these calls write, are in it already.
    Frond_session *session_ = nullptr;
    /* The slot of the latest read; null: no slot was read since reset(). */
    Frond_slot *current_ = nullptr;
    Frond_use use_;
    /* From store_lock(). */
    uint8_t read_lock_ = FROND_LOCK_NONE;
    uint8_t read_wait_ = FROND_WAIT;
    /* The statement is FLUSH TABLES ... FOR EXPORT. */
    bool exports_ = false;
    /* There is an export_. */
    bool exporting_ = false;
    /* The rows of the table were discarded. That makes another table of it, which is bound then. */
    bool discarded_ = false;
    bool has_clustering_ = false;
    key_map have_rows_{};
    /* The table is a TEMPORARY one, and in the database of these. */
    bool temporary_ = false;
    /* The server asked for reads of rows that others hold, to see whether they match. */
    bool semi_consistent_ = false;
    /* The row that is about to be changed unread is known to be missing. */
    bool unread_is_missing_ = false;
    /* mrr_ is to be closed. */
    bool reads_ranges_ = false;

    Frond_share *get_share();
    int bind(const char *name);
    void unbind();
    void note_clustering();
    void fix_covering();

    /* The transaction that calls belong to: the statement's, that of a bulk copy, or a sequence's own. */
    int transaction(frond_txn **txn);
    /* The serial that a slot remembers: of the statement, or of a sequence's transaction, which ends with each change or
     * scan. */
    uint64_t serial() const { return unlikely(sequence_txn_ != nullptr) ? 1 : session_->serial(temporary_); }

    /* The table holds the row of a SEQUENCE (ha_frond_sequence.cc). */
    bool keeps_sequence() const { return unlikely(table_share->sequence != nullptr); }
    void enter_sequence();
    int sequence_lock(int type);
    int sequence_transaction(frond_txn **txn);
    int end_sequence_transaction(bool keep);
    int write_sequence(const uchar *old_record, const uchar *record);
    uint frond_index(uint index) const { return index + hidden_; }
    const KEY &primary_key() const { return table->key_info[table->s->primary_key]; }
    /* Makes the slot usable in this statement: renewed, with columns and condition as wanted now. */
    int ready(Frond_slot &slot, uint index, Frond_source source, const uchar *record);
    int set_columns(Frond_slot &slot, uint index, Frond_source source, bool gives_virtual);
    bool is_asked(uint column) const;
    bool lacks_parts(uint index, bool stored) const;
    bool asks_virtual() const;
    void compute_columns(int what, const uchar *record);
    Frond_slot &slot_of_index(uint index) { return slots_[frond_index(index)]; }
    Frond_slot &fetch_slot() { return slots_.back(); }
    uint parts_checked(uint index, key_part_map map, int how) const;
    int lock_checked(uint index, const uchar *key, uint parts);
    int lock_moving(const uchar *old_record, const uchar *new_record);
    int seek(uint index, uchar *record, const uchar *key, key_part_map map, int how);
    bool use_as_decided(THD *thd, int kind);
    void note_decision(THD *thd, int kind);
    int unlock();
    void set_lock(THD *thd, uint8_t lock, uint8_t wait);
    /* Slots that this statement has not read yet are renewed in any case. */
    void want_other_columns() {
        if (current_)
            demand_++;
    }
    Frond_repeats repeats(THD *thd) const;
    void lock_for_repetition(frond_txn *txn);
    void note_write();
    uint parts_of_map(uint index, key_part_map map, size_t *length) const;
    int duplicate(uint32_t index);
    bool alter_duplicate(TABLE *altered, const std::vector<int32_t> &from, uint32_t index, const uchar *ref);
    bool drops_needed_column(const struct Altered &to) const;
    enum_alter_inplace_result check_rest(TABLE *altered, Alter_inplace_info *info, alter_table_operations ours);
    bool take_foreigns(TABLE *altered, const Alter_inplace_info *info, struct Altered *to, bool *copies);
    bool commit_changes(TABLE *altered, Alter_inplace_info *info);
    int raise_auto_increment(ulonglong wanted);
    bool alter_failed(TABLE *altered, int rc, uint32_t duplicate = 0, const uchar *ref = nullptr,
                      const std::vector<int32_t> &from = {});
    int tell(int error);
    int refuse(const std::string &why);
    int reserve_numbers(ulonglong offset, ulonglong increment, ulonglong wanted, uint64_t *first, uint64_t *count);
    int note_auto_increment(frond_txn *txn);
    int row_read(int rc, uchar *record, int nothing);
    /* Valid until the next change of any foreign key. */
    const Frond_foreigns &foreigns() const;
    bool has_foreign_keys() const { return !foreigns().of.empty() || !foreigns().naming.empty(); }
    bool changes_unread(const uchar *record);
    int verify_row(uchar *record);
    void compute_all_virtual();
    void note_nullable();
    void fill_nulls(uchar *record) const;

    int begin_export(THD *thd);
    void end_export();
    int discard(THD *thd);
    int import(THD *thd);
    int refuse_parent(THD *thd);
    int refuse_discarded();
    /* Remembers what print_error() sends. */
    int cannot_move(uint error, const std::string &why);
    void print_move_error(myf flags);

    int begin_bulk();
    int end_bulk(bool keep);

    void refresh_key_statistics();
    void take_key_statistics(Frond_share *share);
    void show_key_statistics(bool to_people);
    bool key_statistics_are_current(const Frond_share *share) const;
    THD *thd() const { return table->in_use; }

    /* Returns a FROND_ code, or HA_ERR_GENERIC when an error was sent. */
    int create_with_foreigns(const char *table, TABLE *form, HA_CREATE_INFO *info, const frond_table_spec *spec);
    int lock_relatives(THD *thd);
    int check_children(THD *thd) const;
    int check_copy(THD *thd);
    bool meet_parents(const std::vector<Frond_foreign> &added);
    /* Whether a foreign key, other than those in `gone`, has the column; sends an error then. */
    bool foreigns_need(const Field *column, const std::vector<std::string> &gone) const;

    /* As long as the handler is open. */
    Frond_share *share_ = nullptr;
    frond_table *table_ = nullptr;
    frond_rows *rows_ = nullptr;
    std::string name_;
    frond_db *database_ = nullptr;
    uint hidden_ = 0;
    /* Per index of the core, then one for fetches by reference. */
    std::vector<Frond_slot> slots_;
    std::vector<uint8_t> wanted_;
    /* Columns that may be NULL, and all their flags. */
    std::vector<Frond_nullable> nullable_;
    std::vector<uchar> null_flags_;
    std::vector<uint8_t> saved_set_;
    /* Changes when other columns or another condition are wanted; slots remember their value. */
    uint64_t demand_ = 1;
    /* Lasts until the table is unlocked. */
    frond_export *export_ = nullptr;
    bool scan_started_ = false;
    // References are primary keys as the server has them, not encoded ones.
    bool refers_by_tuple_ = false;
    /* The look-up for WITHOUT OVERLAPS under way: the key without its period, which the next row must have too. */
    std::vector<uchar> checked_key_;
    uint move_error_ = 0;
    frond_txn *bulk_ = nullptr;
    frond_txn *sequence_txn_ = nullptr;
    /* The error that tell() has sent; why the table was not opened. */
    int told_ = 0;
    std::string refusal_;
    /* Why there is no AUTO_INCREMENT value, or 0. */
    int numbers_error_ = 0;
    mutable Frond_foreigns foreigns_;
    // When the server last asked for children, to lock their definitions.
    struct {
        query_id_t query = 0;
        uint64_t version = 0;
    } listed_;
    /* Why the replica stops at a row; for its error message. */
    std::string divergence_;
    DsMrr_impl mrr_;
};

#endif
