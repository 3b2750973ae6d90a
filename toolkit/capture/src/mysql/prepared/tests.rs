//! Executions as a client sends them, and the text that is shown.

use super::*;

fn execute(id: u32, count: usize, nulls: &[u8], types: Option<&[u16]>, values: &[u8]) -> Vec<u8> {
    let mut out = id.to_le_bytes().to_vec();
    out.extend([0, 1, 0, 0, 0]);
    if count > 0 {
        out.extend(nulls);
        out.push(u8::from(types.is_some()));
        for t in types.unwrap_or_default() {
            out.extend(t.to_le_bytes());
        }
        out.extend(values);
    }
    out
}

fn long_data(statements: &mut Statements, payload: &[u8]) {
    statements.long_data(payload, payload.len() as u64 + 5);
}

fn text(statements: &mut Statements, payload: &[u8]) -> String {
    let mut out = Vec::new();
    assert!(statements.execution(payload, Some(false), 1 << 20, &mut out));
    String::from_utf8(out).unwrap()
}

#[test]
fn values_of_every_type_are_filled_in() {
    let mut all = Statements::default();
    all.prepared(1, b"select ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?");
    let types = [1, 0x8001, 2, 0x8003, 8, 0x8008, 4, 5, 0xfd, 0x0c, 0x0a, 0x0b];
    let mut values = vec![0xff, 0xff, 0xfe, 0xff];
    values.extend(4_000_000_000u32.to_le_bytes());
    values.extend((-5i64).to_le_bytes());
    values.extend(u64::MAX.to_le_bytes());
    values.extend(1.5f32.to_le_bytes());
    values.extend((-0.25f64).to_le_bytes());
    values.extend(b"\x04it's");
    values.extend([7, 0xd9, 7, 12, 1, 10, 11, 12]);
    values.extend([4, 0xd9, 7, 12, 1]);
    values.extend([12, 1, 1, 0, 0, 0, 2, 3, 4, 7, 0, 0, 0]);
    let payload = execute(1, 12, &[0, 0], Some(&types), &values);
    assert_eq!(
        text(&mut all, &payload),
        "select -1, 255, -2, 4000000000, -5, 18446744073709551615, 1.5, -0.25, 'it\\'s', \
         '2009-12-01 10:11:12', '2009-12-01', '-26:03:04.000007'"
    );
}

#[test]
fn types_are_remembered_and_nulls_have_no_value() {
    let mut all = Statements::default();
    all.prepared(1, b"SELECT i FROM d.t WHERE i=? AND j=?");
    let first = execute(1, 2, &[1], Some(&[6, 0xfd]), b"\x015");
    assert_eq!(text(&mut all, &first), "SELECT i FROM d.t WHERE i=NULL AND j='5'");
    let again = execute(1, 2, &[1], None, b"\x0277");
    assert_eq!(text(&mut all, &again), "SELECT i FROM d.t WHERE i=NULL AND j='77'");
    all.prepared(2, b"select ?");
    let never_bound = execute(2, 1, &[0], None, b"\x011");
    assert_eq!(text(&mut all, &never_bound), "select ?");
}

#[test]
fn long_data_comes_ahead_in_pieces_and_serves_once() {
    let mut all = Statements::default();
    all.prepared(3, b"insert into t values (?, ?)");
    for piece in [&b"ab"[..], b"cd"] {
        long_data(&mut all, &[&3u32.to_le_bytes()[..], &0u16.to_le_bytes(), piece].concat());
    }
    let types = [0xfc, 3];
    let payload = execute(3, 2, &[0], Some(&types), &7u32.to_le_bytes());
    assert_eq!(text(&mut all, &payload), "insert into t values ('abcd', 7)");
    assert_eq!(all.long_bytes, 0);
    long_data(&mut all, &[&3u32.to_le_bytes()[..], &0u16.to_le_bytes(), b"ef"].concat());
    let payload = execute(3, 2, &[1], Some(&types), &7u32.to_le_bytes());
    assert_eq!(text(&mut all, &payload), "insert into t values ('ef', 7)");
    let payload = execute(3, 2, &[0], Some(&types), b"\x01x\x07\0\0\0");
    assert_eq!(text(&mut all, &payload), "insert into t values ('x', 7)");
}

