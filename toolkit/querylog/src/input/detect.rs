//! Recognises the format of a file by its first bytes; for other files, gives advice.

use memchr::memmem;

/// How the events of an input are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    SlowLog,
    GeneralLog,
    /// One statement on each line.
    Raw,
    Pcap,
    PcapNg,
    /// The output of `tcpdump -x` or `-X` with `-tttt` or `-tt`.
    TcpdumpText,
    /// From a running server (`live`), not from a file: `mysql.slow_log`, the processlist, digests.
    SlowLogTable,
    Processlist,
    Digests,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::SlowLog => "slow log",
            Format::GeneralLog => "general log",
            Format::Raw => "raw statements",
            Format::Pcap => "pcap",
            Format::PcapNg => "pcapng",
            Format::TcpdumpText => "tcpdump text",
            Format::SlowLogTable => "mysql.slow_log",
            Format::Processlist => "processlist",
            Format::Digests => "performance_schema digests",
        }
    }

    /// True for captured traffic.
    pub fn is_capture(self) -> bool {
        matches!(self, Format::Pcap | Format::PcapNg | Format::TcpdumpText)
    }
}

/// How bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// The packing, recognised by the first bytes.
pub fn packing(head: &[u8]) -> Packing {
    if head.starts_with(b"\x1f\x8b") {
        Packing::Gzip
    } else if head.starts_with(b"\x28\xb5\x2f\xfd") {
        Packing::Zstd
    } else {
        Packing::Plain
    }
}

/// Number of bytes that `detect` needs, if the file has so many.
pub const HEAD: usize = 64 << 10;

/// The format, recognised by the first `HEAD` bytes, unpacked. `Ok(None)` is an empty file; `Err` says what the file is
/// instead and what to do.
pub fn detect(head: &[u8]) -> Result<Option<Format>, String> {
    if head.is_empty() {
        return Ok(None);
    }
    if let Some(format) = capture(head) {
        return Ok(Some(format));
    }
    if let Some(what) = frond_capture::lacking(head) {
        return Err(what.into());
    }
    if let Some(what) = foreign(head) {
        return Err(what);
    }
    if let Some(format) = text(head)? {
        return Ok(Some(format));
    }
    let odd = head.iter().filter(|b| **b < 9 || (14..32).contains(*b)).count();
    if odd * 50 > head.len() {
        return Err("this is binary data, not a query log".into());
    }
    if head.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    Err("this is no format I know; if it holds one statement on each line, say --type raw (the other types are slow, \
         general, pcap, tcpdump)"
        .into())
}

fn capture(head: &[u8]) -> Option<Format> {
    Some(match frond_capture::recognise(head)? {
        frond_capture::Format::Pcap => Format::Pcap,
        frond_capture::Format::Pcapng => Format::PcapNg,
        frond_capture::Format::Text => Format::TcpdumpText,
    })
}

