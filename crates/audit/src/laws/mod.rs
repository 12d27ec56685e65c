//! The laws, one file each.

mod accuracy_pays;
mod blind_weight;
mod citations;
mod defect_costs;
mod determinism;
mod floor;
mod format_content;
mod no_way_out;
mod oracle_is_best;
mod precision;
mod proper_scoring;
mod quasi_concave;
mod range;
mod shared_gate;

use crate::law::Law;

/// All laws, causes before consequences.
pub static LAWS: &[&dyn Law] = &[
    &range::Range,
    &determinism::Determinism,
    &no_way_out::NoWayOut,
    &quasi_concave::QuasiConcave,
    &proper_scoring::ProperScoring,
    &accuracy_pays::AccuracyPays,
    &citations::Citations,
    &precision::Precision,
    &format_content::FormatContent,
    &oracle_is_best::OracleIsBest,
    &defect_costs::DefectCosts,
    &blind_weight::BlindWeight,
    &floor::Floor,
    &shared_gate::SharedGate,
];
