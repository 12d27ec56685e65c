//! docs/own-environment.md, command by command, in an empty directory. Policies are made too short to be good: this is about
//! whether everything works, not what is learned.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes a command quick, by how it begins.
const QUICKLY: [(&str, &str); 2] = [
    ("hone sft", " --set sft.steps=2 --set sft.batch=4 --set policy.fresh.layers=1 --set policy.fresh.hidden=64"),
    (
        "hone train",
        " --set train.steps=2 --set train.groups=2 --set train.group_size=2 --set eval.tasks=4 --set rollout.max_turns=2 \
         --samples 0",
    ),
];

/// The lines of the page's `sh` blocks.
fn commands(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        match line.trim_start() {
            "```sh" => inside = true,
            line if line.starts_with("```") => inside = false,
            line if inside => found.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// A shell's standard output; the test fails where the command does.
fn shell(directory: &Path, line: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_hone")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(directory)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let [said, aside] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{line}\n{said}{aside}");
    said
}

/// Everything of the page, then what it promises in words.
#[test]
fn the_page_works_from_an_empty_directory() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/own-environment.md");
    let root = tempfile::tempdir().unwrap();
    let mut directory: PathBuf = root.path().to_owned();
    let commands = commands(&std::fs::read_to_string(page).unwrap());
    assert!(commands.len() >= 9, "{commands:?}");
    for line in &commands {
        if let Some(into) = line.strip_prefix("cd ") {
            directory.push(into);
            continue;
        }
        let quickly = QUICKLY.iter().find(|(begins, _)| line.starts_with(begins)).map_or("", |(_, more)| more);
        let said = shell(&directory, &format!("{line}{quickly}"));
        if line.contains("--as oracle") {
            assert!(said.contains("total               1.000"), "the solution earns everything: {said}");
        }
    }
    after(&directory);
}

/// A run is a policy: described, asked, extended, exported, gone on from.
fn after(directory: &Path) {
    let (_, quickly) = QUICKLY[1];
    let run = "runs/garden-1";
    assert!(shell(directory, &format!("hone model info {run}")).contains("Qwen3ForCausalLM"));
    let talk = format!("echo | hone chat {run} --env recipe.toml --max-new 4 --json");
    let last = shell(directory, &talk).lines().last().unwrap().to_owned();
    let rewards: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert!(rewards["rewards"].is_array(), "{last}");
    let generate = format!(
        "echo '{{\"id\": 7, \"messages\": [{{\"role\": \"user\", \"content\": \"Hello.\"}}]}}' | hone generate {run} - --max-new 4"
    );
    let reply: serde_json::Value = serde_json::from_str(shell(directory, &generate).trim()).unwrap();
    assert_eq!((&reply["id"], reply["text"].is_string()), (&7.into(), true), "{reply}");
    shell(directory, &format!("hone train --resume {run} --set train.steps=3 --samples 0"));
    let events = std::fs::read_to_string(directory.join(run).join("events.jsonl")).unwrap();
    assert!(events.contains(r#""event":"extended""#) && events.contains(r#""train.steps":[2,3]"#), "{events}");

    // An adapter on it, then on with the adapter.
    let lora = format!("hone train recipe.toml{quickly} --set policy.model={run} --set policy.lora.rank=2 --run lora");
    shell(directory, &lora);
    let config = std::fs::read_to_string(directory.join("lora/checkpoints/best/adapter_config.json")).unwrap();
    assert!(config.contains("base_model_name_or_path\": \"/"), "{config}");
    assert!(shell(directory, "hone model info lora").contains("the adapter"));
    shell(directory, &format!("hone train recipe.toml{quickly} --set policy.model=lora --run further"));
    shell(directory, "hone model export further --out for-peft && hone model merge further --out merged");
    shell(directory, "echo Hello. | hone chat merged --max-new 4");
    for file in ["for-peft/adapter_model.safetensors", "merged/model.safetensors"] {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(directory.join(file)).unwrap().permissions());
        assert_eq!(mode & 0o600, 0o600);
        let plain = std::fs::metadata(directory.join("recipe.toml")).unwrap().permissions();
        assert_eq!(mode, std::os::unix::fs::PermissionsExt::mode(&plain), "{file} is as readable as any other file");
    }
}
