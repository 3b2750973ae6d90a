/*
 * The insert benchmark (iiBench) as one small compiled client.
 *
 * What it is for: inserts seeded rows into `purchases_index` (a primary key and three secondary
 * indexes) over one connection, 1000 rows a statement, each statement its own transaction, while a
 * second connection runs one short range query on each secondary index at a fixed rate. It prints
 * one JSON line per interval on standard output; `frond-demo` reads them, and so can a person.
 *
 * Invariants
 *  IC1. The insert thread waits for the server and for nothing else: the query thread has its own
 *     connection, and the two share one mutex, held for the time of a copy.
 *  IC2. A statement's latency is mysql_real_query() from call to return; making the text is outside.
 *  IC3. Any error of an insert ends the run with status 1; query errors are counted and reported.
 *
 * What it does not do: judge. Percentiles, ratios and server metrics are the reader's. It does not
 * wait for the server's background work either.
 *
 * Lines
 *  {"type":"interval","rows":R,"seconds":S,"interval_rows":r,"interval_seconds":s,
 *   "statement_us":[...],"marketsegment_us":[...],"registersegment_us":[...],"pdc_us":[...]}
 *  {"type":"end","rows":R,"seconds":S,"stopped":"rows"|"time"|"signal","statements":N,
 *   "client_cpu_seconds":C,"client_text_cpu_seconds":T,"text_bytes":B,"query_rounds":Q,
 *   "query_rounds_missed":M,"query_errors":E,"sums":{...}}
 *
 * Tests: rows_test.c for the rows; bench/harness for the reading of the lines.
 */
#include "latency.h"
#include "rows.h"

#include <errno.h>
#include <getopt.h>
#include <mysql.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUERY_KINDS = 3 };
static const char *const QUERY_NAMES[QUERY_KINDS] = {"marketsegment", "registersegment", "pdc"};

struct options {
    const char *socket;
    const char *user;
    const char *database;
    const char *engine;
    const char *table_options;
    uint64_t rows;
    uint64_t seed;
    uint32_t rows_per_statement;
    uint32_t interval_ms;
    uint32_t query_rate;
    uint32_t max_seconds; /* 0: no limit */
    struct row_shape shape;
};

struct querier {
    const struct options *options;
    MYSQL *connection;
    pthread_mutex_t mutex; /* guards latencies and the counts */
    struct latencies latencies[QUERY_KINDS];
    uint64_t rounds, missed, errors;
    char first_error[256];
};

static atomic_bool stop_requested;

