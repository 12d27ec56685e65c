//! The probes, one file each.

use hone_trace::entries;

use crate::probe::Probe;

entries! {
    /// All probes. The oracle is first: what the others earn is compared with it.
    pub static PROBES: [&dyn Probe];
    mod oracle: Oracle;
    mod empty: Empty;
    mod echo: Echo;
    mod filler: Filler;
    mod shotgun: Shotgun;
    mod citations: Citations;
    mod repeated_citations: RepeatedCitations;
    mod confidence: Confidence;
    mod constant: Constant;
    mod format_only: FormatOnly;
    mod keywords: Keywords;
    mod injection: Injection;
    mod truncated: Truncated;
    mod malformed: Malformed;
    mod padded: Padded;
    mod defect: Defect;
    mod tool_spam: ToolSpam;
    mod premature: Premature;
}

/// The confidences of a grid.
const TENTHS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
