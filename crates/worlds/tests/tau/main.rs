//! The retail and airline domains against recordings of the upstream tools, and by their own laws.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod generate;
mod golden;
mod grade;
mod profiles;
mod rewards;
mod telecom;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_testdata::{committed, third_party};
use hone_worlds::domains::py::dict_from;
use hone_worlds::domains::{Desk, Domain, Kind, Profile};
use serde_json::Value;

/// Our own small world, in which upstream's tools were recorded.
fn own(kind: Kind, profile: Profile) -> Arc<Domain> {
    Arc::new(Domain::load(kind, profile, &committed(&format!("tau/{}", kind.name()))).unwrap())
}

/// A path below the benchmarks' own data.
fn upstream(path: &str) -> PathBuf {
    third_party("data/tau").join(path)
}

/// The benchmark's own world.
fn domain(kind: Kind, profile: Profile) -> Arc<Domain> {
    let set = if profile == Profile::Tau2 { "tau2-bench" } else { "tau-bench" };
    Arc::new(Domain::load(kind, profile, &upstream(&format!("{set}/{}", kind.name()))).unwrap())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The observation of one call; a lost episode reads "lost".
fn desk_of(desk: &mut Desk, name: &str, arguments: &Value) -> String {
    let arguments = dict_from(arguments.as_object().unwrap());
    desk.invoke(name, &arguments).map_or_else(|_| "lost".into(), |reply| reply.text)
}
