//! Peak memory of training steps at the sizes of real models. The emulated GPU computes nothing here, and counts.

use std::process::Command;

use serde_json::Value;

/// Peak of two steps in GB: what the first leaves behind counts in the second.
fn peak(options: &str) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.args("bench device --train-only --groups 0 --steps 2".split(' ')).args(options.split_whitespace());
    let output = command.env("EMULATOR_HOLLOW", "1").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    report["train"]["peak_gb"].as_f64().unwrap_or_else(|| panic!("{options}: {report} {said}"))
}

/// The figures of docs/performance.md.
#[test]
fn training_steps_of_real_shapes_take_the_memory_they_are_quoted_with() {
    for (options, quoted) in [
        ("--shape 0.6b --sequences 8 --tokens 2048", 24.1),
        ("--shape 0.6b --sequences 8 --tokens 2048 --moments 8bit", 20.5),
        ("--shape 4b --sequences 4 --tokens 2048 --moments 8bit --memory 60", 59.7),
        ("--shape 8b --sequences 1 --tokens 65536 --lora 16 --recompute --yarn", 66.0),
    ] {
        let peak = peak(options);
        assert!((peak - quoted).abs() < 0.1, "{options}: {peak} GB, quoted with {quoted}");
    }
}

#[test]
fn a_model_larger_than_the_gpu_is_refused_with_its_size() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.args("bench device --shape 4b".split(' ')).env("EMULATOR_HOLLOW", "1").env("EMULATOR_MEMORY_MB", "12000");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("loading 4022.5M parameters takes 17.6 GB on the GPU, of which 12.0 GB are free"), "{said}");
}
