//! Charts as SVG. Colours are classes, so that light mode, dark mode and exported files share them.

mod axes;
mod chart;
mod flow;
mod strip;

pub(crate) use chart::{Chart, Dot, Line, Mark};
pub(crate) use flow::flow;
pub(crate) use strip::strip;
