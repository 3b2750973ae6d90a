//! Writes the seeds of the engine's targets where cargo-fuzz looks for them, a folder each in corpus/ beside src/. They are made
//! by the encoders, so they are not kept in the repository.
#![allow(clippy::disallowed_methods)] // Writes seeds: no file of a database.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in &frond_fuzz::TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder)?;
        let mut written = 0;
        for seed in 0..4 {
            for input in (target.seeds)(seed) {
                std::fs::write(folder.join(format!("seed-{written}")), input)?;
                written += 1;
            }
        }
        println!("{}: {written} seeds", target.name);
    }
    Ok(())
}
