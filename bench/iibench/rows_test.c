/* Tests of rows.c; no server needed. `make test` builds and runs them. */
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            failures++;                                                       \
        }                                                                     \
    } while (0)

static const struct row_shape DEFAULT_SHAPE = {.data_length = 10, .data_random_pct = 50};

static char *statement(struct row_source *source, uint32_t rows, size_t *length)
{
    size_t capacity = rows_statement_capacity(source, rows);
    char *text = malloc(capacity + 1);
    if (text == NULL)
        abort();
    *length = rows_statement(source, rows, text, capacity);
    text[*length] = '\0';
    return text;
}

static void same_seed_gives_the_same_text(void)
{
    struct row_source a, b, other;
    size_t la, lb, lo;
    rows_init(&a, 7, DEFAULT_SHAPE);
    rows_init(&b, 7, DEFAULT_SHAPE);
    rows_init(&other, 8, DEFAULT_SHAPE);
    char *ta = statement(&a, 100, &la);
    char *tb = statement(&b, 100, &lb);
    char *to = statement(&other, 100, &lo);
    CHECK(la == lb && memcmp(ta, tb, la) == 0);
    CHECK(lo != la || memcmp(ta, to, la) != 0);
    free(ta);
    free(tb);
    free(to);
}

/* Reads the text back with sscanf and compares it with ranges, formula and sums. */
static void rows_read_back_within_their_ranges(void)
{
    struct row_source source;
    size_t length;
    rows_init(&source, 1, DEFAULT_SHAPE);
    char *text = statement(&source, 5000, &length);
    struct row_sums seen = {0};
    char *at = strstr(text, "VALUES ");
    CHECK(at != NULL);
    at = at == NULL ? text + length : at + strlen("VALUES ");
    while (*at != '\0') {
        unsigned cash, customer, product, whole, hundredths;
        char when[32], data[32];
        int used = 0;
        int n = sscanf(at, "('%19[^']',%u,%u,%u,%u.%2u,'%31[^']')%n", when, &cash, &customer,
                       &product, &whole, &hundredths, data, &used);
        CHECK(n == 7 && used > 0);
        if (n != 7 || used == 0)
            break;
        unsigned cents = whole * 100 + hundredths;
        CHECK(strcmp(when, "2026-01-01 00:00:00") == 0);
        CHECK(cash < CASHREGISTERS && customer < CUSTOMERS && product < PRODUCTS);
        CHECK(cents >= customer && cents < customer + PRICE_SPREAD_CENTS);
        CHECK(strlen(data) == 10 && strncmp(data, "aaaaa", 5) == 0);
        seen.rows++;
        seen.cashregisterid += cash;
        seen.customerid += customer;
        seen.productid += product;
        at += used;
        if (*at == ',')
            at++;
    }
    CHECK(seen.rows == 5000);
    CHECK(memcmp(&seen, &source.sums, sizeof seen) == 0);
    /* Means within 5 % of the middle: a scale() that drops bits would not pass. */
    CHECK(seen.customerid / seen.rows > CUSTOMERS * 95 / 200);
    CHECK(seen.customerid / seen.rows < CUSTOMERS * 105 / 200);
    CHECK(seen.productid / seen.rows > PRODUCTS * 95 / 200);
    CHECK(seen.productid / seen.rows < PRODUCTS * 105 / 200);
    free(text);
}

static void table_time_moves_with_the_rows(void)
{
    struct row_source source;
    size_t length;
    rows_init(&source, 1, DEFAULT_SHAPE);
    source.sums.rows = 61 * 100000;
    char *text = statement(&source, 1, &length);
    CHECK(strstr(text, "'2026-01-01 00:01:01'") != NULL);
    free(text);
}

static void longest_rows_fit_the_promised_capacity(void)
{
    struct row_shape wide = {.data_length = DATA_LENGTH_MAX, .data_random_pct = 100};
    struct row_source source;
    size_t length;
    rows_init(&source, 3, wide);
    char *text = statement(&source, 50, &length);
    CHECK(length > (size_t)50 * DATA_LENGTH_MAX);
    CHECK(text[length - 1] == ')');
    free(text);
}

int main(void)
{
    same_seed_gives_the_same_text();
    rows_read_back_within_their_ranges();
    table_time_moves_with_the_rows();
    longest_rows_fit_the_promised_capacity();
    if (failures != 0) {
        fprintf(stderr, "%d checks failed\n", failures);
        return 1;
    }
    puts("rows_test: ok");
    return 0;
}
