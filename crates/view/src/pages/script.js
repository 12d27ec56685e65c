// Hover, zoom, keys and live updates. Pages work without it: every state is a URL the server renders.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = $("#tip");
  const LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 20;

  const show = (event, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const top = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.left = left + "px";
    tip.style.top = top + "px";
  };
  const hide = () => { tip.hidden = true; };

  // Where on a chart the pointer is: the step, in the drawing's own coordinates.
  const place = (svg, event) => {
    const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    const x = (event.clientX - box.left) / box.width * view.width;
    const y = (event.clientY - box.top) / box.height * view.height;
    const [x0, x1] = [+svg.dataset.x0, +svg.dataset.x1];
    const share = (x - LEFT) / (view.width - LEFT - RIGHT);
    return { x, y, step: x0 + Math.min(1, Math.max(0, share)) * (x1 - x0), scale: (view.width - LEFT - RIGHT) / (x1 - x0), x0 };
  };
  const points = (line) => {
    if (!line.read) line.read = line.dataset.points.split(" ").map((pair) => pair.split(":").map(Number));
    return line.read;
  };
  const nearest = (line, step) => points(line).reduce((best, point) => Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best);

  let drag = null;
  const over = (svg, event) => {
    const at = place(svg, event), lines = all(".line", svg);
    if (!lines.length) return;
    const found = lines.map((line) => [line, nearest(line, at.step)]);
    const step = found.reduce((best, [, point]) => Math.abs(point[0] - at.step) < Math.abs(best - at.step) ? point[0] : best, found[0][1][0]);
    const x = LEFT + (step - at.x0) * at.scale, rule = $(".rule", svg);
    rule.setAttribute("x1", x);
    rule.setAttribute("x2", x);
    const rows = found.filter(([, point]) => point[0] === step || lines.length > 1);
    show(event, (svg.dataset.along || "step") + " " + step + "\n" + rows.map(([line, point]) => (line.dataset.label ? line.dataset.label + "  " : "") + point[1]).join("\n"));
    // Of several runs the one whose curve is nearest to the pointer.
    const [y0, y1] = [+svg.dataset.y0, +svg.dataset.y1], view = svg.viewBox.baseVal;
    const value = y0 + (view.height - BOTTOM - at.y) / (view.height - TOP - BOTTOM) * (y1 - y0);
    const away = ([, point]) => point[0] === step ? Math.abs(point[1] - value) : Infinity;
    const [line] = found.reduce((best, each) => away(each) < away(best) ? each : best);
    svg.now = { step, run: line.dataset.run };
    if (drag && drag.svg === svg) {
      const box = drag.box;
      box.setAttribute("x", Math.min(at.x, drag.x));
      box.setAttribute("width", Math.abs(at.x - drag.x));
      drag.to = at.step;
      drag.wide = Math.abs(at.x - drag.x);
    }
  };
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg.chart");
    if (svg) over(svg, event); else if (!event.target.closest?.(".t")) hide();
  });
  document.addEventListener("pointerover", (event) => {
    const token = event.target.closest?.(".t[title],.t[data-told]");
    if (!token) return;
    if (token.title) { token.dataset.told = token.title; token.removeAttribute("title"); }
    show(event, token.dataset.told);
  });
  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest?.("svg.chart");
    if (!svg || svg.dataset.along || event.button || event.target.closest("a")) return;
    const at = place(svg, event), box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    box.setAttribute("class", "zoombox");
    box.setAttribute("y", 8);
    box.setAttribute("height", svg.viewBox.baseVal.height - 28);
    svg.append(box);
    drag = { svg, x: at.x, from: at.step, to: at.step, wide: 0, box };
  });
  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { svg, from, to, wide, box } = drag;
    drag = null;
    box.remove();
    if (document.documentElement.dataset.file !== undefined) return;
    if (wide > 8) {
      const url = new URL(location);
      url.searchParams.set("from", Math.floor(Math.min(from, to)));
      url.searchParams.set("to", Math.ceil(Math.max(from, to)));
      go(url);
    } else if (svg.contains(event.target)) {
      over(svg, event);
      if (svg.now) location.href = "/r/" + svg.now.run + "/step-" + svg.now.step;
    }
  });

  // The same page again, in place: what is folded open, typed or scrolled stays.
  const swap = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    $("main").replaceWith(document.adoptNode($("main", page)));
    hide();
    wait();
  };
  // What is made beside a page is asked for until it is there.
  const wait = () => { if ($("[data-wait]")) setTimeout(() => swap(location.href), 1500); };
  const go = (url) => { history.pushState(null, "", url); swap(url); };
  addEventListener("popstate", () => swap(location.href));

  // Keys.
  let at = -1;
  const items = () => all("[data-item]");
  const move = (by) => {
    const list = items();
    if (!list.length) return;
    list[at]?.classList.remove("here");
    at = Math.max(0, Math.min(list.length - 1, at + by));
    list[at].classList.add("here");
    list[at].scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input,select,textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") { event.preventDefault(); ($("#q") || $("input"))?.focus(); }
    else if (event.key === "j" || event.key === "k") {
      const other = $(event.key === "j" ? "main a[rel=next]" : "main a[rel=previous]");
      if (other && $(".sheet")) other.click(); else move(event.key === "j" ? 1 : -1);
    }
    else if (event.key === "u") all(".crumbs a").pop()?.click();
    else if (event.key === "Enter" && at >= 0 && document.activeElement === document.body) $("a[href]", items()[at])?.click();
  });

  // A run that goes on.
  const live = $("#live");
  if (live && location.protocol.startsWith("http")) {
    const source = new EventSource("/live");
    let state = null;
    source.onmessage = (event) => {
      if (state !== null && state !== event.data) {
        live.textContent = "● live";
        const typing = document.activeElement?.matches("input,select");
        if (!typing && !drag && !$(".tokens,.talk,.beside")) swap(location.href);
      }
      state = event.data;
    };
  }
  wait();
})();
