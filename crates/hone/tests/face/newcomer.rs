//! Mistakes of newcomers: what they typed, and the words they need. No snapshots, since only those words matter.

use crate::run;

/// A recipe of an environment of one's own, without a policy.
const RECIPE: &str = "name = \"garden\"\n[env]\nname = \"garden\"\ncommand = [\"python3\", \"garden.py\"]\ntasks = 32\nheld_out = 4\n\
                      [[rubric.component]]\nkind = \"correct\"\n[eval]\ntasks = 4\n";

/// Runs a command beside the recipe and returns what it said.
fn said(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("recipe.toml"), RECIPE).unwrap();
    std::fs::write(directory.path().join("tasks.jsonl"), "{\"key\": \"a\", \"prompt\": \"p\"}\n").unwrap();
    std::fs::write(directory.path().join("broken.toml"), "name = \n").unwrap();
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
        (&["train", "tasks.jsonl"], "tasks.jsonl is a task file, not a recipe"),
        (&["check", "broken.toml"], "exit code 2"),
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

/// The project that `hone init` makes is what the program's own checks ask of one.
#[test]
fn the_starter_project_passes_its_own_validation() {
    let directory = tempfile::tempdir().unwrap();
    assert!(run(directory.path(), &["init", "g"], "").starts_with("exit code 0"));
    let project = directory.path().join("g");
    let at = |arguments: &[&str]| run(&project, arguments, "");
    let valid = at(&["data", "validate", "--recipe", "recipe.toml", "--out", "valid"]);
    let counts = valid.lines().find(|line| line.starts_with("all ")).unwrap();
    // Tasks, kept, no-op, rejected: none is solved by doing nothing.
    assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), ["all", "600", "600", "0", "0"], "{valid}");
    assert!(valid.starts_with("exit code 0"), "{valid}");
    assert!(at(&["env", "play", "recipe.toml", "--as", "oracle"]).starts_with("exit code 0"));
    let tasks = std::fs::read_to_string(project.join("tasks.jsonl")).unwrap();
    std::fs::write(
        project.join("tasks.jsonl"),
        tasks.replace("\"water\"", "\"cut\"").replace("\"cut\", \"arg", "\"look\", \"arg"),
    )
    .unwrap();
    let broken = at(&["env", "play", "recipe.toml", "--as", "oracle"]);
    assert!(broken.starts_with("exit code 1") && broken.contains("earns nothing; correct its reference"), "{broken}");
}

#[test]
fn every_environment_of_a_recipe_is_shown_and_one_is_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let text = "name = \"two\"\n[[env]]\nname = \"airline\"\ntasks = 4\nheld_out = 2\n[[env]]\nname = \"retail\"\ntasks = 4\nheld_out = 2\n[train]\ngroups = 2\n[eval]\ntasks = 2\n";
    std::fs::write(directory.path().join("two.toml"), text).unwrap();
    let show = |more: &[&str]| run(directory.path(), &[&["env", "show", "two.toml"], more].concat(), "");
    let both = show(&[]);
    assert!(both.contains("\nairline: ") && both.contains("\nretail: "), "{both}");
    let one = show(&["--env", "retail"]);
    assert!(!one.contains("\nairline: ") && one.contains("\nretail: "), "{one}");
    assert!(show(&["--env", "retial"]).contains("did you mean \"retail\"?"));
    let played = run(directory.path(), &["env", "play", "two.toml", "--as", "oracle"], "");
    assert!(
        played.starts_with("exit code 0") && played.contains("airline is the first of airline, retail"),
        "{played}"
    );
}
