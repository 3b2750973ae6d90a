//! A connection in a general log: user, host and database.
//!
//! Names are written unquoted, so a blank or an `@` in a name looks like a separator. A host has
//! neither, and there are few names of protocols: both decide where names end.

/// The known attributes of a connection.
#[derive(Default)]
pub(super) struct Connection {
    pub user: Box<[u8]>,
    pub host: Box<[u8]>,
    pub db: Box<[u8]>,
    /// Its `Connect` was seen, and no refusal.
    pub open: bool,
    /// Number of starts of a server that were seen before its last entry.
    pub starts: u32,
}

/// The servers' names of protocols, behind ` using `; old servers write none.
const PROTOCOLS: [&[u8]; 7] =
    [b"Socket", b"TCP/IP", b"SSL/TLS", b"Named Pipe", b"Shared Memory", b"Internal", b"Error"];

/// Reads `user@host on db using Socket`, `user@host as anonymous on db`, and the message about a
/// refused connection. The message is in the server's language but always contains `'user'@'host'`.
pub(super) fn connected(argument: &[u8]) -> Connection {
    let refused = memchr::memmem::find(argument, b"'@'").is_some();
    if refused || argument.starts_with(b"Access denied") {
        return Connection::default();
    }
    let Some((at, end)) = host(argument) else { return Connection::default() };
    let rest = &argument[end..];
    let on = memchr::memmem::find(rest, b" on ");
    Connection {
        user: argument[..at].into(),
        host: argument[at + 1..end].into(),
        db: on.map_or(&b""[..], |on| without_protocol(&rest[on + 3..])).trim_ascii().into(),
        open: true,
        starts: 0,
    }
}

/// The position of the `@` before the host, and the end of the host. It is the first `@` followed by
/// words that can follow a host.
fn host(argument: &[u8]) -> Option<(usize, usize)> {
    memchr::memchr_iter(b'@', argument).find_map(|at| {
        let name = &argument[at + 1..];
        let end = memchr::memchr2(b' ', b'@', name).unwrap_or(name.len());
        let rest = &name[end..];
        let behind = rest.is_empty()
            || rest == b" on"
            || rest.starts_with(b" on ")
            || rest.starts_with(b" as ");
        behind.then_some((at, at + 1 + end))
    })
}

fn without_protocol(db: &[u8]) -> &[u8] {
    let before = |protocol: &&[u8]| db.strip_suffix(*protocol)?.strip_suffix(b" using ");
    PROTOCOLS.iter().find_map(before).unwrap_or(db)
}

/// The database if `statement` is `USE name` and nothing else.
pub(super) fn used_database(statement: &[u8]) -> Option<Box<[u8]>> {
    let rest = behind_blanks(statement);
    // Nearly every statement ends here.
    if !rest.get(..3)?.eq_ignore_ascii_case(b"use") {
        return None;
    }
    let word = &rest[3..];
    let rest = behind_blanks(word);
    let (name, rest) = match rest.first()? {
        quote @ (b'`' | b'"') => quoted(&rest[1..], *quote)?,
        _ if rest.len() == word.len() => return None,
        _ => {
            let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | 0x80..);
            let (name, rest) = rest.split_at(rest.iter().take_while(|b| part(b)).count());
            (name.to_vec(), rest)
        }
    };
    let rest = behind_blanks(rest);
    let rest = behind_blanks(rest.strip_prefix(b";").unwrap_or(rest));
    (rest.is_empty() && !name.is_empty()).then(|| name.into())
}

/// A name up to its closing quote, and the text behind it. Two quotes stand for one.
fn quoted(text: &[u8], quote: u8) -> Option<(Vec<u8>, &[u8])> {
    let mut name = Vec::new();
    let mut rest = text;
    loop {
        let end = memchr::memchr(quote, rest)?;
        name.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(&[quote]) {
            Some(more) => rest = more,
            None => return Some((name, rest)),
        }
        name.push(quote);
    }
}

/// The text behind blanks and comments.
fn behind_blanks(text: &[u8]) -> &[u8] {
    let mut rest = text.trim_ascii_start();
    loop {
        let end = if rest.starts_with(b"/*") {
            memchr::memmem::find(&rest[2..], b"*/").map(|at| at + 4)
        } else if rest.starts_with(b"#") || rest.starts_with(b"-- ") {
            Some(memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
        } else {
            None
        };
        match end {
            Some(end) => rest = rest[end..].trim_ascii_start(),
            None => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_blanks() {
        for (argument, user, host, db) in [
            ("ba ck@localhost on my db using Socket", "ba ck", "localhost", "my db"),
            ("a@b c@h on my@db using TCP/IP", "a@b c", "h", "my@db"),
            ("a@b@h on x on y using SSL/TLS", "a@b", "h", "x on y"),
            ("u@h on  using Named Pipe", "u", "h", ""),
            ("u@h on a using b", "u", "h", "a using b"),
            ("u@::1 as anonymous on shop", "u", "::1", "shop"),
            ("u@h as p q on shop using Socket", "u", "h", "shop"),
            ("root@localhost on", "root", "localhost", ""),
            ("root@localhost", "root", "localhost", ""),
            ("@localhost on shop", "", "localhost", "shop"),
            ("root@ on shop", "root", "", "shop"),
        ] {
            let connection = connected(argument.as_bytes());
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            let said = (text(&connection.user), text(&connection.host), text(&connection.db));
            assert_eq!(said, (user.into(), host.into(), db.into()), "{argument}");
            assert!(connection.open, "{argument}");
        }
    }
}
