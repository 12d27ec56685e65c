//! Calls in a section: shared code of the formats that put `<begin>` and `<end>` around a list of calls.

use hone_trace::ParseFailureKind;

use super::{
    draft::{Draft, Fault},
    repair::Repair,
    reply::Reply,
};

/// Markers of a format that puts its calls into a section.
pub(super) struct Section {
    pub open: &'static [&'static str],
    pub close: &'static [&'static str],
    pub call: &'static str,
    pub call_end: &'static str,
}

/// Walks the sections of a reply; calls back at each call.
pub(super) fn sectioned(reply: &mut Reply<'_>, section: &Section, mut call: impl FnMut(&mut Reply<'_>, usize)) {
    let openers = section.open.iter().chain([&section.call, &section.call_end]).chain(section.close);
    let openers: Vec<&str> = openers.copied().collect();
    let mut opened: Option<(usize, usize)> = None;
    while let Some((which, at)) = reply.seek(&openers) {
        // A section opened inside reasoning does not count.
        opened = opened.filter(|(start, _)| *start >= reply.reasoning_end());
        let before = reply.drafts.len();
        if openers[which] == section.call {
            call(reply, at);
            if opened.is_none()
                && let Some(draft) = reply.drafts.get_mut(before)
            {
                let message = format!("{} is missing", section.open[0]);
                draft.repaired(Fault::markup(at, message), Repair::MissingOpener);
            }
            continue;
        }
        let marker = openers[which];
        if section.open.contains(&marker) {
            reply.pos = at + marker.len();
            opened = Some((at, before));
        } else if marker == section.call_end {
            reply.stray_closer(at, marker, |_, _| None);
        } else if let Some((start, first)) = opened.take() {
            reply.pos = at + marker.len();
            if first == before {
                reply.drafts.push(Draft::faulty(start..reply.pos, Fault::markup(start, "a section without a call")));
            }
        } else if reply.drafts.last().is_some_and(|last| last.repairs.contains(Repair::MissingOpener)) {
            // It closes the section whose opener was missed.
            reply.pos = at + marker.len();
        } else {
            reply.stray_closer(at, marker, |_, _| None);
        }
    }
    let Some((start, before)) = opened.filter(|(start, _)| *start >= reply.reasoning_end()) else { return };
    if reply.unclosed.is_some() {
        return;
    }
    let end = reply.text.len();
    let fault =
        Fault::new(reply.cut_kind(ParseFailureKind::MalformedMarkup), end, format!("{} is missing", section.close[0]));
    match reply.drafts.iter_mut().skip(before).last() {
        Some(last) if last.fault.is_none() => last.repaired(fault, Repair::MissingCloser),
        Some(_) => {}
        None => reply.drafts.push(Draft::faulty(start..end, fault)),
    }
}

/// A call whose name is not followed by the marker that must follow it.
pub(super) fn no_head(reply: &mut Reply<'_>, open: usize, start: usize, missing: &str, close: &str) {
    let text = reply.text;
    let found = memchr::memmem::find(&text.as_bytes()[start..], close.as_bytes());
    let end = found.map_or(text.len(), |at| start + at + close.len());
    super::work::spend(end - start);
    if reply.ends_reasoning(start..end) {
        return;
    }
    let kind = match found {
        Some(_) => ParseFailureKind::MalformedMarkup,
        None => reply.cut_kind(ParseFailureKind::MalformedMarkup),
    };
    reply
        .drafts
        .push(Draft::faulty(open..end, Fault::new(kind, start, format!("expected {missing:?} after the name"))));
    reply.pos = end;
}
