//! Long answers stream through.

use super::traffic::*;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// Bytes of memory that a process had at most.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

/// A result of a million rows of a kilobyte, some of it lost.
#[test]
fn a_result_of_a_gigabyte_is_read_in_little_memory() {
    const ROWS: u64 = 1_000_000;
    let mut child = Command::new(env!("CARGO_BIN_EXE_frond"))
        .args(["digest", "--json", "--reproducible", "--quiet", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let form = Pcap::default();
    let mut bytes = Vec::new();
    form.header(&mut bytes);
    let mut c = Connection::new(50_000);
    let time = c.login(BEGIN, 0);
    let head = rows(0, 0);
    // Without the EOF at its end.
    let head = &head[..head.len() - 9];
    let sent = c.send(time + 1_000_000, CLIENT, &query("select * from big"));
    let mut time = c.send(sent + 7_000_000, SERVER, head);
    let mut sequence = 4u8;
    let mut row = vec![0xfc, 0xe8, 0x03];
    row.extend([b'x'; 1000]);
    for done in 0..ROWS / 50 {
        let mut segment = Vec::new();
        for _ in 0..50 {
            segment.extend(packet(sequence, &row));
            sequence = sequence.wrapping_add(1);
        }
        time += 10_000;
        let (next, ack) = (c.sequence[SERVER], c.sequence[CLIENT]);
        c.raw(time, SERVER, ACK, next, ack, &segment);
        c.sequence[SERVER] = next.wrapping_add(segment.len() as u32);
        if done % 3 == 0 {
            c.acknowledge(time + 1000, CLIENT);
        }
        for seen in c.packets.drain(..) {
            form.record(&mut bytes, seen.time, &seen.ip);
        }
        if bytes.len() > 1 << 20 {
            input.write_all(&bytes).unwrap();
            bytes.clear();
        }
    }
    let end = c.send(time + 1000, SERVER, &packet(sequence, EOF));
    c.ask(end + 1_000_000, &query("select 'and on'"), 2_000_000, &rows(1, 1));
    c.packets.iter().for_each(|seen| form.record(&mut bytes, seen.time, &seen.ip));
    input.write_all(&bytes).unwrap();
    let most = peak(child.id());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let big = super::of_class(&report, "big").unwrap();
    let value = |name: &str| {
        let metric = big["metrics"].as_array().unwrap().iter().find(|m| m["name"] == name);
        metric.unwrap_or_else(|| panic!("no {name}"))["sum"].as_f64().unwrap()
    };
    assert_eq!((value("Query_time"), value("Rows_sent")), (0.007, ROWS as f64));
    assert!(value("Bytes_sent") > 1e9);
    assert!(super::of_class(&report, "select ?").is_some());
    let Some(most) = most else { return eprintln!("skipped: no /proc here") };
    eprintln!("{} MiB at most", most >> 20);
    assert!(most < 64 << 20, "{most} bytes");
}
