#!/usr/bin/perl
#
# Brings the expected results of MariaDB's storage_engine suite up to what a 10.11 server prints.
#
#   modernise-results.pl FILE.result...      edits in place; mtr.sh runs it on its copy of the suite
#
# The suite is older than four changes of the server that have nothing to do with engines, so that
# half of its results fit no engine at all, InnoDB included. They are mended by rule, not by
# recording what an engine prints: what differs after this is the engine's doing.
#
#  1. SHOW INDEX has a last column, Ignored, which is NO.
#  2. utf8 is called utf8mb3, and SHOW CREATE TABLE prints the collation beside it. (The latin1
#     collation is taken off in mask_engine.inc of the overlay.)
#  3. Messages name MariaDB where they named MySQL.
#  4. SHOW CREATE TABLE prints DEFAULT NULL of a column that was altered, and no collation of a
#     column that has its table's.

use strict;
use warnings;

local $^I = '';
my $in_index_list = 0;
while (<>) {
    if (/^Table\tNon_unique\t.*\tIndex_comment$/) {
        s/$/\tIgnored/;
        $in_index_list = 1;
    } elsif ($in_index_list) {
        # Twelve tabs: a row of the list. Anything else ends it.
        if (tr/\t// == 12) { s/$/\tNO/; }
        else { $in_index_list = 0; }
    }
    s/CHARSET=utf8(?=[ \n])/CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci/ if /^\) ENGINE/;
    s/CHARACTER SET utf8(?=[ ,\n])/CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci/ if /^  `/;
    s/^(  `\w+` int\(11\)),$/$1 DEFAULT NULL,/;
    s/ COLLATE latin1_general_cs(?= DEFAULT)// if /^  `/;
    s/"MySQL thread id/"MariaDB thread id/ if /^call mtr/;
    print;
    $in_index_list = 0 if eof;
}
