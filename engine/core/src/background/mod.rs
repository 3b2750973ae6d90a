//! What is done beside statements: `jobs` flush and merge, `housekeeping` keeps log and disk small, `work` holds the
//! limits that they work towards, `pacing` slows writers down in time, `maintain` is OPTIMIZE.

pub(crate) mod housekeeping;
pub(crate) mod jobs;
pub(crate) mod maintain;
pub(crate) mod pacing;
pub(crate) mod work;
