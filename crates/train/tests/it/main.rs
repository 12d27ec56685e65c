//! Tests of credit, losses, packing and the whole run, as one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod algorithms_page;
mod asynchronous;
mod bare;
mod common;
mod credit_golden;
mod credit_laws;
mod engine;
mod evaluation;
mod faults;
mod guard;
mod keys;
mod ledger;
mod lessons;
mod loss_golden;
mod loss_laws;
mod loss_recipe;
mod metrics_page;
mod options;
mod pack_laws;
mod placebo;
mod plan;
mod recipes;
mod report;
mod resume;
mod tiny;
mod whole_run;
