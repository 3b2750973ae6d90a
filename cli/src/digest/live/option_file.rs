//! Option files as the client programs of MariaDB and MySQL read them, as far as a connection needs them.
//!
//! Groups `client`, `client-server`, `client-mariadb` and `frond`, options `user`, `password`, `host`, `port`
//! and `socket`; `!include` and `!includedir`. A later file or line takes precedence. The contents of a file
//! are never printed, not even in error messages, because they may have a password.

use std::path::{Path, PathBuf};

/// Settings from the files; `None`: not set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    pub user: Option<String>,
    pub password: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<PathBuf>,
}

const GROUPS: [&str; 4] = ["client", "client-server", "client-mariadb", "frond"];

/// Greatest depth of included files.
const MAX_DEPTH: usize = 8;

/// A larger file is no option file.
const MAX_SIZE: u64 = 1 << 20;

/// The usual files, in the order in which they are read, if they exist.
pub fn usual(home: Option<&Path>) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/my.cnf"), PathBuf::from("/etc/mysql/my.cnf")];
    files.extend(home.map(|home| home.join(".my.cnf")));
    files
}

/// Reads the usual files; unreadable ones are skipped.
pub fn read_usual(home: Option<&Path>) -> Defaults {
    let mut defaults = Defaults::default();
    for file in usual(home) {
        let _ = read(&file, &mut defaults, 0);
    }
    defaults
}

/// Reads one file, which must exist.
pub fn read_one(file: &Path) -> Result<Defaults, String> {
    let mut defaults = Defaults::default();
    read(file, &mut defaults, 0)?;
    Ok(defaults)
}

#[allow(clippy::disallowed_methods)] // An option file is no file of a database.
fn read(file: &Path, defaults: &mut Defaults, depth: usize) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", file.display());
    if depth > MAX_DEPTH {
        return Err(format!("{}: option files include each other", file.display()));
    }
    let meta = std::fs::metadata(file).map_err(fail)?;
    if !meta.is_file() || meta.len() > MAX_SIZE {
        return Err(format!("{}: this is no option file", file.display()));
    }
    let text = std::fs::read(file).map_err(fail)?;
    let text = String::from_utf8_lossy(&text);
    let beside = file.parent().unwrap_or(Path::new("/"));
    let mut ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("!includedir") {
            for file in files_of(&beside.join(path.trim())) {
                let _ = read(&file, defaults, depth + 1);
            }
        } else if let Some(path) = line.strip_prefix("!include") {
            let _ = read(&beside.join(path.trim()), defaults, depth + 1);
        } else if let Some(group) = line.strip_prefix('[') {
            let name = group.split(']').next().unwrap_or_default().trim();
            ours = GROUPS.contains(&name);
        } else if ours {
            option(line, defaults);
        }
    }
    Ok(())
}

/// `*.cnf` of a directory, by name.
#[allow(clippy::disallowed_methods)] // As above.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "cnf"))
        .collect();
    files.sort();
    files
}

/// `name = value`, `name`, with `#` or `;` at the begin of a comment.
fn option(line: &str, defaults: &mut Defaults) {
    if line.starts_with(['#', ';']) {
        return;
    }
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let value = unquoted(value.trim());
    let set = |text: String| Some(text).filter(|t| !t.is_empty());
    match name.trim().replace('_', "-").as_str() {
        "user" => defaults.user = set(value),
        "password" => defaults.password = set(value),
        "host" => defaults.host = set(value),
        "port" => defaults.port = value.parse().ok().or(defaults.port),
        "socket" => defaults.socket = set(value).map(PathBuf::from),
        _ => {}
    }
}

/// Without quotes around it and with the escapes of option files; without quotes a ` #` begins a comment.
fn unquoted(value: &str) -> String {
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let inner = match quote {
        Some(quote) => {
            let rest = &value[1..];
            let end = rest.rfind(quote).unwrap_or(rest.len());
            &rest[..end]
        }
        None => value.find(" #").map_or(value, |at| value[..at].trim_end()),
    };
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.clone().next() } else { None };
        let plain = match escaped {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\u{8}',
            Some('s') => ' ',
            Some(other @ ('\\' | '"' | '\'')) => other,
            _ => {
                text.push(c);
                continue;
            }
        };
        text.push(plain);
        chars.next();
    }
    text
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // An option file is no file of a database.
mod tests {
    use super::*;

    #[test]
    fn groups_of_clients_are_read_and_later_lines_overrule() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        std::fs::create_dir(dir.path().join("conf.d")).unwrap();
        std::fs::write(dir.path().join("conf.d/b.cnf"), "[client]\nuser = 'from b'\n").unwrap();
        std::fs::write(dir.path().join("conf.d/a.cnf"), "[client]\nuser=a\nhost=h\n").unwrap();
        std::fs::write(dir.path().join("conf.d/c.txt"), "[client]\nuser=c\n").unwrap();
        std::fs::write(
            &path,
            "[mysqld]\nport=1\nuser=mysql\n!includedir conf.d\n[client-mariadb]\n# password=x\npassword=\"a#b \\\"\\\\c\"  \nport = 3307 # here\n[mysqldump]\nport=9\n[frond]\nsocket=/s\n",
        )
        .unwrap();
        let found = read_one(&path).unwrap();
        assert!(found.user.as_deref() == Some("from b") && found.host.as_deref() == Some("h"));
        assert!(found.password.as_deref() == Some("a#b \"\\c"));
        assert!(found.port == Some(3307) && found.socket == Some(PathBuf::from("/s")));
    }

    #[test]
    fn files_that_include_each_other_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        std::fs::write(&path, "[client]\nuser=u\n!include my.cnf\n").unwrap();
        assert!(read_one(&path).unwrap().user.as_deref() == Some("u"));
        assert!(read_one(&dir.path().join("none")).is_err_and(|e| e.contains("none")));
        assert!(read_one(dir.path()).is_err_and(|e| e.contains("no option file")));
    }
}
