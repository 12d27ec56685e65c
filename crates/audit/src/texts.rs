//! A tokenizer for recipes that name no policy: episodes have limits in tokens, so something has to count them.

use std::path::Path;

use hone_trace::Task;

use crate::AuditError;
use crate::filler::filler;

/// Entries of its vocabulary: about as many characters a token as a model's own tokenizer has on such texts.
const VOCABULARY: usize = 4096;

/// Writes the text files of a model directory: a tokenizer trained on the tasks and on filler, with Hone's own template.
pub fn write_texts(tasks: &[Task], directory: &Path) -> Result<(), AuditError> {
    let of_task = |task: &Task| {
        let solution = serde_json::to_string(&task.reference).unwrap_or_default();
        [task.prompt.clone(), solution]
    };
    let texts = tasks.iter().take(256).flat_map(of_task).chain([filler(300), filler(600)]);
    let files = hone_chat::train_tokenizer(texts, VOCABULARY, &[])?;
    let cannot = |source| AuditError::Write { path: directory.to_owned(), source };
    std::fs::create_dir_all(directory).map_err(cannot)?;
    files.write(directory).map_err(cannot)
}
