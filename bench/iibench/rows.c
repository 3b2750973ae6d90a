#include "rows.h"

#include <assert.h>
#include <string.h>
#include <time.h>

static const char INSERT_HEAD[] =
    "INSERT INTO purchases_index"
    "(dateandtime,cashregisterid,customerid,productid,price,data) VALUES ";

static const char ALPHABET[65] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/* 2026-01-01 00:00:00 UTC: a fixed start, so that two runs send the same text. */
static const time_t FIRST_SECOND = 1767225600;
static const uint64_t ROWS_PER_SECOND_OF_TABLE_TIME = 100000;

/* ('YYYY-MM-DD HH:MM:SS',999,99999,9999,1004.99,''), without the data itself. */
enum { ROW_TEXT_MAX = 64, DATETIME_LENGTH = 19 };

/* splitmix64: one add and two multiplications; enough for a benchmark, and a seed of 0 is fine. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Maps 32 random bits to 0..bound-1 by multiplication; the bias is below 1 in 40 000. */
static inline uint32_t scale(uint32_t bits, uint32_t bound)
{
    return (uint32_t)(((uint64_t)bits * bound) >> 32);
}

uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return scale((uint32_t)(next_random(state) >> 32), bound);
}

static inline char *put_uint(char *out, uint32_t value)
{
    char digits[10];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

static inline char *put_cents(char *out, uint32_t cents)
{
    out = put_uint(out, cents / 100);
    *out++ = '.';
    *out++ = (char)('0' + cents / 10 % 10);
    *out++ = (char)('0' + cents % 10);
    return out;
}

/* `data`: a compressible part first, then ten random characters per 64 random bits. */
static inline char *put_data(char *out, struct row_source *source)
{
    uint32_t left = source->shape.data_length * source->shape.data_random_pct / 100;
    uint32_t plain = source->shape.data_length - left;
    memset(out, 'a', plain);
    out += plain;
    while (left > 0) {
        uint64_t bits = next_random(&source->random);
        uint32_t now = left < 10 ? left : 10;
        for (uint32_t i = 0; i < now; i++, bits >>= 6)
            *out++ = ALPHABET[bits & 63];
        left -= now;
    }
    return out;
}

void rows_init(struct row_source *source, uint64_t seed, struct row_shape shape)
{
    assert(shape.data_length <= DATA_LENGTH_MAX && shape.data_random_pct <= 100);
    memset(source, 0, sizeof *source);
    source->random = seed;
    source->shape = shape;
}

size_t rows_statement_capacity(const struct row_source *source, uint32_t rows)
{
    return sizeof INSERT_HEAD + (size_t)rows * (ROW_TEXT_MAX + source->shape.data_length);
}

size_t rows_statement(struct row_source *source, uint32_t rows, char *out, size_t capacity)
{
    assert(rows > 0);
    assert(capacity >= rows_statement_capacity(source, rows)); /* RO3 */
    char *const start = out;

    char when[DATETIME_LENGTH + 1];
    time_t second = FIRST_SECOND + (time_t)(source->sums.rows / ROWS_PER_SECOND_OF_TABLE_TIME);
    struct tm parts;
    gmtime_r(&second, &parts);
    size_t length = strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    assert(length == DATETIME_LENGTH);

    memcpy(out, INSERT_HEAD, sizeof INSERT_HEAD - 1);
    out += sizeof INSERT_HEAD - 1;
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t a = next_random(&source->random);
        uint64_t b = next_random(&source->random);
        uint32_t cashregisterid = scale((uint32_t)a, CASHREGISTERS);
        uint32_t customerid = scale((uint32_t)(a >> 32), CUSTOMERS);
        uint32_t productid = scale((uint32_t)b, PRODUCTS);
        uint32_t cents = scale((uint32_t)(b >> 32), PRICE_SPREAD_CENTS) + customerid;

        *out++ = '(';
        *out++ = '\'';
        memcpy(out, when, DATETIME_LENGTH);
        out += DATETIME_LENGTH;
        *out++ = '\'';
        *out++ = ',';
        out = put_uint(out, cashregisterid);
        *out++ = ',';
        out = put_uint(out, customerid);
        *out++ = ',';
        out = put_uint(out, productid);
        *out++ = ',';
        out = put_cents(out, cents);
        *out++ = ',';
        *out++ = '\'';
        out = put_data(out, source);
        *out++ = '\'';
        *out++ = ')';
        *out++ = ',';

        source->sums.cashregisterid += cashregisterid;
        source->sums.customerid += customerid;
        source->sums.productid += productid;
    }
    source->sums.rows += rows;
    out--; /* the last comma */
    assert((size_t)(out - start) <= capacity);
    return (size_t)(out - start);
}
