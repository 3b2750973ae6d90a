/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A small bank on the Frond library: what a program that embeds it looks like.
 *
 *   bank [DIRECTORY]      default: a temporary directory, removed at the end
 *
 * It creates two tables, moves money in transactions, runs into a conflict and a duplicate key, uses a
 * savepoint, walks a cursor both ways, closes, opens again and checks what it finds. Each step that
 * went as expected prints a line; the first that did not ends the program with status 1.
 *
 * Keys are compared byte by byte (memcmp), so numbers in keys are written big-endian: then their byte
 * order is their order. The engine does not interpret values.
 */
#define _GNU_SOURCE
#include "frond.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>

enum { ACCOUNTS = 1000, OPENING_BALANCE = 100 };

/* ---- failing and reporting ------------------------------------------------------------------ */

static void die(const char *what, int code)
{
    fprintf(stderr, "bank: %s: error %d: %s\n", what, code, frond_last_error());
    exit(1);
}

/* For calls that must succeed. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != FROND_OK)                                                                     \
            die(#call, code_);                                                                     \
    } while (0)

/* For what must be true now; prints the sentence. */
__attribute__((format(printf, 2, 3))) static void expect(bool truth, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf(truth ? "ok: " : "NOT SO: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    if (!truth) {
        fprintf(stderr, "bank: the last message of the library: %s\n", frond_last_error());
        exit(1);
    }
}

/* ---- keys and values ------------------------------------------------------------------------ */

struct account_key {
    uint8_t bytes[4];
};

static struct account_key account(uint32_t number)
{
    struct account_key key = {{number >> 24, number >> 16, number >> 8, number}};
    return key;
}

static uint32_t account_number(const uint8_t *key)
{
    return (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];
}

/* Balances are stored as they lie in memory: this program's files stay on this machine. */
static int64_t balance_in(const uint8_t *value, size_t length)
{
    int64_t balance = 0;
    if (length != sizeof balance) {
        fprintf(stderr, "bank: a balance of %zu bytes\n", length);
        exit(1);
    }
    memcpy(&balance, value, sizeof balance);
    return balance;
}

/* The balance of an account; with FROND_LOCK_EXCLUSIVE nobody else can change it until the transaction
 * ends. */
static int get_balance(frond_txn *txn, frond_table *accounts, uint32_t number, int lock,
                       int64_t *balance)
{
    struct account_key key = account(number);
    const uint8_t *value;
    size_t length;
    int code = frond_get(txn, accounts, key.bytes, sizeof key, lock, &value, &length);
    if (code == FROND_OK)
        *balance = balance_in(value, length);
    return code;
}

static int put_balance(frond_txn *txn, frond_table *accounts, uint32_t number, int64_t balance,
                       int flags)
{
    struct account_key key = account(number);
    return frond_put(txn, accounts, key.bytes, sizeof key, (const uint8_t *)&balance,
                     sizeof balance, flags);
}

static frond_txn *begin(frond_db *db)
{
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    options.lock_timeout_ms = 1000;
    frond_txn *txn;
    MUST(frond_txn_begin(db, &options, &txn));
    return txn;
}

/* Moves `amount` and notes it in the journal; the caller commits. */
static int transfer(frond_txn *txn, frond_table *accounts, frond_table *journal, uint32_t from,
                    uint32_t to, int64_t amount)
{
    int64_t have, other;
    int code;
    if ((code = get_balance(txn, accounts, from, FROND_LOCK_EXCLUSIVE, &have)) != FROND_OK ||
        (code = get_balance(txn, accounts, to, FROND_LOCK_EXCLUSIVE, &other)) != FROND_OK ||
        (code = put_balance(txn, accounts, from, have - amount, FROND_PUT_REPLACE)) != FROND_OK ||
        (code = put_balance(txn, accounts, to, other + amount, FROND_PUT_REPLACE)) != FROND_OK)
        return code;
    char key[64], text[64];
    int key_length = snprintf(key, sizeof key, "%06" PRIu32 "/%020" PRIu64, from, frond_txn_id(txn));
    int text_length = snprintf(text, sizeof text, "%" PRId64 " to %" PRIu32, amount, to);
    return frond_put(txn, journal, (const uint8_t *)key, (size_t)key_length,
                     (const uint8_t *)text, (size_t)text_length, FROND_PUT_NEW);
}

/* ---- the steps ------------------------------------------------------------------------------ */

static void open_accounts(frond_db *db, frond_table *accounts)
{
    frond_txn *txn = begin(db);
    for (uint32_t n = 1; n <= ACCOUNTS; n++)
        MUST(put_balance(txn, accounts, n, OPENING_BALANCE, FROND_PUT_NEW));
    expect(frond_txn_changes(txn) == ACCOUNTS, "%d accounts in one transaction", ACCOUNTS);
    MUST(frond_txn_commit(txn));

    txn = begin(db);
    int code = put_balance(txn, accounts, 7, 1, FROND_PUT_NEW);
    expect(code == FROND_DUPLICATE_KEY, "account 7 cannot be opened twice");
    frond_txn_rollback(txn);
}

