//! The bytes of a packed backup: one file or one stream, which is written and can be verified from its first byte to its last.
//!
//! Numbers are little-endian. A head is followed by frames, numbered from 0, and by nothing else:
//!
//! | head | |
//! |------|--|
//! | magic | `FRONDBAK` |
//! | version | `u32`: 1 |
//! | length | `u32`: of the text |
//! | text | JSON, [`Head`]; it is never sealed, so that a backup can be listed and kept without its key |
//! | checksum | `u64`: of all in front of it |
//!
//! | frame | |
//! |-------|--|
//! | kind | `u8`: 1 a piece of a file, 2 a part of the contents, 3 the end |
//! | packing | `u8`: 0 as it is, 1 zstd |
//! | stored | `u32`: bytes of the payload |
//! | plain | `u32`: bytes of the payload when it is opened and unpacked |
//! | number | `u64` |
//! | payload | |
//! | checksum | `u64`: of the frame in front of it, xor the head's |
//!
//! | payload of | |
//! |------------|--|
//! | a piece | length of the path (`u16`), path in the backup, offset (`u64`), bytes of the file there |
//! | the contents, all parts one after the other | JSON, [`Contents`]: the manifest, and where which piece is |
//! | the end | position (`u64`) and number (`u64`) of the first frame of the contents |
//!
//! With a key each payload is packed, then sealed with XChaCha20-Poly1305, which makes it 16 bytes longer. The nonce is the head's salt and the
//! frame's number. The head and the front of the frame are authenticated with the payload.
//!
//! - BF1. The end is written when all else is written and the server has confirmed the pin. A pack without it is no backup.
//! - BF2. The checksums need no key. They detect accidents, among them frames of another pack and frames in another order. Against
//!   forgery there is the seal.
//! - BF3. No number of a pack is trusted before it is compared with a limit.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use frond_base::checksum64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::super::key::Key;
use super::super::manifest::{hex, Manifest};

const MAGIC: &[u8; 8] = b"FRONDBAK";
const VERSION: u32 = 1;
/// Bytes of magic, version and length.
pub const HEAD_FRONT: usize = 16;
const MAX_HEAD: usize = 1 << 20;
/// Bytes of a frame in front of its payload.
pub const FRONT: usize = 18;
pub const SUM: usize = 8;
/// The largest payload of a frame when it is unpacked.
pub const MAX_PLAIN: usize = 5 << 20;
const TAG: usize = 16;
const SALT: usize = 16;

/// The description of a backup, readable without its key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// This field and the next three are those of the manifest.
    pub id: String,
    pub chain: Vec<String>,
    pub created: u64,
    pub database: String,
    /// Name of the key and salt (hexadecimal), if it is sealed.
    pub key: Option<(String, String)>,
}

/// Where a piece is: offset in its file, length, position of its frame.
pub type Place = (u64, u64, u64);

#[derive(Serialize, Deserialize)]
pub struct Contents {
    pub manifest: Manifest,
    pub places: BTreeMap<String, Vec<Place>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Piece,
    Contents,
    End,
}

/// The front of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Front {
    pub kind: Kind,
    is_zstd: bool,
    pub stored: usize,
    plain: usize,
    pub number: u64,
}

impl Front {
    /// Bytes of the whole frame.
    pub fn frame(&self) -> usize {
        FRONT + self.stored + SUM
    }

