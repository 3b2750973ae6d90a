//! The words of MariaDB's grammar and their properties.
//!
//! The lists are those of a MariaDB 10.11 server (`information_schema.keywords` and
//! `.sql_functions`; a word is reserved if that server refuses it as a column's name). A word is
//! looked up by a hash of its first and last eight bytes, in a table that is made at
//! compile time: no lookup takes more than a few nanoseconds, whatever the word.
//!
//! Invariant: words are compared by their bytes with bit 0x20 set. For bytes that a word can have,
//! this folds the case of ASCII letters and confuses nothing else.

use super::scan;

/// Properties of a word; bits may be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits(u16);

impl Traits {
    /// Not a keyword.
    pub(super) const NONE: Traits = Traits(0);
    /// A keyword that cannot be a name without quotes.
    pub(super) const RESERVED: Traits = Traits(1);
    /// A keyword that can be a name.
    pub(super) const FREE: Traits = Traits(2);
    /// The name of a function; a keyword only directly before a parenthesis.
    pub(super) const FUNCTION: Traits = Traits(4);
    /// An expression follows it: a sign behind it is not an operator, and NULL is a value.
    pub(super) const EXPRESSION: Traits = Traits(8);
    /// The native dialect treats this word specially.
    pub(super) const SPECIAL: Traits = Traits(32);
    /// Not a function: a parenthesis behind it belongs to something else.
    pub(super) const CLAUSE: Traits = Traits(16);

    pub(super) const fn has(self, other: Traits) -> bool {
        self.0 & other.0 != 0
    }

    /// A keyword wherever it stands.
    pub(super) const fn is_keyword(self) -> bool {
        self.0 & (Traits::RESERVED.0 | Traits::FREE.0) != 0
    }
}

/// Reserved words, other keywords, functions; then the words after which an expression follows,
/// and those that begin or belong to a clause.
const RESERVED: &str = "\
    accessible add all alter analyze and as asc asensitive before between bigint binary blob \
    both by call cascade case change char character check collate column condition constraint \
    continue convert create cross current_date current_role current_time current_timestamp \
    current_user cursor databases day_hour day_microsecond day_minute day_second dec decimal \
    declare default delayed delete delete_domain_id desc describe deterministic distinct \
    distinctrow div do_domain_ids double drop dual each else elseif enclosed escaped except \
    exists exit explain false fetch float float4 float8 for force foreign from fulltext grant \
    group having high_priority hour_microsecond hour_minute hour_second if ignore \
    ignore_domain_ids in index infile inner inout insensitive insert int int1 int2 int3 int4 \
    int8 integer intersect interval into is iterate join key keys kill leading leave left like \
    limit linear lines load localtime localtimestamp lock long longblob longtext loop \
    low_priority master_demote_to_replica master_demote_to_slave master_ssl_verify_server_cert \
    match maxvalue mediumblob mediumint mediumtext middleint minute_microsecond minute_second \
    mod modifies natural no_write_to_binlog not null numeric offset on optimize optionally or \
    order out outer outfile over page_checksum parse_vcol_expr partition portion precision \
    primary procedure purge range read read_write reads real recursive ref_system_id references \
    regexp release rename repeat replace require resignal restrict return returning revoke right \
    rlike row_number rows schemas second_microsecond select sensitive separator set show signal \
    smallint spatial specific sql sql_big_result sql_calc_found_rows sql_small_result \
    sqlexception sqlstate sqlwarning ssl starting stats_auto_recalc stats_persistent \
    stats_sample_pages straight_join table terminated then tinyblob tinyint tinytext to trailing \
    trigger true undo union unique unlock unsigned update usage use using utc_date utc_time \
    utc_timestamp values varbinary varchar varcharacter varying when where while with write xor \
    year_month zerofill \
    ";
