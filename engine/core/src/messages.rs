//! Messages for the operator: where they go, and that the same one is not sent again and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use frond_base::{ErrorKind, TreeId};
use parking_lot::Mutex;

/// Takes messages for the operator: level 0 error, 1 warning, 2 note. Called from any thread.
pub type Log = Arc<dyn Fn(u8, &str) + Send + Sync>;

/// The same failure at the same place is told once in this time: the operator's log may be on the full
/// disk that it is about.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// The operator's log, and what was told lately.
pub struct Messages {
    log: Log,
    /// When which failure was last told, by tree (none: a checkpoint).
    said: Mutex<HashMap<(Option<TreeId>, ErrorKind), Duration>>,
}

impl Messages {
    pub fn new(log: Log) -> Messages {
        Messages { log, said: Mutex::default() }
    }

    /// Tells the operator.
    pub fn say(&self, level: u8, message: &str) {
        (self.log)(level, message);
    }

    /// Whether it is time to tell of a failure of this kind at this place; if so, it counts as told.
    pub fn is_news(&self, tree: Option<TreeId>, kind: ErrorKind, now: Duration) -> bool {
        let mut said = self.said.lock();
        said.retain(|_, at| now.saturating_sub(*at) < SAY_AGAIN);
        if said.contains_key(&(tree, kind)) {
            return false;
        }
        said.insert((tree, kind), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_failure_is_news_once_a_minute() {
        let messages = Messages::new(Arc::new(|_, _| {}));
        let is_news = |kind, seconds| messages.is_news(None, kind, Duration::from_secs(seconds));
        assert!(is_news(ErrorKind::NoSpace, 0));
        assert!(!is_news(ErrorKind::NoSpace, 59));
        assert!(is_news(ErrorKind::Io, 59));
        assert!(is_news(ErrorKind::NoSpace, 60));
    }
}
