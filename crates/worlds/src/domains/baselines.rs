//! Scripted policies without understanding: the floors of retail, airline and telecom.

use std::sync::Arc;

use hone_trace::{Action, Content, Message, ToolCall};
use serde_json::{Value, json};

use super::Kind;
use hone_arena::baseline::{Baseline, Script};
use hone_arena::solution::DONE;

const FILLER: &str = "Thank you for your patience. I understand your concern and have looked into it. Everything has been \
taken care of, all items, orders, flights and refunds of $10, $100 and $1000 included.";

/// Harmless steps on a phone that may fix something.
const STEPS: &str = "Please use reseat_sim_card(), disconnect_vpn(), set_network_mode_preference({\"mode\": \
\"4g_5g_preferred\"}), grant_app_permission({\"app_name\": \"messaging\", \"permission\": \"storage\"}), \
grant_app_permission({\"app_name\": \"messaging\", \"permission\": \"sms\"}), reset_apn_settings() and reboot_device().";

/// Baselines of a domain.
pub(super) fn baselines(kind: Kind) -> Vec<Arc<dyn Baseline>> {
    let last = match kind {
        Kind::Retail | Kind::Airline => Script { name: "cancels whatever it hears of", act: |_, said, _| cancel(said) },
        Kind::Telecom => Script { name: "asks for every harmless step", act: |_, said, _| steps(said) },
    };
    let scripts = [
        Script { name: "repeats what it hears", act: |_, said, _| Action::Reply(heard(said)) },
        Script { name: "says something long and kind", act: |_, _, _| Action::Reply(FILLER.into()) },
        Script {
            name: "hands over at once",
            act: |_, _, _| call("transfer_to_human_agents", json!({"summary": "The user needs help."})),
        },
        last,
    ];
    scripts.into_iter().map(|script| Arc::new(script) as Arc<dyn Baseline>).collect()
}

/// Asks the user for the steps once, whatever is wrong.
fn steps(said: &[Message]) -> Action {
    let heard = said.iter().filter(|message| matches!(message, Message::User { .. })).count();
    Action::Reply(if heard > 1 { DONE } else { STEPS }.into())
}

/// Cancels the first thing whose id it hears, and asks until it hears one.
fn cancel(said: &[Message]) -> Action {
    let cancelled = said.iter().any(|message| matches!(message, Message::Tool { .. }));
    let others = said.iter().filter(|message| matches!(message, Message::User { .. }));
    let text: String = others.filter_map(Message::content).map(|content| content.text() + " ").collect();
    let words = || text.split([' ', '.', ':', ',', '\n', '?', '!']);
    let order = words().find(|word| word.starts_with("#W"));
    let trip = words().find(|word| {
        word.len() == 6
            && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
            && word.contains(|c: char| c.is_ascii_uppercase())
    });
    match (order, trip) {
        _ if cancelled => Action::Reply(DONE.into()),
        (Some(id), _) => call("cancel_pending_order", json!({"order_id": id, "reason": "no longer needed"})),
        (None, Some(id)) => call("cancel_reservation", json!({"reservation_id": id})),
        (None, None) => Action::Reply("What is the id of your order or reservation?".into()),
    }
}

fn heard(said: &[Message]) -> String {
    said.iter().rev().find_map(Message::content).map(Content::text).unwrap_or_default()
}

fn call(name: &str, arguments: Value) -> Action {
    let arguments = if let Value::Object(arguments) = arguments { arguments } else { serde_json::Map::new() };
    Action::Calls(vec![ToolCall::new(name, arguments)])
}
