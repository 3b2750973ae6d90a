// SPDX-License-Identifier: GPL-2.0-only
//
// Invariants
//  CO1. A collation is in `known` before the core can ask for it: describe() puts it there while the table is
//     opened or created. So the callbacks need neither a lock nor a look-up by number.
//  CO2. Weights are taken per level and without padding; the core pads with the weight of a space itself.
//  CO3. Weights order as the server compares, because it compares rows that it reads with the ends of a
//  range. They are those of strnxfrm() except for the collations of `oddity`, where strnxfrm() orders
//  otherwise.
//  CO4. The weights of a text of ASCII characters alone are taken from a table where the server would append those of
//  one character after the other: `has_weights_by_character` knows such collations, and `make_ascii` tries all pairs of characters.
//
// Tested in mysql-test/frond/t/collations.test and collations_odd.test against the server's own comparison.

#include "server.h"

#include "collation.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

static std::atomic<CHARSET_INFO *> known[MY_ALL_CHARSETS_SIZE];

static CHARSET_INFO *find(uint32_t number) {
    if (number < MY_ALL_CHARSETS_SIZE)
        if (CHARSET_INFO *cs = known[number].load(std::memory_order_acquire))
            return cs;
    CHARSET_INFO *cs = get_charset(number, MYF(0));
    return cs ? cs : &my_charset_bin;
}

enum class Oddity { none, big5, czech };

static Oddity oddity(CHARSET_INFO *cs) {
    switch (cs->number) {
    case 1:    // big5_chinese_ci
    case 1025: // big5_chinese_nopad_ci
        return Oddity::big5;
    case 34: // cp1250_czech_cs
        return Oddity::czech;
    default:
        return Oddity::none;
    }
}

// The comparison orders by code, strnxfrm() by strokes. Characters of two bytes are above all of
// one byte; a byte that is no character comes last.
static size_t big5_weights(CHARSET_INFO *cs, const uint8_t *src, size_t src_len, uint8_t *dst,
                           size_t dst_len) {
    const uint8_t *end = src + src_len;
    uint8_t *to = dst, *const to_end = dst + dst_len;
    while (src < end && to + 2 <= to_end) {
        const int bytes = cs->charlen(src, end);
        if (bytes == 1) {
            *to++ = cs->sort_order[*src++];
        } else if (bytes == 2) {
            *to++ = *src++;
            *to++ = *src++;
        } else {
            *to++ = 0xff;
            *to++ = *src++;
        }
    }
    return static_cast<size_t>(to - dst);
}

// The comparison strips spaces and then compares the weights of both levels as one list, where a level does not
// begin at the same place in both: so they are one level for the core, without padding.
static size_t czech_weights(CHARSET_INFO *cs, const uint8_t *src, size_t src_len, uint8_t *dst,
                            size_t dst_len) {
    while (src_len && src[src_len - 1] == ' ')
        src_len--;
    return cs->strnxfrm(dst, dst_len, static_cast<uint>(dst_len), src, src_len,
                        MY_STRXFRM_LEVEL1 | MY_STRXFRM_LEVEL2);
}

static size_t weights_at(CHARSET_INFO *cs, uint32_t level, const uint8_t *src, size_t src_len,
                         uint8_t *dst, size_t dst_len) {
    switch (oddity(cs)) {
    case Oddity::big5:
        return big5_weights(cs, src, src_len, dst, dst_len);
    case Oddity::czech:
        return czech_weights(cs, src, src_len, dst, dst_len);
    case Oddity::none:
        break;
    }
    return cs->strnxfrm(dst, dst_len, static_cast<uint>(dst_len), src, src_len,
                        MY_STRXFRM_LEVEL1 << level);
}

// ---- ASCII (CO4)

namespace {

struct AsciiLevel {
    bool in_use;
    uint8_t longest;
    uint8_t len[128];
    uint8_t weights[128][4];
};

struct Ascii {
    AsciiLevel levels[MY_STRXFRM_NLEVELS];
};

} // namespace

static std::atomic<const Ascii *> ascii[MY_ALL_CHARSETS_SIZE];

// Whether characters have weights of their own; those of a character set of single bytes come from such a table anyway.
static bool has_weights_by_character(CHARSET_INFO *cs) {
    if (cs->mbminlen != 1 || cs->mbmaxlen == 1 || (cs->state & MY_CS_NONASCII))
        return false;
    if (!cs->uca)
        return cs->number == 33 || cs->number == 45 || // utf8mb3_general_ci, utf8mb4_general_ci
               cs->number == 1057 || cs->number == 1069; // the same without padding
    // Languages have contractions, the root of the Unicode algorithm has none of ASCII characters.
    return !cs->tailoring || !*cs->tailoring;
}

// The weights of `src`; their length, or -1 if there are other characters or too little room.
static ssize_t ascii_weights(const AsciiLevel &level, const uint8_t *src, size_t src_len,
                             uint8_t *dst, size_t dst_len) {
    if (dst_len < src_len * level.longest + sizeof level.weights[0])
        return -1;
    uint8_t *to = dst, seen = 0;
    for (const uint8_t *end = src + src_len; src < end; src++) {
        seen |= *src;
        const size_t c = *src & 0x7f;
        memcpy(to, level.weights[c], sizeof level.weights[c]); // all, which is one store
        to += level.len[c];
    }
    return seen & 0x80 ? -1 : to - dst;
}