static void on_signal(int signal)
{
    (void)signal;
    atomic_store(&stop_requested, true);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until_ns(uint64_t deadline)
{
    struct timespec t = {.tv_sec = (time_t)(deadline / 1000000000u),
                         .tv_nsec = (long)(deadline % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
        if (atomic_load(&stop_requested))
            return;
    }
}

static void fail(MYSQL *connection, const char *what)
{
    fprintf(stderr, "iibench: %s: %s (%u)\n", what, mysql_error(connection),
            mysql_errno(connection));
    exit(1);
}

static MYSQL *connect_to(const struct options *options)
{
    MYSQL *connection = mysql_init(NULL);
    if (connection == NULL) {
        fprintf(stderr, "iibench: out of memory\n");
        exit(1);
    }
    if (mysql_real_connect(connection, "localhost", options->user, NULL, options->database, 0,
                           options->socket, 0) == NULL)
        fail(connection, "cannot connect");
    return connection;
}

static void execute(MYSQL *connection, const char *text, size_t length, const char *what)
{
    if (mysql_real_query(connection, text, length) != 0)
        fail(connection, what);
}

static void create_table(MYSQL *connection, const struct options *options)
{
    static const char DROP[] = "DROP TABLE IF EXISTS purchases_index";
    char text[2048];
    execute(connection, DROP, sizeof DROP - 1, "DROP TABLE");
    int length = snprintf(
        text, sizeof text,
        "CREATE TABLE purchases_index ("
        "transactionid BIGINT NOT NULL AUTO_INCREMENT, dateandtime DATETIME, cashregisterid INT NOT NULL, "
        "customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL, data VARCHAR(4000), "
        "PRIMARY KEY (transactionid), "
        "KEY marketsegment (price, customerid), "
        "KEY registersegment (cashregisterid, price, customerid), "
        "KEY pdc (price, dateandtime, customerid)"
        ") ENGINE=%s DEFAULT CHARSET=latin1 %s",
        options->engine, options->table_options);
    if (length < 0 || (size_t)length >= sizeof text) {
        fprintf(stderr, "iibench: --table-options is too long\n");
        exit(1);
    }
    execute(connection, text, (size_t)length, "CREATE TABLE");
}

/* One query at a random position; the text is short and rare, so snprintf is good enough. */
static int query_text(int kind, uint64_t *random, char *out, size_t capacity)
{
    uint32_t cents = random_below(random, PRICE_SPREAD_CENTS) + random_below(random, CUSTOMERS);
    switch (kind) {
    case 0:
        return snprintf(out, capacity,
                        "SELECT price, customerid FROM purchases_index FORCE INDEX (marketsegment) "
                        "WHERE (price >= %u.%02u) ORDER BY price, customerid LIMIT 10",
                        cents / 100, cents % 100);
    case 1:
        return snprintf(out, capacity,
                        "SELECT cashregisterid, price, customerid FROM purchases_index "
                        "FORCE INDEX (registersegment) WHERE (cashregisterid > %u) "
                        "ORDER BY cashregisterid, price, customerid LIMIT 10",
                        random_below(random, CASHREGISTERS));
    default:
        return snprintf(out, capacity,
                        "SELECT price, dateandtime, customerid FROM purchases_index "
                        "FORCE INDEX (pdc) WHERE (price >= %u.%02u) "
                        "ORDER BY price, dateandtime, customerid LIMIT 10",
                        cents / 100, cents % 100);
    }
}

/* Runs one query and reads all of its rows; its latency ends with the last row. */
static void run_query(struct querier *querier, int kind, uint64_t *random)
{
    char text[512];
    int length = query_text(kind, random, text, sizeof text);
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    bool failed = mysql_real_query(querier->connection, text, (unsigned long)length) != 0;
    if (!failed) {
        MYSQL_RES *result = mysql_store_result(querier->connection);
        failed = result == NULL;
        mysql_free_result(result);
    }
    uint64_t us = (now_ns(CLOCK_MONOTONIC) - start) / 1000;
    pthread_mutex_lock(&querier->mutex);
    if (failed) {
        if (querier->errors++ == 0)
            snprintf(querier->first_error, sizeof querier->first_error, "%s: %s",
                     QUERY_NAMES[kind], mysql_error(querier->connection));
    } else {
        latencies_add(&querier->latencies[kind], us);
    }
    pthread_mutex_unlock(&querier->mutex);
}

/*
 * One round (a query of each index) at each tick of a fixed clock. A round that takes longer than
 * the ticks between is not hidden: the ticks it covered are counted as missed.
 */
static void *query_main(void *argument)
{
    struct querier *querier = argument;
    uint64_t random = querier->options->seed ^ 0x71756572696573u;
    uint64_t period = 1000000000u / querier->options->query_rate;
    uint64_t next = now_ns(CLOCK_MONOTONIC) + period;
    mysql_thread_init();
    for (;;) {
        sleep_until_ns(next);
        if (atomic_load(&stop_requested))
            break;
        for (int kind = 0; kind < QUERY_KINDS; kind++)
            run_query(querier, kind, &random);
        uint64_t missed = 0;
        next += period;
        for (uint64_t now = now_ns(CLOCK_MONOTONIC); next < now; next += period)
            missed++;
        pthread_mutex_lock(&querier->mutex);
        querier->rounds++;
        querier->missed += missed;
        pthread_mutex_unlock(&querier->mutex);
    }
    mysql_thread_end();
    return NULL;
}

static void print_interval(uint64_t rows, double seconds, uint64_t interval_rows,
                           double interval_seconds, struct latencies *statements,
                           struct querier *querier)
{
    printf("{\"type\":\"interval\",\"rows\":%llu,\"seconds\":%.6f,\"interval_rows\":%llu,"
           "\"interval_seconds\":%.6f,\"statement_us\":",
           (unsigned long long)rows, seconds, (unsigned long long)interval_rows, interval_seconds);
    latencies_drain(statements, stdout);
    pthread_mutex_lock(&querier->mutex);
    for (int kind = 0; kind < QUERY_KINDS; kind++) {
        printf(",\"%s_us\":", QUERY_NAMES[kind]);
        latencies_drain(&querier->latencies[kind], stdout);
    }
    pthread_mutex_unlock(&querier->mutex);
    puts("}");
    fflush(stdout);
}

static int insert_rows(const struct options *options, MYSQL *connection, struct querier *querier)
{
    struct row_source source;
    rows_init(&source, options->seed, options->shape);
    size_t capacity = rows_statement_capacity(&source, options->rows_per_statement);
    char *text = malloc(capacity);
    if (text == NULL)
        abort();
    struct latencies statements = {0};
    uint64_t statement_count = 0, text_ns = 0, text_bytes = 0;
    uint64_t interval_rows = 0;
    const uint64_t interval_ns = (uint64_t)options->interval_ms * 1000000u;
    const uint64_t cpu_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t start = now_ns(CLOCK_MONOTONIC);
    uint64_t interval_start = start, now = start;
    const char *stopped = "rows";

    while (source.sums.rows < options->rows) {
        uint64_t text_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t left = options->rows - source.sums.rows;
        uint32_t rows = left < options->rows_per_statement ? (uint32_t)left
                                                           : options->rows_per_statement;
        size_t length = rows_statement(&source, rows, text, capacity);
        text_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - text_start;
        text_bytes += length;
        uint64_t sent = now_ns(CLOCK_MONOTONIC);
        execute(connection, text, length, "INSERT");
        now = now_ns(CLOCK_MONOTONIC);
        latencies_add(&statements, (now - sent) / 1000);
        statement_count++;
        interval_rows += rows;
        if (now - interval_start >= interval_ns) {
            print_interval(source.sums.rows, (double)(now - start) / 1e9, interval_rows,
                           (double)(now - interval_start) / 1e9, &statements, querier);
            interval_start = now;
            interval_rows = 0;
        }
        if (atomic_load(&stop_requested)) {
            stopped = "signal";
            break;
        }
        if (options->max_seconds != 0 && now - start >= options->max_seconds * 1000000000ull) {
            stopped = "time";
            break;
        }
    }
    double seconds = (double)(now - start) / 1e9;
    double cpu = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_start) / 1e9;
    if (interval_rows > 0)
        print_interval(source.sums.rows, seconds, interval_rows,
                       (double)(now - interval_start) / 1e9, &statements, querier);
    pthread_mutex_lock(&querier->mutex);
    printf("{\"type\":\"end\",\"rows\":%llu,\"seconds\":%.6f,\"stopped\":\"%s\",\"statements\":%llu,"
           "\"client_cpu_seconds\":%.6f,\"client_text_cpu_seconds\":%.6f,\"text_bytes\":%llu,"
           "\"query_rounds\":%llu,\"query_rounds_missed\":%llu,\"query_errors\":%llu,"
           "\"sums\":{\"rows\":%llu,\"cashregisterid\":%llu,\"customerid\":%llu,"
           "\"productid\":%llu}}\n",
           (unsigned long long)source.sums.rows, seconds, stopped,
           (unsigned long long)statement_count, cpu, (double)text_ns / 1e9,
           (unsigned long long)text_bytes, (unsigned long long)querier->rounds,
           (unsigned long long)querier->missed, (unsigned long long)querier->errors,
           (unsigned long long)source.sums.rows, (unsigned long long)source.sums.cashregisterid,
           (unsigned long long)source.sums.customerid, (unsigned long long)source.sums.productid);
    if (querier->errors > 0)
        fprintf(stderr, "iibench: %llu queries failed, the first: %s\n",
                (unsigned long long)querier->errors, querier->first_error);
    pthread_mutex_unlock(&querier->mutex);
    fflush(stdout);
    free(text);
    free(statements.us);
    return 0;
}

static void usage(FILE *out)
{
    fputs("usage: iibench --socket PATH --engine NAME [options]\n"
          "  --user NAME                 default root\n"
          "  --database NAME             default iibench; must exist\n"
          "  --table-options TEXT        appended to CREATE TABLE\n"
          "  --rows N                    default 1000000\n"
          "  --rows-per-statement N      default 1000\n"
          "  --seed N                    default 1\n"
          "  --interval-ms N             default 1000\n"
          "  --query-rate N              rounds of three queries per second, default 10, 0: none\n"
          "  --max-seconds N             stop after so many seconds, default 0: never\n"
          "  --data-length N             characters of `data`, default 10\n"
          "  --data-random-pct N         random share of them, default 50\n",
          out);
}

static uint64_t number(const char *name, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value < min || value > max) {
        fprintf(stderr, "iibench: --%s must be a number from %llu to %llu, not '%s'\n", name,
                (unsigned long long)min, (unsigned long long)max, text);
        exit(2);
    }
    return value;
}

