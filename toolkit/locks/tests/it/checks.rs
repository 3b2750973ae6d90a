//! Checks that hold for any bytes as monitor output. The tests here and a target in `fuzz/` at the root of the repository
//! call them.

use frond_locks::analysis::Analysis;
use frond_locks::report::{csv, Options, Report};
use frond_locks::text::reader::Reader;

/// Does everything that is ever done with monitor output, whole and in pieces.
pub fn monitor(bytes: &[u8]) {
    let mut texts = Vec::new();
    for piece in [bytes.len().max(1), 1_000] {
        let (mut analysis, mut reader) = (Analysis::default(), Reader::default());
        bytes.chunks(piece).for_each(|piece| reader.feed(piece, &mut analysis));
        reader.finish(&mut analysis);
        let options = Options { limit: 5, keys: true };
        let report = Report::of(&mut analysis, vec!["x".into()], &options);
        assert!(report.waits.without_blocker <= report.waits.count);
        let mut text = Vec::new();
        report.write_text(false, &mut text).expect("memory takes it");
        report.write_json(&mut text).expect("memory takes it");
        text.extend(csv(&report, "waits", &[]).expect("all fields are known").into_bytes());
        texts.push(text);
    }
    assert_eq!(texts[0], texts[1], "pieces change what is read");
}
