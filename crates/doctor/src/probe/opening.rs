//! Episodes opened and rendered: what the policy will read first.

use std::time::{Duration, Instant};

use hone_arena::baseline::{Baseline as _, RandomCaller};
use hone_chat::parse::{Format, Toolbox, parse};
use hone_chat::{Prompt, RenderError, Renderer};
use hone_trace::{Action, Arena, Content, Episode, Message, ParseFailureKind, Seed, Task, ToolCall};
use hone_train::recipe::Recipe;

use super::script::late;
use super::{Depth, Opening, Part, Refusal, RefusalKind, Rendered};

/// Parts that prompts are rendered with.
pub(super) struct Scene<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) renderer: &'a Renderer,
    /// The same on another day.
    pub(super) dated: Option<Renderer>,
    /// The format that replies are read in.
    pub(super) format: Format,
}

/// Tasks of every environment that a full probe opens.
const TASKS: usize = 4;
/// Wait after which an environment that does not open is not tried again.
const LONG: Duration = Duration::from_secs(10);

/// Opens the first task of every environment; a full probe a few, spread over all.
pub(super) async fn open(arena: &dyn Arena, tasks: &[Task], scene: &Scene<'_>, depth: Depth) -> Vec<Opening> {
    let wanted = if depth == Depth::Opened { 1 } else { TASKS };
    let mut envs: Vec<&str> = tasks.iter().map(|task| task.env.as_str()).collect();
    envs.dedup();
    let mut seen = std::collections::BTreeSet::new();
    envs.retain(|env| seen.insert(*env));
    let mut openings = Vec::new();
    for env in envs {
        let own: Vec<&Task> = tasks.iter().filter(|task| task.env == env).collect();
        for task in own.iter().step_by(own.len().div_ceil(wanted).max(1)).take(wanted) {
            let clock = Instant::now();
            let opening = one(arena, task, scene).await;
            let lost = opening.fault.is_some() && clock.elapsed() > LONG;
            openings.push(opening);
            if lost {
                break;
            }
        }
    }
    openings
}

async fn one(arena: &dyn Arena, task: &Task, scene: &Scene<'_>) -> Opening {
    let settings = &scene.recipe.rollout;
    let deadline = Duration::try_from_secs_f64(settings.user_deadline_s.max(settings.env_deadline_s));
    let deadline = deadline.unwrap_or(Duration::from_secs(30));
    let clock = Instant::now();
    let mut opening = Opening {
        task: task.key.clone(),
        env: task.env.clone(),
        stated_date: task.variables.get("CURRENT_DATE").cloned(),
        ..Opening::default()
    };
    let mut attempt = 0;
    // As play would: a transient fault is worth another try.
    let episode = loop {
        attempt += 1;
        match tokio::time::timeout(deadline, arena.open(task, 0)).await {
            Ok(Ok(episode)) => break episode,
            Ok(Err(fault)) if attempt < settings.attempts && fault.transient && clock.elapsed() < LONG => {}
            Ok(Err(fault)) => opening.fault = Some(fault.to_string()),
            Err(_) => opening.fault = Some(late(deadline, arena.trouble())),
        }
        if opening.fault.is_some() {
            return opening;
        }
    };
    opening.seconds = clock.elapsed().as_secs_f64();
    opening.tools = episode.tools.iter().map(|tool| tool.name.clone()).collect();
    opening.roles = episode.first.iter().map(Message::role).collect();
    let texts = episode.first.iter().filter_map(Message::content).map(Content::text);
    opening.said = std::iter::once(episode.system.clone()).chain(texts).collect::<Vec<_>>().join("\n");
    match Toolbox::new(&episode.tools) {
        Ok(toolbox) => render(&mut opening, task, &episode, &toolbox, scene),
        Err(error) => opening.bad_schema = Some(error.to_string()),
    }
    opening
}

