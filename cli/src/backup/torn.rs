//! Ends XA transactions that a crash tore off in the binary log.
//!
//! A crash can leave a transaction incomplete in a binary log; the server never committed it. At the next file, or at the
//! end, mariadb-binlog writes ROLLBACK for it. Within an XA transaction a server refuses that, and the replay would
//! stop there. This filter writes XA END and XA ROLLBACK instead, which the server accepts. It also tells which transactions
//! pass.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

/// The filter looks only at lines shorter than this. Longer ones are copied in parts.
const LONGEST: u64 = 4096;
/// What comes before the GTID in the remark at the begin of a transaction.
const GTID: &[u8] = b"\tGTID ";

/// Copies the output of mariadb-binlog to the input of mariadb. `passes` gets the GTID of each transaction.
pub fn end_torn(from: impl Read, to: impl Write, passes: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    let mut to = BufWriter::with_capacity(1 << 16, to);
    let (mut line, mut at_start) = (Vec::new(), true);
    // The name of the XA transaction that is not prepared yet, and whether its XA END has come.
    let mut open: Option<(Vec<u8>, bool)> = None;
    loop {
        line.clear();
        if (&mut from).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return to.flush();
        }
        let ends = line.ends_with(b"\n");
        if at_start && ends {
            if line.starts_with(b"#") {
                if let Some(at) = line.windows(GTID.len()).position(|text| text == GTID) {
                    passes(
                        line[at + GTID.len()..].split(|b| *b == b' ').next().unwrap_or_default(),
                    );
                }
            } else if let Some(name) = line.strip_prefix(b"XA START ") {
                let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"',".contains(b);
                open = Some((name.iter().copied().take_while(is_name).collect(), false));
            } else if line.starts_with(b"XA END ") {
                open.iter_mut().for_each(|(_, is_ended)| *is_ended = true);
            } else if line.starts_with(b"XA ") {
                open = None;
            } else if let Some(end) = end_of_rollback(&line) {
                if let Some((name, is_ended)) = open.take() {
                    let first = if is_ended { 1 } else { 0 };
                    for what in &[&b"XA END "[..], b"XA ROLLBACK "][first..] {
                        to.write_all(&[what, &name[..], end].concat())?;
                    }
                    continue;
                }
            }
        }
        at_start = ends;
        to.write_all(&line)?;
    }
}

/// For a ROLLBACK that mariadb-binlog added: its delimiter and the end of the line.
fn end_of_rollback(line: &[u8]) -> Option<&'static [u8]> {
    match line.strip_prefix(b"ROLLBACK")? {
        b"/*!*/;\n" => Some(b"/*!*/;\n"),
        // At the end of everything the delimiter is the ordinary one again.
        rest if rest.starts_with(b" /* added by ") => Some(b";\n"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let mut out = Vec::new();
        end_torn(text.as_bytes(), &mut out, &mut |_| {}).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_gtids_of_transactions_are_told() {
        let text = "#261126 12:02:50 server id 1  end_log_pos 815 CRC32 0x693a4b27 \tGTID 0-1-4 ddl\n\
                    SELECT '\tGTID 0-1-5 '\n#700101  1:00:00 server id 7  end_log_pos 0 \tGTID 0-7-6\n";
        let mut told = Vec::new();
        let mut tell = |gtid: &[u8]| told.push(String::from_utf8_lossy(gtid).trim().to_string());
        end_torn(text.as_bytes(), io::sink(), &mut tell).unwrap();
        assert_eq!(told, ["0-1-4", "0-7-6"]);
    }

    #[test]
    fn whole_transactions_are_copied_as_they_are() {
        let long = "x".repeat(3 * LONGEST as usize);
        for text in [
            "BEGIN/*!*/;\nINSERT INTO t VALUES (1)\n/*!*/;\nROLLBACK/*!*/;\n".to_string(),
            "XA START X'78',X'',1/*!*/;\nXA END X'78',X'',1\n/*!*/;\nXA PREPARE X'78',X'',1\n/*!*/;\nROLLBACK/*!*/;\n"
                .to_string(),
            format!(
                "XA START X'78',X'',1\n/*!*/;\n{long}ROLLBACK/*!*/;\nXA END X'78',X'',1\n/*!*/;"
            ),
            "DELIMITER ;\n# End of log file\nROLLBACK /* added by mysqlbinlog */;\n".to_string(),
            String::new(),
        ] {
            assert_eq!(of(&text), text);
        }
    }

    #[test]
    fn torn_ones_are_ended_by_their_names() {
        let torn = "XA START X'78',X'79',1/*!*/;\nBINLOG 'x'/*!*/;\n";
        assert_eq!(
            of(&format!("{torn}ROLLBACK/*!*/;\nBEGIN\n/*!*/;\nROLLBACK/*!*/;\n")),
            format!(
                "{torn}XA END X'78',X'79',1/*!*/;\nXA ROLLBACK X'78',X'79',1/*!*/;\nBEGIN\n/*!*/;\nROLLBACK/*!*/;\n"
            )
        );
        let ended = format!("{torn}XA END X'78',X'79',1\n/*!*/;\nDELIMITER ;\n");
        assert_eq!(
            of(&format!("{ended}ROLLBACK /* added by mysqlbinlog */;\n")),
            format!("{ended}XA ROLLBACK X'78',X'79',1;\n")
        );
        assert_eq!(
            of(&format!("{torn}DELIMITER ;\nROLLBACK /* added by mysqlbinlog */;\n")),
            format!("{torn}DELIMITER ;\nXA END X'78',X'79',1;\nXA ROLLBACK X'78',X'79',1;\n")
        );
    }
}
