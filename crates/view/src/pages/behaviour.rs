//! Behaviour that goes with a change of success, as `hone compare` finds it.

use hone_eval::compare::{Behaviour, Comparison, Sighted};

use crate::beside::Answer;
use crate::html::{Html, clipped};
use crate::number::{cell, signed};
use crate::put;
use crate::site::Site;

/// A panel: whether B is better, and the behaviour that changed with it. `runs` are the runs of A and B.
pub(super) fn panel(site: &Site, runs: [usize; 2], answer: &Answer<Comparison>) -> Html {
    let mut out = Html::new();
    put!(out, "<section class=\"panel\"><h2>Behaviour and success</h2>");
    match answer {
        Answer::Waiting => {
            put!(out, "<p data-wait>The rollouts are being read; this panel shows what differs when that is done.</p>");
        }
        Answer::Failed(why) => {
            put!(out, "<p class=\"bad\">", clipped(why, 1000), "</p>");
        }
        Answer::Made(comparison) => {
            put!(out, "<p><b>", comparison.verdict(), "</b></p>");
            table(site, runs, comparison, &mut out);
        }
    }
    put!(out, "</section>");
    out
}

fn table(site: &Site, runs: [usize; 2], comparison: &Comparison, out: &mut Html) {
    put!(
        *out,
        "<p class=\"dim\">Shares of rollouts that show it (of turns and calls: means), the tasks in which it became \
         rarer or more frequent, and how success changed in those. A share of the change says where success \
         changed, not why.</p><div class=\"scroll\"><table><thead><tr><th class=\"text\">behaviour</th><th>A</th>\
         <th>B</th><th>rarer in</th><th>success there</th><th>more in</th><th>success there</th><th>of the change\
         </th><th class=\"text\">seen in</th></tr></thead><tbody>"
    );
    let shown = |behaviour: &&Behaviour| behaviour.mean.iter().flatten().any(|value| *value != 0.0);
    for behaviour in comparison.behaviour.iter().filter(shown) {
        put!(
            *out,
            "<tr data-item><td class=\"text\" title=\"",
            behaviour.about,
            "\">",
            behaviour.name,
            "</td><td>",
            cell(behaviour.mean[0]),
            "</td><td>",
            cell(behaviour.mean[1]),
            "</td>"
        );
        change(behaviour, out);
        put!(out, "<td class=\"text\">");
        for ((letter, run), sighted) in ["A", "B"].into_iter().zip(runs).zip(&behaviour.examples) {
            if let Some(sighted) = sighted {
                seen(site, letter, run, sighted, out);
            }
        }
        put!(out, "</td></tr>");
    }
    put!(out, "</tbody></table></div>");
}

fn change(behaviour: &Behaviour, out: &mut Html) {
    let Some(change) = &behaviour.change else {
        put!(out, "<td>–</td><td>–</td><td>–</td><td>–</td><td>–</td>");
        return;
    };
    for at in [0, 1] {
        let gain = change.gain[at];
        put!(
            *out,
            "<td>",
            change.tasks[at],
            "</td><td class=\"",
            super::sign(gain),
            "\">",
            gain.map_or_else(|| "–".to_owned(), signed),
            "</td>"
        );
    }
    let share = change.share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    put!(out, "<td>", share, "</td>");
}

/// A rollout that shows it.
fn seen(site: &Site, letter: &'static str, run: usize, sighted: &Sighted, out: &mut Html) {
    let name = format!("{letter} trace {}", sighted.trace);
    put!(
        *out,
        "<span title=\"",
        clipped(&sighted.what, 300),
        "\">",
        site.link(site.trace_url(run, sighted.trace), &name),
        "</span> "
    );
}
