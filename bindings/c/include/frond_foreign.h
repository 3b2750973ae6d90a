/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Frond C API, part 3: foreign keys of typed rows.
 *
 * A foreign key belongs to a child table and names its parent by name; both have an index that begins with the
 * columns of the key, in its order, and the columns have the same types and collations. The functions of
 * frond_rows.h that change rows enforce it: FROND_NO_PARENT and FROND_REFERENCED change nothing,
 * and frond_last_constraint() says which one it was.
 */
#ifndef FROND_FOREIGN_H
#define FROND_FOREIGN_H

#include "frond_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

enum frond_action { FROND_RESTRICT = 0, FROND_NO_ACTION = 1, FROND_CASCADE = 2, FROND_SET_NULL = 3 };

enum frond_foreign_state {
    FROND_FOREIGN_ACTIVE = 0,
    /* The child is being filled and will replace a table that has no such foreign key. Its rows are checked, and
     * their parents can be neither deleted nor changed, whatever the actions say. */
    FROND_FOREIGN_ADDING = 1,
    /* The child stands beside the table that has the foreign key: not enforced. */
    FROND_FOREIGN_WAITING = 2,
    /* In lists only: frond_alter_begin() is adding the foreign key. FROND_FOREIGN_GUARDING also guards parents. */
    FROND_FOREIGN_CHECKING = 3,
    FROND_FOREIGN_GUARDING = 4
};

typedef struct frond_foreign {
    const char *name;   /* unique among those that are not waiting */
    const char *table;  /* the child */
    const char *parent;
    const char *const *columns;
    const char *const *parent_columns;
    uint32_t column_count;
    uint32_t on_delete; /* enum frond_action */
    uint32_t on_update;
    uint32_t state;     /* enum frond_foreign_state */
    /* What frond_foreign_list() adds; not read in definitions. The indexes that serve it, NULL if there is no
     * parent that fits; per column 1 if the child's may be NULL, plus 2 if the parent's may. */
    const char *child_index;
    const char *parent_index;
    const uint8_t *nullable;
} frond_foreign;

/* As frond_rows_create(), with foreign keys. With `replaces` the table is a copy that will take the place of that table:
 * a foreign key that names that table as its parent means the copy. With `parents_may_miss` a parent need not exist.
 * FROND_BAD_FOREIGN_KEY, FROND_DUPLICATE_KEY (a name is taken): frond_last_error() says why. */
int frond_rows_create_child(frond_db *db, const char *name, const frond_table_spec *spec,
                            const frond_foreign *foreigns, uint32_t count, const char *replaces,
                            int parents_may_miss);
/* Calls `emit` for each foreign key of `table`, or with `as_parent` for each that names it as its parent. Its arguments
 * are valid during the call. */
int frond_foreign_list(frond_db *db, const char *table, int as_parent,
                       void (*emit)(void *ctx, const frond_foreign *foreign), void *ctx);
/* A number that changes with each change of foreign keys, or of tables that they name. */
uint64_t frond_foreign_version(frond_db *db);
/* Drops a foreign key of `table`, durably. */
int frond_foreign_drop(frond_db *db, const char *table, const char *name);

enum frond_rename {
    FROND_RENAME_FOLLOW = 0,  /* foreign keys of and to the table follow it */
    FROND_RENAME_ASIDE = 1,   /* it makes room for its copy: its own wait, those to it mean the copy */
    FROND_RENAME_IN_PLACE = 2 /* a copy, or what had made room, takes the name: its own are active */
};

/* As frond_table_rename(). Foreign keys that follow the table get new names: a prefix prefixes[0] becomes prefixes[1],
 * prefixes[2] becomes prefixes[3], and so on; `prefix_count` counts all strings. With FROND_RENAME_IN_PLACE,
 * `instead_of` may name the table that the copy replaces under another name: foreign keys to that one follow. */
int frond_table_rename_child(frond_db *db, const char *from, const char *to, int how,
                             const char *instead_of, const char *const *prefixes,
                             uint32_t prefix_count);
/* Whether a copy of the table that is to take its place may begin: nobody else changes the table until it has. While a prepared
 * transaction has changes in it, or in a child of it, FROND_LOCK_TIMEOUT. */
int frond_table_check_copy(frond_db *db, const char *name);
/* As frond_table_drop(), which refuses a table that a foreign key of another names (FROND_REFERENCED). Here foreign keys
 * of tables whose names begin with `within` may remain, without a parent. */
int frond_table_drop_parent(frond_db *db, const char *name, const char *within);

/* Child table and name of the foreign key (or index, with FROND_CASCADE_DUPLICATE) that the thread's last error
 * was about; empty strings if none. Valid until the thread's next error. */
void frond_last_constraint(const char **table, const char **name);

#ifdef __cplusplus
}
#endif
#endif
