//! Measures how fast captures are read, in packets per second of one processor: run with
//! `cargo test --release -p frond-capture --test it -- --ignored --nocapture speed`.

use super::traffic::*;
use frond_capture::{Options, Traffic};
use frond_event::{Event, ForEach, Stream};
use std::time::Duration;

/// Processor time of this thread: on a shared machine the clock says little.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn measure(packets: &[Seen], rounds: u16, write: impl Fn(&[Seen]) -> Vec<u8>) -> (f64, u64) {
    let mut traffic = Traffic::new(Options::default());
    let (mut events, mut time) = (0u64, 0u64);
    let mut sink = ForEach::new(|e: &Event<'_>| {
        events += 1;
        time += e.query_time().unwrap_or(0);
    });
    let mut spent = Duration::ZERO;
    for round in 0..rounds {
        let shifted: Vec<Seen> = busy_again(packets, round).collect();
        let file = write(&shifted);
        let begun = processor_time();
        if round > 0 {
            traffic.next_file(round.into(), &mut sink).unwrap();
        }
        for piece in file.chunks(1 << 20) {
            traffic.feed(piece, &mut sink).unwrap();
        }
        spent += processor_time() - begun;
    }
    let begun = processor_time();
    traffic.finish(&mut sink);
    spent += processor_time() - begun;
    let summary = traffic.summary();
    assert_eq!((summary.gaps, summary.unmeasured), (0, 0));
    drop(sink);
    assert!(time > 0 && events > 0);
    (summary.packets as f64 / spent.as_secs_f64(), summary.packets)
}

#[test]
#[ignore = "a benchmark"]
fn speed_of_captures() {
    let packets = busy();
    let (rate, count) = measure(&packets, 22, |p| pcap(p, 1 << 20));
    println!("pcap:   {:.2} M packets/s ({count} packets)", rate / 1e6);
    let (png, _) = measure(&packets, 5, pcapng);
    println!("pcapng: {:.2} M packets/s", png / 1e6);
    let (text_rate, _) = measure(&packets, 3, |p| text(p, false, false, false));
    println!("text:   {:.2} M packets/s", text_rate / 1e6);
    let mut random = Random(1);
    let kept: Vec<Seen> = packets.iter().filter(|_| random.below(100) >= 5).cloned().collect();
    let mut traffic = Traffic::new(Options::default());
    let mut sink = ForEach::new(|_: &Event<'_>| {});
    let file = pcap(&kept, 1 << 20);
    let begun = processor_time();
    traffic.feed(&file, &mut sink).unwrap();
    traffic.finish(&mut sink);
    let lossy = kept.len() as f64 / (processor_time() - begun).as_secs_f64();
    println!("5 % lost: {:.2} M packets/s", lossy / 1e6);
    if !cfg!(debug_assertions) {
        assert!(rate > 500_000.0, "only {rate:.0} packets/s");
    }
}
