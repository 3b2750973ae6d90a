/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The server's headers, in the one order and with the one set of macros in which this plugin reads them.
 *
 * Every source file includes this one first. What the plugin may use of the server: the handler-facing
 * classes (handler, handlerton, TABLE, Field, KEY, CHARSET_INFO) and exported functions. It calls no virtual
 * function of Item, and of THD it reads no more than it must (`variables`, and what tells how a statement is logged or applied):
 * their layouts change between patch releases.
 */
#ifndef FROND_SERVER_H
#define FROND_SERVER_H

#define MYSQL_SERVER 1
#include <my_global.h>
#include <mysql/plugin.h>
#include "sql_class.h"
#include "handler.h"
#include "key.h"
#include "table.h"
#include "sql_alter.h"

/* Exported by the server, declared in none of its headers. The format is BINLOG_FORMAT_UNSPEC when nothing goes to the binary log. */
extern "C" int thd_binlog_format(const MYSQL_THD thd);
extern "C" bool thd_is_slave(const MYSQL_THD thd);

#endif
