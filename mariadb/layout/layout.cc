// What the layout check compares with the installed server: compiled by check.sh, never linked. It includes
// what the engine includes, so that the compiler's dump of the class layouts is the engine's view.
//
// EXPECTED_VERSION_ID comes from the server binary; the server refuses any other at load time, and
// here the message is clearer and earlier.

#define MYSQL_SERVER 1
#include <my_global.h>
#include <mysql_version.h>
#include "sql_class.h"
#include "field.h"
#include "handler.h"

static_assert(MYSQL_VERSION_ID == EXPECTED_VERSION_ID,
              "the headers are not those of the installed server: run scripts/setup.sh server");

// Debian's server is a release build; DBUG_ASSERT members would shift every class.
#ifndef DBUG_OFF
#error "compile with -DDBUG_OFF"
#endif
#ifdef EMBEDDED_LIBRARY
#error "EMBEDDED_LIBRARY changes TABLE and THD"
#endif
