//! When a backup copies and when it pauses, so that a busy server keeps most of its work.
//!
//! Copying at full speed takes the device from the server's commits, and no way of reading or writing avoids that. So the copy alternates between
//! short windows of copying and pauses. The server's own counters tell what it did in both; the loss while copying and the share of the
//! time that is spent copying multiply to the loss of the whole:
//!
//! ```text
//! loss = share * (1 - work per second of copying / work per second of pauses)
//! ```
//!
//! - BY1. `share` is what keeps this below the permitted loss. So it is at least that loss, even where copying stops the server altogether: a
//!   backup always ends. It is at most [`CEILING`] while the server has work, since without pauses there is nothing to compare with.
//! - BY2. Work is only compared with work of the same seconds: windows and pauses alternate several times a second and are summed up with the same
//!   weights, older ones less. So a load that rises or falls is not mistaken for a loss.
//! - BY3. The estimate begins with a loss of everything, and comes down as evidence arrives; the share grows slowly and shrinks at once.
//! - BY4. A server that does less than [`BUSY`] has nothing to lose: the copy does not pause.
//!
//! A function of times and counters only. [`super::meter`] asks the server and sleeps.

use std::time::Duration;

/// One window and one pause.
const CYCLE: Duration = Duration::from_millis(400);
/// Between looks at a server that is idle, or was a moment ago.
const LOOK: Duration = Duration::from_millis(200);
/// Seconds until an idle server's copy pauses for a look, since there may be work that the copy keeps from being done; doubled each time.
const PROBE: (f64, f64) = (1.0, 8.0);
const CEILING: f64 = 0.875;
/// Work per second: a monitoring program does less, a server in use more.
const BUSY: f64 = 25.0;
/// A share's growth from one cycle to the next.
const GROWTH: f64 = 1.25;
/// What is left of the sums after a cycle: half of their weight is of the last 3 seconds.
const KEEP: f64 = 0.91;
/// The estimate begins as if the copy had taken so much time, or that of so much work, and the server had done nothing then (BY3).
const DOUBT: (f64, f64) = (0.1, 50.0);

/// What to do next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step {
    /// Copy for so long, then ask again.
    Copy(Duration),
    /// Copy nothing for so long, then ask again.
    Pause(Duration),
}

/// Seconds, and the work done in them.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    seconds: f64,
    work: f64,
}

impl Sum {
    fn add(&mut self, more: Sum) {
        self.seconds += more.seconds;
        self.work += more.work;
    }

    fn rate(&self) -> f64 {
        self.work / self.seconds.max(1e-6)
    }

    fn fade(&mut self) {
        self.seconds *= KEEP;
        self.work *= KEEP;
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Before,
    /// The server is idle: the copy does not pause; the seconds since the last pause.
    Free(f64),
    Window,
    /// The window before it, and what was seen of the pause.
    Pause(Sum, Sum),
}

pub struct Pace {
    /// Of the server's work, 0 to 1.
    permitted: f64,
    state: State,
    last: (Duration, f64),
    copying: Sum,
    pausing: Sum,
    share: f64,
    /// Seconds until a probe.
    probe: f64,
    /// Seconds of all pauses.
    paused: f64,
}

impl Pace {
    /// `before`: a time before copying, and the counter then.
    pub fn new(permitted: f64, before: (Duration, f64)) -> Pace {
        let (copying, pausing) = (Sum::default(), Sum::default());
        let state = State::Before;
        let (share, probe, paused) = (permitted, PROBE.0, 0.0);
        Pace { permitted, state, last: before, copying, pausing, share, probe, paused }
    }

    /// Copying begins, or the last step has ended, at the time `now` with the server's counter at `work`.
    pub fn next(&mut self, now: Duration, work: f64) -> Step {
        let seen = since(self.last, (now, work));
        self.last = (now, work);
        match self.state {
            State::Before => {
                // Of a few milliseconds a rate says little.
                let long = Sum { seconds: seen.seconds.max(LOOK.as_secs_f64()), ..seen };
                self.state = if long.rate() < BUSY { State::Free(0.0) } else { State::Window };
                Step::Copy(if self.yields() { CYCLE.mul_f64(self.share) } else { LOOK })
            }
            State::Free(so_far) => {
                let so_far = so_far + seen.seconds;
                if seen.rate() < BUSY && so_far < self.probe {
                    self.state = State::Free(so_far);
                    return Step::Copy(LOOK);
                }
                (self.copying, self.pausing) = (Sum::default(), Sum::default());
                self.share = self.permitted;
                self.pause(seen, Sum::default())
            }
            State::Window => self.pause(seen, Sum::default()),
            State::Pause(window, mut pause) => {
                pause.add(seen);
                self.paused += seen.seconds;
                if pause.seconds >= 0.9 * LOOK.as_secs_f64() && pause.rate() < BUSY / 2.0 {
                    self.state = State::Free(0.0);
                    self.probe = (self.probe * 2.0).min(PROBE.1);
                    return Step::Copy(LOOK);
                }
                self.pause(window, pause)
            }
        }
    }