    fn encode(&self) -> [u8; FRONT] {
        let kind = match self.kind {
            Kind::Piece => 1,
            Kind::Contents => 2,
            Kind::End => 3,
        };
        let mut out = [0; FRONT];
        (out[0], out[1]) = (kind, u8::from(self.is_zstd));
        out[2..6].copy_from_slice(&(self.stored as u32).to_le_bytes());
        out[6..10].copy_from_slice(&(self.plain as u32).to_le_bytes());
        out[10..].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    /// Decodes and checks the front of a frame (BF3).
    pub fn decode(bytes: &[u8; FRONT]) -> Result<Front, String> {
        let kind = match bytes[0] {
            1 => Kind::Piece,
            2 => Kind::Contents,
            3 => Kind::End,
            other => return Err(format!("a frame of kind {other}")),
        };
        let (stored, plain) = (u32_at(bytes, 2) as usize, u32_at(bytes, 6) as usize);
        if bytes[1] > 1 || plain > MAX_PLAIN || stored > plain + TAG {
            return Err(format!("a frame of {stored} bytes, unpacked {plain}"));
        }
        Ok(Front { kind, is_zstd: bytes[1] == 1, stored, plain, number: u64_at(bytes, 10) })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// Makes and reads the frames of one pack.
pub struct Frames {
    pub head: Head,
    /// The head as it is in the pack, with its checksum.
    pub bytes: Vec<u8>,
    sum: u64,
    seal: Option<(XChaCha20Poly1305, [u8; SALT])>,
}

impl Frames {
    /// Frames for a new pack. `salt`: random, never used before.
    pub fn new(mut head: Head, key: Option<&Key>, salt: [u64; 2]) -> Result<Frames, String> {
        head.key = key.map(|key| (key.id.clone(), hex(salt[0]) + &hex(salt[1])));
        let text = serde_json::to_vec(&head).map_err(|e| e.to_string())?;
        if text.len() > MAX_HEAD {
            return Err("the chain is too long: make a full backup".into());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&text);
        let sum = checksum64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let mut frames = Frames { head, bytes, sum, seal: None };
        frames.unlock(key)?;
        Ok(frames)
    }

    /// Length of the rest of a head that begins with `front`.
    pub fn rest(front: &[u8; HEAD_FRONT]) -> Result<usize, String> {
        if &front[..8] != MAGIC {
            return Err("it is no packed backup of Frond".into());
        }
        let (version, len) = (u32_at(front, 8), u32_at(front, 12) as usize);
        if version != VERSION {
            return Err(format!(
                "it has format {version}, this program reads {VERSION}: use the release that made it"
            ));
        }
        match len <= MAX_HEAD {
            true => Ok(len + SUM),
            false => Err("damaged: its head is too long".into()),
        }
    }

    /// Frames of a pack with this whole head. Without [`Frames::unlock`] frames can be checked, and unsealed ones decoded.
    pub fn of(bytes: Vec<u8>) -> Result<Frames, String> {
        let split = bytes.len().checked_sub(SUM).filter(|split| *split >= HEAD_FRONT);
        let Some(split) = split else { return Err("it ends within its head".into()) };
        let sum = u64_at(&bytes, split);
        if checksum64(&bytes[..split]) != sum {
            return Err("damaged: its head's checksum does not match".into());
        }
        let head: Head = serde_json::from_slice(&bytes[HEAD_FRONT..split])
            .map_err(|e| format!("damaged: its head: {e}"))?;
        Ok(Frames { head, bytes, sum, seal: None })
    }

    /// Sets the key, which must be the one that the head names.
    pub fn unlock(&mut self, key: Option<&Key>) -> Result<(), String> {
        let Some((id, salt)) = &self.head.key else { return Ok(()) };
        let Some(key) = key.filter(|key| key.id == *id) else {
            return Err(match key {
                None => format!("it is encrypted with key {id}: give its file with --key-file"),
                Some(other) => format!("it is encrypted with key {id}, not {}", other.id),
            });
        };
        let mut bytes = [0; SALT];
        let digits = |half: Option<&str>| half.and_then(|half| u64::from_str_radix(half, 16).ok());
        let (Some(first), Some(second)) = (digits(salt.get(..16)), digits(salt.get(16..))) else {
            return Err("damaged: its salt".into());
        };
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        self.seal = Some((XChaCha20Poly1305::new(key.bytes()), bytes));
        Ok(())
    }

    /// Makes a whole frame. `level`: of zstd; a payload that does not become smaller is stored as it is.
    pub fn encode(&self, kind: Kind, number: u64, plain: &[u8], level: Option<i32>) -> Vec<u8> {
        assert!(plain.len() <= MAX_PLAIN, "BF3: a frame of {} bytes", plain.len());
        let packed = level.and_then(|level| zstd::bulk::compress(plain, level).ok());
        let packed = packed.filter(|packed| packed.len() < plain.len());
        let payload = packed.as_deref().unwrap_or(plain);
        let stored = payload.len() + if self.seal.is_some() { TAG } else { 0 };
        let front =
            Front { kind, is_zstd: packed.is_some(), stored, plain: plain.len(), number }.encode();
        let mut frame = Vec::with_capacity(FRONT + stored + SUM);
        frame.extend_from_slice(&front);
        match &self.seal {
            None => frame.extend_from_slice(payload),
            Some((cipher, salt)) => {
                let aad = [self.bytes.as_slice(), &front].concat();
                let sealed =
                    cipher.encrypt(&nonce(salt, number), Payload { msg: payload, aad: &aad });
                frame.extend_from_slice(&sealed.expect("five megabytes can be sealed"));
            }
        }
        frame.extend_from_slice(&(checksum64(&frame) ^ self.sum).to_le_bytes());
        frame
    }

    /// Whether the bytes are those that were written as the frame with this number (BF2).
    pub fn check(&self, frame: &[u8], front: &Front, number: u64) -> Result<(), String> {
        let split = FRONT + front.stored;
        if frame.len() != front.frame()
            || checksum64(&frame[..split]) ^ self.sum != u64_at(frame, split)
        {
            return Err(format!("damaged: the checksum of frame {number} does not match"));
        }
        match front.number == number {
            true => Ok(()),
            false => Err(format!("frame {} is where {number} should be", front.number)),
        }
    }

    /// The payload of a frame, opened and unpacked. The frame must have been checked.
    pub fn decode(&self, frame: &[u8], front: &Front) -> Result<Vec<u8>, String> {
        let payload = &frame[FRONT..FRONT + front.stored];
        let opened = match (&self.seal, &self.head.key) {
            (Some((cipher, salt)), _) => {
                let aad = [self.bytes.as_slice(), &frame[..FRONT]].concat();
                let opened =
                    cipher.decrypt(&nonce(salt, front.number), Payload { msg: payload, aad: &aad });
                Some(opened.map_err(|_| {
                    format!("frame {} is not what was sealed with the key: it was forged, or the key's file was changed", front.number)
                })?)
            }
            (None, Some((id, _))) => {
                return Err(format!("it is encrypted with key {id}: give its file with --key-file"))
            }
            (None, None) => None,
        };
        let opened = opened.as_deref().unwrap_or(payload);
        let plain = match front.is_zstd {
            true => zstd::bulk::decompress(opened, front.plain).unwrap_or_default(),
            false => opened.to_vec(),
        };
        match plain.len() == front.plain {
            true => Ok(plain),
            false => Err(format!("damaged: frame {} cannot be unpacked", front.number)),
        }
    }

    /// Bytes of the last frame.
    pub fn end_frame(&self) -> usize {
        FRONT + 16 + if self.head.key.is_some() { TAG } else { 0 } + SUM
    }
}

fn nonce(salt: &[u8; SALT], number: u64) -> XNonce {
    let mut nonce = XNonce::default();
    nonce[..SALT].copy_from_slice(salt);
    nonce[SALT..].copy_from_slice(&number.to_le_bytes());
    nonce
}

/// Makes the payload of a piece.
pub fn piece(path: &str, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(10 + path.len() + bytes.len());
    out.extend_from_slice(&(path.len() as u16).to_le_bytes());
    out.extend_from_slice(path.as_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// Where the bytes begin in the payload of a piece of `path` at `offset`; `None`: it is another piece.
pub fn piece_bytes(payload: &[u8], path: &str, offset: u64) -> Option<usize> {
    let front = piece(path, offset, &[]);
    payload.starts_with(&front).then_some(front.len())
}

/// Makes the payload of the end.
pub fn end(position: u64, number: u64) -> Vec<u8> {
    [position.to_le_bytes(), number.to_le_bytes()].concat()
}

/// Position and number of the first frame of the contents.
pub fn read_end(payload: &[u8]) -> Option<(u64, u64)> {
    (payload.len() == 16).then(|| (u64_at(payload, 0), u64_at(payload, 8)))
}
