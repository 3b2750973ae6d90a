use std::io;
use std::path::Path;
use std::sync::Arc;

use frond_vfs::{MemVfs, OpenHow, Vfs, VfsFile};

use super::*;
use crate::backup::args::KeyArgs;
use crate::backup::copy::{self, Meter, Show};
use crate::backup::key::{self, Key};
use crate::backup::manifest::{hex, Manifest};
use crate::backup::parallel::{extents, To};
use crate::backup::store::Store;

fn new_key(dir: &Path, name: &str) -> Key {
    let file = dir.join(name);
    key::run(&KeyArgs { file: file.clone() }, &mut Vec::new()).unwrap();
    Key::read(&file).unwrap()
}

/// Three pieces of `frond/4.frd`, an empty file, and another one.
fn pack(dir: &Path, name: &str, key: Option<&Key>, level: Option<i32>, threads: usize) -> Vec<u8> {
    let vfs = MemVfs::new();
    let from = vfs.open("f", OpenHow::CREATE).unwrap();
    from.write_all_at(&b"rows and ".repeat(2000), 0).unwrap();
    let manifest = Manifest::new(7, "here");
    let head = Head {
        id: manifest.id.clone(),
        chain: Vec::new(),
        created: 3,
        database: hex(5),
        key: None,
    };
    let path = dir.join(name);
    let file = copy::open(&path, OpenHow::CREATE).unwrap();
    let salt = [name.len() as u64, 9];
    let frames = Frames::new(head, key, salt).unwrap();
    let packer = Arc::new(Packer::begin(Out::File(file.clone()), frames, level).unwrap());
    packer.name("server/empty");
    let meter = Meter::new(dir, None, Show::Nobody).unwrap();
    let to = To::Pack(packer.clone(), "frond/4.frd".into());
    extents(&from, &to, &[(0, 100), (4096, 300), (8192, 200)], threads, &meter).unwrap();
    packer.piece("server/x", 0, b"definition").unwrap();
    assert_eq!(packer.finish(manifest.seal().unwrap()).unwrap(), file.len().unwrap());
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn all(file: &dyn VfsFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Everything that is in a pack.
fn contents(path: &Path, key: Option<&Key>) -> Result<Vec<u8>, String> {
    let (pack, _) = Pack::open(path, key).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    for name in ["frond/4.frd", "server/empty", "server/x"] {
        let file = pack.file(name).ok_or("a file is missing")?;
        bytes.extend(all(&file).map_err(|e| e.to_string())?);
    }
    Ok(bytes)
}

fn received(bytes: &[u8]) -> io::Result<u64> {
    let mut stream = Stream::begin(bytes)?;
    while let Next::Frame(_) = stream.next_frame()? {}
    Ok(stream.at)
}

fn put(path: &Path, bytes: &[u8]) {
    let _ = copy::remove(path);
    copy::open(path, OpenHow::CREATE).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn a_pack_gives_back_what_was_put_in() {
    let dir = tempfile::tempdir().unwrap();
    let key = new_key(dir.path(), "key");
    let other = new_key(dir.path(), "other");
    let mut want = b"rows and ".repeat(2000)[..8392].to_vec();
    want[100..4096].fill(0);
    want[4396..8192].fill(0);
    want.extend(b"definition");
    let mut sizes = Vec::new();
    for (n, (key, level)) in
        [(None, None), (None, Some(3)), (Some(&key), None), (Some(&key), Some(3))]
            .iter()
            .enumerate()
    {
        for threads in [1, 3] {
            let name = format!("p{n}-{threads}");
            let bytes = pack(dir.path(), &name, *key, *level, threads);
            let path = dir.path().join(name);
            assert_eq!(contents(&path, *key).unwrap(), want, "{n} {threads}");
            assert_eq!(received(&bytes).unwrap(), bytes.len() as u64);
            assert_eq!(look(&path).unwrap().0.key.is_some(), key.is_some());
            let in_clear = bytes.windows(10).any(|w| w == b"definition");
            assert_eq!(in_clear, key.is_none());
            sizes.push(bytes.len());
            if key.is_some() {
                let told = contents(&path, None).unwrap_err();
                assert!(told.contains("--key-file"), "{told}");
                let told = contents(&path, Some(&other)).unwrap_err();
                assert!(told.contains(&other.id), "{told}");
            }
        }
    }
    assert!(sizes[2] < sizes[0] && sizes[6] < sizes[4], "{sizes:?}");
}

#[test]
fn each_flipped_bit_and_each_missing_end_of_a_pack_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let key = new_key(dir.path(), "key");
    for key in [None, Some(&key)] {
        let bytes = pack(dir.path(), &format!("{}", key.is_some()), key, Some(1), 1);
        let path = dir.path().join("damaged");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(received(&damaged).is_err(), "bit {bit}");
            // Tests with files are slower, so only some bits.
            if bit % 41 == 0 {
                put(&path, &damaged);
                assert!(contents(&path, key).is_err(), "bit {bit}");
            }
        }
        for len in 0..bytes.len() {
            let e = received(&bytes[..len]).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof, "{len}: {e}");
            if len % 7 == 0 {
                put(&path, &bytes[..len]);
                assert!(look(&path).is_err() && contents(&path, key).is_err(), "{len} bytes");
            }
        }
        assert!(received(&[&bytes[..], b"x"].concat()).is_err());
        put(&path, &[&bytes[..], b"x"].concat());
        assert!(look(&path).is_err());
    }
}

