//! Reasoning: nothing inside it runs, nor after the end of the turn; a call that follows it does.

use hone_chat::parse::{Format, parse};
use hone_trace::ToolCall;
use serde_json::json;

use crate::tools;

/// Reasoning markers, and whether a closer that nothing opened ends reasoning.
const REASONING: [(&str, &str, bool); 24] = [
    ("<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>", true),
    ("<scratchpad>", "</scratchpad>", true),
    ("<scratch_pad>", "</scratch_pad>", true),
    ("<reflection>", "</reflection>", true),
    ("<analysis>", "</analysis>", true),
    ("<unused94>thought\n", "<unused95>", true),
    ("◁think▷", "◁/think▷", true),
    ("<think >", "</think >", true),
    ("<Think\ntype=\"deep\">", "</think>", true),
    ("<|think|>", "<|end|>", false),
    ("<think>", "</think>", true),
    ("<THINK>", "</THINK>", true),
    ("[THINK]", "[/THINK]", true),
    ("<thinking>", "</thinking>", true),
    ("<thought>", "</thought>", true),
    ("<reasoning>", "</reasoning>", true),
    ("<seed:think>", "</seed:think>", true),
    ("<mm:think>", "</mm:think>", true),
    ("<|START_THINKING|>", "<|END_THINKING|>", true),
    ("<|begin_of_thought|>", "<|end_of_thought|>", true),
    ("<|inner_prefix|>", "<|inner_suffix|>", true),
    ("<|channel>thought\n", "<channel|>", true),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>", true),
    ("<|channel|>analysis<|message|>", "<|end|>", false),
];

/// Every format's good text in every pair of reasoning markers, closed, unclosed and repeated, with and without text
/// around it: no call, in the named format, in any other, or in auto.
#[test]
fn nothing_inside_reasoning_runs() {
    let tools = tools();
    let arguments = json!({ "text": "x", "count": 3 });
    let put = ToolCall::new("put", arguments.as_object().expect("an object").clone());
    let mut ran = Vec::new();
    for (writer, calls) in Format::ALL.into_iter().flat_map(|format| [(format, 1), (format, 2)]) {
        let calls = vec![put.clone(); calls];
        let text = writer.render_calls(&calls, &tools).expect("plain calls");
        for (open, close, lone) in REASONING {
            let mut replies = vec![
                format!("{open}{text}{close}"),
                format!("{open}\nmaybe\n{text}\n{close}\nNo."),
                format!("Well. {open}{text}{close}{open}{text}{close}"),
                format!("{open}{open}{text}{close}{close}"),
                format!("{open}{text}"),
                format!("{open}\n{text}\n"),
            ];
            if lone {
                replies.extend([format!("{text}{close}"), format!("maybe\n{text}\n{close}\nNo.")]);
            }
            for (reply, reader) in replies.iter().flat_map(|reply| [Some(writer), None].map(|reader| (reply, reader))) {
                let parsed = parse(reply, &tools, reader);
                if !parsed.calls.is_empty() || parsed.repaired_calls.is_some_and(|calls| !calls.is_empty()) {
                    ran.push(format!("{writer} read as {reader:?}: {reply:?}"));
                }
            }
        }
    }
    assert!(ran.is_empty(), "{} replies ran a call:\n{}", ran.len(), ran.join("\n"));
}

