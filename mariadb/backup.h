/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Backups of a running server.
 */
#ifndef FROND_BACKUP_H
#define FROND_BACKUP_H

#include <cstdint>

struct handlerton;
class THD;

/* Values of the session variable frond_backup, in this order. */
enum frond_backup_steps {
    FROND_BACKUP_NONE,
    FROND_BACKUP_BEGIN,
    FROND_BACKUP_BEGIN_OTHER,
    FROND_BACKUP_SHORTEN,
    FROND_BACKUP_DESCRIBE,
    FROND_BACKUP_LOG_COPIED,
    FROND_BACKUP_END
};

void frond_install_backup(handlerton *hton);
/* A session sets the variable. True: refused, with an error in the diagnostics area. */
bool frond_backup_step(THD *thd, unsigned step);
/* The session that has the backup of this number ends; 0: it has none. */
void frond_backup_abandon(uint64_t id);
/* A transaction that the server ordered is committed, with changes of tables that are not temporary. */
void frond_count_commit();

#endif
