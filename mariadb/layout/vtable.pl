#!/usr/bin/perl
#
# Compares virtual tables: what g++ says about the headers against what is in the server binary.
#
#   vtable.pl CLASS_DUMP SYMBOLS RELOCATIONS CLASS...
#
# CLASS_DUMP is g++ -fdump-lang-class, SYMBOLS `readelf -W --dyn-syms`, RELOCATIONS
# `readelf -W --relocs` of mariadbd. Each slot of a table is filled by a relocation: either by the
# address of a function, which the dynamic symbols may name, or by symbol. Functions with the same
# code may share an address, so a slot holds a set of names and the header's name has to be among
# them. Names are compared without parameters: the dump does not print them.
#
# Link-time optimisation made the inline functions local, so most slots have no name in the binary
# and are passed over. The named ones lie everywhere in the table: one slot more or less
# shifts all that follow it and cannot go unseen.
#
# Prints one line of figures; on a difference lists the slots and exits with 1.

use strict;
use warnings;

my ($dump_file, $symbol_file, $relocation_file, @classes) = @ARGV;
my $slot_size = 8;
my $unnamed = '(no name)';

# Virtual tables of the headers: class -> list of "handler::rnd_end", "0" for an empty slot.
sub read_dump {
    my %tables;
    my $current;
    open my $in, '<', $dump_file or die "$dump_file: $!\n";
    while (<$in>) {
        if (/^Vtable for (\S+)$/) { $current = $tables{$1} = []; next; }
        if (/^\s*$/) { undef $current; next; }
        next unless $current;
        # "16    (int (*)(...))handler::clone"; "40    0" is a slot that is never called, such as
        # the destructor's of an abstract class.
        push @$current, $1 if /^\d+\s+(?:\(int \(\*\)\(\.\.\.\)\))?(\S.*)$/;
    }
    return %tables;
}

my (%address_of, %size_of, %names_at);

sub read_symbols {
    open my $in, '<', $symbol_file or die "$symbol_file: $!\n";
    while (<$in>) {
        # Num: Value Size Type Bind Vis Ndx Name
        my @f = split;
        next unless @f >= 8 && $f[0] =~ /^\d+:$/ && $f[6] ne 'UND';
        (my $name = $f[7]) =~ s/@.*//;
        my $address = hex $f[1];
        $address_of{$name} = $address;
        $size_of{$name} = $f[2] =~ /^0x/ ? hex $f[2] : $f[2];
        push @{ $names_at{$address} }, $name;
    }
}

# Slot address -> mangled names.
sub read_relocations {
    my %wanted = @_;
    my %slots;
    open my $in, '<', $relocation_file or die "$relocation_file: $!\n";
    while (<$in>) {
        my @f = split;
        next unless @f >= 4 && $f[0] =~ /^[0-9a-f]{16}$/;
        my $at = hex $f[0];
        next unless $wanted{$at};
        if ($f[2] =~ /_RELATIVE$/) { $slots{$at} = $names_at{ hex $f[3] } || [$unnamed]; }
        else { (my $n = $f[4]) =~ s/@.*//; $slots{$at} = [$n]; }
    }
    return %slots;
}

sub demangle {
    my %plain;
    my @names = keys %{ { map { $_ => 1 } @_ } };
    return () unless @names;
    open my $list, '>', "$dump_file.names" or die "$dump_file.names: $!\n";
    print $list "$_\n" for @names;
    close $list;
    open my $in, '-|', "c++filt --no-params <'$dump_file.names'" or die "c++filt: $!\n";
    for my $name (@names) {
        my $line = <$in>;
        chomp $line;
        $line =~ s/\[abi:.*?\]//g;
        $plain{$name} = $line;
    }
    return %plain;
}

my %tables = read_dump();
read_symbols();
my %wanted;
for my $class (@classes) {
    my $symbol = '_ZTV' . length($class) . $class;
    die "the headers have no virtual table of $class\n" unless $tables{$class};
    die "mariadbd does not export the virtual table of $class\n" unless $address_of{$symbol};
    my $slots = $size_of{$symbol} / $slot_size;
    my $expected = $tables{$class};
    # Both counts hold the two header words: the offset to the top and the type information.
    die sprintf "%s: the headers have %d virtual slots, mariadbd has %d\n", $class,
        scalar @$expected, $slots
        unless $slots == @$expected;
    $wanted{ $address_of{$symbol} + $slot_size * $_ } = 1 for 0 .. $slots - 1;
}
my %slots = read_relocations(%wanted);
my %plain = demangle(map { @$_ } values %slots);

my (@problems, @figures);
for my $class (@classes) {
    my $base = $address_of{ '_ZTV' . length($class) . $class };
    my $expected = $tables{$class};
    my $named = 0;
    for my $i (2 .. $#$expected) {
        # A slot without a relocation is a null pointer.
        my @names = map { $plain{$_} || $_ } @{ $slots{ $base + $slot_size * $i } || ['0'] };
        next if $names[0] eq $unnamed;
        $named++;
        my $want = $expected->[$i];
        next if grep { $_ eq $want } @names;
        push @problems, "$class slot $i: the headers say $want, mariadbd has "
            . join(' = ', @names);
    }
    die "only $named slots of $class have a name in mariadbd: that proves nothing\n"
        if $named < @$expected / 8;
    push @figures, "$class " . scalar(@$expected) . " slots, $named by name";
}
if (@problems) {
    print STDERR "$_\n" for @problems[0 .. ($#problems < 9 ? $#problems : 9)];
    print STDERR scalar(@problems) . " virtual slots differ between the headers and mariadbd\n";
    exit 1;
}
print join(', ', @figures), "\n";
