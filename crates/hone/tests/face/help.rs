//! `--help` of every command.

use crate::hone;

/// Names under "Commands:" of a help text.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A wrapped description continues further to the right.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

fn snapshot(path: &[String]) {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = hone(&arguments);
    insta::assert_snapshot!(["help", &path.join("_")].join("_").trim_end_matches('_'), help);
    for name in commands(&help) {
        snapshot(&[path, &[name]].concat());
    }
}

#[test]
fn every_command() {
    let top = commands(&hone(&["--help"]));
    assert!(top.len() > 8 && top.contains(&"train".to_owned()), "{top:?}");
    snapshot(&[]);
}
