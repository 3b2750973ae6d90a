//! The server's answers: one connection that stays open, and one sample that scrapes share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::catalog::VARIABLES;
use super::metrics::Sample;
use crate::digest::live::connect::{text, Server};
use crate::digest::live::stop::now;
use crate::out::{Failure, Outcome};
use crate::server_args::ServerOptions;

/// A sample serves all scrapes for this time.
const FRESH: Duration = Duration::from_secs(1);
/// After a failure the server is not asked again for this time.
const PAUSE: Duration = Duration::from_secs(2);

/// SHOW GLOBAL STATUS needs no privilege.
const NEEDS: &str = "USAGE ON *.*";

pub struct Source {
    options: ServerOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    server: Option<Server>,
    last: Option<(Instant, Option<Arc<Sample>>)>,
    /// The last message, so that it is printed once.
    said: String,
}

impl Source {
    pub fn new(options: ServerOptions) -> Source {
        Source { options, state: Mutex::default() }
    }

    /// Takes a new sample.
    pub fn ask(&self) -> Outcome<Sample> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.ask(&self.options)
    }

    /// A sample at most `FRESH` old; `None` if the server does not answer. Scrapes wait here for
    /// each other.
    pub fn recent(&self) -> Option<Arc<Sample>> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((at, sample)) = &state.last {
            let keep = if sample.is_some() { FRESH } else { PAUSE };
            if at.elapsed() < keep {
                return sample.clone();
            }
        }
        // A connection that broke since the last scrape is opened again. A server that hangs is not asked twice.
        let again = state.server.is_some();
        let mut asked = state.ask(&self.options);
        if again && !matches!(asked, Ok(_) | Err(Failure::NoAnswer(_))) {
            asked = state.ask(&self.options);
        }
        let sample = match asked {
            Ok(sample) => {
                state.said.clear();
                Some(Arc::new(sample))
            }
            Err(e) => {
                let what = e.to_string();
                if what != state.said {
                    eprintln!("frond: {what}");
                    state.said = what;
                }
                None
            }
        };
        state.last = Some((now(), sample.clone()));
        sample
    }
}

impl State {
    fn ask(&mut self, options: &ServerOptions) -> Outcome<Sample> {
        let begin = now();
        let mut server = match self.server.take() {
            Some(server) => server,
            None => options.watch(NEEDS)?,
        };
        let status = pairs(&mut server, "SHOW GLOBAL STATUS")?;
        let names: Vec<String> = VARIABLES.iter().map(|m| format!("'{}'", m.variable)).collect();
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
        let variables = pairs(&mut server, &sql)?;
        let version = server.name.split(' ').next().unwrap_or_default().to_owned();
        // Only a connection that answered is kept.
        self.server = Some(server);
        Ok(Sample { version, status, variables, seconds: begin.elapsed().as_secs_f64() })
    }
}

fn pairs(server: &mut Server, sql: &str) -> Outcome<HashMap<String, String>> {
    let mut found = HashMap::new();
    server.each_row(sql, &mut |row| {
        found.insert(text(row, 0).to_ascii_lowercase(), text(row, 1));
    })?;
    Ok(found)
}
