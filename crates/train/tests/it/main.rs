//! Tests of credit, losses, packing and the whole run, as one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod algorithms_page;
mod common;
mod credit_golden;
mod credit_laws;
mod ledger;
mod loss_golden;
mod loss_laws;
mod loss_recipe;
mod metrics_page;
mod pack_laws;
mod report;
mod resume;
mod tiny;
mod whole_run;
