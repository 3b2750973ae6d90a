//! Names: quoted names, which may not need quotes; variables; databases in `USE`.

use super::{Last, Writer};
use crate::keywords::{traits, traits_of, Traits};
use crate::lexer::{in_word, Kind, Token};
use crate::scan;

impl Writer<'_> {
    /// A quoted name, `sql[start..end]`, which may not need its quotes; `first` is the eight bytes
    /// from its first on.
    #[inline(always)]
    pub(super) fn plain_name(&mut self, start: usize, end: usize, first: u64) {
        let name = &self.sql[start..end];
        let known = if self.last == Last::Dot { Traits::NONE } else { traits_of(name, first) };
        self.blank();
        if known.has(Traits::RESERVED) || scan::digits_end(self.sql, start) >= end {
            self.out.extend_from_slice(&self.sql[start - 1..=end]);
        } else {
            let written = self.out.len;
            if name.len() <= 8 {
                scan::store(&mut self.out.bytes, written, first);
                self.out.len += name.len();
            } else {
                self.out.extend_from_slice(name);
            }
            if known.is_keyword() {
                // Written as the same name without quotes.
                self.out.lower_from(written);
            }
        }
        self.last = Last::Value;
        self.clause = false;
    }

    pub(super) fn quoted(&mut self, token: Token) {
        let text = &self.sql[token.start..token.end];
        self.blank();
        let name = if text.len() > 2 { &text[1..text.len() - 1] } else { b"" };
        let known = if self.last == Last::Dot { Traits::NONE } else { traits(name) };
        let plain = text.ends_with(&text[..1])
            && !known.has(Traits::RESERVED)
            && name.iter().all(|b| in_word(*b))
            && name.iter().any(|b| !b.is_ascii_digit());
        let start = self.out.len();
        self.out.extend_from_slice(if plain { name } else { text });
        if plain && known.is_keyword() {
            // Written as the same name without quotes.
            self.out.lower_from(start);
        }
        self.last = Last::Value;
        self.clause = false;
    }

    pub(super) fn variable(&mut self, token: Token) {
        let text = &self.sql[token.start..token.end];
        self.blank();
        let start = self.out.len();
        match text.iter().position(|b| matches!(b, b'\'' | b'"')) {
            Some(quote) => {
                self.out.extend_from_slice(&text[..quote]);
                self.out.push(b'?');
            }
            None => self.out.extend_from_slice(text),
        }
        self.out.lower_from(start);
        self.last = Last::Value;
        self.clause = false;
    }

    /// `USE name`: all databases are one class.
    pub(super) fn use_db(&mut self, end: usize) {
        self.out.extend_from_slice(b"use");
        self.last = Last::Value;
        self.clause = false;
        self.lexer.seek(end);
        let mut ahead = self.lexer.clone();
        if matches!(ahead.next(), Some(Token { kind: Kind::Word | Kind::Quoted, .. })) {
            self.lexer = ahead;
            self.out.extend_from_slice(b" ?");
        }
    }
}
