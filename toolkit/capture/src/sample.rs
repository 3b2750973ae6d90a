//! Reads only some of the connections, and estimates totals for all of them.
//!
//! Whole connections are chosen by the client's port, so that no session is seen in part.
//! tcpdump's filter can make the same choice; then a busy server's capture is small
//! enough not to lose packets.
//!
//! A port is taken if a multiple of it, modulo 2^16, is small. Rejected: the port's low bits. Linux
//! assigns only even ports, each a little above the previous one. So `port & 7 == 1` takes no
//! connection at all, and `port & 7 == 2` takes a quarter of them, perhaps always the same one of
//! two that a request opens. The multiplier is 2^16 divided by the golden ratio: neighbours are
//! spread evenly whatever the step between them.
//!
//! So the sample is treated as one that has each connection with probability p = 1/N,
//! independently of its queries. Let T be the sum over all connections of their contributions t_i
//! (number of queries, or their time):
//!
//! ```text
//!     estimate of T = (t_1 + ... + t_n) / p              over the n connections of the sample
//!     variance      = (1 - p) / p^2 * (t_1^2 + ... + t_n^2)
//! ```
//!
//! (Horvitz and Thompson's estimator for Poisson sampling.) Queries of one connection are not
//! independent, so the unit that is drawn is the connection. A few long connections make the error
//! large, because each of them is a large part of the traffic.
//!
//! The choice by ports is not independent, though: it is more even. Where heavy and light connections alternate over the
//! ports in short periods, the estimate is much better than the error says. Where ports grow in strict steps and the period
//! of the heavy ones resonates with the multiplier, it is worse. (With nearly all the work in every 55th connection, in
//! steps of two ports, 22 of 100 samples had the truth within two errors; with real lengths in such steps 88 to 99.) A
//! filter that mixes more (multiply, xor with a shift, twice) was tried. It behaves like independent choice, about 93 of
//! 100 for few connections, but loses the gain of evenness where ports come as a kernel assigns them.

use std::fmt::Write;

/// A connection's contribution to the estimates over sampled connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub queries: u64,
    /// Nanoseconds.
    pub time: u64,
}

/// Odd, so that no two ports have the same product; about 2^16 / 1.618.
const MULTIPLIER: u32 = 40503;

/// One connection in `one_in` is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    one_in: u16,
}

impl Sampling {
    /// `text` is `1/N`, N up to 1024.
    pub fn parse(text: &str) -> Result<Self, String> {
        let one_in = text.trim().strip_prefix("1/").and_then(|n| n.trim().parse().ok());
        match one_in {
            Some(one_in @ 1..=1024) => Ok(Sampling { one_in }),
            _ => Err(format!(
                "`{text}` is not a share of connections: write 1/N with N from 1 to 1024, as 1/8"
            )),
        }
    }

    pub fn one_in(self) -> u16 {
        self.one_in
    }

    /// Products below this are taken.
    fn limit(self) -> u32 {
        65536u32.div_ceil(u32::from(self.one_in))
    }

    pub(super) fn takes(self, client_port: u16) -> bool {
        (u32::from(client_port) * MULTIPLIER) & 0xffff < self.limit()
    }

    /// The expression for tcpdump that captures exactly the connections of the sample, in both
    /// directions, over IPv4 and IPv6 (without extension headers, and without VLAN tags: put
    /// `vlan and (...)` around it for those). In a shell it needs single quotes.
    pub fn tcpdump_filter(self, ports: &[u16]) -> String {
        let ports = if ports.is_empty() { &[crate::packet::DEFAULT_PORT][..] } else { ports };
        let limit = self.limit();
        let taken = |at: usize| {
            format!(
                "((tcp[{at}:2] * {MULTIPLIER} & 65535) < {limit} or \
                 (ip6 and (ip6[{}:2] * {MULTIPLIER} & 65535) < {limit}))",
                at + 40
            )
        };
        let mut out = String::new();
        for (index, port) in ports.iter().enumerate() {
            let or = if index > 0 { " or " } else { "" };
            let _ = if self.one_in == 1 {
                write!(out, "{or}tcp port {port}")
            } else {
                write!(
                    out,
                    "{or}(tcp dst port {port} and {}) or (tcp src port {port} and {})",
                    taken(0),
                    taken(2)
                )
            };
        }
        out
    }
}

/// An estimated total over all connections, from those of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub total: f64,
    /// One standard error, if connections are chosen independently: see the module's head.
    pub error: f64,
}

