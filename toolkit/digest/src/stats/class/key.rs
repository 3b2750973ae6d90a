//! The key of a class, of bounded length.
//!
//! A fingerprint may be as long as its statement, and there may be `max_classes` of them. So
//! only the beginning of a long key is kept. The key's id and length follow it, and distinguish it from
//! others with the same beginning.
//!
//! Invariant: a key longer than `KEY_LIMIT` is shortened, and no shorter key is.

use std::borrow::Cow;

use frond_sqltext::ClassId;

/// Bytes of a key that are kept.
pub const KEY_LIMIT: usize = 4 << 10;

const ID: usize = 16;

/// Shortens a key. To be called once, with the whole key.
#[inline]
pub fn bound(key: &mut Vec<u8>) {
    if key.len() > KEY_LIMIT {
        shorten(key);
    }
}

#[cold]
fn shorten(key: &mut Vec<u8>) {
    let id = ClassId::of(key);
    let length = key.len() as u64;
    key.truncate(KEY_LIMIT);
    key.extend_from_slice(&id.bytes());
    key.extend_from_slice(&length.to_le_bytes());
}

/// The end of a shortened key: the id and the length of the whole.
fn tail(key: &[u8]) -> Option<(ClassId, u64)> {
    let tail = key.get(KEY_LIMIT..).filter(|tail| !tail.is_empty())?;
    let id = ClassId::from_bytes(*tail.first_chunk::<ID>()?);
    Some((id, u64::from_le_bytes(*tail.last_chunk()?)))
}

/// The id of the whole key.
pub fn id(key: &[u8]) -> ClassId {
    tail(key).map_or_else(|| ClassId::of(key), |(id, _)| id)
}

/// The key for people.
pub fn text(key: &[u8]) -> Cow<'_, [u8]> {
    let Some((_, length)) = tail(key) else { return Cow::Borrowed(key) };
    let mut text = key[..KEY_LIMIT].to_vec();
    text.extend_from_slice(format!("... ({length} bytes)").as_bytes());
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_stay_apart_and_have_the_id_of_the_whole() {
        let long = |end: &str| format!("select {}{end}", "a, ".repeat(20_000)).into_bytes();
        let short = |key: &[u8]| {
            let mut key = key.to_vec();
            bound(&mut key);
            key
        };
        let (one, other) = (long("b from t"), long("c from t"));
        assert_ne!(short(&one), short(&other));
        assert!(short(&one).len() < KEY_LIMIT + 32);
        assert_eq!(id(&short(&one)), ClassId::of(&one));
        let said = String::from_utf8(text(&short(&one)).into()).unwrap();
        assert!(said.starts_with("select a, a") && said.ends_with("... (60015 bytes)"), "{said}");
        for kept in [&b""[..], b"select ?", &long("")[..KEY_LIMIT]] {
            assert_eq!(short(kept), kept);
            assert_eq!((id(kept), &*text(kept)), (ClassId::of(kept), kept));
        }
    }
}
