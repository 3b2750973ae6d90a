//! Lines of a stream of bytes.

/// A longer line is cut. A whole dump can be one line: clients in batch mode write each line end as `\n`.
pub const MAX_LINE: usize = 4 << 20;

/// Cuts its input into lines.
#[derive(Default)]
pub struct Lines {
    /// The beginning of a line whose end has not arrived yet.
    held: Vec<u8>,
}

impl Lines {
    /// Passes each whole line, without its end, to `each`.
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            if self.held.is_empty() {
                each(&bytes[..end]);
            } else {
                self.hold(&bytes[..end]);
                each(&self.held);
                self.held.clear();
            }
            bytes = &bytes[end + 1..];
        }
        self.hold(bytes);
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.held.len();
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Passes on the last line if it has no end.
    pub fn finish(&mut self, each: &mut dyn FnMut(&[u8])) {
        if !self.held.is_empty() {
            each(&self.held);
        }
        self.held = Vec::new();
    }
}

/// Restores the line ends of a line in which they are written as `\n` (batch mode of the clients).
pub fn unescaped(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut bytes = line.iter();
    while let Some(&b) = bytes.next() {
        match b {
            b'\\' => match bytes.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'0') => out.push(0),
                Some(&other) => out.push(other),
                None => out.push(b'\\'),
            },
            _ => out.push(b),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = b"one\n\ntwo\r\nthree";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            let mut each = |line: &[u8]| found.push(line.to_vec());
            text.chunks(size).for_each(|chunk| lines.feed(chunk, &mut each));
            lines.finish(&mut each);
            assert_eq!(found, [b"one".as_slice(), b"", b"two\r", b"three"]);
        }
    }

    #[test]
    fn a_line_without_end_does_not_grow_beyond_its_bound() {
        let mut lines = Lines::default();
        for _ in 0..10 {
            lines.feed(&vec![b'x'; 1 << 20], &mut |_| panic!("there is no line"));
        }
        let mut length = 0;
        lines.finish(&mut |line| length = line.len());
        assert_eq!(length, MAX_LINE);
    }

    #[test]
    fn what_clients_escape_comes_back() {
        assert_eq!(unescaped(br"a\nb\tc\\n\"), b"a\nb\tc\\n\\");
    }
}