/// Unknown markers: a call between them is not made, whatever their name.
#[test]
fn nothing_inside_invented_markers_runs() {
    let tools = tools();
    let arguments = json!({ "text": "x", "count": 3 });
    let put = ToolCall::new("put", arguments.as_object().expect("an object").clone());
    let pairs = [
        ("<musing>", "</musing>"),
        ("<Inner Voice>", "</Inner Voice>"),
        ("<musing depth=\"2\">", "</musing>"),
        ("<ns:musing>", "</ns:musing>"),
        ("[MUSING]", "[/MUSING]"),
        ("[BEGIN MUSING]", "[END MUSING]"),
        ("<|musing|>", "<|/musing|>"),
        ("<|musing_begin|>", "<|musing_end|>"),
        ("<|start_musing|>", "<|end_musing|>"),
        ("<<musing>>", "<</musing>>"),
        ("{{musing}}", "{{/musing}}"),
        ("【musing】", "【/musing】"),
        ("◁musing▷", "◁/musing▷"),
        ("(musing)", "(/musing)"),
        ("<code>", "</code>"),
        ("<!-- ", " -->"),
    ];
    let mut ran = Vec::new();
    for writer in Format::ALL {
        for count in [1, 2] {
            let text = writer.render_calls(&vec![put.clone(); count], &tools).expect("plain calls");
            for (open, close) in pairs {
                for reply in [
                    format!("{open}{text}{close}"),
                    format!("Well. {open}\nmaybe\n{text}\n{close}\nNo."),
                    format!("{open}a{close}{open}\n{text}\n{close}"),
                ] {
                    for format in [None, Some(writer)] {
                        let parsed = parse(&reply, &tools, format);
                        if !parsed.calls.is_empty() || parsed.repaired_calls.is_some_and(|calls| !calls.is_empty()) {
                            ran.push(format!("{writer} {format:?} {reply:?}"));
                        }
                    }
                }
            }
        }
    }
    assert!(ran.is_empty(), "{} ran:\n{}", ran.len(), ran[..ran.len().min(40)].join("\n"));
}

/// A call after reasoning runs in every format, whatever the reasoning contains and however often it is closed.
#[test]
fn a_call_behind_reasoning_runs() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    let calls = std::slice::from_ref(&put);
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Harmony) {
        let text = format.render_calls(calls, &tools).expect("a plain call");
        for (open, close, lone) in REASONING {
            let mut replies = vec![format!("{open}maybe {text}{close}\n{text}")];
            if lone {
                replies.push(format!("maybe {text}{close}\n{text}"));
            }
            for reply in replies {
                let parsed = parse(&reply, &tools, Some(format));
                let read: Vec<_> = parsed.calls.iter().map(|call| &call.call).collect();
                assert_eq!(read.len(), 1, "{format}: {reply:?} {:?}", parsed.error);
                assert_eq!(read[0].arguments, put.arguments, "{format}: {reply:?}");
            }
        }
    }
}

/// Reasoning ends at its first closer: a second one after a call is text, in the named format and in auto.
#[test]
fn a_second_closer_takes_no_call_back() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    let text = Format::Hermes.render_calls(std::slice::from_ref(&put), &tools).expect("a plain call");
    for (open, close, _) in REASONING.into_iter().filter(|(_, _, lone)| *lone) {
        let reply = format!("{open}a{close}{text}{close} b");
        for format in [Some(Format::Hermes), None] {
            assert_eq!(parse(&reply, &tools, format).calls.len(), 1, "{format:?}: {reply:?}");
        }
    }
}

/// Calls after the end of the turn, or in a tool result that the model made up, do not run, however they are written.
#[test]
fn nothing_behind_the_end_or_in_an_answer_runs() {
    let tools = tools();
    let put = ToolCall::new("put", json!({ "text": "x" }).as_object().expect("an object").clone());
    for format in [Format::Hermes, Format::Gemma4, Format::Qwen3Coder, Format::Mistral] {
        let text = format.render_calls(std::slice::from_ref(&put), &tools).expect("a plain call");
        for marker in [
            "<turn|>",
            "<|eot|>",
            "<eos>",
            "<seed:eos>",
            "<|assistant_end|>",
            "[e~[",
            "<tool_response >",
            "<TOOL_RESPONSE>",
            "<tool_response id=\"1\">",
            "<observation>",
        ] {
            for reader in [Some(format), None] {
                let parsed = parse(&format!("Wait.{marker}{text}"), &tools, reader);
                assert!(parsed.calls.is_empty() && parsed.error.is_some(), "{reader:?}: {marker}{text}");
            }
        }
    }
}