const FREE: &str = "\
    account action admin after against aggregate algorithm always any ascii at atomic authors \
    auto auto_increment autoextend_size avg avg_row_length backup begin binlog bit block body \
    bool boolean btree byte cache cascaded catalog_name chain changed channel charset checkpoint \
    checksum cipher class_origin client clob close coalesce code collation column_add \
    column_check column_create column_delete column_get column_name columns comment commit \
    committed compact completion compressed concurrent connection consistent constraint_catalog \
    constraint_name constraint_schema contains context contributors cpu cube current current_pos \
    cursor_name cycle data database datafile date datetime day deallocate definer \
    delay_key_write des_key_file diagnostics directory disable discard disk do dumpfile \
    duplicate dynamic elsif empty enable end ends engine engines enum error errors escape event \
    events every examined exception exchange exclude execute expansion expire export extended \
    extent_size fast faults federated fields file first fixed flush following follows format \
    found full function general generated get get_format global goto grants handler hard hash \
    help history host hosts hour id identified ignore_server_ids ignored immediate import \
    increment indexes initial_size insert_method install invisible invoker io io_thread ipc \
    isolation isopen issuer json json_table key_block_size language last last_value lastval \
    leaves less level list local locked locks logfile logs master master_connect_retry \
    master_delay master_gtid_pos master_heartbeat_period master_host master_log_file \
    master_log_pos master_password master_port master_server_id master_ssl master_ssl_ca \
    master_ssl_capath master_ssl_cert master_ssl_cipher master_ssl_crl master_ssl_crlpath \
    master_ssl_key master_use_gtid master_user max_connections_per_hour max_queries_per_hour \
    max_rows max_size max_statement_time max_updates_per_hour max_user_connections medium memory \
    merge message_text microsecond migrate min_rows minus minute minvalue mode modify monitor \
    month mutex mysql mysql_errno name names national nchar nested never next nextval no no_wait \
    nocache nocycle nodegroup nomaxvalue nominvalue none notfound nowait number nvarchar of \
    old_password one online only open option options ordinality others overlaps owner pack_keys \
    package page parser partial partitioning partitions password path period persistent phase \
    plugin plugins port precedes preceding prepare preserve prev previous privileges process \
    processlist profile profiles proxy quarter query quick raise raw read_only rebuild recover \
    redo_buffer_size redofile redundant relay relay_log_file relay_log_pos relay_thread relaylog \
    reload remove reorganize repair repeatable replay replica replica_pos replicas replication \
    reset restart restore resume returned_sqlstate returns reuse reverse role rollback rollup \
    routine row row_count row_format rowcount rownum rowtype rtree savepoint schedule schema \
    schema_name second security sequence serial serializable server session setval share \
    shutdown signed simple skip slave slave_pos slaves slow snapshot socket soft some soname \
    sounds source sql_buffer_result sql_cache sql_no_cache sql_thread sql_tsi_day sql_tsi_hour \
    sql_tsi_minute sql_tsi_month sql_tsi_quarter sql_tsi_second sql_tsi_week sql_tsi_year stage \
    start starts statement status stop storage stored string subclass_origin subject \
    subpartition subpartitions super suspend swaps switches sysdate system system_time \
    table_checksum table_name tables tablespace temporary temptable text than threads ties time \
    timestamp timestampadd timestampdiff transaction transactional triggers truncate type \
    unbounded uncommitted undefined undo_buffer_size undofile unicode uninstall unknown until \
    upgrade use_frm user user_resources value varchar2 variables versioning via view virtual \
    visible wait warnings week weight_string window within without work wrapper x509 xa xml year \
    ";
const FUNCTIONS: &str = "\
    adddate bit_and bit_or bit_xor cast count cume_dist curdate curtime date_add date_sub \
    dense_rank extract first_value group_concat json_arrayagg json_objectagg lag lead max median \
    mid min now nth_value ntile percent_rank percentile_cont percentile_disc position rank \
    session_user std stddev stddev_pop stddev_samp subdate substr substring sum system_user trim \
    trim_oracle var_pop var_samp variance \
    ";
const EXPRESSION: &str = "\
    all and between by case distinct distinctrow div do else elseif having high_priority if in \
    interval like limit offset on or regexp return returning rlike select set \
    sql_calc_found_rows sql_no_cache straight_join then until value values when where while xor \
    ";
const SPECIAL: &str = "\
    in values value null true false date time timestamp asc union select use limit \
    case when else end \
    ";
const CLAUSE: &str = "\
    add against all and any as between binary by call case check constraint cross default delete \
    distinct div do else elseif end escape except exists for foreign from group having ignore \
    index inner insert intersect into is join key like limit natural not on or order outer over \
    partition primary recursive references regexp return returning rlike select set some \
    straight_join table then to union unique until update using view when when where while \
    window with xor \
    ";

const SLOTS: usize = 2048;

/// A word as its first eight bytes and, if it is longer, its last eight, each byte with bit 0x20
/// set; zero where there is no byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    first: u64,
    last: u64,
    len: u8,
}

const FOLD: u64 = 0x2020_2020_2020_2020;
/// The longest word of the lists. The middle of a word of more than sixteen bytes is not compared;
/// `no_two_words_share_a_key` makes sure that this confuses no keywords.
const LONGEST: usize = 31;

