//! A private MariaDB on loopback, a client, and tcpdump.

use super::programs::{bounded, has};
use super::traffic::Random;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that is ended with its owner.
struct Process(Child);

impl Process {
    fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([name, &self.0.id().to_string()]).status();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.signal("-TERM");
            let until = Instant::now() + Duration::from_secs(20);
            while Instant::now() < until {
                if let Ok(Some(_)) = self.0.try_wait() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Runs a command and returns its output.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

struct Server {
    _process: Process,
    socket: PathBuf,
    port: u16,
}

impl Server {
    fn start(home: &Path) -> Result<Server, String> {
        let data = home.join("data");
        let user = format!("--user={}", std::env::var("USER").unwrap_or("root".into()));
        run(bounded("mariadb-install-db")
            .args(["--no-defaults", &user, "--auth-root-authentication-method=normal"])
            .arg(format!("--datadir={}", data.display()))
            .env("TMPDIR", home))?;
        // A port that is free now.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .map_err(|e| e.to_string())?
            .port();
        let socket = home.join("s");
        let log = std::fs::File::create(home.join("log")).map_err(|e| e.to_string())?;
        let child = Command::new("mariadbd")
            .args(["--no-defaults", &user, "--bind-address=127.0.0.1", "--skip-name-resolve"])
            .args(["--innodb-buffer-pool-size=32M", "--max-allowed-packet=64M", "--local-infile=1"])
            .arg(format!("--port={port}"))
            .arg(format!("--datadir={}", data.display()))
            // Servers that share a directory delete each other's temporary files.
            .arg(format!("--tmpdir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", home.join("pid").display()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| e.to_string())?;
        let server = Server { _process: Process(child), socket, port };
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if server.sql("select 1").is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(std::fs::read_to_string(home.join("log")).unwrap_or_default())
    }

    fn sql(&self, text: &str) -> Result<(), String> {
        run(bounded("mariadb")
            .args(["--no-defaults", "-uroot", "-e", text])
            .arg(format!("--socket={}", self.socket.display())))
        .map(drop)
    }
}

fn capture(port: u16, file: &Path) -> Result<Process, String> {
    let mut child = Command::new("tcpdump")
        .args(["-i", "lo", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w"])
        .arg(file)
        .arg(format!("tcp port {port}"))
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stderr = child.stderr.take().ok_or("no stderr")?;
    let process = Process(child);
    let mut said = String::new();
    let mut lines = BufReader::new(stderr);
    while lines.read_line(&mut said).is_ok_and(|n| n > 0) {
        if said.contains("listening on") {
            // The server's last messages must not meet a closed pipe.
            std::thread::spawn(move || lines.lines().count());
            return Ok(process);
        }
    }
    Err(said)
}

/// Starts the client with these arguments, followed by the port and a file's name, and captures its
/// traffic. Returns the capture, the server's port, and the client's output. If that is not
/// possible here, it prints why and returns `None`.
pub fn session(arguments: &[&str]) -> Option<(Vec<u8>, u16, String)> {
    for program in ["mariadbd", "mariadb", "mariadb-install-db", "tcpdump", "cc", "mariadb_config"]
    {
        if !has(program) {
            eprintln!("skipped: no {program} here");
            return None;
        }
    }
    let home = tempfile::tempdir().expect("a temporary directory");
    let client = home.path().join("load");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/load.c");
    let build = format!(
        "cc -o '{}' '{}' $(mariadb_config --cflags --libs)",
        client.display(),
        source.display()
    );
    run(bounded("sh").args(["-c", &build])).expect("the client compiles");
    let server = Server::start(home.path()).expect("a private server starts");
    let file = home.path().join("capture.pcap");
    let tcpdump = match capture(server.port, &file) {
        Ok(process) => process,
        Err(why) => {
            eprintln!("skipped: tcpdump may not capture here: {}", why.trim());
            return None;
        }
    };
    server
        .sql(
            "create database shop; create database other; \
             create user app@'127.0.0.1' identified by 'secret'; grant all on *.* to app@'127.0.0.1'",
        )
        .expect("the schema is made");
    let infile = home.path().join("two.txt");
    std::fs::write(&infile, "one\ntwo\n").expect("a file");
    let said = run(bounded(&client).arg(server.port.to_string()).args(arguments).arg(&infile))
        .expect("the client succeeds");
    // Waits for the last packets, and for bytes that tcpdump has not yet written.
    std::thread::sleep(Duration::from_millis(1500));
    tcpdump.signal("-INT");
    std::thread::sleep(Duration::from_millis(300));
    drop(tcpdump);
    let bytes = std::fs::read(&file).expect("a capture");
    if let Ok(keep) = std::env::var("FROND_KEEP_CAPTURE") {
        let name = format!("{keep}.{}.pcap", arguments.join("-"));
        std::fs::write(name, &bytes).expect("FROND_KEEP_CAPTURE");
    }
    Some((bytes, server.port, said))
}

/// A pcap file with some of its packets removed.
pub fn thinned(file: &[u8], percent: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    only(file, |_| random.below(100) >= percent)
}

/// The packets of a pcap file with these indexes.
pub fn only(file: &[u8], mut wanted: impl FnMut(usize) -> bool) -> Vec<u8> {
    let mut out = file[..24].to_vec();
    let mut rest = &file[24..];
    let mut index = 0;
    while rest.len() >= 16 {
        let captured = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        let (record, others) = rest.split_at((16 + captured).min(rest.len()));
        if wanted(index) {
            out.extend(record);
        }
        index += 1;
        rest = others;
    }
    out
}
