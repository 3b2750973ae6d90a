//! The result of one step of a format's parser.

/// The longest record that is read. The largest packet of Linux is 512 KiB (big TCP); a longer
/// record is damage.
pub(super) const LIMIT: usize = 8 << 20;

/// The header that a packet's bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// Linux "cooked" capture of `-i any`.
    Sll,
    Sll2,
    /// An IPv4 or IPv6 header.
    Raw,
    /// Four bytes of address family, then an IP header: BSD loopback.
    Loopback,
    /// Hexadecimal text does not name the link layer: it is found by trying.
    Unknown,
}

impl Link {
    /// By the numbers of `LINKTYPE_` (and the BSD `DLT_` values that are found in files).
    pub(super) fn from_number(number: u32) -> Option<Link> {
        match number {
            1 => Some(Link::Ethernet),
            0 | 108 => Some(Link::Loopback),
            12 | 14 | 101 | 228 | 229 => Some(Link::Raw),
            113 => Some(Link::Sll),
            276 => Some(Link::Sll2),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Nanoseconds since the epoch, UTC.
    pub time: i64,
    pub link: Link,
    /// The captured bytes.
    pub data: &'a [u8],
    /// The length of the packet on the wire; at least `data.len()`. For text it is `data.len()`:
    /// the IP header has the true length.
    pub wire_length: u32,
    /// Offset in the file of the packet's record.
    pub offset: u64,
}

/// The result of one step.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Packet(Packet<'a>, usize),
    /// So many bytes without a packet.
    Pass(usize),
    /// So many bytes that are, or should be, a packet, but an unreadable one.
    Bad(usize),
    /// More bytes are needed: this many in all, or more.
    More(usize),
    /// Nothing after this position can be read.
    Broken(&'static str),
}

/// Counters from the capturing side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Packets that the interface or the kernel dropped, if the file has their number (pcapng).
    pub dropped: u64,
    /// Packets of a link type that is not understood, or without a time.
    pub unusable: u64,
}
