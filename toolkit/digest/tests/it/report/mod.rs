//! What the renderers write, and the HTML page in a browser.

mod browser;
mod changes;
mod data;
mod formats;
mod loads;
mod truth;
