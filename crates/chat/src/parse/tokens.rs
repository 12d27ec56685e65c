//! Model tokens that leak into a reply's text: end-of-turn tokens after it, turn openers before it.

/// Tokens that end a model's turn. They distinguish a finished reply from one truncated by a length limit.
///
/// `<|call|>`, `<|return|>` and `<|end|>` are Harmony's own and are left to it when the reply is Harmony.
fn is_end_token(token: &str) -> bool {
    matches!(
        token,
        "<|im_end|>"
            | "<|endoftext|>"
            | "<|eot_id|>"
            | "<|eom_id|>"
            | "<|eot|>"
            | "<|eom|>"
            | "<|end_of_text|>"
            | "<|end_of_turn|>"
            | "<|end_of_sentence|>"
            | "<|end_of_msg|>"
            | "<|END_OF_TURN_TOKEN|>"
            | "<|endofprompt|>"
            | "<|eos|>"
            | "<|pad|>"
            | "<|user|>"
            | "<|observation|>"
            | "<|assistant|>"
            | "<|im_start|>"
            | "<|return|>"
            | "<|call|>"
            | "<|end|>"
            | "</s>"
            | "<s>"
            | "<eos>"
            | "<pad>"
            | "<end_of_turn>"
            | "<end_code>"
            | "<end_action>"
            | "<｜end▁of▁sentence｜>"
            | "<｜User｜>"
            | "<|tool_response>"
            | "<start_function_response>"
            | "<turn|>"
            | "[e~["
            | "]~b]"
    )
}

/// Reason why a turn is over before its text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The model said that it is done.
    End(&'static str),
    /// The model wrote a tool's answer itself.
    Observation(&'static str),
}

/// Tokens after which nothing is the model's own text. `<s>` and `</s>` are HTML too, see [`stop_at`].
const STOPS: [&str; 29] = [
    "<|im_end|>",
    "<|im_start|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|start_header_id|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<|user|>",
    "<|observation|>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<|turn>",
    "<turn|>",
    "<|eot|>",
    "<|eom|>",
    "<|eos|>",
    "<eos>",
    "<seed:eos>",
    "<|end_of_sentence|>",
    "<|end_of_msg|>",
    "<|endofprompt|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|assistant_end|>",
    "[e~[",
    "</s>",
];

/// Markers of a tool result, which only the environment gives. Case, and anything after a tag's name, make no
/// difference.
const OBSERVATIONS: [&str; 14] = [
    "<tool_response>",
    "<tool_responses>",
    "<|tool_response|>",
    "<|tool_response>",
    "<tool_result>",
    "<tool_results>",
    "<tool_output>",
    "<function_results>",
    "<function_response>",
    "[TOOL_RESULTS]",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁output▁begin｜>",
    "<start_function_response>",
    "<observation>",
];

/// The marker of an answer that `rest` starts with.
fn observation(rest: &[u8]) -> Option<&'static str> {
    let stands = |marker: &&str| {
        let (head, last) = marker.as_bytes().split_at(marker.len() - 1);
        let tail = rest.get(head.len());
        let tag = last == b">" && !marker.contains('|');
        rest.get(..head.len()).is_some_and(|start| start.eq_ignore_ascii_case(head))
            && tail.is_some_and(|next| *next == last[0] || (tag && next.is_ascii_whitespace()))
    };
    OBSERVATIONS.iter().copied().find(stands)
}

/// Bytes before `</s>` that are searched for its `<s>`.
const LONGEST_STRIKE: usize = 1024;

/// The token at `at` that ends the model's turn, if there is one.
pub(super) fn stop_at(text: &str, at: usize) -> Option<Stop> {
    let rest = &text.as_bytes()[at..];
    if !matches!(rest.get(1), Some(b'|' | b't' | b'e' | b's' | b'f' | b'o' | b'T' | b'S' | b'F' | b'O' | b'/' | 0xEF)) {
        return None;
    }
    match STOPS.iter().copied().find(|token| rest.starts_with(token.as_bytes())) {
        // Struck-through text ends like a turn of Llama 2.
        Some("</s>") => {
            let before = &text[text.floor_char_boundary(at.saturating_sub(LONGEST_STRIKE))..at];
            (!before.contains("<s>")).then_some(Stop::End("</s>"))
        }
        Some(token) => Some(Stop::End(token)),
        None => observation(rest).map(Stop::Observation),
    }
}

/// Longest end token, in bytes.
const LONGEST: usize = 32;

/// The length of `text` without trailing end tokens and whitespace, and whether there were any.
pub(super) fn strip_end(text: &str) -> (usize, bool) {
    let mut rest = text.trim_end();
    let mut ended = false;
    loop {
        let bytes = rest.as_bytes();
        let token = match bytes.last() {
            Some(b'>') => {
                let window = bytes.len().saturating_sub(LONGEST);
                memchr::memrchr(b'<', &bytes[window..]).map(|start| start + window)
            }
            Some(b'[' | b']') => bytes.len().checked_sub(4).filter(|start| rest.is_char_boundary(*start)),
            _ => None,
        };
        match token {
            Some(start) if is_end_token(&rest[start..]) => rest = rest[..start].trim_end(),
            _ => return (rest.len(), ended),
        }
        ended = true;
    }
}

/// Start of the reply proper: after tokens that open a turn.
pub(super) fn strip_start(text: &str) -> usize {
    const OPENERS: [&str; 10] = [
        "<|im_start|>assistant",
        "<|start_header_id|>assistant<|end_header_id|>",
        "<|header_start|>assistant<|header_end|>",
        "<start_of_turn>model",
        "<|begin_of_text|>",
        "<|assistant|>",
        "<｜Assistant｜>",
        "<｜begin▁of▁sentence｜>",
        "<bos>",
        "<s>",
    ];
    let mut rest = text.trim_start();
    while rest.starts_with('<') {
        let Some(after) = OPENERS.iter().find_map(|opener| rest.strip_prefix(opener)) else { break };
        rest = after.trim_start();
    }
    text.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_go_and_are_remembered() {
        let strip = |text: &'static str| {
            let (end, ended) = strip_end(text);
            (&text[..end], ended)
        };
        assert_eq!(strip("hi<|im_end|>\n<|endoftext|>\n"), ("hi", true));
        assert_eq!(strip("hi\n"), ("hi", false));
        assert_eq!(strip("hi<｜end▁of▁sentence｜>"), ("hi", true));
        assert_eq!(strip("x[e~["), ("x", true));
        assert_eq!(strip("<b>x</b>"), ("<b>x</b>", false));
        assert_eq!(strip("é[e~["), ("é", true));
        assert_eq!(strip("日本]"), ("日本]", false));
        assert_eq!(strip("<|im_end|>"), ("", true));
        assert_eq!(strip(""), ("", false));
    }

    #[test]
    fn turn_openers_go() {
        let strip = |text: &'static str| &text[strip_start(text)..];
        assert_eq!(strip("<|im_start|>assistant\nhi"), "hi");
        assert_eq!(strip(" <s><think>x"), "<think>x");
        assert_eq!(strip("hi"), "hi");
    }
}
