//! The chart as a picture: rsvg-convert (Debian's package librsvg2-bin) renders the SVG at twice its size.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const SCALE: &str = "2";

/// Writes `svg` to `path` as PNG.
pub fn write(svg: &str, path: &Path) -> Result<(), String> {
    let mut renderer = Command::new("rsvg-convert")
        .args(["--format", "png", "--zoom", SCALE, "--output"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                "rsvg-convert is missing (install the package librsvg2-bin)".into()
            }
            _ => format!("rsvg-convert: {e}"),
        })?;
    // A renderer that ends early closes the pipe; its status and its message say why.
    let sent = renderer.stdin.take().map_or(Ok(()), |mut to| to.write_all(svg.as_bytes()));
    let ended = renderer.wait_with_output().map_err(|e| format!("rsvg-convert: {e}"))?;
    match (ended.status.success(), sent) {
        (true, Ok(())) => Ok(()),
        (true, Err(e)) => Err(format!("rsvg-convert: {e}")),
        (false, _) => {
            Err(format!("rsvg-convert: {}", String::from_utf8_lossy(&ended.stderr).trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_becomes_a_picture_of_twice_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.png");
        let svg = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20">
            <rect width="30" height="20" fill="red"/></svg>"#;
        match write(svg, &file) {
            Err(why) if why.contains("librsvg2-bin") => {
                eprintln!("skipped: {why}");
                return;
            }
            done => done.unwrap(),
        }
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        // Width and height follow in the first chunk.
        assert_eq!(bytes[16..24], [0, 0, 0, 60, 0, 0, 0, 40]);
        assert!(write("no svg", &file).is_err());
    }
}
