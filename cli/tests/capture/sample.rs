//! A sample of the connections gives estimates for all.

use super::digest;
use super::traffic::*;

/// Three hundred clients, a few of which send most queries. Ports are even, as Linux assigns them.
fn packets(seed: u64) -> (Vec<Seen>, f64) {
    let mut random = Random(seed);
    let mut truth = 0.0;
    let port = 32768 + random.below(10_000) as u16 / 2 * 2;
    let connections = (0..300u16)
        .map(|n| {
            let mut c = Connection::new(port + n * 2);
            let mut time = c.login(BEGIN + random.below(1_000_000_000) as i64, 0);
            let count = if random.below(10) == 0 { 40 } else { 2 + random.below(6) };
            for i in 0..count {
                time =
                    c.ask(time + 1_000_000, &query(&format!("select {i}")), 500_000, &rows(1, 9));
            }
            // The login is a statement, too.
            truth += count as f64 + 1.0;
            c.close(time + 1000);
            c
        })
        .collect();
    (merge(connections), truth)
}

#[test]
fn totals_are_scaled_and_their_error_covers_the_truth() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("capture.pcap");
    let (mut covered, mut of_class_covered) = (0, 0);
    for seed in 0..20 {
        let (packets, truth) = packets(seed);
        std::fs::write(&file, pcap(&packets, 1 << 20)).unwrap();
        let report = digest(&[&file], &["--sample-connections", "1/8"]);
        let lost = &report["loss"]["capture"];
        let sample = &lost["sampling"];
        let taken = 300 - lost["not_sampled"].as_u64().unwrap();
        assert!((30..=45).contains(&taken), "{taken} of 300");
        assert_eq!((&lost["connections"], &sample["one_in"]), (&300.into(), &8.into()));
        assert!(sample["filter"].as_str().unwrap().contains("tcp dst port 3306"));
        let (total, error) =
            (sample["statements"].as_f64().unwrap(), sample["statements_error"].as_f64().unwrap());
        assert_eq!(total, 8.0 * report["overall"]["events"].as_f64().unwrap());
        assert_eq!(report["overall"]["statements"].as_f64().unwrap(), total);
        assert!(error > 0.05 * total && error < 0.5 * total, "{error} of {total}");
        covered += u32::from((total - truth).abs() <= 2.0 * error);
        let class = &super::of_class(&report, "select").unwrap()["sampled"];
        // Without the logins.
        let (total, truth) = (class["statements"].as_f64().unwrap(), truth - 300.0);
        assert_eq!(class["few_connections"], false);
        let error = class["statements_error"].as_f64().unwrap();
        of_class_covered += u32::from((total - truth).abs() <= 2.0 * error);
    }
    assert!(covered >= 17, "{covered} of 20 intervals hold the truth");
    assert!(of_class_covered >= 17, "{of_class_covered} of 20 intervals hold the truth");
}
