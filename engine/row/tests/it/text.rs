//! Stored rows as text.

use frond_row::{ColumnType, PartPrefix, RowText, Sort, TextStyle};

use crate::support::{coded, column, nullable, part, schema, text, weights, Table};

fn table() -> Table {
    let int = ColumnType::Int { unsigned: false };
    let var = ColumnType::VarChar { length_bytes: 1 };
    let columns = vec![
        column(0, int, 4),
        text(column(1, var, 41), 2, weights(2, true)),
        nullable(column(2, int, 2)),
        column(3, ColumnType::Binary, 3),
        text(column(4, ColumnType::Blob { length_bytes: 2 }, 10), 1, Sort::BinaryPadSpace),
    ];
    Table::new(schema(columns, vec![vec![part(1)], vec![part(2)]]))
}

#[test]
fn entries_of_any_index_print_without_a_server() {
    let table = table();
    let row = vec![
        Some(7i32.to_le_bytes().to_vec()),
        Some("Zo\u{eb}\t".into()),
        None,
        Some(vec![0xff, 0, 1]),
        Some(b"say \"hi\"".to_vec()),
    ];
    let entries = table.entries(&row, 0);
    let mut printer = RowText::new("t", table.schema.clone(), vec![]).unwrap();
    let mut print = |n: usize, style| {
        let mut out = String::new();
        let e = &entries[n];
        printer.row_to_text(n, &e.key, &e.value, style, &mut out).unwrap();
        out
    };
    assert_eq!(print(0, TextStyle::Tabs), "7\tZo\u{eb}\\t\t\\N\t0xFF0001\tsay \"hi\"");
    let json = concat!(
        r#"{"c0":7,"c1":"Zo"#,
        "\u{eb}",
        r#"\u0009","c2":null,"c3":"0xFF0001","c4":"say \"hi\""}"#
    );
    assert_eq!(print(0, TextStyle::Json), json);
    assert_eq!(print(1, TextStyle::Tabs), "Zo\u{eb}\\t\t\\N");
    let printer = RowText::new("t", table.schema.clone(), vec![]).unwrap();
    assert_eq!(printer.header(1, TextStyle::Tabs), "c1\tc2");
}

#[test]
fn hidden_row_ids_are_printed_in_json() {
    let int = ColumnType::Int { unsigned: true };
    let table = Table::new(schema(vec![column(0, int, 1)], vec![vec![]]));
    let e = table.entries(&vec![Some(vec![200])], 42).remove(0);
    let mut printer = RowText::new("t", table.schema.clone(), vec![]).unwrap();
    let mut out = String::new();
    printer.row_to_text(0, &e.key, &e.value, TextStyle::Json, &mut out).unwrap();
    assert_eq!(out, "{\"_rowid\":42,\"c0\":200}");
}

#[test]
fn keys_print_the_characters_of_their_codes() {
    let int = ColumnType::Int { unsigned: false };
    let var = ColumnType::VarChar { length_bytes: 1 };
    let columns = vec![
        text(column(0, var, 41), 2, coded(2, weights(2, true))),
        nullable(text(column(1, var, 41), 2, coded(2, weights(2, false)))),
        column(2, int, 1),
    ];
    let mut prefixed = part(1);
    prefixed.prefix = Some(PartPrefix { bytes: 8, chars: 2 });
    prefixed.descending = true;
    let table = Table::new(schema(columns, vec![vec![part(0), part(2)], vec![prefixed]]));
    let mut printer = RowText::new("t", table.schema.clone(), vec![]).unwrap();
    let mut print = |a: &str, b: Option<&str>, index: usize| {
        let row = vec![Some(a.into()), b.map(|b| b.into()), Some(vec![0])];
        let entries = table.entries(&row, 0);
        printer.key_to_text(index, &entries[index].key)
    };
    assert_eq!(print("Three", None, 0), "c0=~\"three\", c2=0");
    assert_eq!(print("a", Some("LONG"), 1), "c1=~\"lo\", c0=~\"a\", c2=0");
    assert_eq!(print("a", None, 1), "c1=NULL, c0=~\"a\", c2=0");
    assert!(print("\u{e9}", None, 0).starts_with("c0=0x"));
}
