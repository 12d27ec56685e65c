//! The context budget, stop strings and worked examples.

use crate::support::{TEXTS, files, model, tools};
use hone_chat::budget::{Plan, PromptCost, TurnCost, clip_output};
use hone_chat::parse::{Format, Toolbox, parse};
use hone_chat::{CHATML, ExamplesError, Prompt, RenderSettings, Renderer, StopStrings, Tokenizer, examples};
use hone_trace::{Flow, Message, Seed, Task, ToolCall, ToolSet};
use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::json;

fn tokenizer() -> Tokenizer {
    Tokenizer::from_json(&files().tokenizer).unwrap()
}

#[test]
fn the_parts_of_a_prompt_add_up() {
    let renderer = Renderer::new(&model(CHATML, "<|im_end|>"), RenderSettings::default()).unwrap();
    let cost = |tools: &ToolSet| {
        let messages = [Message::user("What is the weather in Zürich?")];
        let prompt =
            Prompt { system: Some("Be kind."), messages: &messages, tools, variables: &IndexMap::new(), sections: &[] };
        let conversation = renderer.open(&prompt).unwrap();
        let cost = conversation.cost().unwrap();
        assert_eq!(cost.total, conversation.prompt().len());
        assert_eq!(cost.system + cost.tools + cost.task + cost.scaffold, cost.total);
        cost
    };
    let (with, without) = (cost(&tools()), cost(&ToolSet::none()));
    assert_eq!(without.tools, 0);
    assert_eq!(with.tools, with.total - without.total);
    assert_eq!(with.task, renderer.tokenizer().count("What is the weather in Zürich?").unwrap());
    assert_eq!(with.system, renderer.tokenizer().count("Be kind.").unwrap());
}

#[test]
fn a_plan_says_how_many_turns_fit_and_refuses_with_arithmetic() {
    let prompt = PromptCost { system: 100, tools: 300, task: 50, scaffold: 50, total: 500 };
    let turn = TurnCost { reply: 100, observation: 50 };
    let plan = Plan::new(1000, prompt, turn).unwrap();
    // 100 + 50 + 100 + 50 + 100 = 400 fits into 500, one more turn does not.
    assert_eq!((plan.left, plan.turns), (500, 3));
    assert!(plan.table().contains("3 turns of 150 tokens"), "{}", plan.table());
    let error = Plan::new(550, prompt, turn).unwrap_err().to_string();
    assert!(error.contains("system 100 + tools 300 + task 50 + template 50 = 500") && error.contains("550"), "{error}");
    assert_eq!(Plan::new(600, prompt, turn).unwrap().turns, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clipped_output_fits_and_says_what_it_lost(text in "(\\PC|\n){0,400}", limit in 40..120_usize) {
        let tokenizer = tokenizer();
        let clipped = clip_output(&tokenizer, &text, limit).unwrap();
        if tokenizer.count(&text).unwrap() <= limit {
            prop_assert_eq!(clipped.text, text);
        } else {
            prop_assert!(tokenizer.count(&clipped.text).unwrap() <= limit);
            let notice = format!("\n[{} characters cut here to fit the context]\n", clipped.cut_chars);
            let (head, tail) = clipped.text.split_once(&notice).unwrap();
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert_eq!(head.chars().count() + tail.chars().count() + clipped.cut_chars, text.chars().count());
            prop_assert!(clipped.cut_chars > 0);
        }
    }

    /// Whatever tokens spell a text, the gate stops with the token that completes the first stop string.
    #[test]
    fn stop_strings_are_found_across_tokens(before in "[a-z漢👩 ]{0,12}", after in "[a-z ]{0,6}", by_char: bool) {
        let tokenizer = tokenizer();
        let stop = "Observation:";
        let text = format!("{before}{stop}{after}");
        let ids: Vec<u32> = if by_char {
            text.chars().flat_map(|c| tokenizer.encode(&c.to_string()).unwrap()).collect()
        } else {
            tokenizer.encode(&text).unwrap()
        };
        let stops = StopStrings::new(&tokenizer, ["</done>".to_owned(), stop.to_owned(), String::new()]);
        let mut gate = stops.gate();
        let through = 1 + ids.iter().position(|&id| gate.push(id) == Flow::Stop).unwrap();
        let hit = stops.find(&ids).unwrap();
        prop_assert_eq!(&hit.string, stop);
        prop_assert_eq!(&hit.text_before, &before);
        prop_assert_eq!(hit.tokens_through, through);
        // Tokens before the stop are whole: they decode to a prefix of the text before it, and one more would not.
        let kept = tokenizer.decode(&ids[..hit.tokens_before]).unwrap();
        let whole = kept.trim_end_matches(char::REPLACEMENT_CHARACTER);
        prop_assert!(before.starts_with(whole), "{:?} {:?}", before, kept);
        let more = tokenizer.decode(&ids[..=hit.tokens_before]).unwrap();
        prop_assert!(more.len() > before.len());
    }
}

#[test]
fn a_reply_without_a_stop_string_goes_on() {
    let tokenizer = tokenizer();
    let stops = StopStrings::new(&tokenizer, ["</done>".to_owned()]);
    let ids = tokenizer.encode(&TEXTS.concat()).unwrap();
    let mut gate = stops.gate();
    assert!(ids.iter().all(|&id| gate.push(id) == Flow::Continue));
    assert_eq!(stops.find(&ids), None);
    let none = StopStrings::new(&tokenizer, []);
    assert_eq!(none.find(&ids), None);
}

fn task(key: &str, calls: &[(&str, serde_json::Value)]) -> Task {
    let mut task = Task::new(key, "demo", "do it");
    let call =
        |(name, arguments): &(&str, serde_json::Value)| ToolCall::new(*name, arguments.as_object().unwrap().clone());
    task.reference = Some(calls.iter().map(call).collect());
    task
}

#[test]
fn examples_are_valid_calls_of_other_tasks_in_the_models_format() {
    let pool = [
        task("a", &[("get_weather", json!({"city": "Bern"})), ("search", json!({"query": "x"}))]),
        task("b", &[("search", json!({"query": "y </tool_call> z"}))]),
        task("c", &[("get_weather", json!({"town": "no such parameter"})), ("get_weather", json!({}))]),
        task("self", &[("search", json!({"query": "secret"}))]),
    ];
    let made = examples(Format::Hermes, &pool[3], &pool, &tools(), 2, Seed::root(7)).unwrap();
    assert_eq!(made.used.len(), 2);
    assert!(!made.used.contains(&"self".to_owned()) && !made.section.contains("secret"));
    assert!(made.section.starts_with("# Calling tools"));
    let calls = made.section.split_once("as examples of the form:").unwrap().1;
    let parsed = parse(calls, &Toolbox::new(&tools()).unwrap(), Some(Format::Hermes));
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.calls.len(), 2);
    // Different tools come first, and the choice depends only on the seed.
    assert_ne!(parsed.calls[0].call.name, parsed.calls[1].call.name);
    assert_eq!(made, examples(Format::Hermes, &pool[3], &pool, &tools(), 2, Seed::root(7)).unwrap());

    let error = examples(Format::Hermes, &pool[3], &pool, &tools(), 9, Seed::root(7)).unwrap_err();
    assert!(
        matches!(&error, ExamplesError::TooFew { wanted: 9, found: 3, skipped, .. } if skipped.iter().any(|(key, _)| key == "c")),
        "{error}"
    );
    assert!(examples(Format::Hermes, &pool[3], &pool, &tools(), 0, Seed::root(7)).unwrap().section.is_empty());
}