fn render(opening: &mut Opening, task: &Task, episode: &Episode, toolbox: &Toolbox, scene: &Scene<'_>) {
    // Nothing longer fits the window, and encoding it takes minutes.
    let longest = scene.recipe.rollout.window.saturating_mul(64);
    if opening.said.len() > longest {
        let words = format!("its first prompt takes {} bytes, more than any window holds", opening.said.len());
        opening.fault = Some(words);
        return;
    }
    let prompt = Prompt {
        system: Some(&episode.system),
        messages: &episode.first,
        tools: &episode.tools,
        variables: &task.variables,
        sections: &[],
    };
    let conversation = match scene.renderer.open(&prompt) {
        Ok(conversation) => conversation,
        Err(error) => {
            let kind = match &error {
                RenderError::ToolsLost { .. } => RefusalKind::ToolsLost,
                RenderError::NotAppendOnly { .. } => RefusalKind::NotAppendOnly,
                RenderError::ObservationLost { .. } => RefusalKind::ObservationLost,
                _ => RefusalKind::Other,
            };
            opening.refusal = Some(Refusal { kind, words: super::gather::error_words(&error) });
            return;
        }
    };
    let (mut misfits, mut fitting) = (Vec::new(), Vec::new());
    for call in calls(task, episode) {
        match misfit(&call, toolbox) {
            Some(why) => misfits.push((call.name.clone(), why)),
            None => fitting.push(call),
        }
    }
    let other_day = scene.dated.as_ref().and_then(|renderer| renderer.open(&prompt).ok());
    opening.rendered = Part::Known(Rendered {
        tokens: conversation.prompt().len(),
        cost: conversation.cost().ok(),
        rewrites: conversation.rewrites().to_vec(),
        dated: other_day.is_some_and(|other| other.prompt() != conversation.prompt()),
        lossy: lossy(scene.renderer, &opening.said),
        unread: fitting.iter().filter_map(|call| unread(call, toolbox, scene.format)).collect(),
        misfits,
    });
}

/// The first line of a text that the tokenizer loses something of.
fn lossy(renderer: &Renderer, text: &str) -> Option<(String, String)> {
    let tokenizer = renderer.tokenizer();
    text.lines().filter(|line| !line.is_empty()).take(200).find_map(|line| {
        let back = tokenizer.decode(&tokenizer.encode_plain(line).ok()?).ok()?;
        // Some tokenizers put a space before every text.
        (back.trim() != line.trim()).then(|| (line.chars().take(80).collect(), back.chars().take(80).collect()))
    })
}

/// Calls of the offered tools: the reference's, and random ones that their schemas allow.
fn calls(task: &Task, episode: &Episode) -> Vec<ToolCall> {
    let random = (0..8).filter_map(|turn| {
        match (RandomCaller { calls: usize::MAX }).act(&episode.tools, &episode.first, Seed::root(turn)) {
            Action::Calls(calls) => calls.into_iter().next(),
            _ => None,
        }
    });
    task.reference.iter().flatten().cloned().chain(random).collect()
}

/// The reason why the schema of its tool refuses a call, whatever the format.
fn misfit(call: &ToolCall, toolbox: &Toolbox) -> Option<String> {
    use ParseFailureKind::{MissingRequired, UnexpectedArgument, UnknownTool, WrongType};
    let written = serde_json::json!({"name": call.name, "arguments": call.arguments});
    let failure = parse(&format!("<tool_call>{written}</tool_call>"), toolbox, Some(Format::Hermes)).error?;
    let of_schema = matches!(failure.kind, UnknownTool | MissingRequired | UnexpectedArgument | WrongType);
    of_schema.then_some(failure.message)
}

/// The reason why a call, written in the model's format, does not read back.
fn unread(call: &ToolCall, toolbox: &Toolbox, format: Format) -> Option<(String, String)> {
    let text = match format.render_calls(std::slice::from_ref(call), toolbox) {
        Ok(text) => text,
        Err(error) => return Some((call.name.clone(), error.to_string())),
    };
    let parsed = parse(&text, toolbox, Some(format));
    if matches!(parsed.calls.as_slice(), [one] if one.call == *call) {
        return None;
    }
    let why = parsed.error.map_or_else(|| "it reads as another call".to_owned(), |error| error.to_string());
    Some((text, why))
}
