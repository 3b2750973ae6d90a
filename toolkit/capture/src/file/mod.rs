//! Capture files: bytes in, packets out.
//!
//! Formats: pcap (either byte order, microseconds or nanoseconds, the variant with longer record
//! headers), pcapng, and the text that tcpdump prints with `-x`, `-X`, `-xx` or `-XX` and `-tttt`
//! or `-tt`. `recognise` tells them apart by their first bytes.
//!
//! Invariants
//!
//! - CF1. A format's `step` reads only the bytes it is given and returns how many it used; it keeps
//!   no reference. [`Reader`] keeps the rest for the next call.
//! - CF2. No length in a file makes the reader keep more than [`LIMIT`] bytes: a longer record is damage.
//! - CF3. Damage is reported with its place and its whole size, never silently skipped. In a pcap
//!   file reading continues where several records in a row fit (`resume`), in text at the next line with
//!   a time; damage in pcapng ends the file.
//!
//! Not here: the contents of a packet (`packet`).

mod pcap;
mod pcapng;
mod resume;
mod step;
mod text;

use frond_event::numbers::count;
use frond_event::{Event, ForEach, Micros, Place, Sink, Skip, SkipReason};
use pcap::Pcap;
use pcapng::Pcapng;
use resume::Found;
pub(super) use step::{Link, Packet, Told};
use step::{Step, LIMIT};
use text::Text;

/// The kinds of capture files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Pcap,
    Pcapng,
    /// Text of tcpdump.
    Text,
}

/// Whether `head`, the first bytes of a file, is the beginning of a capture. For text it should
/// have at least two lines.
pub fn recognise(head: &[u8]) -> Option<Format> {
    if Pcap::recognise(head) {
        Some(Format::Pcap)
    } else if head.starts_with(&pcapng::SECTION_HEADER) {
        Some(Format::Pcapng)
    } else if Text::recognise(head) {
        Some(Format::Text)
    } else {
        None
    }
}

/// Why output of tcpdump that begins with `head` cannot be used, and what to do; `None`: it is a
/// capture or another file.
pub fn lacking(head: &[u8]) -> Option<&'static str> {
    Text::lacking(head)
}

/// The time of the first packet of a capture that begins with `head`, for sorting the files of one
/// rotation. `None`: there is no whole packet in it.
pub fn first_time(head: &[u8], text_zone: i32) -> Option<Micros> {
    let mut first = None;
    let mut sink = ForEach::new(|_: &Event<'_>| {});
    let mut each = |packet: &Packet<'_>, _: &mut dyn Sink| {
        first.get_or_insert(packet.time.div_euclid(1000));
    };
    let mut reader = Reader::new(text_zone);
    // Damage is reported when the file is read.
    if reader.feed(head, &mut sink, &mut each).is_ok() {
        let _ = reader.end(&mut sink, &mut each);
    }
    first
}

enum Parser {
    Pcap(Pcap),
    Pcapng(Pcapng),
    Text(Text),
}

impl Parser {
    fn step<'a>(&'a mut self, bytes: &'a [u8], offset: u64, ended: bool) -> Step<'a> {
        match self {
            Parser::Pcap(p) => p.step(bytes, offset),
            Parser::Pcapng(p) => p.step(bytes, offset),
            Parser::Text(p) => p.step(bytes, offset, ended),
        }
    }
}

/// Reads one file after another, each given in pieces cut anywhere.
pub(super) struct Reader {
    parser: Option<Parser>,
    /// The unused rest of the last piece.
    rest: Vec<u8>,
    file: u32,
    /// Offset in the file of the first byte that is not yet consumed.
    offset: u64,
    /// The file is no capture.
    broken: bool,
    /// The damage that is being skipped; it starts at `offset`.
    passing: Option<Passing>,
    /// The first damage, reported when the file ends.
    damage: Option<Damage>,
    /// Time of the last packet.
    last: Option<i64>,
    packets: u64,
    /// Seconds to subtract from times in text, which are in the zone of the machine that printed them.
    text_zone: i32,
    pub(super) told: Told,
}

#[derive(Clone, Copy)]
struct Passing {
    /// Offset of the first damaged byte.
    from: u64,
}

struct Damage {
    at: u64,
    what: String,
    places: u64,
    bytes: u64,
    /// Reading continued behind the damage.
    resumed: bool,
}

