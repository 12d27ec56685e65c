//! The laws, one file each.

use hone_trace::entries;

use crate::law::Law;

entries! {
    /// All laws, causes before consequences.
    pub static LAWS: [&dyn Law];
    mod solution_fits: SolutionFits;
    mod has_values: HasValues;
    mod range: Range;
    mod determinism: Determinism;
    mod no_way_out: NoWayOut;
    mod quasi_concave: QuasiConcave;
    mod proper_scoring: ProperScoring;
    mod accuracy_pays: AccuracyPays;
    mod citations: Citations;
    mod precision: Precision;
    mod format_content: FormatContent;
    mod oracle_is_best: OracleIsBest;
    mod defect_costs: DefectCosts;
    mod blind_weight: BlindWeight;
    mod floor: Floor;
    mod shared_gate: SharedGate;
}
