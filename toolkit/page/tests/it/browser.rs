//! Opens a page in headless Chromium (`CHROMIUM` names another browser), for the tests of all commands that write one. Without a
//! browser those tests say so and pass.

use std::path::{Path, PathBuf};

use crate::programs::bounded;

fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    std::env::split_paths(&path)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|file| file.is_file())
}

/// The result of the page's self-test (`rows: ok | ...`). Opened with `#selftest` the page clicks and types, and writes the result
/// into the root element, which `--dump-dom` prints; `None` without a browser.
pub fn selftest(page: &[u8]) -> Option<String> {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: no chromium (install it, or name one with CHROMIUM=)");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let dom = dump(&chromium, dir.path(), &file);
    let (_, rest) = dom.split_once("data-selftest=\"").unwrap_or_else(|| {
        panic!("the page did not finish: {}", &dom[dom.len().saturating_sub(2000)..])
    });
    // No statement of the log became markup that runs.
    assert!(!dom.contains("data-broken"), "a statement ran as a script");
    Some(rest.split_once('"').unwrap().0.to_owned())
}

fn dump(chromium: &Path, dir: &Path, file: &Path) -> String {
    let output = bounded(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--dump-dom", "--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("file://{}#selftest", file.display()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