/// Recognises files that are given by mistake, by their first bytes.
fn foreign(head: &[u8]) -> Option<String> {
    let is = |magic: &[u8]| head.starts_with(magic);
    let what = if is(b"\xfebin") {
        "this is a binary log or a relay log, which has no durations of statements; `mariadb-binlog FILE` shows what is \
         in it. The slow log (SET GLOBAL slow_query_log=1) is what this command reads"
    } else if is(b"\xfd\x62\x69\x6e") {
        "this is an encrypted binary log; the slow log (SET GLOBAL slow_query_log=1) is what this command reads"
    } else if is(b"BZh") {
        "this is packed with bzip2: unpack it first (bzip2 -dc FILE | frond digest -)"
    } else if is(b"\xfd7zXZ") {
        "this is packed with xz: unpack it first (xz -dc FILE | frond digest -)"
    } else if is(b"PK\x03\x04") {
        "this is a zip archive: unpack it first (unzip -p FILE | frond digest -)"
    } else if is(b"7z\xbc\xaf\x27\x1c") {
        "this is a 7z archive: unpack it first (7z x -so FILE | frond digest -)"
    } else if is(b"\x04\x22\x4d\x18") {
        "this is packed with lz4: unpack it first (lz4 -dc FILE | frond digest -)"
    } else if tar_header(head) {
        "this is a tar archive: unpack it first (tar -xOf FILE | frond digest -)"
    } else if head.iter().all(|b| *b == 0) {
        "this begins with zero bytes only, as a log does that was emptied while its server wrote on: leave them out \
         (tr -d '\\000' < FILE | frond digest -)"
    } else if is(b"\x7fELF") {
        "this is a program, not a query log"
    } else if is(b"SQLite format 3") {
        "this is an SQLite database, not a query log"
    } else if is(b"Phys") || is(b"PHYS") {
        "this is an InnoDB redo log, not a query log; the slow log's name is @@slow_query_log_file"
    } else if is(b"\xfe\xfe") {
        "this is an index or log file of the Aria or MyISAM engine, not a query log; the slow log's name is \
         @@slow_query_log_file"
    } else if is(b"\xfe\x01") {
        "this is a table definition (.frm), not a query log; the slow log's name is @@slow_query_log_file"
    } else if innodb_page(head) {
        "this is an InnoDB tablespace, not a query log; the slow log's name is @@slow_query_log_file"
    } else {
        return None;
    };
    Some(what.into())
}

/// The header of an archive's first file. One of its fields is the sum of its bytes, in octal; in that sum the field
/// itself counts as blanks. (Only newer formats have a magic.)
fn tar_header(head: &[u8]) -> bool {
    const FIELD: std::ops::Range<usize> = 148..156;
    let Some(header) = head.get(..512) else { return false };
    let field = header[FIELD].trim_ascii_start();
    let digits = field.iter().take_while(|b| (b'0'..=b'7').contains(b));
    let said = digits.fold(0, |sum, digit| sum * 8 + u32::from(digit - b'0'));
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b)).sum::<u32>();
    said == sum(header) - sum(&header[FIELD]) + FIELD.len() as u32 * u32::from(b' ')
}

/// The first page of a tablespace: page number 0, a known type or an LSN, and twice the number of the tablespace.
fn innodb_page(head: &[u8]) -> bool {
    head.len() >= 16384
        && head[4..8] == [0; 4]
        && (head[24..26] == [0, 8] || head[24..26] == [0, 0] && head[16..24] != [0; 8])
        && head[34..38] == head[38..42]
        && head[8..16].iter().all(|b| *b == 0xff || *b == 0)
}

/// A line of a server's error log.
fn error_entry(line: &[u8]) -> bool {
    frond_event::text::stamp(line).is_some()
        && [&b"[Note]"[..], b"[Warning]", b"[ERROR]", b"[System]"]
            .iter()
            .any(|tag| memmem::find(line, tag).is_some())
}

/// Recognises text logs by their first lines; `Err` for other texts of servers. The first significant line decides:
/// statements behind it may contain anything, even lines of the other formats.
fn text(head: &[u8]) -> Result<Option<Format>, String> {
    let mut server_start = false;
    let mut rest = head;
    for number in 0..2000 {
        if rest.is_empty() {
            break;
        }
        let started = crate::slowlog::split::server_start(rest);
        if started > 0 {
            server_start = true;
            rest = &rest[started..];
            continue;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |p| p + 1);
        let line = rest[..end].trim_ascii_end();
        rest = &rest[end..];
        if crate::slowlog::split::is_head(line) || line.starts_with(b"# administrator command: ") {
            return Ok(Some(Format::SlowLog));
        }
        if crate::genlog::is_head(line) {
            return Ok(Some(Format::GeneralLog));
        }
        if line.starts_with(b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE")
            || line == b"# at 4" && rest.starts_with(b"#")
        {
            return Err("this is the output of mariadb-binlog, which has no durations of statements; the slow log is \
                        what this command reads"
                .into());
        }
        if number < 50 && error_entry(line) && !head_lines(head).any(|l| l.starts_with(b"# ")) {
            return Err(
                "this is a server's error log; the slow log's name is @@slow_query_log_file".into(),
            );
        }
        if tcpdump_line(line) {
            return Ok(Some(Format::TcpdumpText));
        }
    }
    if server_start {
        // A log without an entry: slow and general logs begin alike.
        return Ok(Some(Format::SlowLog));
    }
    Ok(statements(head).then_some(Format::Raw))
}

fn head_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|b| *b == b'\n').take(50)
}