static void move_money(frond_db *db, frond_table *accounts, frond_table *journal)
{
    frond_txn *txn = begin(db);
    MUST(transfer(txn, accounts, journal, 1, 2, 30));

    /* A reader that began before the commit goes on seeing the old state, and never waits. */
    frond_txn *reader = begin(db);
    MUST(frond_txn_snapshot(reader));
    MUST(frond_txn_commit(txn));
    int64_t balance = 0;
    MUST(get_balance(reader, accounts, 1, FROND_LOCK_NONE, &balance));
    expect(balance == OPENING_BALANCE, "a snapshot from before the commit does not see it");

    /* The snapshot does not see the other change; overwriting it would lose it. */
    int code = put_balance(reader, accounts, 1, 0, FROND_PUT_REPLACE);
    expect(code == FROND_CONFLICT, "overwriting the newer balance is a conflict");
    frond_txn_rollback(reader);

    reader = begin(db);
    MUST(get_balance(reader, accounts, 1, FROND_LOCK_NONE, &balance));
    expect(balance == OPENING_BALANCE - 30, "a new transaction sees it");
    MUST(frond_txn_commit(reader));
}

static void wait_for_locks(frond_db *db, frond_table *accounts)
{
    frond_txn_options options = FROND_TXN_OPTIONS_INIT;
    options.lock_timeout_ms = 0;
    frond_txn *holder = begin(db), *impatient;
    int64_t balance;
    MUST(get_balance(holder, accounts, 3, FROND_LOCK_EXCLUSIVE, &balance));
    MUST(frond_txn_begin(db, &options, &impatient));
    int code = get_balance(impatient, accounts, 3, FROND_LOCK_EXCLUSIVE, &balance);
    expect(code == FROND_LOCK_TIMEOUT || code == FROND_LOCK_NOWAIT,
           "a locked account is refused to who does not wait");
    MUST(get_balance(impatient, accounts, 3, FROND_LOCK_NONE, &balance));
    expect(balance == OPENING_BALANCE, "reading it without a lock works");
    frond_txn_rollback(impatient);
    frond_txn_rollback(holder);
}

static void take_steps_back(frond_db *db, frond_table *accounts, frond_table *journal)
{
    frond_txn *txn = begin(db);
    MUST(transfer(txn, accounts, journal, 10, 11, 5));
    uint64_t here = frond_txn_savepoint(txn);
    struct account_key key = account(12);
    MUST(frond_delete(txn, accounts, key.bytes, sizeof key));
    MUST(put_balance(txn, accounts, 10, -1000000, FROND_PUT_REPLACE));
    int64_t balance;
    expect(get_balance(txn, accounts, 12, FROND_LOCK_NONE, &balance) == FROND_NOT_FOUND,
           "a transaction sees its own delete");
    MUST(frond_txn_rollback_to(txn, here));
    MUST(get_balance(txn, accounts, 10, FROND_LOCK_NONE, &balance));
    expect(balance == OPENING_BALANCE - 5, "the savepoint undoes what came after it, and no more");
    MUST(frond_txn_commit(txn));

    txn = begin(db);
    for (uint32_t n = 1; n <= ACCOUNTS; n++)
        MUST(put_balance(txn, accounts, n, 0, FROND_PUT_REPLACE));
    frond_txn_rollback(txn);
    txn = begin(db);
    MUST(get_balance(txn, accounts, 12, FROND_LOCK_NONE, &balance));
    expect(balance == OPENING_BALANCE, "a rollback leaves everything as it was");
    frond_txn_rollback(txn);
}

/* Walks all accounts in one direction; returns the sum of the balances. */
static int64_t sum_of(frond_db *db, frond_table *accounts, bool forward, uint32_t *count)
{
    frond_txn *txn = begin(db);
    frond_cursor *cursor;
    MUST(frond_cursor_open(txn, accounts, &cursor));
    int64_t sum = 0;
    uint32_t expected = forward ? 1 : ACCOUNTS;
    *count = 0;
    int code = frond_cursor_seek(cursor, forward ? FROND_FIRST : FROND_LAST, NULL, 0);
    while (code == FROND_OK) {
        const uint8_t *key, *value;
        size_t key_length, value_length;
        MUST(frond_cursor_entry(cursor, &key, &key_length, &value, &value_length));
        if (key_length != 4 || account_number(key) != expected) {
            fprintf(stderr, "bank: account %" PRIu32 " is not where it belongs\n", expected);
            exit(1);
        }
        expected += forward ? 1 : (uint32_t)-1;
        sum += balance_in(value, value_length);
        (*count)++;
        code = forward ? frond_cursor_next(cursor) : frond_cursor_prev(cursor);
    }
    if (code != FROND_END)
        die("walking the accounts", code);
    frond_cursor_close(cursor);
    frond_txn_rollback(txn);
    return sum;
}

