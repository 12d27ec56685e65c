//! The small commands on small inputs.

use crate::{hone, input, run};

fn piped(arguments: &[&str], stdin: &str) -> String {
    run(tempfile::tempdir().unwrap().path(), arguments, stdin)
}

fn parse(more: &[&str], stdin: &str) -> String {
    piped(&[&["parse", "--tools", &input("tools.json")], more].concat(), stdin)
}

#[test]
fn parse_reads_calls() {
    let reply =
        "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    insta::assert_snapshot!(parse(&[], reply));
}

#[test]
fn parse_says_what_is_wrong_and_what_was_meant() {
    insta::assert_snapshot!(parse(
        &[],
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\",}}</tool_call>"
    ));
}

#[test]
fn parse_explains() {
    let reply = "<tool_call>{\"name\": \"get_wether\", \"arguments\": {\"city\": 3}}</tool_call>";
    insta::assert_snapshot!(parse(&["--explain", "--format", "hermes"], reply));
}

#[test]
fn parse_reads_many() {
    let lines = [
        r#"{"id": 1, "text": "[get_weather(city=\"Oslo\")]"}"#,
        r#"{"id": "two", "text": "It is sunny.", "format": "hermes"}"#,
        r#"{"id": 3}"#,
        "not JSON",
    ];
    insta::assert_snapshot!(parse(&["--jsonl"], &lines.join("\n")));
}

fn render(more: &[&str]) -> String {
    let model = hone_testdata::committed("tiny-qwen3").display().to_string();
    hone(&[&["render", "--model", &model, &input("messages.json")], more].concat())
}

#[test]
fn render_shows_text_and_ids() {
    insta::assert_snapshot!("render_text", render(&[]));
    insta::assert_snapshot!("render_ids", render(&["--ids"]));
    insta::assert_snapshot!("render_budget", render(&["--budget", "512", "--turn", "64"]));
}

#[test]
fn render_refuses_tools_that_the_template_drops() {
    insta::assert_snapshot!("render_dropped_tools", render(&["--tools", &input("tools.json")]));
    insta::assert_snapshot!("render_tools_in_system", render(&["--tools", &input("tools.json"), "--tools-in-system"]));
}

#[test]
fn env_lists_and_shows() {
    insta::assert_snapshot!("env_list", hone(&["env", "list"]));
    insta::assert_snapshot!("env_list_json", hone(&["env", "list", "--json"]));
    insta::assert_snapshot!("env_show", hone(&["env", "show", "triage-reader", "--seed", "1", "--task", "2"]));
}

#[test]
fn env_plays() {
    let typed = "list_all_airports\nsearch_direct_flight {\"origin\": 1}\ncalculate 2 + 3 * 4\ncalculate {\"expression\"\n/quit\n";
    let data = hone_testdata::committed("tau/airline").display().to_string();
    // The world is read; its missing tasks are an error.
    insta::assert_snapshot!("env_play_without_tasks", piped(&["env", "play", "airline", "--data", &data], typed));
    insta::assert_snapshot!("env_play", piped(&["env", "play", "airline", "--seed", "1"], typed));
}

#[test]
fn replay_answers_with_state_hashes() {
    let data = hone_testdata::committed("tau/retail").display().to_string();
    for profile in ["compat", "strict", "tau2"] {
        let arguments = ["replay", "--domain", "retail", "--data", &data, "--profile", profile, &input("calls.jsonl")];
        insta::assert_snapshot!(["replay", profile].join("_"), hone(&arguments));
    }
}

#[test]
fn score_gives_every_component_a_reason() {
    insta::assert_snapshot!("score_component", hone(&["score", "--reward", "rouge_l", &input("completions.jsonl")]));
    insta::assert_snapshot!(
        "score_rubric",
        hone(&["score", "--reward", &input("rubric.toml"), &input("completions.jsonl")])
    );
}

#[test]
fn report_tells_a_run() {
    insta::assert_snapshot!("report", hone(&["report", &input("run")]));
    insta::assert_snapshot!("report_json", hone(&["report", "--json", &input("run")]));
}