    /// Goes on with a pause after `window`, or ends it.
    fn pause(&mut self, window: Sum, pause: Sum) -> Step {
        let length = window.seconds / self.share * (1.0 - self.share);
        let left = length - pause.seconds;
        if left > 0.005 {
            self.state = State::Pause(window, pause);
            // A pause after a slow piece may be long, and the server's work may end meanwhile.
            return Step::Pause(Duration::from_secs_f64(left.min(LOOK.as_secs_f64())));
        }
        self.copying.fade();
        self.pausing.fade();
        self.copying.add(window);
        self.pausing.add(pause);
        let want = self.permitted / self.loss_while_copying().max(1e-3);
        self.share = want.min(CEILING).min(self.share * GROWTH);
        self.probe = PROBE.0;
        self.state = State::Window;
        Step::Copy(CYCLE.mul_f64(self.share))
    }

    /// The part of the server's work that is not done while the copy runs, 0 to 1.
    fn loss_while_copying(&self) -> f64 {
        let usual = self.pausing.rate();
        let doubt = DOUBT.0.max(DOUBT.1 / usual.max(1e-6));
        let copying = self.copying.work / (self.copying.seconds + doubt);
        (1.0 - copying / usual.max(1e-6)).clamp(0.0, 1.0)
    }

    /// The share of the time that is spent copying.
    pub fn share(&self) -> f64 {
        match self.yields() {
            true => self.share,
            false => 1.0,
        }
    }

    /// Whether there are pauses.
    pub fn yields(&self) -> bool {
        !matches!(self.state, State::Free(_))
    }

