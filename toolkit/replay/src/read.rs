//! Reads the events of an input in their order, in whatever format it is.

use std::path::Path;

use frond_capture::Traffic;
use frond_event::{Place, Sink, Stream};
use frond_querylog::input::open::{describe, read_up_to};
use frond_querylog::input::{pump, Format, Input, Origin};
use frond_querylog::{genlog, rawlog, slowlog};

/// Reads a file (`-`: standard input) to its end. An error names the file; what was read before it has been passed on.
pub fn read(path: &Path, number: u32, sink: &mut dyn Sink) -> Result<(), String> {
    let mut input =
        Input::open(&Origin::of(path), None).map_err(|e| format!("{}: {}", e.name, e.what))?;
    let name = input.name.clone();
    let Some(format) = input.format else {
        return Err(format!("{name}: the file is empty"));
    };
    let mut reader = std::mem::replace(&mut input.reader, Box::new(std::io::empty()));
    let place = |offset| Place { file: number, offset };
    let result = match format {
        _ if format.is_capture() => {
            return capture(&mut *reader, number, sink).map_err(|what| format!("{name}: {what}"));
        }
        Format::SlowLog => {
            let parser = slowlog::Parser::new(slowlog::Options::default());
            let mut carry = slowlog::Carry::default();
            pump::pump(
                &mut *reader,
                &mut |buffer, _| slowlog::split::last_boundary(buffer),
                &mut |buffer, length, offset, last| {
                    let piece = slowlog::Piece {
                        bytes: &buffer[..length],
                        place: place(offset),
                        carry: &carry,
                        last,
                    };
                    carry = parser.parse(piece, sink);
                },
            )
        }
        Format::GeneralLog => {
            let mut general = genlog::Parser::new(0);
            pump::pump(
                &mut *reader,
                &mut |buffer, _| genlog::last_boundary(buffer),
                &mut |buffer, length, offset, _| {
                    general.parse(&buffer[..length], place(offset), sink);
                },
            )
        }
        _ => pump::pump(
            &mut *reader,
            &mut |buffer, _| rawlog::last_boundary(buffer),
            &mut |buffer, length, offset, _| rawlog::parse(&buffer[..length], place(offset), sink),
        ),
    };
    result.map_err(|e| format!("{name}: {}", describe(&e)))
}

fn capture(reader: &mut dyn std::io::Read, number: u32, sink: &mut dyn Sink) -> Result<(), String> {
    let mut traffic = Traffic::new(frond_capture::Options::default());
    traffic.next_file(number, sink)?;
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let result = read_up_to(reader, pump::PIECE, &mut buffer);
        traffic.feed(&buffer, sink)?;
        match result {
            Ok(n) if n == pump::PIECE => {}
            Ok(_) => break,
            Err(e) => return Err(describe(&e)),
        }
    }
    traffic.end_file(sink)?;
    let encrypted = traffic.losses().encrypted;
    traffic.finish(sink);
    match encrypted {
        0 => Ok(()),
        n => Err(format!("{n} encrypted connections have statements that cannot be read")),
    }
}
