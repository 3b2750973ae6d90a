//! Samples in a file: a line of JSON each; the first line says what the file is.
//!
//! ```text
//! {"frond_top":1}
//! {"at":1767290000.0,"server":"...","status":{...},"trees":[...],...}
//! ```
//!
//! A line that is cut at the end of the file is left out: recording stopped in the middle of it. The file has names of
//! tables and classes of statements, but no literals.

use std::io::{self, BufRead, Read, Write};

use crate::sample::Sample;

const HEAD: &str = "{\"frond_top\":1}";
/// The most bytes of a line; a sample has some ten thousand.
const LONGEST: u64 = 4 << 20;
/// The most samples that are read: a week with one every ten seconds, about 500 MB of memory.
const MOST: usize = 60_480;

pub fn begin(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{HEAD}")
}

pub fn write(sample: &Sample, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, sample)?;
    writeln!(out)?;
    out.flush()
}

/// Reads a recording; the text of an error names the line.
pub fn read(input: &mut dyn BufRead) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = input.take(LONGEST);
        let n = limited.read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        let whole = line.last() == Some(&b'\n');
        if number == 1 {
            if line.trim_ascii() != HEAD.as_bytes() {
                return Err("no recording of frond top --record".into());
            }
            continue;
        }
        if n == 0 || !whole && (n as u64) < LONGEST {
            break;
        }
        let sample: Sample =
            serde_json::from_slice(&line).map_err(|e| format!("line {number}: {e}"))?;
        if samples.len() == MOST {
            return Err(format!("more than {MOST} samples: cut the file into parts"));
        }
        samples.push(sample);
    }
    if samples.is_empty() {
        return Err("the recording has no sample".into());
    }
    Ok(samples)
}
