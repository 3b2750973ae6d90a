//! The name of a prepared transaction, as XA has it.

use frond_base::{Error, ErrorKind, Result};

/// Each of the two parts of a name has at most this many bytes.
pub const XID_PART_MAX: usize = 64;

/// A transaction's name: unique among those that are prepared at one time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    format: i64,
    gtrid_len: u8,
    /// Both parts, one after the other.
    data: Box<[u8]>,
}

impl Xid {
    /// `gtrid` names the whole transaction, `bqual` its part here; both are only compared.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a part of more than [`XID_PART_MAX`] bytes.
    pub fn new(format: i64, gtrid: &[u8], bqual: &[u8]) -> Result<Xid> {
        if gtrid.len() > XID_PART_MAX || bqual.len() > XID_PART_MAX {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a part of a transaction's name has more than {XID_PART_MAX} bytes"),
            ));
        }
        let data = [gtrid, bqual].concat().into();
        Ok(Xid { format, gtrid_len: gtrid.len() as u8, data })
    }

    pub fn format(&self) -> i64 {
        self.format
    }

    pub fn gtrid(&self) -> &[u8] {
        &self.data[..usize::from(self.gtrid_len)]
    }

    pub fn bqual(&self) -> &[u8] {
        &self.data[usize::from(self.gtrid_len)..]
    }
}

impl std::fmt::Debug for Xid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (gtrid, bqual) = (self.gtrid().escape_ascii(), self.bqual().escape_ascii());
        write!(f, "'{gtrid}','{bqual}',{}", self.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_apart() {
        let one = Xid::new(1, b"ab", b"c").unwrap();
        assert_ne!(one, Xid::new(1, b"a", b"bc").unwrap());
        assert_eq!((one.gtrid(), one.bqual(), one.format()), (&b"ab"[..], &b"c"[..], 1));
        assert_eq!(format!("{one:?}"), "'ab','c',1");
        assert!(Xid::new(1, &[0; 65], b"").is_err());
        assert!(Xid::new(-1, &[0; 64], &[0; 64]).is_ok());
    }
}
