/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Columns that change, or are added, while rows stay as they are.
 */
#ifndef FROND_ALTER_COLUMNS_H
#define FROND_ALTER_COLUMNS_H

#include "ha_frond.h"

// Whether all existing rows get the same value in `field`, a new column of `altered`, now and at any later time.
bool frond_has_constant_default(const TABLE *altered, const Field *field);

// Whether stored values of `was` are valid values of `is`; `types_change`: the server says that the type may be another. The core
// compares types and sizes, too.
bool frond_keeps_values(const Field *was, const Field *is, bool types_change);

#endif
