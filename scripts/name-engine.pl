#!/usr/bin/perl
#
# Points suites of MariaDB that name InnoDB or MyISAM in their text at another engine.
#
#   name-engine.pl [--innodb-only] ENGINE FILE-OR-DIRECTORY...   edits in place; mtr.sh runs it on its copy
#
# --innodb-only is rule 1 alone. In a suite about replication a MyISAM table is one that cannot be rolled back,
# and a statement that fails has to end the test: what waits for a replica would wait for minutes. In the results
# of tests that do not name MyISAM, it is the default engine's name. Waits for a thread's state know the engine's.
#
# These suites have no variable for the engine. So the name is replaced in the tests, in what they include
# and in their results alike, and a test goes on comparing what it compared.
#
#  1. InnoDB is replaced as a word of its own: in ENGINE=InnoDB and 'innodb', not in innodb_stats_persistent,
#     have_innodb.inc or --innodb. Upper and lower case follow the original, for both sides print it.
#  2. MyISAM is replaced in tests that do not name InnoDB: there it is the default engine. Tests that name
#     both need two engines; not those of sql_sequence, most of which go through the engines one by one.
#  3. Combinations of engines become one, with the engine as the default. Versioning by transaction id is
#     InnoDB's own.
#  4. A statement that the engine refuses does not end the test, nor does one that fails in another way than
#     expected: errors are part of the result, which differs there only. So --error with one error is taken
#     out; not where the test hides results, nor for commands of the shell, nor where includes of parts switch
#     between ending and going on.
#     In the suite `foreign`, which is about refusals, lists of errors are taken out too.
#  5. Sections on foreign keys are left out where the suite has a switch for it.
#
# Running the tests of the same suite for MyISAM, Aria and others by name would be the same test again:
# mtr.sh leaves those out.

use strict;
use warnings;
use File::Find;

my $innodb_only = $ARGV[0] eq '--innodb-only' && shift @ARGV;
my $engine = shift @ARGV;
my (%two_engines, %names_myisam, @files);

sub slurp {
    open my $in, '<:raw', $_[0] or die "$_[0]: $!";
    local $/;
    return scalar <$in>;
}

sub write_back {
    my ($file, $text) = @_;
    open my $out, '>:raw', $file or die "$file: $!";
    print $out $text;
    close $out or die "$file: $!";
}

sub names {
    my ($name, $file) = @_;
    return slurp($file) =~ /(?<![\w.\/-])$name(?![\w.\/-])/i;
}

sub spelled_like {
    my ($model) = @_;
    return uc $engine if $model eq uc $model;
    return lc $engine if $model eq lc $model;
    return $engine;
}

sub test_of {
    my ($name) = $_[0] =~ m{([^/]+)$};
    $name =~ s/[.,].*//;
    return $name;
}

find({ no_chdir => 1, wanted => sub {
    return unless -f && (/\.(?:test|inc|pre|result|rdiff|combinations)$/ || $innodb_only && /\.(?:opt|cnf)$/);
    push @files, $_;
    $names_myisam{test_of($_)} = 1 if /\.test$/ && names('myisam', $_);
    $two_engines{test_of($_)} = 1 if /\.test$/ && !m{/sql_sequence/} && names('innodb', $_) && names('myisam', $_);
} }, @ARGV);

for my $file (@files) {
    my $text = slurp($file);
    my $old = $text;
    if ($innodb_only) {
        $text =~ s/(?:(?<![\w.\/-])|(?<=gtid_slave_pos_))(innodb)(?![\w.\/-]|\t\t)/spelled_like($1)/gie;
        # A wait for a row lock has a limit and a state of its own.
        $text =~ s/\binnodb([-_])lock\1wait\1timeout\b/lc($engine) . "$1lock$1wait$1timeout"/gie;
        $text =~ s/\bstate *= *(["'])Updating\1/state in ('Updating', 'Waiting for a row lock ($engine)')/gi
            unless $file =~ /result$/;
        $text =~ s/^\) ENGINE=MyISAM/) ENGINE=$engine/gm
            if $file =~ /result$/ && !$names_myisam{test_of($file)}
                && $file !~ /rpl_(?:session_var2|stm_innodb|temporal_mysql56_to_mariadb53)\./;    # what they include names it
        write_back($file, $text) if $text ne $old;
        next;
    }
    if ($file =~ /\.combinations$/) {
        next unless $text =~ /^default-storage-engine=/m;
        my ($first) = $text =~ /^\[(\w+)\]/m;
        $text = "[$first]\ndefault-storage-engine=$engine\n";
    } else {
        my $names = $file =~ /\.(?:inc|pre)$/ && $file !~ /create_triggers/ || $two_engines{test_of($file)} && $file !~ m{/sql_sequence/} ? 'innodb' : 'innodb|myisam';
        $text =~ s/^let \$with_foreign_keys *= *1;$/let \$with_foreign_keys = 0;/m;
        $text =~ s/(?<![\w.\/-])($names)(?![\w.\/-]|\t\t)/spelled_like($1)/gie;
    }
    $text =~ s/^\) ENGINE=MyISAM/) ENGINE=$engine/gm if $file =~ m{(?:period|versioning|vcol/r/update|vcol/r/rpl_vcol|gcol/r/rpl_gcol)[/.].*result};
    $text =~ s/^\s*(?:--\s*)?error\s+(?:ER_\w+|\d{4})\s*;?[ \t]*\n//gmi
        if $file =~ /\.(?:test|inc)$/ && $text !~ /disable_result_log/i
            && "$file$text" !~ m{suite/parts/inc/};
    $text =~ s/^\s*(?:--\s*)?error\s+[\w\$]+(?:\s*,\s*[\w\$]+)*\s*;?[ \t]*\n//gmi if $file =~ m{suite/foreign/t/};
    $text = "--disable_abort_on_error\n$text" if $file =~ /\.test$/;
    write_back($file, $text) if $text ne $old;
}
