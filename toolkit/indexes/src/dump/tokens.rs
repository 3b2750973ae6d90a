//! A statement's tokens in the form that the parser needs: words compared without case, names without quotes,
//! pairs of parentheses skipped.

use frond_sqltext::{SqlMode, Token, TokenKind};

/// A position in a statement. A copy is a mark to return to.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'a> {
    sql: &'a [u8],
    tokens: &'a [Token],
    at: usize,
}

/// All tokens of `sql`.
pub(super) fn tokens(sql: &[u8]) -> Vec<Token> {
    frond_sqltext::tokens(sql, SqlMode::default()).collect()
}

impl<'a> Tokens<'a> {
    pub(super) fn new(sql: &'a [u8], tokens: &'a [Token]) -> Tokens<'a> {
        Tokens { sql, tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<TokenKind> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    fn bytes(&self, at: usize) -> &'a [u8] {
        self.tokens.get(at).map_or(b"", |t| &self.sql[t.start..t.end])
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    pub(super) fn ended(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Whether the next token is this keyword.
    pub(super) fn sees(&self, word: &str) -> bool {
        self.peek() == Some(TokenKind::Word)
            && self.bytes(self.at).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Consumes the keywords if all of them come next.
    pub(super) fn take(&mut self, words: &[&str]) -> bool {
        let mark = *self;
        for word in words {
            if !self.sees(word) {
                *self = mark;
                return false;
            }
            self.at += 1;
        }
        true
    }

    pub(super) fn take_kind(&mut self, kind: TokenKind) -> bool {
        let is = self.peek() == Some(kind);
        self.at += usize::from(is);
        is
    }

    /// A name: a word, or a quoted name; `"..."` is a name under ANSI_QUOTES, and cannot be a string here.
    pub(super) fn name(&mut self) -> Option<String> {
        let bytes = self.bytes(self.at);
        let name = match self.peek()? {
            TokenKind::Word => String::from_utf8_lossy(bytes).into_owned(),
            TokenKind::Quoted => unquoted(bytes, b'`'),
            TokenKind::Text if bytes.first() == Some(&b'"') => unquoted(bytes, b'"'),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// `[db.]name`.
    pub(super) fn full_name(&mut self) -> Option<(Option<String>, String)> {
        let first = self.name()?;
        if self.take_kind(TokenKind::Dot) {
            return Some((Some(first), self.name()?));
        }
        Some((None, first))
    }

    /// The value of a number or of the digits in parentheses that follow.
    pub(super) fn number(&mut self) -> Option<u32> {
        let text = std::str::from_utf8(self.bytes(self.at)).ok()?;
        let number = text.parse().ok()?;
        self.at += 1;
        Some(number)
    }

    /// Consumes from `(` to its `)`; returns the text of both and what is between, with the statement's own
    /// spacing.
    pub(super) fn pair(&mut self) -> Option<String> {
        let from = self.tokens.get(self.at)?.start;
        if !self.take_kind(TokenKind::Open) {
            return None;
        }
        let mut depth = 1;
        while depth > 0 {
            match self.peek()? {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        let to = self.tokens[self.at - 1].end;
        Some(String::from_utf8_lossy(&self.sql[from..to]).into_owned())
    }

    /// Whether a definition ends here.
    pub(super) fn ends(&self) -> bool {
        use TokenKind::{Close, Comma, Semicolon};
        matches!(self.peek(), None | Some(Comma | Close | Semicolon))
    }

    /// Skips a token, or from `(` to its `)`. `None`: this parenthesis is not closed.
    pub(super) fn skip_one(&mut self) -> Option<()> {
        if self.peek() == Some(TokenKind::Open) {
            self.pair()?;
        } else {
            self.skip();
        }
        Some(())
    }

    /// Skips to the `,` or `)` that ends this definition, or to the end.
    pub(super) fn skip_definition(&mut self) {
        while !self.ends() {
            if self.skip_one().is_none() {
                self.at = self.tokens.len();
            }
        }
    }

    /// `( item, ... )`: `each` takes what it wants of an item, the rest is skipped. `None`: it is not closed.
    pub(super) fn list(
        &mut self,
        each: &mut dyn FnMut(&mut Tokens<'a>) -> Option<()>,
    ) -> Option<()> {
        if !self.take_kind(TokenKind::Open) {
            return None;
        }
        loop {
            each(self)?;
            self.skip_definition();
            if self.take_kind(TokenKind::Close) {
                return Some(());
            }
            if !self.take_kind(TokenKind::Comma) {
                return None;
            }
        }
    }

    /// The next token as text, whatever it is; empty at the end.
    pub(super) fn text(&mut self) -> String {
        let text = String::from_utf8_lossy(self.bytes(self.at)).into_owned();
        self.at += 1;
        text
    }
}

fn unquoted(bytes: &[u8], quote: u8) -> String {
    let inner = bytes.strip_prefix(&[quote]).unwrap_or(bytes);
    let inner = inner.strip_suffix(&[quote]).unwrap_or(inner);
    let quote = char::from(quote);
    let doubled = format!("{quote}{quote}");
    String::from_utf8_lossy(inner).replace(&doubled, &quote.to_string())
}
