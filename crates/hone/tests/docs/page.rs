//! The command lines of a page.

use std::path::{Path, PathBuf};

/// A page of README and docs/.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) commands: Vec<Command>,
    /// Code spans of the text that begin with `hone `, as written.
    pub(crate) spans: Vec<String>,
}

/// A command of a block of shell lines, without its comment.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) line: String,
    /// The number of the block in its page: `cd` holds until its end.
    pub(crate) block: usize,
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Page {
    /// README.md and every page of docs/.
    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(repository().join("docs"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".md"))
            .map(|name| format!("docs/{name}"))
            .collect();
        names.push("README.md".to_owned());
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    pub(crate) fn read(name: &str) -> Self {
        Self::parse(name, &std::fs::read_to_string(repository().join(name)).unwrap())
    }

    fn parse(name: &str, text: &str) -> Self {
        let (mut commands, mut prose) = (Vec::new(), String::new());
        let (mut lines, mut block) = (text.lines(), 0);
        while let Some(line) = lines.next() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                block += 1;
                let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim_start() != "```").collect();
                if matches!(language, "sh" | "bash" | "console" | "") {
                    commands.extend(joined(&inside).into_iter().map(|line| Command { line, block }));
                }
            } else if line.starts_with("    hone ") || line.starts_with("    cargo ") {
                commands.extend(joined(&[line]).into_iter().map(|line| Command { line, block }));
            } else {
                prose.push_str(line);
                prose.push(' ');
            }
        }
        let spans = prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("hone "));
        Self { name: name.to_owned(), commands, spans: spans.map(str::to_owned).collect() }
    }
}

/// Commands of a block: lines continued after a backslash, and here-documents, belong to one command.
fn joined(lines: &[&str]) -> Vec<String> {
    let (mut found, mut lines) = (Vec::new(), lines.iter());
    while let Some(line) = lines.next() {
        let mut command = line.split("  #").next().unwrap().trim().to_owned();
        while command.ends_with('\\') {
            command.push('\n');
            command.push_str(lines.next().unwrap().trim());
        }
        if let Some((_, end)) = command.split_once("<<'") {
            let end = end.trim_end_matches('\'').to_owned();
            let taken = lines.by_ref().take_while(|line| **line != end);
            let taken: String = taken.map(|line| format!("\n{line}")).collect();
            command.extend([taken, format!("\n{end}\n")]);
        }
        // A block without a language may show what a program prints.
        if !command.is_empty() && !command.starts_with('#') {
            found.push(command);
        }
    }
    found
}

#[test]
fn a_page_is_taken_apart() {
    let page = Page::parse(
        "p",
        "Use `hone train\nX`, `jq`.\n```sh\nhone a   # why\ncat > f <<'E'\n x\nE\nb \\\n  | c\n```\n```toml\nhone = 1\n```\n\n    hone d\n",
    );
    let lines: Vec<(&str, usize)> = page.commands.iter().map(|command| (&*command.line, command.block)).collect();
    assert_eq!(lines, [("hone a", 1), ("cat > f <<'E'\n x\nE\n", 1), ("b \\\n| c", 1), ("hone d", 2)]);
    assert_eq!(page.spans, ["hone train X"]);
}
