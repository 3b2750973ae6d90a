//! One capture in every format, whole and in the files of a rotation, gives one report.

use super::traffic::*;
use super::{digest, output};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Times are whole microseconds, which is all that text has.
fn packets() -> Vec<Seen> {
    let mut packets = load(12, 60, 3).packets;
    packets.iter_mut().for_each(|p| p.time -= p.time % 1000);
    packets
}

/// The parts of a report that do not depend on the files' names, lengths and formats.
fn content(mut report: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                ["inputs", "file", "offset"].iter().for_each(|name| drop(fields.remove(*name)));
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut report);
    report
}

#[test]
fn every_format_gives_the_same_report() {
    let home = tempfile::tempdir().unwrap();
    let packets = packets();
    let write = |name: &str, bytes: Vec<u8>| -> PathBuf {
        let path = home.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let micros = Pcap { nanoseconds: false, ..Pcap::default() }.file(&packets);
    let whole = write("capture.pcap", micros);
    let want = content(digest(&[&whole], &[]));
    assert_eq!(want["loss"]["capture"]["measured"], 12 * 61);
    assert!(want["classes"].as_array().unwrap().len() >= 6);
    let mut files = vec![
        write("nanoseconds.pcap", pcap(&packets, 1 << 20)),
        write("capture.pcapng", pcapng(&packets)),
        write("x.txt", text(&packets, false, false, false)),
        write("X.txt", text(&packets, false, true, false)),
        write("xx-tt.txt", text(&packets, true, true, true)),
        write("capture.pcap.zst", zstd(&std::fs::read(&whole).unwrap())),
    ];
    // The form in which tcpdump itself prints it.
    for (name, options) in [
        ("tcpdump-x.txt", &["-n", "-q", "-tttt", "-x"][..]),
        ("tcpdump-X.txt", &["-n", "-tttt", "-X"]),
        ("tcpdump-v-xx.txt", &["-n", "-tttt", "-v", "-xx"]),
        ("tcpdump-tt-XX.txt", &["-tt", "-XX", "-n"]),
    ] {
        let command =
            Command::new("tcpdump").env("TZ", "UTC").args(options).arg("-r").arg(&whole).output();
        match command {
            Ok(output) if output.status.success() => files.push(write(name, output.stdout)),
            _ => eprintln!("skipped: no tcpdump here"),
        }
    }
    for file in files {
        let got = content(digest(&[&file], &[]));
        assert!(got == want, "{}: {got:#}\nwant {want:#}", file.display());
    }
}

/// Packs with one frame of raw blocks, because the library has the dependency on zstd, not this
/// crate.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend((bytes.len() as u32).to_le_bytes());
    let blocks: Vec<&[u8]> = bytes.chunks(100_000).collect();
    for (index, block) in blocks.iter().enumerate() {
        let last = u32::from(index + 1 == blocks.len());
        out.extend(&((block.len() as u32) << 3 | last).to_le_bytes()[..3]);
        out.extend(*block);
    }
    out
}

#[test]
fn files_of_a_rotation_are_read_in_their_order() {
    let home = tempfile::tempdir().unwrap();
    let packets = packets();
    let whole = home.path().join("whole");
    std::fs::write(&whole, pcap(&packets, 1 << 20)).unwrap();
    let want = content(digest(&[&whole], &[]));
    let parts: Vec<PathBuf> = packets
        .chunks(packets.len() / 7 + 1)
        .enumerate()
        .map(|(number, part)| {
            let path = home.path().join(format!("capture{number}"));
            let file = if number % 3 == 1 { pcapng(part) } else { pcap(part, 1 << 20) };
            std::fs::write(&path, file).unwrap();
            path
        })
        .collect();
    assert_eq!(parts.len(), 7);
    for order in [[0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 6, 0, 5, 1, 4, 2]] {
        let files: Vec<&Path> = order.iter().map(|i| parts[*i].as_path()).collect();
        let got = content(digest(&files, &[]));
        assert!(got == want, "{order:?}: {:#}", got["loss"]);
    }
    // A file that tcpdump had only begun does not spoil the others.
    let stub = home.path().join("stub");
    std::fs::write(&stub, &std::fs::read(&whole).unwrap()[..10]).unwrap();
    let cut = output(&[&stub, &whole], &[]);
    assert_eq!(cut.status.code(), Some(1));
    let got: Value = serde_json::from_slice(&cut.stdout).unwrap();
    assert_eq!(got["overall"]["events"], want["overall"]["events"]);
    assert!(String::from_utf8_lossy(&cut.stderr).contains("stub: the capture ends within"));
    // Without one of the files: a gap, and the rest is measured.
    let files: Vec<&Path> = [2, 0, 6, 5, 1, 4].iter().map(|i| parts[*i].as_path()).collect();
    let got = digest(&files, &[]);
    let lost = &got["loss"]["capture"];
    assert!(lost["gaps"].as_u64().unwrap() >= 12, "{lost:#}");
    let known = ["measured", "unmeasured"].map(|f| lost[f].as_u64().unwrap());
    assert!(known[0] > 550 && known[0] < 700, "{known:?}");
    assert!((580..=760).contains(&known.iter().sum::<u64>()), "{known:?}");
}

#[test]
fn a_damaged_capture_gives_what_could_be_read_and_status_1() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("cut.pcap");
    let bytes = pcap(&packets(), 1 << 20);
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let cut = output(&[&file], &[]);
    assert_eq!(cut.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&cut.stdout).unwrap();
    assert!(report["overall"]["events"].as_u64().unwrap() > 300);
    assert_eq!(report["loss"]["places"][0]["why"], "cut event");
}
