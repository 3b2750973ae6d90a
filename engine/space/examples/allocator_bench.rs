//! Tree against linear first fit: `cargo run --release -p frond-space --example allocator_bench`.

use frond_space::bench::{allocators, AllocatorBench};
use frond_vfs::{MemVfs, Vfs};

fn main() {
    let clock = MemVfs::new();
    for extents in [1_000, 10_000, 100_000] {
        let options = AllocatorBench { extents, ..AllocatorBench::default() };
        println!("{extents} extents\n{}\n", allocators(&options, &|| clock.now()));
    }
}
