//! The compressed form of the protocol: a layer of packets around the ordinary byte stream.
//!
//! A compressed packet: length of what follows (3), sequence number (1), length before compression
//! (3; 0: not compressed), then the bytes: zlib, or zstd where that was agreed. Ordinary packets
//! may begin and end anywhere within.
//!
//! Invariants
//!
//! - UP1. Nothing is collected: bytes are decompressed as they arrive, through a buffer of [`CHUNK`] bytes.
//! - UP2. A packet yields no more than the length it declares, which is below 16 MiB.

use crate::bytes::le24;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder as Zstd, InBuffer, Operation, OutBuffer};

const CHUNK: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Zlib,
    Zstd,
}

enum Decoder {
    Zlib(Decompress),
    Zstd(Zstd<'static>),
}

/// One direction of a connection.
pub(super) struct Unpacker {
    method: Method,
    header: [u8; 7],
    header_length: usize,
    /// Bytes of the packet still to come.
    left: usize,
    /// Bytes that the packet may still yield; 0, with `plain` set, for an uncompressed one.
    room: usize,
    plain: bool,
    decoder: Option<Box<Decoder>>,
    chunk: Vec<u8>,
}

/// The compressed bytes are invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl Unpacker {
    pub(super) fn new(method: Method) -> Self {
        Unpacker {
            method,
            header: [0; 7],
            header_length: 0,
            left: 0,
            room: 0,
            plain: false,
            decoder: None,
            chunk: Vec::new(),
        }
    }

    /// The next bytes begin a packet, whatever came before.
    pub(super) fn restart(&mut self) {
        self.header_length = 0;
        self.left = 0;
    }

    /// True between packets.
    pub(super) fn at_boundary(&self) -> bool {
        self.header_length == 0
    }

    /// Unpacks the next part: passes its inner bytes to `each`, and returns the number of bytes that it
    /// used, which is 0 only if `bytes` is empty.
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Damaged> {
        if self.header_length < 7 {
            let count = bytes.len().min(7 - self.header_length);
            self.header[self.header_length..][..count].copy_from_slice(&bytes[..count]);
            self.header_length += count;
            if self.header_length == 7 {
                self.begin()?;
            }
            return Ok(count);
        }
        let count = bytes.len().min(self.left);
        let part = &bytes[..count];
        self.left -= count;
        if self.plain {
            each(part);
        } else {
            self.inflate(part, each)?;
        }
        if self.left == 0 {
            self.header_length = 0;
            if !self.plain && self.room > 0 {
                return Err(Damaged);
            }
        }
        Ok(count)
    }

    fn begin(&mut self) -> Result<(), Damaged> {
        let length = |at| le24(&self.header, at).map_or(0, |l| l as usize);
        self.left = length(0);
        self.room = length(4);
        self.plain = self.room == 0;
        if self.left == 0 {
            return Err(Damaged);
        }
        if !self.plain {
            self.decoder = Some(Box::new(match (self.decoder.take().map(|d| *d), self.method) {
                (Some(Decoder::Zlib(mut d)), _) => {
                    d.reset(true);
                    Decoder::Zlib(d)
                }
                (Some(Decoder::Zstd(mut d)), _) => {
                    d.reinit().map_err(|_| Damaged)?;
                    Decoder::Zstd(d)
                }
                (None, Method::Zlib) => Decoder::Zlib(Decompress::new(true)),
                (None, Method::Zstd) => Decoder::Zstd(Zstd::new().map_err(|_| Damaged)?),
            }));
            self.chunk.resize(CHUNK, 0);
        }
        Ok(())
    }

    fn inflate(&mut self, mut part: &[u8], each: &mut dyn FnMut(&[u8])) -> Result<(), Damaged> {
        let Some(decoder) = &mut self.decoder else { return Err(Damaged) };
        loop {
            let room = self.room.min(self.chunk.len());
            let target = &mut self.chunk[..room];
            let (used, made, ended) = match &mut **decoder {
                Decoder::Zlib(d) => {
                    let (before_in, before_out) = (d.total_in(), d.total_out());
                    let status =
                        d.decompress(part, target, FlushDecompress::None).map_err(|_| Damaged)?;
                    let used = (d.total_in() - before_in) as usize;
                    let made = (d.total_out() - before_out) as usize;
                    (used, made, status == Status::StreamEnd)
                }
                Decoder::Zstd(d) => {
                    let mut input = InBuffer::around(part);
                    let mut output = OutBuffer::around(target);
                    let hint = d.run(&mut input, &mut output).map_err(|_| Damaged)?;
                    (input.pos(), output.pos(), hint == 0)
                }
            };
            self.room -= made;
            if made > 0 {
                each(&self.chunk[..made]);
            }
            part = part.get(used..).unwrap_or_default();
            if ended || made == 0 && (used == 0 || part.is_empty()) || self.room == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packet(sequence: u8, payload: &[u8], uncompressed: usize) -> Vec<u8> {
        let length = (payload.len() as u32).to_le_bytes();
        let before = (uncompressed as u32).to_le_bytes();
        let mut out = vec![length[0], length[1], length[2], sequence];
        out.extend(&before[..3]);
        out.extend(payload);
        out
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(unpacker: &mut Unpacker, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Damaged> {
        let mut out = Vec::new();
        for mut part in bytes.chunks(piece) {
            while !part.is_empty() {
                let used = unpacker.step(part, &mut |inner| out.extend_from_slice(inner))?;
                part = &part[used..];
            }
        }
        Ok(out)
    }

    #[test]
    fn both_methods_and_plain_packets_give_the_inner_stream() {
        let long: Vec<u8> = (0..100_000u32).flat_map(|i| i.to_le_bytes()).collect();
        for method in [Method::Zlib, Method::Zstd] {
            let packed = match method {
                Method::Zlib => zlib(&long),
                Method::Zstd => zstd::bulk::compress(&long, 3).unwrap(),
            };
            let mut stream = packet(0, b"plain", 0);
            stream.extend(packet(1, &packed, long.len()));
            stream.extend(packet(2, b"again", 0));
            stream.extend(packet(3, &packed, long.len()));
            for piece in [1, 100, 1 << 20] {
                let mut unpacker = Unpacker::new(method);
                let got = unpack(&mut unpacker, &stream, piece).unwrap();
                let want = [&b"plain"[..], &long, b"again", &long].concat();
                assert!(got == want, "{method:?} by {piece}");
                assert!(unpacker.at_boundary());
            }
        }
    }

    #[test]
    fn no_more_is_given_out_than_the_header_declares() {
        let bomb = zlib(&vec![0; 10 << 20]);
        let mut unpacker = Unpacker::new(Method::Zlib);
        assert_eq!(unpack(&mut unpacker, &packet(0, &bomb, 1000), 4096).unwrap().len(), 1000);
        let mut unpacker = Unpacker::new(Method::Zlib);
        assert_eq!(unpack(&mut unpacker, &packet(0, b"not zlib", 1000), 5), Err(Damaged));
        let short = zlib(b"short");
        assert_eq!(unpack(&mut unpacker, &packet(0, &short, 1000), 5), Err(Damaged));
    }

    #[test]
    fn bytes_are_read_from_a_boundary_again_after_a_restart() {
        let mut unpacker = Unpacker::new(Method::Zlib);
        let text = b"hello hello hello";
        let whole = packet(0, &zlib(text), text.len());
        unpack(&mut unpacker, &whole[..12], 100).unwrap();
        unpacker.restart();
        assert_eq!(unpack(&mut unpacker, &whole, 100).unwrap(), text);
    }
}
