//! Mistakes of newcomers: what they typed, and the words they need. No snapshots, since only those words matter.

use crate::run;

/// A recipe of an environment of one's own, without a policy.
const RECIPE: &str = "name = \"garden\"\n[env]\nname = \"garden\"\ncommand = [\"python3\", \"garden.py\"]\ntasks = 32\nheld_out = 4\n\
                      [[rubric.component]]\nkind = \"correct\"\n[eval]\ntasks = 4\n";

/// Runs a command beside the recipe and returns what it said.
fn said(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("recipe.toml"), RECIPE).unwrap();
    let model = directory.path().join("model");
    std::fs::create_dir(&model).unwrap();
    std::fs::write(model.join("config.json"), "{}").unwrap();
    run(directory.path(), arguments, "")
}

#[test]
fn every_mistake_is_answered_with_what_to_do() {
    for (arguments, word) in [
        (&["check", "recipe.toml"][..], "`hone sft recipe.toml --out garden-policy`"),
        (&["eval", "--recipe", "recipe.toml"], "`hone sft recipe.toml --out garden-policy`"),
        (&["check", "recipe.toml", "--set", "policy.model=policy"], "`hone sft recipe.toml --out policy`"),
        (&["compare", "model", "model"], "measure it with `hone eval model`"),
        (&["eval", "model"], "--recipe recipe.toml"),
        (&["chat", "model", "--env", "garden"], "give recipe.toml in place of garden"),
        (&["env", "show", "shop", "--set", "dificulty=2"], "did you mean `difficulty`?"),
        (&["env", "show", "shop", "--set", "env.difficulty=9"], "from 1 to 3"),
        (&["train", "recipe.toml", "--set", "train.lr=1"], "did you mean `learning_rate`?"),
        (&["train", "recipe.toml", "--set", "loss=ppo"], "did you mean \"clip\"?"),
        (&["train", "recipe.toml", "--set", "train.steps=\"50\""], "write 50 without quotes"),
        (&["train", "recipe.toml", "--set", "train.groups=0"], "in --set train.groups=0"),
    ] {
        let said = said(arguments);
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

#[test]
fn a_setting_is_the_same_with_and_without_the_table() {
    for option in ["difficulty=2", "env.difficulty=2"] {
        assert!(said(&["env", "show", "shop", "--set", option]).starts_with("exit code 0"), "{option}");
    }
}

#[test]
fn nobody_is_scored_who_asked_nothing() {
    let policy = format!("{}/policies/shop", env!("CARGO_MANIFEST_DIR"));
    let talk = |stdin: &str| {
        let directory = tempfile::tempdir().unwrap();
        run(directory.path(), &["chat", &policy, "--env", "shop", "--max-new", "4", "--max-turns", "1"], stdin)
    };
    assert!(!talk("").contains("rewards"));
    assert!(talk("Hello.\n").contains(", which is not what was asked"));
    let asked = talk("\n");
    assert!(asked.contains("rewards, for the goal of task ") && !asked.contains("not what was asked"), "{asked}");
}