static void balance_the_books(frond_db *db, frond_table *accounts)
{
    uint32_t up, down;
    int64_t all = sum_of(db, accounts, true, &up);
    expect(up == ACCOUNTS && all == (int64_t)ACCOUNTS * OPENING_BALANCE,
           "no money was made or lost: %" PRId64, all);
    expect(sum_of(db, accounts, false, &down) == all && down == up, "backwards it is the same");
}

static void turn_around(frond_db *db, frond_table *accounts)
{
    frond_txn *txn = begin(db);
    frond_cursor *cursor;
    MUST(frond_cursor_open(txn, accounts, &cursor));
    struct account_key key = account(500);
    const uint8_t *at, *value;
    size_t at_length, value_length;
    MUST(frond_cursor_seek(cursor, FROND_LT, key.bytes, sizeof key));
    MUST(frond_cursor_next(cursor));
    MUST(frond_cursor_next(cursor));
    MUST(frond_cursor_prev(cursor));
    MUST(frond_cursor_entry(cursor, &at, &at_length, &value, &value_length));
    expect(account_number(at) == 500, "a cursor turns around where it stands");
    key = account(ACCOUNTS);
    expect(frond_cursor_seek(cursor, FROND_GT, key.bytes, sizeof key) == FROND_END,
           "there is nothing behind the last account");
    frond_cursor_close(cursor);
    frond_txn_rollback(txn);
}

static void on_problem(void *context, const char *problem)
{
    (void)context;
    fprintf(stderr, "bank: %s\n", problem);
}

static void check_tables(frond_db *db)
{
    static const char *const NAMES[] = {"accounts", "journal"};
    for (int i = 0; i < 2; i++) {
        uint64_t problems = 0;
        MUST(frond_table_check(db, NAMES[i], on_problem, NULL, &problems));
        expect(problems == 0, "table '%s' checks clean", NAMES[i]);
    }
}

static void count_name(void *context, const char *name)
{
    (void)name;
    ++*(int *)context;
}

static void on_message(void *context, int level, const char *message)
{
    (void)context;
    static const char *const LEVELS[] = {"error", "warning", "note"};
    fprintf(stderr, "frond: %s: %s\n", LEVELS[level < 0 || level > 2 ? 0 : level], message);
}

static frond_db *open_bank(const char *directory)
{
    frond_options options = FROND_OPTIONS_INIT;
    options.cache_bytes = 32u << 20;
    options.log = on_message;
    frond_db *db;
    MUST(frond_open(directory, &options, &db));
    return db;
}

static void remove_directory(const char *directory)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    while (open != NULL && (entry = readdir(open)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(open), entry->d_name, 0);
    if (open != NULL)
        closedir(open);
    rmdir(directory);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/frond-bank.XXXXXX";
    const char *directory = argc > 1 ? argv[1] : mkdtemp(made);
    if (directory == NULL) {
        perror("bank: a temporary directory");
        return 1;
    }
    printf("Frond %s, database in %s\n", frond_version(), directory);

    frond_db *db = open_bank(directory);
    int exists = 1;
    MUST(frond_table_exists(db, "accounts", &exists));
    if (exists) {
        fprintf(stderr, "bank: %s holds a bank already; give another directory\n", directory);
        return 1;
    }
    MUST(frond_table_create(db, "accounts"));
    MUST(frond_table_create(db, "journal"));
    expect(frond_table_create(db, "journal") == FROND_EXISTS, "a table is created once");
    frond_table *accounts, *journal;
    MUST(frond_table_open(db, "accounts", &accounts));
    MUST(frond_table_open(db, "journal", &journal));

    open_accounts(db, accounts);
    move_money(db, accounts, journal);
    wait_for_locks(db, accounts);
    take_steps_back(db, accounts, journal);
    balance_the_books(db, accounts);
    turn_around(db, accounts);

    frond_db *second;
    frond_options options = FROND_OPTIONS_INIT;
    expect(frond_open(directory, &options, &second) == FROND_BUSY,
           "an open database cannot be opened again");
    frond_table_close(accounts);
    frond_table_close(journal);
    MUST(frond_close(db));

    /* Opening recovers: whatever was committed is there, after a crash as well. */
    db = open_bank(directory);
    int tables = 0;
    MUST(frond_table_list(db, count_name, &tables));
    expect(tables == 2, "both tables are there again");
    MUST(frond_table_open(db, "accounts", &accounts));
    balance_the_books(db, accounts);
    frond_table_close(accounts);
    check_tables(db);
    MUST(frond_table_drop(db, "journal"));
    MUST(frond_table_exists(db, "journal", &exists));
    expect(!exists, "a dropped table is gone");
    MUST(frond_close(db));
    if (argc <= 1)
        remove_directory(directory);
    printf("everything went as expected\n");
    return 0;
}
