//! The part of the client protocol that a test needs to send exact bytes, prepared statements
//! included; and a private server.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::programs::bounded;

/// The outcome of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub affected: u64,
    /// 0: it succeeded.
    pub error: u16,
}

/// A connection of root, who has no password on a private server.
pub struct Client {
    stream: UnixStream,
    sequence: u8,
}

/// A parameter of a prepared statement.
pub enum Parameter<'a> {
    Number(i64),
    Text(&'a [u8]),
}

impl Client {
    pub fn connect(socket: &Path, db: &str) -> std::io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut client = Client { stream, sequence: 0 };
        client.packet()?;
        // Long password, long flags, database, protocol 4.1, transactions, login of 4.1, plugins.
        let capabilities: u32 = 0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
        let mut login = capabilities.to_le_bytes().to_vec();
        login.extend((1_u32 << 30).to_le_bytes());
        login.push(63);
        login.extend([0; 23]);
        login.extend(b"root\0\0");
        login.extend(db.as_bytes());
        login.extend(b"\0mysql_native_password\0");
        client.send(&login)?;
        let mut answer = client.packet()?;
        if answer.first() == Some(&0xfe) {
            client.send(&[])?;
            answer = client.packet()?;
        }
        match answer.first() {
            Some(0) => Ok(client),
            _ => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
        }
    }

    fn send(&mut self, payload: &[u8]) -> std::io::Result<()> {
        let mut rest = payload;
        loop {
            let (now, later) = rest.split_at(rest.len().min(0xff_ffff));
            let length = now.len() as u32;
            self.stream.write_all(&length.to_le_bytes()[..3])?;
            self.stream.write_all(&[self.sequence])?;
            self.stream.write_all(now)?;
            self.sequence = self.sequence.wrapping_add(1);
            rest = later;
            if length < 0xff_ffff {
                return Ok(());
            }
        }
    }

    fn packet(&mut self) -> std::io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            self.sequence = head[3].wrapping_add(1);
            let length =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            let from = whole.len();
            whole.resize(from + length, 0);
            self.stream.read_exact(&mut whole[from..])?;
            if length < 0xff_ffff {
                return Ok(whole);
            }
        }
    }

    fn command(&mut self, number: u8, body: &[u8]) {
        self.sequence = 0;
        self.send(&[&[number], body].concat()).unwrap();
    }

    /// Reads packets up to the one that ends a list; returns their number without the last.
    fn list(&mut self) -> u64 {
        let mut count = 0;
        loop {
            let packet = self.packet().unwrap();
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => return count,
                Some(0xff) => panic!("{}", String::from_utf8_lossy(&packet)),
                _ => count += 1,
            }
        }
    }

    fn answer(&mut self) -> Answer {
        let packet = self.packet().unwrap();
        match packet[0] {
            0 => Answer { affected: length(&packet[1..]), ..Answer::default() },
            0xff => {
                Answer { error: u16::from_le_bytes([packet[1], packet[2]]), ..Answer::default() }
            }
            _ => {
                self.list();
                Answer { rows: self.list(), ..Answer::default() }
            }
        }
    }

    /// Sends a statement as text.
    pub fn query(&mut self, sql: &[u8]) -> Answer {
        self.command(3, sql);
        let answer = self.answer();
        // The results of a procedure are followed by one more answer.
        if sql.starts_with(b"call ") && answer.error == 0 && answer.rows > 0 {
            self.answer();
        }
        answer
    }

    /// Runs a statement that must succeed.
    pub fn run(&mut self, sql: &str) -> Answer {
        let answer = self.query(sql.as_bytes());
        assert_eq!(answer.error, 0, "{sql}");
        answer
    }

    /// Prepares a statement; returns its number.
    pub fn prepare(&mut self, sql: &[u8]) -> u32 {
        self.command(0x16, sql);
        let packet = self.packet().unwrap();
        assert_eq!(packet[0], 0, "{}", String::from_utf8_lossy(&packet));
        let two = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
        for count in [two(7), two(5)] {
            if count > 0 {
                self.list();
            }
        }
        u32::from_le_bytes([packet[1], packet[2], packet[3], packet[4]])
    }

    pub fn execute(&mut self, statement: u32, parameters: &[Parameter<'_>]) -> Answer {
        let mut body = statement.to_le_bytes().to_vec();
        body.extend([0, 1, 0, 0, 0]);
        body.extend(vec![0; parameters.len().div_ceil(8)]);
        body.push(1);
        for parameter in parameters {
            body.extend(match parameter {
                Parameter::Number(_) => [8, 0],
                Parameter::Text(_) => [0xfd, 0],
            });
        }
        for parameter in parameters {
            match parameter {
                Parameter::Number(number) => body.extend(number.to_le_bytes()),
                Parameter::Text(text) => {
                    assert!(text.len() < 251, "one byte of length is enough here");
                    body.push(text.len() as u8);
                    body.extend(*text);
                }
            }
        }
        self.command(0x17, &body);
        self.answer()
    }

    pub fn close(&mut self, statement: u32) {
        self.command(0x19, &statement.to_le_bytes());
    }

    pub fn init_db(&mut self, db: &str) {
        self.command(2, db.as_bytes());
        assert_eq!(self.answer().error, 0);
    }

    /// Waits for an answer: by then the log of earlier statements is written.
    pub fn ping(&mut self) {
        self.command(0x0e, b"");
        self.answer();
    }

    pub fn quit(mut self) {
        self.command(1, b"");
        let _ = self.stream.read(&mut [0; 16]);
    }
}

/// A length-encoded number.
fn length(bytes: &[u8]) -> u64 {
    let take = |n: usize| bytes[1..=n].iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b));
    match bytes[0] {
        0xfc => take(2),
        0xfd => take(3),
        0xfe => take(8),
        small => u64::from(small),
    }
}

/// A private server for a test, which listens on a socket only.
pub struct Server {
    child: Child,
    pub socket: PathBuf,
}

impl Server {
    /// Starts a server with its data in `home`, which must be empty.
    pub fn start(home: &Path, options: &[&str]) -> Result<Server, String> {
        let data = home.join("data");
        let user = format!("--user={}", std::env::var("USER").unwrap_or("root".into()));
        let made = bounded("mariadb-install-db")
            .args(["--no-defaults", &user, "--auth-root-authentication-method=normal"])
            .args(["--skip-test-db", "--innodb-log-file-size=8M"])
            .arg(format!("--datadir={}", data.display()))
            // This is the directory for temporary files: servers that share one delete each other's files.
            .env("TMPDIR", home)
            .output()
            .map_err(|e| e.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        // The path of a socket is at most 107 bytes long.
        let socket = home.join("s");
        let log = std::fs::File::create(home.join("log")).map_err(|e| e.to_string())?;
        let child = Command::new("mariadbd")
            .args(["--no-defaults", &user, "--skip-networking", "--max-allowed-packet=64M"])
            .args(["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0"])
            .args(options)
            .arg(format!("--datadir={}", data.display()))
            // Servers that share one delete each other's files.
            .arg(format!("--tmpdir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", home.join("pid").display()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut server = Server { child, socket };
        let until = Instant::now() + Duration::from_secs(90);
        while Instant::now() < until && matches!(server.child.try_wait(), Ok(None)) {
            if Client::connect(&server.socket, "").is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(std::fs::read_to_string(home.join("log")).unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