    pub fn paused(&self) -> Duration {
        Duration::from_secs_f64(self.paused)
    }
}

fn since(before: (Duration, f64), now: (Duration, f64)) -> Sum {
    let seconds = now.0.saturating_sub(before.0).as_secs_f64();
    Sum { seconds, work: (now.1 - before.1).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work per second, at a time in seconds.
    type Load = fn(f64) -> f64;

    /// A server in virtual time: what it does per second, and what copying takes of it.
    struct Simulated {
        rate: Load,
        loss: f64,
        /// Standard deviation of its rate, changing within some tenths of a second.
        noise: f64,
        /// Seconds that a piece takes, after which a window can end.
        piece: f64,
        seed: u64,
        now: f64,
        work: f64,
        /// What it would have done without copying.
        could: f64,
        drift: f64,
    }

    const QUIET: Simulated = Simulated {
        rate: |_| 0.0,
        loss: 0.5,
        noise: 0.0,
        piece: 0.015,
        seed: 1,
        now: 0.0,
        work: 0.0,
        could: 0.0,
        drift: 0.0,
    };

    #[derive(Debug)]
    struct Ran {
        seconds: f64,
        paused: f64,
        /// Of the work that the server would have done.
        lost: f64,
        /// Share of copying in each second.
        shares: Vec<f64>,
    }

    impl Simulated {
        fn random(&mut self) -> f64 {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.seed >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Near enough to a normal distribution.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.random()).sum::<f64>() - 6.0
        }

        /// How many of so many independent events happen.
        fn poisson(&mut self, mean: f64) -> f64 {
            if mean > 30.0 {
                return (mean + mean.sqrt() * self.normal()).round().max(0.0);
            }
            let (mut n, mut left) = (0.0, self.random());
            while left > (-mean).exp() {
                left *= self.random();
                n += 1.0;
            }
            n
        }

        fn advance(&mut self, seconds: f64, copying: bool) {
            const TICK: f64 = 0.005;
            let kept = if copying { 1.0 - self.loss } else { 1.0 };
            for _ in 0..(seconds / TICK).round().max(1.0) as u32 {
                self.drift = self.drift * 0.95 + self.normal() * self.noise * 0.31;
                let usual = (self.rate)(self.now) * TICK * (1.0 + self.drift).max(0.0);
                self.could += usual;
                self.work += self.poisson(usual * kept);
                self.now += TICK;
            }
        }

        fn at(&self) -> (Duration, f64) {
            (Duration::from_secs_f64(self.now), self.work)
        }

        /// Runs a backup that copies for `copy` seconds, and is prepared for a tenth of a second.
        fn run(mut self, copy: f64) -> Ran {
            let mut pace = Pace::new(0.08, self.at());
            self.advance(0.1, false);
            let (began, work, could) = (self.now, self.work, self.could);
            let (mut copied, mut shares) = (0.0, Vec::new());
            while copied < copy {
                match pace.next(self.at().0, self.work) {
                    Step::Copy(time) => {
                        let end = self.now + time.as_secs_f64();
                        while self.now < end && copied < copy {
                            self.advance(self.piece, true);
                            copied += self.piece;
                            shares.resize((self.now - began) as usize + 1, 0.0);
                            *shares.last_mut().unwrap() += self.piece;
                        }
                    }
                    Step::Pause(time) => self.advance(time.as_secs_f64(), false),
                }
            }
            let lost = 1.0 - (self.work - work) / (self.could - could).max(1.0);
            Ran { seconds: self.now - began, paused: pace.paused().as_secs_f64(), lost, shares }
        }
    }

    #[test]
    fn an_idle_server_is_copied_at_full_speed() {
        for rate in [|_| 0.0, |_| 5.0] as [Load; 2] {
            let short = Simulated { rate, ..QUIET }.run(1.0);
            assert!(short.paused == 0.0, "{short:?}");
            let long = Simulated { rate, ..QUIET }.run(60.0);
            assert!(long.paused < 3.0, "{long:?}");
        }
        // A monitoring program that asks 30 things every 10 seconds.
        let rate: Load = |t| if t % 10.0 < 0.05 { 600.0 } else { 0.0 };
        let ran = Simulated { rate, ..QUIET }.run(60.0);
        assert!(ran.paused < 5.0, "{ran:?}");
    }

    #[test]
    fn a_busy_server_loses_no_more_than_is_permitted() {
        let loads: [(Load, f64); 4] =
            [(|_| 5000.0, 0.0), (|_| 5000.0, 0.2), (|_| 500.0, 0.3), (|_| 100.0, 0.3)];
        for loss in [0.0, 0.1, 0.35, 0.6, 0.8, 1.0] {
            for (rate, noise) in loads {
                for seed in 1..4 {
                    let ran = Simulated { rate, loss, noise, seed, ..QUIET }.run(2.0);
                    // The server's own noise adds to this; 1000 statements have a standard deviation of 3 % themselves.
                    let bound = if rate(0.0) < 1000.0 { 0.12 } else { 0.095 };
                    assert!(ran.lost < bound, "{loss} {} {noise} {seed}: {ran:?}", rate(0.0));
                    assert!(ran.seconds < 2.0 / 0.08 + 1.0, "BY1: {ran:?}");
                }
            }
        }
    }

    #[test]
    fn what_costs_the_server_little_is_copied_faster() {
        let rate: Load = |_| 2000.0;
        let seconds = [0.0, 0.1, 0.35, 0.8]
            .map(|loss| Simulated { rate, loss, noise: 0.2, ..QUIET }.run(4.0).seconds);
        assert!(seconds[0] < 10.0 && seconds[1] < 15.0 && seconds[2] < 25.0, "{seconds:?}");
        assert!(seconds.is_sorted(), "{seconds:?}");
        // Pieces of a slow device, longer than a window: the pauses are longer, too.
        let slow = Simulated { rate, loss: 0.6, piece: 0.3, ..QUIET }.run(6.0);
        assert!(slow.lost < 0.1, "{slow:?}");
    }

    #[test]
    fn a_load_that_begins_or_ends_is_noticed_within_a_second() {
        let rate: Load = |t| if t > 5.0 { 1000.0 } else { 0.0 };
        let begins = Simulated { rate, ..QUIET }.run(6.0);
        assert!(begins.shares[..4].iter().sum::<f64>() > 3.5, "{begins:?}");
        assert!(begins.shares[6..].iter().all(|share| *share < 0.3), "{begins:?}");
        let rate: Load = |t| if t < 5.0 { 1000.0 } else { 0.0 };
        let ends = Simulated { rate, ..QUIET }.run(6.0);
        assert!(ends.shares[..4].iter().all(|share| *share < 0.3), "{ends:?}");
        assert!(ends.shares[6] > 0.7 && ends.lost < 0.1, "{ends:?}");
        // It falls to a tenth, and rises again: this is no loss and no gain (BY2).
        let rate: Load = |t| if t % 8.0 < 4.0 { 3000.0 } else { 300.0 };
        let waves = Simulated { rate, noise: 0.2, ..QUIET }.run(4.0);
        assert!(waves.lost < 0.1 && waves.seconds > 20.0, "{waves:?}");
    }

    #[test]
    fn a_server_that_copying_stops_is_found_busy() {
        let all = Simulated { rate: |t| if t > 0.2 { 500.0 } else { 0.0 }, loss: 1.0, ..QUIET };
        let ran = all.run(8.0);
        assert!(ran.shares[2..].iter().all(|share| *share < 0.25), "{ran:?}");
    }
}
