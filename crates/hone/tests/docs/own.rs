//! docs/own-environment.md, command by command, in an empty directory. Policies are trained too briefly to be good:
//! this tests whether everything works, not what is learned.

use std::path::{Path, PathBuf};

use crate::page::Page;
use crate::{QUICK_SFT, QUICK_TRAIN, shell};

/// Settings that make a command quick, by its first words.
const QUICKLY: [(&str, &str); 2] = [("hone sft", QUICK_SFT), ("hone train", QUICK_TRAIN)];

/// Everything on the page, then what it promises in words.
#[test]
fn the_page_works_from_an_empty_directory() {
    let root = tempfile::tempdir().unwrap();
    let mut directory: PathBuf = root.path().to_owned();
    let commands = Page::read("docs/own-environment.md").commands;
    assert!(commands.len() >= 9, "{commands:?}");
    for line in commands.iter().map(|command| &command.line) {
        if let Some(into) = line.strip_prefix("cd ") {
            directory.push(into);
            continue;
        }
        let quickly = QUICKLY.iter().find(|(begins, _)| line.starts_with(begins)).map_or("", |(_, more)| more);
        let said = shell(&directory, &format!("{line} {quickly}"));
        if line.contains("--as oracle") {
            assert!(said.contains("total               1.000"), "the solution earns everything: {said}");
        }
    }
    after(&directory);
}

/// A run is a policy: described, queried, extended, exported, continued.
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

    // An adapter on it, then training continues from the adapter.
    let lora = format!("hone train recipe.toml {quickly} --set policy.model={run} --set policy.lora.rank=2 --run lora");
    shell(directory, &lora);
    let config = std::fs::read_to_string(directory.join("lora/checkpoints/best/adapter_config.json")).unwrap();
    assert!(config.contains("base_model_name_or_path\": \"/"), "{config}");
    assert!(shell(directory, "hone model info lora").contains("the adapter"));
    shell(directory, &format!("hone train recipe.toml {quickly} --set policy.model=lora --run further"));
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