#[test]
fn values_are_not_shown_if_a_part_of_them_may_be_lost() {
    let mut all = Statements::default();
    all.prepared(3, b"insert into t values (?, ?)");
    long_data(&mut all, &[&3u32.to_le_bytes()[..], &0u16.to_le_bytes(), b"first"].concat());
    all.doubt();
    long_data(&mut all, &[&3u32.to_le_bytes()[..], &0u16.to_le_bytes(), b"second"].concat());
    let payload = execute(3, 2, &[0], Some(&[0xfc, 3]), &7u32.to_le_bytes());
    assert_eq!(text(&mut all, &payload), "insert into t values (?, ?)");
    let payload = execute(3, 2, &[0], None, b"\x01x\x07\0\0\0");
    assert_eq!(text(&mut all, &payload), "insert into t values ('x', 7)");
    all.doubt();
    all.doubt();
    assert_eq!(text(&mut all, &payload), "insert into t values (?, ?)");
    assert_eq!(text(&mut all, &payload), "insert into t values (?, ?)");
    assert_eq!(all.long_bytes, 0);
}

#[test]
fn a_packet_that_does_not_fit_leaves_the_placeholders() {
    let mut all = Statements::default();
    all.prepared(1, b"select ?, ?");
    for length in 0..20 {
        let payload = execute(1, 2, &[0], Some(&[0xfd, 0xfd]), b"\x03abc\x03def");
        let payload = &payload[..payload.len() - 1 - length.min(payload.len() - 5)];
        assert_eq!(text(&mut all, payload), "select ?, ?");
    }
    assert!(!all.execution(&9u32.to_le_bytes(), None, 9, &mut Vec::new()));
}

/// MySQL 8: the flags (8) say that a count follows and types have names, whether or not the login,
/// which agreed on it, was seen.
#[test]
fn named_values_are_known_by_the_flags() {
    let named = [&[7, 0, 0, 0, 8, 1, 0, 0, 0, 1, 0, 1][..], b"\xfd\0\x02id\x01x"].concat();
    for agreed in [Some(true), None] {
        let mut all = Statements::default();
        all.prepared(7, b"select ?");
        let mut out = Vec::new();
        assert!(all.execution(&named, agreed, 100, &mut out));
        assert_eq!(out, b"select 'x'", "{agreed:?}");
    }
}

#[test]
fn the_last_prepared_can_be_meant_without_its_number() {
    let mut all = Statements::default();
    all.prepared(8, b"select 1");
    assert_eq!(text(&mut all, &execute(u32::MAX, 0, &[], None, &[])), "select 1");
    all.close(8);
    assert!(!all.execution(&u32::MAX.to_le_bytes(), None, 9, &mut Vec::new()));
    assert_eq!(all.text_bytes, 0);
}

#[test]
fn bulk_executions_show_their_first_row_and_count_the_rest() {
    let mut all = Statements::default();
    all.prepared(1, b"insert into t values (?, ?)");
    let mut payload = 1u32.to_le_bytes().to_vec();
    payload.extend([0x80, 0, 3, 0, 0xfd, 0]);
    for (n, s) in [(5u32, &b"\x00\x01a"[..]), (6, b"\x01"), (7, b"\x02")] {
        payload.push(0);
        payload.extend(n.to_le_bytes());
        payload.extend(s);
    }
    let mut out = Vec::new();
    assert_eq!(all.bulk_execution(&payload, 100, &mut out), Some(3));
    assert_eq!(out, b"insert into t values (5, 'a')");
    out.clear();
    assert_eq!(all.bulk_execution(&payload[..payload.len() - 1], 100, &mut out), Some(0));
    assert_eq!(out, b"insert into t values (?, ?)");
}

#[test]
fn memory_is_bounded() {
    let mut all = Statements::default();
    for id in 0..2 * MOST_STATEMENTS as u32 {
        all.prepared(id, &[b'x'; 2000]);
    }
    assert!(all.by_id.len() <= MOST_STATEMENTS && all.text_bytes <= MOST_TEXT);
    let mut all = Statements::default();
    all.prepared(1, b"?");
    for _ in 0..100 {
        long_data(&mut all, &[&[1, 0, 0, 0, 0, 0][..], &[b'x'; 10_000]].concat());
    }
    assert!(all.bytes() <= MOST_LONG + 1000);
}
