//! Peak memory of training steps at the sizes of real models. The emulated GPU computes nothing here, and counts.

use std::process::Command;

use serde_json::Value;

/// Peak of two steps in GB: what the first leaves behind counts in the second.
fn peak(options: &str) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.args("bench device --train-only --groups 0 --steps 2".split(' ')).args(options.split_whitespace());
    let output = command.env("EMULATOR_HOLLOW", "1").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["train"]["peak_gb"].as_f64().unwrap_or_else(|| panic!("{options}: {report}"))
}

/// Least and most: weights, gradients and moments alone take the least.
#[test]
fn training_steps_of_real_shapes_take_the_memory_they_are_quoted_with() {
    for (options, least, most) in [
        ("--shape 0.6b --sequences 8 --tokens 2048", 9.5, 30.0),
        ("--shape 0.6b --sequences 8 --tokens 2048 --moments 8bit", 6.0, 24.5),
        ("--shape 4b --sequences 4 --tokens 2048 --moments 8bit --memory 60", 40.0, 60.0),
        // One H100.
        ("--shape 8b --sequences 1 --tokens 65536 --lora 16 --recompute --yarn", 32.0, 80.0),
    ] {
        let peak = peak(options);
        assert!(least < peak && peak <= most, "{options}: {peak} GB, at least {least} and at most {most} expected");
    }
}