/// Where the frames of a pack are.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut stream = Stream::begin(bytes).unwrap();
    let mut found = Vec::new();
    loop {
        let at = stream.at as usize;
        let next = stream.next_frame().unwrap();
        found.push(at..stream.at as usize);
        if let Next::End(_) = next {
            return found;
        }
    }
}

#[test]
fn frames_of_other_packs_and_in_another_order_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let key = new_key(dir.path(), "key");
    for key in [None, Some(&key)] {
        let (one, two) = (
            pack(dir.path(), &format!("a{}", key.is_some()), key, None, 1),
            // The same contents, with another id or another salt.
            pack(dir.path(), &format!("bb{}", key.is_some()), key, None, 1),
        );
        let path = dir.path().join("mixed");
        let at = frames(&one);
        let swapped =
            [&one[..at[0].start], &one[at[2].clone()], &one[at[1].clone()], &one[at[0].clone()]];
        let swapped = [&swapped.concat(), &one[at[3].start..]].concat();
        let left_out = [&one[..at[1].start], &one[at[2].start..]].concat();
        let mut mixed = vec![swapped, left_out];
        if key.is_some() {
            assert_eq!(at, frames(&two));
            mixed.push([&one[..at[1].start], &two[at[1].clone()], &one[at[2].start..]].concat());
        }
        for bytes in mixed {
            assert!(received(&bytes).is_err());
            put(&path, &bytes);
            assert!(contents(&path, key).is_err());
        }
    }
}

#[test]
fn a_pack_whose_writer_failed_gets_no_end() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let vfs = MemVfs::new();
    let from = vfs.open("f", OpenHow::CREATE).unwrap();
    from.set_len(40 << 20).unwrap();
    let meter = Meter::new(dir.path(), None, Show::Nobody).unwrap();
    let manifest = Manifest::new(7, "here");
    let head =
        Head { id: manifest.id.clone(), chain: vec![], created: 3, database: hex(5), key: None };
    let frames = Frames::new(head, None, [1, 2]).unwrap();
    let out = Out::Pipe(Box::new(Full(9 << 20)));
    let packer = Arc::new(Packer::begin(out, frames, None).unwrap());
    let to = To::Pack(packer.clone(), "x".into());
    let e = extents(&from, &to, &[(0, 40 << 20)], 3, &meter).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::StorageFull, "the first failure is told: {e}");
    assert!(packer.piece("y", 0, b"more").is_err());
    assert!(packer.finish(manifest.seal().unwrap()).is_err());
}

#[test]
fn with_a_key_only_sealed_backups_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let mut key = new_key(dir.path(), "key");
    pack(dir.path(), "sealed", Some(&key), None, 1);
    pack(dir.path(), "plain", None, None, 1);
    std::fs::create_dir(dir.path().join("files")).unwrap();
    Manifest::new(7, "here").write(&dir.path().join("files")).unwrap();
    let open = |name: &str, key: &Key| Store::open(&dir.path().join(name), Some(key)).map(drop);
    open("sealed", &key).unwrap();
    for name in ["plain", "files"] {
        let told = open(name, &key).unwrap_err().to_string();
        assert!(told.contains("--allow-unencrypted"), "KY2: {told}");
    }
    key.allows_unencrypted = true;
    ["sealed", "plain", "files"].iter().for_each(|name| open(name, &key).unwrap());
}
