/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Tables of the core that the server does not know any more: which they are, and when they go.
 */
#ifndef FROND_LEFTOVERS_H
#define FROND_LEFTOVERS_H

struct handlerton;
class THD;

void frond_install_leftovers(handlerton *hton);
/* Drops temporary tables in the database itself, where earlier releases had them. Their sessions have ended. */
void frond_drop_old_temporary();
/* For DROP TABLE: drops what is left of a partitioned table that the server has no files of. FROND_NOT_FOUND if it has some,
 * or nothing is left, or in other statements; else 0 or an error. */
int frond_drop_partitions(THD *thd, const char *table);

#endif
