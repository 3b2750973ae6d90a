//! The output of the renderers, and the HTML page in a browser.

mod browser;
mod changes;
mod data;
mod formats;
mod loads;
mod truth;
