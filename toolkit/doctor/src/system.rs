//! Reads the values of the machine from `/proc` and `/sys`, and those of the server's process if it is on this machine.
//!
//! Everything is read below a root, so that tests can make up a machine. Files that cannot be read are named.

use std::path::{Path, PathBuf};

use crate::snapshot::{Snapshot, Value};

/// A machine; its root is `/`, except in tests.
pub struct Machine {
    root: PathBuf,
    /// The server's data directory, if it is on this machine.
    pub data: Option<PathBuf>,
    /// The server's process.
    pub process: Option<u32>,
}

/// No file that is read here is longer.
const LONGEST: u64 = 4 << 20;

impl Machine {
    pub fn new(root: &Path) -> Machine {
        Machine { root: root.to_owned(), data: None, process: None }
    }

    #[allow(clippy::disallowed_methods)] // It is no file of a database.
    fn read(&self, path: &str, unseen: &mut Vec<String>) -> Option<String> {
        use std::io::Read;
        let mut text = Vec::new();
        let file = std::fs::File::open(self.root.join(path));
        match file.and_then(|file| file.take(LONGEST).read_to_end(&mut text)) {
            Ok(_) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(e) => {
                let why = e.to_string();
                let why = why.split(" (os error").next().unwrap_or_default();
                unseen.push(format!("/{path}: {}", why.to_lowercase()));
                None
            }
        }
    }

    /// Adds the machine's values to `to`; returns what could not be read.
    pub fn sample(&self, to: &mut Snapshot) -> Vec<String> {
        let mut unseen = Vec::new();
        let unseen = &mut unseen;
        if let Some(text) = self.read("proc/net/netstat", unseen) {
            pairs_of_lines(&text, to);
        }
        let tcp = self.read("proc/net/tcp", unseen);
        // Without IPv6 there is no such file.
        let tcp6 = self.read("proc/net/tcp6", &mut Vec::new()).unwrap_or_default();
        tcp.iter().for_each(|tcp| longest_queue(&[tcp, &tcp6], to));
        for (name, path) in [
            ("net.somaxconn", "proc/sys/net/core/somaxconn"),
            ("net.tcp_max_syn_backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog"),
            ("vm.swappiness", "proc/sys/vm/swappiness"),
            ("cpu.clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ] {
            if let Some(text) = self.read(path, unseen) {
                to.set_text(name, text.trim());
            }
        }
        for line in self.read("proc/meminfo", unseen).unwrap_or_default().lines() {
            let mut words = line.split([':', ' ']).filter(|word| !word.is_empty());
            if let (Some(name), Some(Ok(kib))) = (words.next(), words.next().map(str::parse::<f64>))
            {
                if ["MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Dirty"].contains(&name) {
                    to.set(format!("mem.{name}"), Value::Number(kib * 1024.0));
                }
            }
        }
        for line in self.read("proc/vmstat", unseen).unwrap_or_default().lines() {
            if let Some((name @ ("pswpin" | "pswpout"), n)) = line.split_once(' ') {
                to.set_text(format!("vm.{name}"), n);
            }
        }
        if let Some(text) = self.read("proc/loadavg", unseen) {
            to.set_text("cpu.load", text.split(' ').next().unwrap_or_default());
        }
        // Kernels without transparent huge pages have no such file.
        if let Some(text) = self.read("sys/kernel/mm/transparent_hugepage/enabled", &mut Vec::new())
        {
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            chosen.into_iter().for_each(|(word, _)| to.set_text("mem.transparent_hugepage", word));
        }
        self.process(to, unseen);
        self.filesystem(to, unseen);
        std::mem::take(unseen)
    }

    fn process(&self, to: &mut Snapshot, unseen: &mut Vec<String>) {
        let Some(process) = self.process else { return };
        let limits = self.read(&format!("proc/{process}/limits"), unseen).unwrap_or_default();
        if let Some(line) = limits.lines().find(|line| line.starts_with("Max open files")) {
            let soft = line["Max open files".len()..].split_ascii_whitespace().next();
            soft.into_iter().for_each(|n| to.set_text("server.open_files_limit", n));
        }
        let path = format!("proc/{process}/fd");
        match std::fs::read_dir(self.root.join(&path)) {
            Ok(files) => to.set("server.open_files", Value::Number(files.count() as f64)),
            Err(_) => unseen
                .push(format!("/{path}: of another user; run as the server's user or as root")),
        }
    }

    /// The file system of the data directory, and its device.
    fn filesystem(&self, to: &mut Snapshot, unseen: &mut Vec<String>) {
        let Some(data) = &self.data else { return };
        let mounts = self.read("proc/self/mounts", unseen).unwrap_or_default();
        let mut best: Option<(usize, &str, &str)> = None;
        for line in mounts.lines() {
            let mut words = line.split(' ');
            let (Some(device), Some(point), Some(kind)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            // A later mount at the same place hides an earlier one.
            if data.starts_with(point.replace("\\040", " "))
                && best.is_none_or(|(length, _, _)| point.len() >= length)
            {
                best = Some((point.len(), device, kind));
            }
        }
        let Some((_, device, kind)) = best else { return };
        to.set("fs.type", Value::Text(kind.to_owned()));
        let Some(name) = device.strip_prefix("/dev/") else { return };
        // A partition uses the queue of its disk.
        let disk = [
            name,
            name.trim_end_matches(|c: char| c.is_ascii_digit()),
            name.split('p').next().unwrap_or(name),
        ]
        .into_iter()
        .find(|name| {
            !name.contains('/') && self.root.join(format!("sys/block/{name}/queue")).exists()
        });
        let Some(disk) = disk else { return };
        to.set("disk.device", Value::Text(disk.to_owned()));
        if let Some(text) = self.read(&format!("sys/block/{disk}/queue/scheduler"), unseen) {
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            to.set_text("disk.scheduler", chosen.map_or(text.trim(), |(word, _)| word));
        }
        if let Some(text) = self.read(&format!("sys/block/{disk}/queue/rotational"), unseen) {
            to.set_text("disk.rotational", text.trim());
        }
    }
}

/// From `/proc/net/tcp`: the longest queue of connections that a listener (state 0A) has not accepted yet, and its
/// port.
fn longest_queue(files: &[&str], to: &mut Snapshot) {
    let listener = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, address, _, "0A", queues, ..] = words[..] else { return None };
        let hexadecimal = |text: &str| u32::from_str_radix(text.rsplit(':').next()?, 16).ok();
        Some((hexadecimal(queues)?, hexadecimal(address)?))
    };
    let all = files.iter().flat_map(|text| text.lines()).filter_map(listener);
    let (waiting, port) = all.max().unwrap_or_default();
    to.set("net.accept_waiting", Value::Number(waiting.into()));
    to.set("net.accept_port", Value::Text(format!("*:{port}")));
}

/// Reads `/proc/net/netstat`: pairs of lines, names above numbers.
fn pairs_of_lines(text: &str, to: &mut Snapshot) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        if let [names, numbers] = pair {
            for (name, number) in names.split(' ').zip(numbers.split(' ')).skip(1) {
                if ["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies"]
                    .contains(&name)
                {
                    to.set_text(format!("net.{name}"), number);
                }
            }
        }
    }
}