/// `2009-04-12 09:50:16.804849 IP 127.0.0.1.42167 > 127.0.0.1.12345: tcp 37`
fn tcpdump_line(line: &[u8]) -> bool {
    let time = match frond_event::text::stamp(line) {
        Some((_, used)) if line.first() == Some(&b'2') => used,
        _ => return false,
    };
    let rest = line[time..].trim_ascii_start();
    rest.starts_with(b"IP ")
        || rest.starts_with(b"IP6 ")
        || rest.starts_with(b"ethertype ")
        || memmem::find(rest, b" IP ").is_some()
        || memmem::find(rest, b" > ").is_some()
}

/// True if the first line that is not blank begins like a statement.
fn statements(head: &[u8]) -> bool {
    const VERBS: &[&str] = &[
        "select", "insert", "update", "delete", "replace", "with", "set", "show", "call", "create",
        "alter", "drop", "truncate", "begin", "commit", "rollback", "start", "load", "explain",
        "analyze", "use", "grant", "revoke", "lock", "unlock", "optimize", "flush", "do",
        "prepare", "execute", "(select",
    ];
    let Some(line) = head.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|l| !l.is_empty())
    else {
        return false;
    };
    if line.starts_with(b"/*") || line.starts_with(b"-- ") {
        return true;
    }
    let word = line.iter().take_while(|b| b.is_ascii_alphabetic() || **b == b'(').count();
    VERBS.iter().any(|verb| verb.as_bytes().eq_ignore_ascii_case(&line[..word]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_recognised() {
        let start = "/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log. started with:\nTcp port: 0  Unix socket: /x\nTime\t\t    Id Command\tArgument\n";
        for (head, format) in [
            (format!("{start}# Time: 260101  9:09:31\n"), Format::SlowLog),
            (format!("{start}260101  9:09:31\t     8 Connect\troot@localhost on\n"), Format::GeneralLog),
            (start.to_owned(), Format::SlowLog),
            ("rest of a statement;\n# User@Host: a[a] @ h []\n".to_owned(), Format::SlowLog),
            ("2009-04-12 09:50:16.804849 IP 127.0.0.1.42167 > 127.0.0.1.12345: tcp 37\n\t0x0000:  4508".to_owned(), Format::TcpdumpText),
            ("/* Hello */ SELECT 1\n".to_owned(), Format::Raw),
            ("\n  insert into t values (1)\n".to_owned(), Format::Raw),
        ] {
            assert_eq!(detect(head.as_bytes()), Ok(Some(format)), "{head}");
        }
        assert_eq!(detect(b"\xd4\xc3\xb2\xa1\x02\0"), Ok(Some(Format::Pcap)));
        assert_eq!(detect(b"\x0a\x0d\x0d\x0a...."), Ok(Some(Format::PcapNg)));
        assert_eq!(detect(b""), Ok(None));
        assert_eq!(detect(b"\n \n"), Ok(None));
    }

    #[test]
    fn statements_that_look_like_other_files_change_nothing() {
        let odd = "/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n# at 4\n#260101 12:00:00 server id 1\n2026-01-01 12:00:00 0 [ERROR] x > y\n";
        for (head, format) in [
            (format!("# User@Host: a[a] @ h []\n# Query_time: 1\n{odd}"), Format::SlowLog),
            (format!("260101  9:09:31\t     8 Query\tselect '[Note]'\n{odd}"), Format::GeneralLog),
            ("2026-01-01T12:00:00.1Z\t    4 Query\tinsert into l values ('[ERROR] > 1')\n".to_owned(), Format::GeneralLog),
            ("select '\n2026-01-01 12:00:00 0 [Note]\n'\n# Time: 260101  9:09:31\n# User@Host: a[a] @ h []\n".to_owned(), Format::SlowLog),
        ] {
            assert_eq!(detect(head.as_bytes()), Ok(Some(format)), "{head}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let mut page = vec![0_u8; 16384];
        page[25] = 8;
        page[8..16].fill(0xff);
        for (head, says) in [
            (&b"\xfebin\x12\x34"[..], "mariadb-binlog FILE"),
            (b"\x7fELF\x02", "program"),
            (b"BZh91AY", "bzip2 -dc"),
            (b"\xfd7zXZ\0", "xz -dc"),
            (b"\xfe\xfe\x0b\x01", "Aria"),
            (b"2026-01-01 12:00:00 0 [Note] InnoDB: x\n", "error log"),
            (b"2026-01-01 12:00:00 0 [Warning] a > b\n", "error log"),
            (b"/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n/*!40019 x*/;\n", "mariadb-binlog"),
            (
                b"# The proper term is\n/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\n",
                "mariadb-binlog",
            ),
            (b"DELIMITER /*!*/;\n# at 4\n#260101 12:00:00 server id 1\n", "mariadb-binlog"),
            (b"\x00\x01\x02\x03\x04\x05", "binary data"),
            (b"hello world\n", "--type raw"),
            (&page, "InnoDB tablespace"),
        ] {
            let said = detect(head).expect_err("must be refused");
            assert!(said.contains(says), "{said}");
        }
    }

    /// A tar's first header.
    fn tar(name: &str, magic: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[100..108].copy_from_slice(b"0000644\0");
        head[257..257 + magic.len()].copy_from_slice(magic);
        let sum = head.iter().map(|b| u32::from(*b)).sum::<u32>() + 8 * 32;
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        head.extend_from_slice(rest);
        head
    }

    #[test]
    fn an_archive_is_named_with_the_way_to_its_log() {
        let log =
            b"# Time: 260101  9:09:31\n# User@Host: a[a] @ h []\n# Query_time: 1\nselect 1;\n";
        let zeros = [0; 20_000];
        for (head, says) in [
            (tar("logs/", b"ustar  \0", &zeros), "tar -xOf FILE | frond digest -"),
            (tar("slow.log", b"ustar\x0000", log), "tar -xOf FILE | frond digest -"),
            (tar("slow.log", b"", log), "tar -xOf FILE | frond digest -"),
            (b"7z\xbc\xaf\x27\x1c\0\x04".to_vec(), "7z x -so FILE | frond digest -"),
            (b"\x04\x22\x4d\x18d@".to_vec(), "lz4 -dc FILE | frond digest -"),
            (b"PK\x03\x04\x14\0".to_vec(), "unzip -p FILE | frond digest -"),
        ] {
            let said = detect(&head).expect_err("must be refused");
            assert!(said.contains(says), "{said}");
        }
        // Almost a header, but the sum decides.
        let mut nearly = log.repeat(20);
        nearly[257..262].copy_from_slice(b"ustar");
        assert_eq!(detect(&nearly), Ok(Some(Format::SlowLog)));
    }

    #[test]
    fn zeros_are_no_tablespace() {
        for zeros in [100, 20_000] {
            let said = detect(&vec![0; zeros]).expect_err("must be refused");
            assert!(said.contains("zero bytes") && said.contains("tr -d"), "{said}");
        }
        let mut page = vec![0; 16384];
        page[23] = 9;
        assert!(detect(&page).expect_err("must be refused").contains("tablespace"));
    }

    #[test]
    fn packing_is_seen() {
        assert_eq!(packing(b"\x1f\x8b\x08"), Packing::Gzip);
        assert_eq!(packing(b"\x28\xb5\x2f\xfd"), Packing::Zstd);
        assert_eq!(packing(b"# Time"), Packing::Plain);
    }
}
