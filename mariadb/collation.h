/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The server's collations for the core: weights, their length, prefixes of characters.
 */
#ifndef FROND_COLLATION_H
#define FROND_COLLATION_H

#include "frond_rows.h"

/* Fills in how a string column with collation `cs` compares. Must be called for each column of a table
 * before its rows are bound: it also makes `cs` known to the callbacks below. False when the collation
 * cannot be indexed (a space whose weight is longer than the core keeps). */
bool frond_collation_describe(const struct charset_info_st *cs, frond_column_spec *column);

/* Callbacks of frond_rows_callbacks; `ctx` is not used, any thread may call them. */
extern "C" {
size_t frond_collation_weights(void *ctx, uint32_t charset, uint32_t level, const uint8_t *src,
                               size_t src_len, uint8_t *dst, size_t dst_len);
size_t frond_collation_weights_len(void *ctx, uint32_t charset, size_t src_len);
size_t frond_collation_char_prefix(void *ctx, uint32_t charset, const uint8_t *src, size_t src_len,
                                   size_t chars);
}

#endif
