//! A tokenizer for recipes that name no policy: episodes have limits in tokens, so something has to count them.

use std::path::Path;

use hone_arena::solution::{Move, solution};
use hone_chat::template::ChatTemplate;
use hone_chat::{CHATML, RenderError};
use hone_trace::{Arena, Message, Seed, Task};

use crate::AuditError;
use crate::filler::filler;

/// Entries of its vocabulary: about as many characters a token as a model's own tokenizer has on such texts.
const VOCABULARY: usize = 4096;
/// Tasks whose texts it is trained on, and those of them that are opened: their prompts and tools count against the window.
const TASKS: usize = 256;
const OPENED: usize = 64;

/// Writes the text files of a model directory: a tokenizer trained on openings, solutions and filler, with Hone's own
/// template.
pub async fn write_texts(arena: &dyn Arena, tasks: &[Task], directory: &Path) -> Result<(), AuditError> {
    let of_task = |task: &Task| {
        let solution = serde_json::to_string(&task.reference).unwrap_or_default();
        [task.prompt.clone(), solution]
    };
    let mut texts: Vec<String> = tasks.iter().take(TASKS).flat_map(of_task).collect();
    let template = ChatTemplate::new(CHATML).map_err(RenderError::from)?;
    for task in tasks.iter().step_by(tasks.len().div_ceil(OPENED).max(1)) {
        texts.push(opening(arena, task, &template).await?);
    }
    texts.extend([filler(300), filler(600)]);
    let files = hone_chat::train_tokenizer(texts, VOCABULARY, &[])?;
    let cannot = |source| AuditError::Write { path: directory.to_owned(), source };
    std::fs::create_dir_all(directory).map_err(cannot)?;
    files.write(directory).map_err(cannot)
}

/// A task's prompt and tools as a policy reads them, with its solution as a policy writes it.
async fn opening(arena: &dyn Arena, task: &Task, template: &ChatTemplate) -> Result<String, AuditError> {
    let mut episode = arena.open(task, Seed::root(0).value()).await?;
    let mut said = vec![Message::system(&*episode.system)];
    said.append(&mut episode.first);
    said.extend(solution(task).unwrap_or_default().into_iter().map(|step| match step {
        Move::Call(call) => Message::calls(vec![call]),
        Move::Say(text) => Message::assistant(&text),
    }));
    Ok(template.transcript(&said, &episode.tools).map_err(RenderError::from)?)
}