impl Damage {
    fn describe(&self) -> String {
        let places = match self.places {
            0 | 1 => String::new(),
            n => format!(" (the first of {n} places)"),
        };
        let begin = format!("the capture is damaged at byte {}{places}: {}", self.at, self.what);
        let bytes = count(self.bytes as f64);
        match self.resumed {
            true => format!("{begin}. {bytes}B were passed over, and reading went on behind them"),
            false => format!(
                "{begin}. The packets before it were read, {bytes}B could not be read up to the end"
            ),
        }
    }
}

impl Reader {
    pub(super) fn new(text_zone: i32) -> Self {
        Reader {
            parser: None,
            rest: Vec::new(),
            file: 0,
            offset: 0,
            broken: false,
            passing: None,
            damage: None,
            last: None,
            packets: 0,
            text_zone,
            told: Told::default(),
        }
    }

    /// The following bytes are those of file number `file`. The caller has ended the file before with
    /// [`Reader::end`].
    pub(super) fn begin(&mut self, file: u32) {
        self.parser = None;
        self.rest.clear();
        self.file = file;
        self.offset = 0;
        self.broken = false;
        self.passing = None;
        self.damage = None;
        self.last = None;
        self.packets = 0;
    }

    pub(super) fn place(&self, offset: u64) -> Place {
        Place { file: self.file, offset }
    }

