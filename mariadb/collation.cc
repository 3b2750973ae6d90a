// SPDX-License-Identifier: GPL-2.0-only
//
// Invariants
//  CO1. A collation is in `known` before the core can ask for it: describe() puts it there while the table is
//     opened or created. So the callbacks need neither a lock nor a look-up by number.
//  CO2. Weights are taken per level and without padding; the core pads with the weight of a space itself.
//  CO3. Weights order as the server compares, because it compares rows that it reads with the ends of a
//  range. They are those of strnxfrm() except for the collations of `oddity`, where strnxfrm() orders
//  otherwise.
//  CO4. The core makes the keys of texts of ASCII alone without asking here, if the codes have characters. So they have some only
//  where the server appends the weights of one character after the other: `has_weights_by_character` knows such collations,
//  and `pairs_are_plain` tries all pairs of characters.
//
// Tested in mysql-test/frond/t/collations.test and collations_odd.test against the server's own comparison.

#include "server.h"

#include "collation.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
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

// ---- codes (CO4)

static std::atomic<const frond_codes *> codes[MY_ALL_CHARSETS_SIZE];

// Whether the weights of a text can be those of its characters, one after the other.
static bool has_weights_by_character(CHARSET_INFO *cs) {
    if (cs->mbmaxlen == 1)
        return true;
    if (!cs->uca)
        return cs->number == 33 || cs->number == 45 || // utf8mb3_general_ci, utf8mb4_general_ci
               cs->number == 1057 || cs->number == 1069; // the same without padding
    // Languages have contractions, the root of the Unicode algorithm has none of ASCII characters.
    return !cs->tailoring || !*cs->tailoring;
}

namespace {

struct Listed {
    uint16_t weight;
    uint8_t character, both_cases;
};

} // namespace

// The weights of printable characters, if they are of `width` bytes: of those with one weight only the first, and the capital of
// a small letter.
static std::vector<Listed> listed(CHARSET_INFO *cs, uint32_t level, size_t width) {
    std::vector<Listed> all;
    std::string characters;
    for (char c = ' '; c <= '~'; c++)
        if (c < 'A' || c > 'Z')
            characters += c;
    for (char c = 'A'; c <= 'Z'; c++)
        characters += c;
    for (const char c : characters) {
        const uint8_t src = static_cast<uint8_t>(c);
        uint8_t bytes[64];
        if (weights_at(cs, level, &src, 1, bytes, sizeof bytes) != width || (width == 1 && bytes[0] < 4))
            continue;
        const uint16_t weight = static_cast<uint16_t>(width == 1 ? bytes[0] : bytes[0] << 8 | bytes[1]);
        const auto same = std::find_if(all.begin(), all.end(), [&](const Listed &l) { return l.weight == weight; });
        if (same == all.end())
            all.push_back({weight, src, 0});
        else if (c >= 'A' && c <= 'Z' && same->character == src + ('a' - 'A'))
            same->both_cases = 1;
    }
    std::sort(all.begin(), all.end(), [](const Listed &a, const Listed &b) { return a.weight < b.weight; });
    return all;
}

// Whether the weights of all pairs of listed characters are theirs, one after the other.
static bool pairs_are_plain(CHARSET_INFO *cs, uint32_t level, size_t width, const std::vector<Listed> &all) {
    std::vector<uint8_t> text, expected;
    const auto add = [&](const Listed &l, bool capital) {
        text.push_back(static_cast<uint8_t>(capital ? l.character - ('a' - 'A') : l.character));
        if (width == 2)
            expected.push_back(static_cast<uint8_t>(l.weight >> 8));
        expected.push_back(static_cast<uint8_t>(l.weight));
    };
    for (const Listed &first : all)
        for (const Listed &second : all)
            for (int capitals = 0; capitals < 4; capitals++) {
                if ((capitals & 1 && !first.both_cases) || (capitals & 2 && !second.both_cases))
                    continue;
                add(first, capitals & 1);
                add(second, capitals & 2);
            }
    std::vector<uint8_t> weights(8 * text.size());
    weights.resize(weights_at(cs, level, text.data(), text.size(), weights.data(), weights.size()));
    return weights == expected;
}

// The codes of a collation's first level; nullptr: it has none.
static const frond_codes *codes_of(CHARSET_INFO *cs, uint32_t level) {
    if (cs->number >= MY_ALL_CHARSETS_SIZE || oddity(cs) != Oddity::none || cs->mbminlen != 1 ||
        (cs->state & MY_CS_NONASCII))
        return nullptr;
    if (const frond_codes *known = codes[cs->number].load(std::memory_order_acquire))
        return known->count ? known : nullptr;
    auto made = std::make_unique<frond_codes>();
    const uint8_t space = ' ';
    uint8_t weight[64];
    const size_t width = weights_at(cs, level, &space, 1, weight, sizeof weight);
    if (width == 1 || width == 2) {
        const std::vector<Listed> all = listed(cs, level, width);
        const bool plain = has_weights_by_character(cs) && pairs_are_plain(cs, level, width, all);
        // Those of one byte are as short without.
        if (plain || width == 2) {
            made->width = static_cast<uint8_t>(width);
            for (const Listed &l : all) {
                made->weights[made->count] = l.weight;
                made->chars[made->count] = plain ? l.character : 0;
                made->both_cases[made->count++] = plain ? l.both_cases : 0;
            }
        }
    }
    const frond_codes *other = nullptr;
    // They stay as long as the server runs, as the collations do.
    if (codes[cs->number].compare_exchange_strong(other, made.get(), std::memory_order_acq_rel))
        other = made.release();
    return other->count ? other : nullptr;
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
    if (!column->level_count)
        return false;
    column->codes = codes_of(cs, column->levels[0]);
    return true;
}

size_t frond_collation_weights(void *, uint32_t charset, uint32_t level, const uint8_t *src,
                               size_t src_len, uint8_t *dst, size_t dst_len) {
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
