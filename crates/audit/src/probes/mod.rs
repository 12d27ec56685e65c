//! The probes, one file each.

mod citations;
mod confidence;
mod constant;
mod defect;
mod echo;
mod empty;
mod filler;
mod format_only;
mod injection;
mod keywords;
mod malformed;
mod oracle;
mod padded;
mod premature;
mod repeated_citations;
mod shotgun;
mod tool_spam;
mod truncated;

use crate::probe::Probe;

/// All probes. The oracle is first: what the others earn is compared with it.
pub static PROBES: &[&dyn Probe] = &[
    &oracle::Oracle,
    &empty::Empty,
    &echo::Echo,
    &filler::Filler,
    &shotgun::Shotgun,
    &citations::Citations,
    &repeated_citations::RepeatedCitations,
    &confidence::Confidence,
    &constant::Constant,
    &format_only::FormatOnly,
    &keywords::Keywords,
    &injection::Injection,
    &truncated::Truncated,
    &malformed::Malformed,
    &padded::Padded,
    &defect::Defect,
    &tool_spam::ToolSpam,
    &premature::Premature,
];

/// The confidences of a grid.
const TENTHS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
