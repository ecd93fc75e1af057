//! The plots of a report, each an SVG element of its own.
//!
//! `axis` makes scales, `look` colours and marks, `canvas` draws a frame and shapes with `plotters`; the others turn
//! what was measured into a plot each, or into none where there is nothing to show.

mod axis;
pub mod bytes;
mod canvas;
mod curve;
pub mod heat;
pub mod http;
pub mod latency;
pub mod limits;
mod look;
pub mod operations;

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What a reader who cannot see it is told.
    pub title: String,
    pub svg: String,
}
