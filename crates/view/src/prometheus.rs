//! The newest value of every metric, as Prometheus reads it.

use std::fmt::Write as _;

use crate::site::Site;

/// `hone_step{run}` and `hone_metric{run, name}`: names of metrics.jsonl have slashes, so they are labels.
pub fn metrics(site: &Site) -> String {
    let mut out = String::from("# TYPE hone_step gauge\n");
    let runs = site.all();
    for run in &runs {
        let _ = writeln!(out, "hone_step{{run=\"{}\"}} {}", label(&run.name), run.done());
    }
    out.push_str("# TYPE hone_metric gauge\n");
    for run in &runs {
        for name in run.metrics.names() {
            if let Some(value) = run.metrics.at(run.done(), name) {
                let _ = writeln!(out, "hone_metric{{run=\"{}\",name=\"{}\"}} {value}", label(&run.name), label(name));
            }
        }
    }
    out
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