/// Sums over closed connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    queries: f64,
    queries_squared: f64,
    /// Seconds.
    time: f64,
    time_squared: f64,
}

impl Sums {
    pub(super) fn add(&mut self, connection: Totals) {
        let (queries, time) = (connection.queries as f64, connection.time as f64 / 1e9);
        self.queries += queries;
        self.queries_squared += queries * queries;
        self.time += time;
        self.time_squared += time * time;
    }

    /// The estimated number of queries, and of the sum of their times in seconds.
    pub(super) fn estimate(&self, one_in: u16) -> (Estimate, Estimate) {
        let n = f64::from(one_in);
        let make = |sum: f64, squares: f64| Estimate {
            total: sum * n,
            error: ((1.0 - 1.0 / n) * n * n * squares).sqrt(),
        };
        (make(self.queries, self.queries_squared), make(self.time, self.time_squared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut seed = seed;
        move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        }
    }

    #[test]
    fn shares_are_one_in_so_many() {
        assert_eq!(Sampling::parse("1/8").unwrap().one_in(), 8);
        assert_eq!(Sampling::parse(" 1/10 ").unwrap().one_in(), 10);
        for wrong in ["1/0", "2/8", "8", "1/1025", "1/70000", "1/-2", "1/x", ""] {
            assert!(Sampling::parse(wrong).unwrap_err().contains("1/N"), "{wrong}");
        }
    }

    /// Ports as Linux assigns them (even, in small steps), and every second one of these: the ports of
    /// one kind of connection if each request opens two.
    #[test]
    fn the_share_of_ports_that_is_taken_does_not_depend_on_their_pattern() {
        for one_in in [2u16, 3, 8, 10, 64] {
            let sampling = Sampling { one_in };
            for (first, step) in
                [(32768, 1), (32768, 2), (32769, 2), (32770, 4), (1024, 8), (40_000, 6)]
            {
                let ports: Vec<u16> = (first..61_000).step_by(step).collect();
                let want = ports.len() as f64 / f64::from(one_in);
                let taken = ports.iter().filter(|p| sampling.takes(**p)).count() as f64;
                assert!(
                    (taken - want).abs() <= 0.03 * want + 3.0,
                    "1/{one_in} by {step}: {taken} of {want}"
                );
            }
        }
        assert!((0..=u16::MAX).all(|p| Sampling { one_in: 1 }.takes(p)));
    }

    /// Connections of very different length and purpose, with ports as a kernel assigns them.
    #[test]
    fn the_error_covers_the_truth_as_often_as_it_says() {
        let mut random = random(7);
        let sampling = Sampling { one_in: 8 };
        let lengths: Vec<u64> = (0..3000)
            .map(|i| if i % 2 == 0 { 1 + random() % 3 } else { random() % 100 * (random() % 20) })
            .collect();
        let truth = lengths.iter().sum::<u64>() as f64;
        // Independent choice, as the formula assumes it, and the choice by ports.
        let (mut independent, mut by_port) = (0, 0);
        const ROUNDS: u32 = 1000;
        for _ in 0..ROUNDS {
            let (mut coins, mut ports) = (Sums::default(), Sums::default());
            let mut port = 32768 + random() % 20_000 / 2 * 2;
            for length in &lengths {
                port = 32768 + (port - 32768 + 2 + random() % 4 * 2) % 28_000;
                let totals = Totals { queries: *length, time: 0 };
                if random() % 8 == 3 {
                    coins.add(totals);
                }
                if sampling.takes(port as u16) {
                    ports.add(totals);
                }
            }
            let covers = |sums: &Sums| {
                let (queries, _) = sums.estimate(8);
                u32::from((queries.total - truth).abs() <= 2.0 * queries.error)
            };
            independent += covers(&coins);
            by_port += covers(&ports);
        }
        assert!((935..=970).contains(&independent), "{independent} of {ROUNDS} within two errors");
        // The choice by ports is even, so the true error is smaller than the stated one.
        assert!(by_port >= 940, "{by_port} of {ROUNDS} within two errors");
    }

    #[test]
    fn everything_taken_has_no_error() {
        let mut sums = Sums::default();
        sums.add(Totals { queries: 5, time: 2_000_000_000 });
        let (queries, time) = sums.estimate(1);
        assert_eq!((queries.total, queries.error, time.total), (5.0, 0.0, 2.0));
    }
}
