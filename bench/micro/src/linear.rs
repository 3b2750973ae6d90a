//! The allocator that [`frond_space::ExtentTree`] replaces: a sorted array of used extents, searched from
//! the front. It is correct, compact, and linear in the number of extents. The tree is measured against it
//! and checked by it: both must place every extent alike.

use frond_space::Extent;

/// First fit over a sorted array.
pub struct LinearFirstFit {
    used: Vec<Extent>,
    reserved: u64,
    steps: u64,
}

impl LinearFirstFit {
    /// An empty file whose first `reserved` bytes are never handed out.
    pub fn new(reserved: u64) -> LinearFirstFit {
        LinearFirstFit { used: Vec::new(), reserved, steps: 0 }
    }

    /// Takes `len` (> 0) bytes at the lowest offset where they fit.
    pub fn alloc(&mut self, len: u64) -> Extent {
        assert!(len > 0, "an extent has at least one byte");
        let mut offset = self.reserved;
        let mut place = self.used.len();
        for (i, e) in self.used.iter().enumerate() {
            if e.offset - offset >= len {
                place = i;
                break;
            }
            offset = e.end();
        }
        self.steps += place as u64 + 1;
        let extent = Extent { offset, len };
        self.used.insert(place, extent);
        extent
    }

    /// Gives an extent back, which must be one that `alloc` returned.
    pub fn free(&mut self, extent: Extent) {
        let found = self.used.binary_search_by_key(&extent.offset, |e| e.offset);
        assert!(
            found.is_ok_and(|i| self.used[i] == extent),
            "freeing {extent}: not an extent in use"
        );
        if let Ok(i) = found {
            self.used.remove(i);
        }
    }

    /// The first byte behind everything in use.
    #[cfg(test)]
    pub fn tail(&self) -> u64 {
        self.used.last().map_or(self.reserved, Extent::end)
    }

    /// Extents looked at by searches since the last call.
    pub fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }
}
