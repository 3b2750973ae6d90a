// SPDX-License-Identifier: GPL-2.0-only
//
// Which columns may change, or be added, while rows stay as they are.

#include "alter_columns.h"

bool frond_has_constant_default(const TABLE *altered, const Field *field) {
    // Rows do not have it.
    if (!field->stored_in_db())
        return field->vcol_info && !(field->flags & VERS_SYSTEM_FIELD);
    const bool is_now = field->has_default_now_unireg_check();
    if (field->vcol_info || (field->default_value && !is_now) || (field->flags & (AUTO_INCREMENT_FLAG | VERS_SYSTEM_FIELD)))
        return false;
    if (is_now)
        return true;
    const bool null = field->null_ptr &&
                      (altered->s->default_values[field->null_ptr - altered->record[0]] & field->null_bit);
    // The values of BLOBs are not in the record; a BIT may have some of its bits among the NULL flags.
    return null || (!(field->flags & BLOB_FLAG) && !field->compression_method() &&
                    field->real_type() != MYSQL_TYPE_BIT);
}

static bool same_members(const Field *a, const Field *b) {
    const TYPELIB *x = static_cast<const Field_enum *>(a)->typelib, *y = static_cast<const Field_enum *>(b)->typelib;
    if (x->count != y->count)
        return false;
    for (uint m = 0; m < x->count; m++)
        if (x->type_lengths[m] != y->type_lengths[m] || memcmp(x->type_names[m], y->type_names[m], x->type_lengths[m]))
            return false;
    return true;
}

static bool is_integer(const Field *field) {
    switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
        return true;
    default:
        return false;
    }
}

// An integer with room for all values of the other.
static bool is_wider(const Field *was, const Field *is) {
    const bool was_unsigned = was->flags & UNSIGNED_FLAG, is_unsigned = is->flags & UNSIGNED_FLAG;
    return is_integer(was) && is_integer(is) && was->pack_length() < is->pack_length() &&
           (was_unsigned || !is_unsigned) && !((was->flags ^ is->flags) & ZEROFILL_FLAG);
}

// The bytes are the same text under the other collation: of the same character set, or utf8mb3 as utf8mb4. Keys may differ; the
// core looks at that. What the server computes from the column may, too.
static bool keeps_text(const Field *was, const Field *is) {
    if (was->charset() == is->charset())
        return true;
    switch (is->real_type()) {
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_BLOB:
        return !was->table->vfield && Charset(was->charset()).encoding_allows_reinterpret_as(is->charset());
    default:
        return false;
    }
}

bool frond_keeps_values(const Field *was, const Field *is, bool types_change) {
    const bool wider = types_change && is_wider(was, is);
    if ((was->real_type() != is->real_type() && !wider) || !keeps_text(was, is) || !was->vcol_info != !is->vcol_info || was->stored_in_db() != is->stored_in_db() ||
        was->compression_method() || is->compression_method() || (was->flags & AUTO_INCREMENT_FLAG) != (is->flags & AUTO_INCREMENT_FLAG))
        return false;
    // The expression is the same: other flags say otherwise. Values of another type would have to be computed.
    if (was->vcol_info && (was->pack_length() != is->pack_length() || was->field_length != is->field_length))
        return false;
    if (!types_change || wider)
        return true;
    switch (is->real_type()) {
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
        return same_members(was, is);
    case MYSQL_TYPE_GEOMETRY:
        return false;
    case MYSQL_TYPE_VARCHAR:
        return is->field_length >= was->field_length && is->char_length() >= was->char_length();
    case MYSQL_TYPE_STRING:
        return is->char_length() == was->char_length() && is->pack_length() >= was->pack_length();
    default:
        // The same bytes mean something else with another scale or sign.
        return was->pack_length() == is->pack_length() && was->field_length == is->field_length &&
               was->decimals() == is->decimals() && !((was->flags ^ is->flags) & (UNSIGNED_FLAG | ZEROFILL_FLAG));
    }
}
