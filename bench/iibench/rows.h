/*
 * Rows of the insert benchmark, as SQL text.
 *
 * What it is for: makes the rows of `purchases_index` from a seed and writes them as the VALUES list
 * of one INSERT into a buffer that is used again and again. A row costs well below 0.1 us, so that
 * the benchmark measures the server and not its client.
 *
 * Invariants
 *  RO1. The text depends on the seed, the row number and the shape only: every engine gets the same
 *     rows in the same statements, whatever the speed at which it takes them.
 *  RO2. No allocation, no printf and no division by a variable per row.
 *  RO3. A statement fits in rows_statement_capacity() bytes; rows_statement() asserts it.
 *
 * What it does not do: talk to a server (iibench.c), or imitate real money: `price` follows the
 * published benchmark, (random * 500 + customerid) / 100.
 *
 * Tests: rows_test.c.
 */
#ifndef FROND_IIBENCH_ROWS_H
#define FROND_IIBENCH_ROWS_H

#include <stddef.h>
#include <stdint.h>

enum {
    CASHREGISTERS = 1000,
    CUSTOMERS = 100000,
    PRODUCTS = 10000,
    PRICE_SPREAD_CENTS = 500,
    DATA_LENGTH_MAX = 4000,
};

/* What a row looks like, beyond the fixed columns. */
struct row_shape {
    uint32_t data_length;     /* characters of `data`, 0..DATA_LENGTH_MAX */
    uint32_t data_random_pct; /* share of them that is random, 0..100 */
};

/* Sums over all rows made, to compare with what the table answers at the end. */
struct row_sums {
    uint64_t rows;
    uint64_t cashregisterid;
    uint64_t customerid;
    uint64_t productid;
};

struct row_source {
    uint64_t random;
    struct row_shape shape;
    struct row_sums sums;
};

/* Starts the sequence of rows that belongs to `seed`. */
void rows_init(struct row_source *source, uint64_t seed, struct row_shape shape);

/* Bytes that rows_statement() may need for `rows` rows. */
size_t rows_statement_capacity(const struct row_source *source, uint32_t rows);

/*
 * Writes one INSERT of `rows` rows (not terminated by a zero byte) to `out` and returns its length.
 * `dateandtime` moves with the rows made so far, one second per 100 000 rows, not with the clock
 * (RO1); it is the same for all rows of a statement, as in the published client.
 */
size_t rows_statement(struct row_source *source, uint32_t rows, char *out, size_t capacity);

/* A number below `bound`, for the choice of query positions. */
uint32_t random_below(uint64_t *state, uint32_t bound);

#endif