impl Key {
    const fn slot(self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(29))
            .wrapping_add(self.len as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 53) as usize
    }

    /// The key of a word of the lists.
    const fn of_const(word: &[u8]) -> Key {
        let len = word.len();
        let last = if len > 8 { group(word, len - 8, 8) } else { 0 };
        Key { first: group(word, 0, if len < 8 { len } else { 8 }), last, len: len as u8 }
    }

    /// The key of a word at run time; `first` is its first eight bytes, including whatever follows
    /// it.
    #[inline(always)]
    fn of(word: &[u8], first: u64) -> Key {
        let last = match word.last_chunk::<8>() {
            Some(last) if word.len() > 8 => u64::from_le_bytes(*last) | FOLD,
            _ => 0,
        };
        let first = scan::first_bytes(first | FOLD, word.len());
        Key { first, last, len: word.len() as u8 }
    }
}

/// `len` bytes from `at` in little-endian order, case folded.
const fn group(word: &[u8], at: usize, len: usize) -> u64 {
    let mut value = 0;
    let mut i = len;
    while i > 0 {
        i -= 1;
        value = value << 8 | (word[at + i] | 0x20) as u64;
    }
    value
}

#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    traits: Traits,
}

/// A hash table with open addressing and linear probing, two fifths full.
static TABLE: [Slot; SLOTS] = {
    let none = Slot { key: Key { first: 0, last: 0, len: 0 }, traits: Traits(0) };
    let mut table = [none; SLOTS];
    let lists = [
        (RESERVED, Traits::RESERVED),
        (FREE, Traits::FREE),
        (FUNCTIONS, Traits::FUNCTION),
        (EXPRESSION, Traits::EXPRESSION),
        (CLAUSE, Traits::CLAUSE),
        (SPECIAL, Traits::SPECIAL),
    ];
    let mut list = 0;
    while list < lists.len() {
        let (text, traits) = lists[list];
        let mut rest = text.as_bytes();
        while let Some((first, _)) = rest.split_first() {
            if *first == b' ' {
                rest = rest.split_at(1).1;
                continue;
            }
            let mut len = 0;
            while len < rest.len() && rest[len] != b' ' {
                len += 1;
            }
            let (word, after) = rest.split_at(len);
            rest = after;
            let key = Key::of_const(word);
            let mut at = key.slot();
            while table[at].key.len != 0
                && !(table[at].key.first == key.first
                    && table[at].key.last == key.last
                    && table[at].key.len == key.len)
            {
                at = (at + 1) % SLOTS;
            }
            table[at].key = key;
            table[at].traits = Traits(table[at].traits.0 | traits.0);
        }
        list += 1;
    }
    table
};

/// The properties of `word`, whatever its case.
#[inline]
pub(super) fn traits(word: &[u8]) -> Traits {
    traits_of(word, scan::load(word, 0))
}

/// The same, given the eight bytes from the word's first on.
#[inline(always)]
pub(super) fn traits_of(word: &[u8], first: u64) -> Traits {
    if word.is_empty() || word.len() > LONGEST {
        return Traits::NONE;
    }
    let key = Key::of(word, first);
    let mut at = key.slot();
    loop {
        let slot = &TABLE[at % SLOTS];
        if slot.key == key {
            return slot.traits;
        }
        if slot.key.len == 0 {
            return Traits::NONE;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(word: &str) -> Key {
        Key::of(word.as_bytes(), scan::load(word.as_bytes(), 0))
    }

    fn words() -> Vec<&'static str> {
        [RESERVED, FREE, FUNCTIONS].iter().flat_map(|list| list.split_whitespace()).collect()
    }

    #[test]
    fn every_word_is_found_in_either_case() {
        for word in words() {
            assert_ne!(traits(word.as_bytes()), Traits::NONE, "{word}");
            assert_eq!(traits(word.to_uppercase().as_bytes()), traits(word.as_bytes()), "{word}");
            assert!(word.len() <= LONGEST, "{word}");
            assert!(key(word) == Key::of_const(word.as_bytes()), "{word}");
        }
    }

    #[test]
    fn no_two_words_share_a_key() {
        let words = words();
        for (i, a) in words.iter().enumerate() {
            for b in &words[i + 1..] {
                assert!(a == b || key(a) != key(b), "{a} {b}");
            }
        }
    }

    #[test]
    fn what_is_no_word_of_the_grammar_has_no_traits() {
        for word in
            ["customers", "id_", "selects", "x", "_", "selec", "7", "master_ssl_verify_xx_cert"]
        {
            assert_eq!(traits(word.as_bytes()), Traits::NONE, "{word}");
        }
        assert!(
            traits(b"SELECT").has(Traits::EXPRESSION) && traits(b"select").has(Traits::RESERVED)
        );
        assert!(traits(b"count").has(Traits::FUNCTION) && !traits(b"count").is_keyword());
    }
}
