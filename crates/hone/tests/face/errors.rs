//! Every class of error in a recipe, and the common mistakes with each command.

use std::fmt::Write as _;

use crate::{hone, input, run};

/// One section per case: input and output.
fn recipes(cases: &[(&str, &[&str])]) -> String {
    let mut page = String::new();
    for (recipe, arguments) in cases {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("mine.toml"), recipe).unwrap();
        let arguments = [&["train", "mine.toml", "--dry-run"], *arguments].concat();
        let said = run(directory.path(), &arguments, "");
        writeln!(page, "════ {}{}\n{said}", recipe.trim().replace('\n', " ⏎ "), arguments[3..].join(" ")).unwrap();
        assert!(said.starts_with("exit code 2\n"), "{recipe}: {said}");
    }
    page
}

#[test]
fn keys_and_values() {
    insta::assert_snapshot!(recipes(&[
        ("steps =\n", &[]),
        ("[trian]\nsteps = 3\n", &[]),
        ("[train]\nstep = 3\n", &[]),
        ("[train]\nsteps = \"three\"\n", &[]),
        ("[train]\ndecay = \"linaer\"\n", &[]),
        ("", &["--set", "train.steps"]),
        ("", &["--set", "train.stesp=3"]),
        ("", &["--set", "train.steps=three"]),
    ]));
}

#[test]
fn names() {
    insta::assert_snapshot!(recipes(&[
        ("credit = \"gpro\"\n", &[]),
        ("credit = { name = \"grpo\", scael = 1 }\n", &[]),
        ("loss = \"dappo\"\n", &[]),
        ("loss = { name = \"dapo\", clip_hihg = 0.3 }\n", &[]),
        ("[env]\nname = \"shoop\"\n", &[]),
        ("[env]\ntask = 3\n", &[]),
        ("[env]\nname = 3\n", &[]),
        ("[[rubric.component]]\nkind = \"tau_stat\"\n", &[]),
        ("[[rubric.component]]\nkind = \"parsimony\"\nenoug = 1\n", &[]),
        ("[[rubric.component]]\nkind = \"format\"\n[[rubric.component]]\nkind = \"format\"\n", &[]),
        ("[eval]\nsuccess = \"tau_stat\"\n", &[]),
        ("[checkpoint]\nbest = \"quality\"\n", &[]),
    ]));
}

#[test]
fn what_cannot_learn() {
    insta::assert_snapshot!(recipes(&[
        ("[sampling]\ntemperature = 0\n", &[]),
        ("[sampling]\ntop_p = 2.0\n", &[]),
        ("[train]\ngroup_size = 1\n", &[]),
        ("[env]\ntasks = 2\n", &[]),
        ("[eval]\ntasks = 1000\n", &[]),
        ("[eval]\nsamples = 0\n", &[]),
        ("[eval]\ntemperature = -1.0\n", &[]),
        ("[sft]\ncopying = 2.0\n", &[]),
        ("[policy]\nreference = \"there\"\n[train]\nkl_to_start = true\n", &[]),
    ]));
}

#[test]
fn files_that_are_not_there() {
    let tools = input("tools.json");
    let mut page = String::new();
    for arguments in [
        &["train", "missing.toml"][..],
        &["train", "--resume", "nowhere"],
        &["report", "nowhere"],
        &["parse", "--tools", "missing.json", "-"],
        &["parse", "--tools", &tools, "missing.txt"],
        &["parse", "--tools", &tools, "--format", "herms", "-"],
        &["render", "--model", "nowhere", "-"],
        &["env", "show", "shp"],
        &["env", "show", "shop", "--split", "tset"],
        &["env", "show", "shop", "--task", "none"],
        &["env", "play", "shop", "--as", "user"],
        &["replay", "--domain", "retail", "--data", "nowhere"],
        &["score", "--reward", "rogue_l", "-"],
        &["score", "--reward", "rouge_l", "missing.jsonl"],
        &["trian"],
    ] {
        writeln!(page, "════ hone {}\n{}", arguments.join(" ").replace(&input(""), "INPUTS/"), hone(arguments))
            .unwrap();
    }
    insta::assert_snapshot!(page);
}
