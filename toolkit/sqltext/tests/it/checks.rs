//! Checks that hold for any bytes as a statement. The tests here, those of dependent crates and
//! the targets in `fuzz/` at the root of the repository call them.

use frond_sqltext::{
    class_hash, distill, fingerprint_with, redact, shorten, tables, ClassId, Dialect, SqlMode,
    StatementKind,
};

pub const MODES: [SqlMode; 4] = [
    SqlMode { ansi_quotes: false, no_backslash_escapes: false },
    SqlMode { ansi_quotes: true, no_backslash_escapes: false },
    SqlMode { ansi_quotes: false, no_backslash_escapes: true },
    SqlMode { ansi_quotes: true, no_backslash_escapes: true },
];

/// Does everything that is ever done with a statement.
pub fn statement(sql: &[u8]) {
    let mut out = b"left over".to_vec();
    let mut found = Vec::new();
    for mode in MODES {
        for dialect in Dialect::ALL {
            fingerprint_with(sql, dialect, mode, &mut out);
            let most = 3 * sql.len() + 64;
            assert!(out.len() <= most, "{dialect} makes {} bytes of {}", out.len(), sql.len());
            let first = out.clone();
            fingerprint_with(sql, dialect, mode, &mut out);
            assert_eq!(first, out, "what a call leaves behind changes the next");
        }
        redact(sql, mode, &mut out);
        assert!(out.len() <= sql.len() + 1, "redacted {} of {}", out.len(), sql.len());
        tables(sql, mode, &mut found);
    }
    shorten(sql, 100, &mut out);
    assert!(out.len() <= 100 + 64);
    distill(sql, &mut out);
    assert!(out.len() <= 3 * sql.len() + 64, "distilled {} to {}", sql.len(), out.len());
    StatementKind::of(sql);
    assert_eq!(ClassId::of(sql).to_string().len(), 32);
    class_hash(sql);
}