static bool fill_level(CHARSET_INFO *cs, uint32_t number, AsciiLevel *level) {
    std::vector<uint8_t> pairs;
    for (size_t c = 0; c < 128; c++) {
        const uint8_t src = static_cast<uint8_t>(c);
        uint8_t weight[256];
        const size_t len = weights_at(cs, number, &src, 1, weight, sizeof weight);
        if (len > sizeof level->weights[c])
            return false;
        memcpy(level->weights[c], weight, len);
        level->len[c] = static_cast<uint8_t>(len);
        level->longest = std::max(level->longest, level->len[c]);
        for (size_t next = 0; next < 128; next++)
            pairs.insert(pairs.end(), {src, static_cast<uint8_t>(next)});
    }
    std::vector<uint8_t> ours(8 * pairs.size()), theirs(8 * pairs.size());
    const ssize_t len = ascii_weights(*level, pairs.data(), pairs.size(), ours.data(), ours.size());
    const size_t wanted =
        weights_at(cs, number, pairs.data(), pairs.size(), theirs.data(), theirs.size());
    return len >= 0 && static_cast<size_t>(len) == wanted &&
           !memcmp(ours.data(), theirs.data(), wanted);
}

static void make_ascii(CHARSET_INFO *cs, const frond_column_spec &column) {
    if (cs->number >= MY_ALL_CHARSETS_SIZE || ascii[cs->number].load(std::memory_order_acquire) ||
        !has_weights_by_character(cs))
        return;
    auto made = std::make_unique<Ascii>();
    for (size_t n = 0; n < column.level_count; n++) {
        AsciiLevel &level = made->levels[column.levels[n]];
        level.in_use = fill_level(cs, column.levels[n], &level);
    }
    const Ascii *none = nullptr;
    // They stay as long as the server runs, as the collations do.
    if (ascii[cs->number].compare_exchange_strong(none, made.get(), std::memory_order_acq_rel))
        made.release();
}

// Bytes sort as their characters, so no weights are needed. Character sets with a minimum of two bytes per
// character (ucs2, utf16, utf32) sort by code point, which their bytes do not (surrogates).
static bool sorts_by_bytes(CHARSET_INFO *cs) {
    return cs == &my_charset_bin || ((cs->state & MY_CS_BINSORT) && cs->mbminlen == 1);
}

bool frond_collation_describe(CHARSET_INFO *cs, frond_column_spec *column) {
    column->charset = cs->number;
    column->max_char_bytes = static_cast<uint8_t>(cs->mbmaxlen);
    column->min_char_bytes = static_cast<uint8_t>(cs->mbminlen);
    if (cs->number < MY_ALL_CHARSETS_SIZE)
        known[cs->number].store(cs, std::memory_order_release);
    if (sorts_by_bytes(cs)) {
        const bool counts_spaces = cs == &my_charset_bin || (cs->state & MY_CS_NOPAD);
        column->sort = counts_spaces ? FROND_SORT_BINARY : FROND_SORT_BINARY_PAD_SPACE;
        return true;
    }
    column->sort = FROND_SORT_WEIGHTS;
    if (oddity(cs) == Oddity::czech) {
        column->level_count = 1; // level 0, no weight of a space
        return true;
    }
    uint8_t space[8];
    const int space_bytes = cs->wc_mb(' ', space, space + sizeof space);
    for (uint32_t level = 0; level < MY_STRXFRM_NLEVELS; level++) {
        if (!(cs->levels_for_order & (1 << level)))
            continue;
        const uint8_t n = column->level_count++;
        column->levels[n] = static_cast<uint8_t>(level);
        // NO PAD is about the first level: the server pads the others even then (ctype-uca.inl), because
        // an accent that does not count leaves a weight of its own on the level of case.
        if ((cs->state & MY_CS_NOPAD) && level == 0)
            continue;
        uint8_t weight[64];
        const size_t len = weights_at(cs, level, space, space_bytes > 0 ? space_bytes : 0, weight,
                                      sizeof weight);
        if (len > sizeof column->space[n])
            return false;
        memcpy(column->space[n], weight, len);
        column->space_len[n] = static_cast<uint8_t>(len);
    }
    make_ascii(cs, *column);
    return column->level_count != 0;
}

size_t frond_collation_weights(void *, uint32_t charset, uint32_t level, const uint8_t *src,
                               size_t src_len, uint8_t *dst, size_t dst_len) {
    if (charset < MY_ALL_CHARSETS_SIZE && level < MY_STRXFRM_NLEVELS)
        if (const Ascii *all = ascii[charset].load(std::memory_order_acquire))
            if (all->levels[level].in_use) {
                const ssize_t len = ascii_weights(all->levels[level], src, src_len, dst, dst_len);
                if (len >= 0)
                    return static_cast<size_t>(len);
            }
    return weights_at(find(charset), level, src, src_len, dst, dst_len);
}

size_t frond_collation_weights_len(void *, uint32_t charset, size_t src_len) {
    CHARSET_INFO *cs = find(charset);
    // strnxfrmlen() expects bytes of the longest characters, here any may come: every byte can be a
    // character. The Unicode algorithm expands one character to 24 weights of 2 bytes at most.
    if (cs->uca)
        return src_len / cs->mbminlen * 48 + 64;
    return cs->strnxfrmlen(src_len / cs->mbminlen * cs->mbmaxlen) + 64;
}

size_t frond_collation_char_prefix(void *, uint32_t charset, const uint8_t *src, size_t src_len,
                                   size_t chars) {
    CHARSET_INFO *cs = find(charset);
    if (cs->mbmaxlen == 1)
        return chars < src_len ? chars : src_len;
    const size_t bytes = cs->charpos(src, src + src_len, chars);
    return bytes < src_len ? bytes : src_len;
}
