//! Runs every kernel check and benchmark on a GPU and prints one JSON object: for machines without Rust.
//!
//! `hone-cuda-check [--only NAME]... [--no-bench | --bench-only] [--portable]`. Exits with 1 if a check failed; one failure does
//! not hide the rest.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Instant;

use hone_cuda::Gpu;
use hone_cuda::check::bench::BENCHES;
use hone_cuda::check::{CHECKS, Check};
use serde_json::{Map, Value, json};

fn main() -> ExitCode {
    let (report, passed) = match run() {
        Ok(pair) => pair,
        Err(e) => (json!({"error": e.to_string()}), false),
    };
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    if writeln!(io::stdout(), "{text}").is_err() {
        return ExitCode::FAILURE;
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run() -> hone_cuda::Result<(Value, bool)> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only: Vec<&String> = args.windows(2).filter(|w| w[0] == "--only").map(|w| &w[1]).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| *o == name);
    let start = Instant::now();
    let portable = args.iter().any(|a| a == "--portable");
    let gpu = if portable { Gpu::open_portable(0)? } else { Gpu::open(0)? };
    let (major, minor) = gpu.capability();
    let mut report = Map::new();
    report.insert(
        "device".into(),
        json!({
            "name": gpu.name(),
            "capability": format!("{major}.{minor}"),
            "portable": portable,
            "processors": gpu.processors(),
            "driver_cuda": gpu.driver(),
            "nvrtc": gpu.compiler().cuda_version(),
            "open_s": start.elapsed().as_secs_f64(),
        }),
    );
    let mut passed = true;
    let mut checks = Map::new();
    let checks_too = !args.iter().any(|a| a == "--bench-only");
    for check in CHECKS.iter().filter(|c| checks_too && wanted(c.name)) {
        let result = run_check(&gpu, check);
        passed &= result["pass"] == true;
        say(check.name, &result);
        checks.insert(check.name.into(), result);
    }
    report.insert("pass".into(), passed.into());
    report.insert("checks".into(), checks.into());
    if !args.iter().any(|a| a == "--no-bench") {
        let mut benches = Map::new();
        for (name, body) in BENCHES.iter().filter(|b| wanted(b.0)) {
            let result = guarded(|| body(&gpu));
            say(name, &result);
            benches.insert((*name).into(), result);
        }
        report.insert("bench".into(), benches.into());
    }
    report.insert("total_s".into(), start.elapsed().as_secs_f64().into());
    Ok((report.into(), passed))
}

/// Progress on stderr, so that an interrupted run still shows its findings.
fn say(name: &str, result: &Value) {
    let _ = writeln!(io::stderr(), "{name}: {result}");
}

/// Result of a body, or its error or panic as a value.
fn guarded(body: impl FnOnce() -> hone_cuda::Result<Value>) -> Value {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(e)) => json!({"pass": false, "error": e.to_string()}),
        Err(e) => {
            let text = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| (*s).into()));
            json!({"pass": false, "error": format!("panic: {}", text.unwrap_or_default())})
        }
    }
}

fn run_check(gpu: &Gpu, check: &Check) -> Value {
    guarded(|| {
        let start = Instant::now();
        let all = (check.body)(gpu)?;
        gpu.wait()?;
        let failed: Vec<Value> = all
            .iter()
            .filter(|m| !m.passes())
            .map(|m| json!({"what": m.what, "error": m.error.to_string(), "bound": m.bound}))
            .collect();
        let worst = all.iter().map(|m| m.error / m.bound.max(1e-300)).fold(0.0, f64::max);
        Ok(json!({
            "pass": failed.is_empty() && !all.is_empty(),
            "compared": all.len(),
            "worst_error_over_bound": if worst.is_finite() { json!(worst) } else { json!("inf") },
            "failed": failed,
            "seconds": start.elapsed().as_secs_f64(),
        }))
    })
}