static void parse_options(int argc, char **argv, struct options *o)
{
    static const struct option LONG[] = {
        {"socket", required_argument, NULL, 's'},
        {"user", required_argument, NULL, 'u'},
        {"database", required_argument, NULL, 'd'},
        {"engine", required_argument, NULL, 'e'},
        {"table-options", required_argument, NULL, 't'},
        {"rows", required_argument, NULL, 'r'},
        {"rows-per-statement", required_argument, NULL, 'p'},
        {"seed", required_argument, NULL, 'S'},
        {"interval-ms", required_argument, NULL, 'i'},
        {"query-rate", required_argument, NULL, 'q'},
        {"max-seconds", required_argument, NULL, 'm'},
        {"data-length", required_argument, NULL, 'l'},
        {"data-random-pct", required_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int index = 0;
    for (int c; (c = getopt_long(argc, argv, "", LONG, &index)) != -1;) {
        const char *name = LONG[index].name;
        switch (c) {
        case 's': o->socket = optarg; break;
        case 'u': o->user = optarg; break;
        case 'd': o->database = optarg; break;
        case 'e': o->engine = optarg; break;
        case 't': o->table_options = optarg; break;
        case 'r': o->rows = number(name, optarg, 1, UINT64_MAX / 2); break;
        case 'p': o->rows_per_statement = (uint32_t)number(name, optarg, 1, 100000); break;
        case 'S': o->seed = number(name, optarg, 0, UINT64_MAX); break;
        case 'i': o->interval_ms = (uint32_t)number(name, optarg, 10, 600000); break;
        case 'q': o->query_rate = (uint32_t)number(name, optarg, 0, 10000); break;
        case 'm': o->max_seconds = (uint32_t)number(name, optarg, 0, 1000000000); break;
        case 'l': o->shape.data_length = (uint32_t)number(name, optarg, 0, DATA_LENGTH_MAX); break;
        case 'R': o->shape.data_random_pct = (uint32_t)number(name, optarg, 0, 100); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (o->socket == NULL || o->engine == NULL || optind != argc) {
        usage(stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options options = {
        .user = "root",
        .database = "iibench",
        .table_options = "",
        .rows = 1000000,
        .seed = 1,
        .rows_per_statement = 1000,
        .interval_ms = 1000,
        .query_rate = 10,
        .shape = {.data_length = 10, .data_random_pct = 50},
    };
    parse_options(argc, argv, &options);
    if (mysql_library_init(0, NULL, NULL) != 0) {
        fprintf(stderr, "iibench: the client library does not start\n");
        return 1;
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    MYSQL *connection = connect_to(&options);
    create_table(connection, &options);
    struct querier querier = {.options = &options, .mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t query_thread;
    bool querying = options.query_rate > 0;
    if (querying) {
        querier.connection = connect_to(&options);
        if (pthread_create(&query_thread, NULL, query_main, &querier) != 0) {
            fprintf(stderr, "iibench: cannot start the query thread\n");
            return 1;
        }
    }
    int status = insert_rows(&options, connection, &querier);
    if (querying) {
        atomic_store(&stop_requested, true);
        pthread_join(query_thread, NULL);
        mysql_close(querier.connection);
    }
    mysql_close(connection);
    mysql_library_end();
    return status;
}