    /// The next bytes of the file. `Err`: they are not a capture. [`Reader::end`] reports damage.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn Sink,
        each: &mut dyn FnMut(&Packet<'_>, &mut dyn Sink),
    ) -> Result<(), String> {
        if self.broken {
            return Ok(());
        }
        if self.rest.is_empty() {
            let used = self.take(bytes, false, sink, each)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let used = self.take(&all, false, sink, each)?;
        all.drain(..used);
        self.rest = all;
        Ok(())
    }

    /// The file ends: the rest is the last packet, or a truncated one.
    pub(super) fn end(
        &mut self,
        sink: &mut dyn Sink,
        each: &mut dyn FnMut(&Packet<'_>, &mut dyn Sink),
    ) -> Result<(), String> {
        let rest = std::mem::take(&mut self.rest);
        if self.broken {
            return Ok(());
        }
        let used = self.take(&rest, true, sink, each)?;
        if let Some(passing) = self.passing.take() {
            self.passed(passing, sink);
        } else if used < rest.len() {
            self.skip(rest.len() - used, SkipReason::Cut, sink);
            // A file of blanks is not a truncated capture.
            if self.packets == 0 && self.parser.is_some() {
                self.broken = true;
                return Err("the capture ends within its first packet".to_string());
            }
        }
        match self.damage.take() {
            Some(damage) => Err(damage.describe()),
            None => Ok(()),
        }
    }

    /// Reports damage that ends before `self.offset`.
    fn passed(&mut self, passing: Passing, sink: &mut dyn Sink) {
        let bytes = self.offset - passing.from;
        sink.skip(Skip { place: self.place(passing.from), bytes, why: SkipReason::BadPacket });
        if let Some(damage) = &mut self.damage {
            damage.bytes += bytes;
        }
    }

    /// Handles bytes at `self.offset` that cannot be read.
    #[cold]
    fn damaged(&mut self, what: &str) {
        let at = self.offset;
        self.passing = Some(Passing { from: at });
        let damage = self.damage.get_or_insert_with(|| Damage {
            at,
            what: what.to_string(),
            places: 0,
            bytes: 0,
            resumed: false,
        });
        damage.places += 1;
    }

    fn skip(&mut self, bytes: usize, why: SkipReason, sink: &mut dyn Sink) {
        sink.skip(Skip { place: self.place(self.offset), bytes: bytes as u64, why });
    }

    /// Yields the packets of `bytes` and returns how many bytes were used.
    fn take(
        &mut self,
        bytes: &[u8],
        ended: bool,
        sink: &mut dyn Sink,
        each: &mut dyn FnMut(&Packet<'_>, &mut dyn Sink),
    ) -> Result<usize, String> {
        let mut parser = match self.parser.take() {
            Some(parser) => parser,
            None => match self.choose(bytes, ended)? {
                Some(parser) => parser,
                None => return Ok(0),
            },
        };
        let mut used = 0;
        loop {
            let left = &bytes[used..];
            if let Some(passing) = self.passing {
                let found = match &parser {
                    Parser::Pcap(pcap) => resume::find(pcap, self.last, left, ended),
                    Parser::Pcapng(_) | Parser::Text(_) => Found::NotBefore(left.len()),
                };
                let (Found::At(done) | Found::NotBefore(done)) = found;
                used += done;
                self.offset += done as u64;
                if found == Found::NotBefore(done) {
                    // At the end of the file nothing more comes.
                    if ended {
                        self.offset += (bytes.len() - used) as u64;
                        used = bytes.len();
                    }
                    break;
                }
                self.passing = None;
                self.passed(passing, sink);
                if let Some(damage) = &mut self.damage {
                    damage.resumed = true;
                }
                continue;
            }
            let done = match parser.step(left, self.offset, ended) {
                Step::Packet(packet, done) => {
                    self.last = Some(packet.time);
                    self.packets += 1;
                    each(&packet, sink);
                    done
                }
                Step::Pass(done) => done,
                Step::Bad(done) => {
                    self.skip(done, SkipReason::BadPacket, sink);
                    done
                }
                Step::More(count) if count <= LIMIT => break,
                Step::More(_) => {
                    self.damaged("a record is longer than any packet can be");
                    continue;
                }
                Step::Broken(what) => {
                    self.damaged(what);
                    continue;
                }
            };
            used += done;
            self.offset += done as u64;
        }
        if let Parser::Pcapng(p) = &mut parser {
            self.told.unusable += std::mem::take(&mut p.told.unusable);
            self.told.dropped += std::mem::take(&mut p.told.dropped);
        }
        self.parser = Some(parser);
        Ok(used)
    }

    /// The parser for a file that begins with `head`; `None`: too few bytes.
    fn choose(&mut self, head: &[u8], ended: bool) -> Result<Option<Parser>, String> {
        match recognise(head) {
            Some(Format::Pcap) if head.len() < pcap::FILE_HEADER && !ended => Ok(None),
            Some(Format::Pcap) => match Pcap::new(head) {
                Ok(parser) => Ok(Some(Parser::Pcap(parser))),
                Err(what) => {
                    self.broken = true;
                    Err(what)
                }
            },
            Some(Format::Pcapng) => Ok(Some(Parser::Pcapng(Pcapng::new()))),
            Some(Format::Text) => Ok(Some(Parser::Text(Text::new(self.text_zone)))),
            None if head.len() < 4096 && !ended => Ok(None),
            None if head.iter().all(u8::is_ascii_whitespace) => Ok(None),
            None => {
                self.broken = true;
                let other = "this is not a capture: neither pcap, nor pcapng, nor the text of \
                             `tcpdump -x -tttt`";
                Err(lacking(head).unwrap_or(other).to_string())
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) struct Owned {
        pub time: i64,
        pub link: Link,
        pub data: Vec<u8>,
        pub wire_length: u32,
    }

    /// Reads all of `file` in pieces of `piece` bytes; returns the packets, the damage and the skips.
    pub(crate) fn read_all(
        file: &[u8],
        piece: usize,
    ) -> (Vec<Owned>, Result<(), String>, Vec<Skip>, Told) {
        let mut packets = Vec::new();
        let mut sink = ForEach::new(|_: &Event<'_>| {});
        let mut reader = Reader::new(0);
        let mut each = |p: &Packet<'_>, _: &mut dyn Sink| {
            packets.push(Owned {
                time: p.time,
                link: p.link,
                data: p.data.to_vec(),
                wire_length: p.wire_length,
            });
        };
        let mut outcome = Ok(());
        for part in file.chunks(piece) {
            outcome = reader.feed(part, &mut sink, &mut each);
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_ok() {
            outcome = reader.end(&mut sink, &mut each);
        }
        let told = reader.told;
        (packets, outcome, sink.skips, told)
    }

    #[test]
    fn other_files_are_refused_with_a_clear_word() {
        for file in [&b"\xfebin and so on"[..], b"# Time: 090412 11:00:13\n", b"\0\0\0\0"] {
            assert_eq!(recognise(file), None);
            let (packets, outcome, ..) = read_all(file, 7);
            assert!(packets.is_empty());
            assert!(outcome.unwrap_err().contains("not a capture"));
        }
    }

    #[test]
    fn an_empty_file_has_no_packets_and_no_damage() {
        let (packets, outcome, skips, _) = read_all(b"", 1);
        assert!(packets.is_empty() && outcome.is_ok() && skips.is_empty());
        let (packets, outcome, ..) = read_all(b"\n", 1);
        assert!(packets.is_empty() && outcome.is_ok());
    }
}
