//! Times as `--since` and `--until` take them.

use super::NOON;
use frond_digest::filter::parse_time;
use jiff::tz::TimeZone;
use jiff::Timestamp;

fn utc(text: &str) -> String {
    in_zone(text, &TimeZone::UTC)
}

fn in_zone(text: &str, zone: &TimeZone) -> String {
    match parse_time(text, NOON, zone) {
        Ok(micros) => Timestamp::from_microsecond(micros).unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_form_is_read() {
    for (text, expected) in [
        ("now", "2024-03-10T12:00:00Z"),
        ("2h", "2024-03-10T10:00:00Z"),
        ("30m", "2024-03-10T11:30:00Z"),
        ("1h30m ago", "2024-03-10T10:30:00Z"),
        ("1.5h", "2024-03-10T10:30:00Z"),
        ("90s", "2024-03-10T11:58:30Z"),
        ("1d", "2024-03-09T12:00:00Z"),
        ("2 weeks", "2024-02-25T12:00:00Z"),
        ("today", "2024-03-10T00:00:00Z"),
        ("Yesterday", "2024-03-09T00:00:00Z"),
        ("yesterday 18:30", "2024-03-09T18:30:00Z"),
        ("10:15", "2024-03-10T10:15:00Z"),
        ("240131", "2024-01-31T00:00:00Z"),
        ("240131 10:00:05", "2024-01-31T10:00:05Z"),
        ("240131  9:00:05.25", "2024-01-31T09:00:05.25Z"),
        ("20240131 10:00", "2024-01-31T10:00:00Z"),
        ("2024-01-31", "2024-01-31T00:00:00Z"),
        ("2024-1-5 1:02", "2024-01-05T01:02:00Z"),
        ("2024/01/31 10:00:00", "2024-01-31T10:00:00Z"),
        ("2024-01-31T10:00:00.123456Z", "2024-01-31T10:00:00.123456Z"),
        ("2024-01-31T10:00:00+02:00", "2024-01-31T08:00:00Z"),
        ("2024-01-31 10:00:00 -0530", "2024-01-31T15:30:00Z"),
        ("2024-01-31 10:00:00 Europe/Berlin", "2024-01-31T09:00:00Z"),
        ("2024-07-31T10:00:00[Europe/Berlin]", "2024-07-31T08:00:00Z"),
        ("1706695200", "2024-01-31T10:00:00Z"),
        ("1706695200.5", "2024-01-31T10:00:00.5Z"),
        ("@0", "1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(utc(text), expected, "{text}");
    }
}

#[test]
fn the_zone_decides_and_its_clock_changes_are_known() {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    for (text, expected) in [
        ("today", "2024-03-09T23:00:00Z"),
        ("2024-07-01", "2024-06-30T22:00:00Z"),
        // Skipped by the clock: an hour later.
        ("2024-03-31 02:30", "2024-03-31T01:30:00Z"),
        // Twice on the clock: the first.
        ("2024-10-27 02:30", "2024-10-27T00:30:00Z"),
    ] {
        assert_eq!(in_zone(text, &berlin), expected, "{text}");
    }
}

#[test]
fn what_is_no_time_is_refused_with_the_forms_that_are() {
    for text in [
        "",
        "x",
        "2024-13-01",
        "2024-02-30",
        "241301",
        "240131 25:00",
        "2024-01-31 10:00 Mars/Base",
        "2024-01-31T10:00:00+99:99",
        "h",
        "5",
        "12345",
        "1234567",
        "10:60",
        "2024",
        "2024-01",
        "99999999999999",
        "1e5",
        "-2h",
        "2h30",
        "5y",
        "todayx",
        "yesterday 99:99",
    ] {
        let shown = utc(text);
        assert!(
            shown.contains("is no time") && shown.contains("2h or 30m (ago)"),
            "{text}: {shown}"
        );
    }
}
