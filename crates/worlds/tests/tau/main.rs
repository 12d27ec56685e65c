//! The retail and airline domains against recordings of the upstream tools, and by their own laws.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod generate;
mod golden;
mod profiles;
mod rewards;

use std::path::PathBuf;
use std::sync::Arc;

use hone_worlds::domains::py::dict_from;
use hone_worlds::domains::{Desk, Domain, Kind, Profile};
use serde_json::Value;

/// A path below the tau test data, or `None` with a note where it is absent.
fn data(path: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("HONE_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let path = shared.join("data/tau").join(path);
    if !path.exists() {
        eprintln!("skipped: {} is absent; set HONE_SHARED to the directory of the shared test data", path.display());
        return None;
    }
    Some(path)
}

fn domain(kind: Kind, profile: Profile) -> Option<Arc<Domain>> {
    let set = if profile == Profile::Tau2 { "tau2-bench" } else { "tau-bench" };
    let directory = data(&format!("{set}/{}", kind.name()))?;
    Some(Arc::new(Domain::load(kind, profile, &directory).unwrap()))
}

fn lines(path: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(data(path)?).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The observation of one call; a lost episode reads "lost".
fn desk_of(desk: &mut Desk, name: &str, arguments: &Value) -> String {
    let arguments = dict_from(arguments.as_object().unwrap());
    desk.invoke(name, &arguments).map_or_else(|_| "lost".into(), |reply| reply.text)
}
