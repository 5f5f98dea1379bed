"use strict";
// Shared by all views: theme, sending, messages, pictures, choosing a class.
window.csot = (() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;
  const stamp = root.dataset.stamp;

  // Theme: the system's choice until the reader makes another. Set before the page is drawn.
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  try {
    const kept = localStorage.getItem("csot-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch (_) { /* private window */ }
  const startTheme = () => {
    const button = byId("theme");
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("csot-theme", root.dataset.theme); } catch (_) { /* private window */ }
      name();
    });
    system.addEventListener("change", name);
    name();
  };

  let fading = 0;
  const toast = (text) => {
    const node = byId("toast");
    node.textContent = text;
    node.classList.add("shown");
    clearTimeout(fading);
    fading = setTimeout(() => node.classList.remove("shown"), 2600);
  };
  const announce = (text) => { const node = byId("announce"); if (node) node.textContent = text; };
  const trouble = (text) => {
    const node = byId("trouble");
    node.hidden = !text;
    if (node.textContent !== text) node.textContent = text;
  };
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  // Without an answer the same request goes out again, with the same batch, until the server says
  // that it is saved: it counts once, and nothing is called saved before.
  const ask = async (path, options) => {
    for (let attempt = 0; ; attempt += 1) {
      let answer = null;
      try {
        answer = await fetch(path, { credentials: "same-origin", ...options });
      } catch (_) {
        trouble("The server does not answer. What is not saved yet is sent again as soon as it does.");
      }
      if (answer && answer.status === 401) {
        trouble("The server was restarted: open the address that it printed in another tab, and this one continues.");
      } else if (answer) {
        let found = null;
        try { found = await answer.json(); } catch (_) { /* no JSON, or cut off */ }
        trouble("");
        if (!answer.ok) throw new Error((found && found.error) || `The server answered with error ${answer.status}.`);
        if (found) return found;
      }
      await pause(Math.min(250 * 1.5 ** attempt, 2000));
    }
  };
  const newBatch = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
  const post = (path, body) => ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ stamp, batch: newBatch(), ...body }),
  });
  const showProgress = (html) => { if (html) byId("progress").innerHTML = html; };

  // What this tab did, so that its undo takes back its own and not another tab's.
  const key = `csot-done-${stamp}`;
  const done = () => { try { return JSON.parse(sessionStorage.getItem(key)) || []; } catch (_) { return []; } };
  const keep = (list) => { try { sessionStorage.setItem(key, JSON.stringify(list.slice(-500))); } catch (_) { /* private window */ } };
  const decide = async (body, api = "/api") => {
    const batch = newBatch();
    const answer = await post(`${api}/decide`, { batch, ...body });
    keep([...done(), batch]);
    showProgress(answer.progress);
    return answer;
  };
  const undo = async (view, api = "/api") => {
    const list = done();
    const undoes = list.pop();
    const answer = await post(`${api}/undo`, { ...(undoes ? { undoes } : {}), ...(view === undefined ? {} : { view }) });
    keep(list);
    showProgress(answer.progress);
    return answer;
  };
  const remember = (batch) => keep([...done(), batch]);

  // Pictures: small ones show their pixels or are smoothed, missing ones say why.
  const stored = (name) => { try { return localStorage.getItem(name); } catch (_) { return null; } };
  if (stored("csot-pixels") === "smooth") root.dataset.smooth = "";
  const startPixels = () => {
    const button = byId("pixels");
    const name = () => { button.textContent = "smooth" in root.dataset ? "Pixels" : "Smooth"; };
    button.addEventListener("click", () => {
      if ("smooth" in root.dataset) delete root.dataset.smooth; else root.dataset.smooth = "";
      try { localStorage.setItem("csot-pixels", "smooth" in root.dataset ? "smooth" : "pixels"); } catch (_) { /* private window */ }
      name();
    });
    name();
  };
  const markTiny = (image) => {
    if (image.tagName !== "IMG" || !image.naturalWidth || image.naturalWidth > 128) return;
    image.classList.add("tiny");
    const button = byId("pixels");
    if (button) button.hidden = false;
  };
  document.addEventListener("load", (event) => markTiny(event.target), true);
  document.addEventListener("error", async (event) => {
    const image = event.target;
    if (image.tagName !== "IMG") return;
    const note = document.createElement("span");
    note.className = "snip none";
    note.textContent = "No picture";
    image.replaceWith(note);
    try {
      const found = await (await fetch(`/api/why?row=${image.dataset.row}`)).json();
      note.textContent = `No picture: ${found.reason}.`;
    } catch (_) { /* the server is away; the note stays */ }
  }, true);

  // Choose a class: type to search, arrows and Enter, or a click.
  const SHOWN = 200;
  let classes = [];
  // Without accents and case, so that "cafe" finds "Café".
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  let loading = null;
  const load = () => {
    loading ??= ask("/api/classes").then((answer) => { classes = answer.names; });
    return loading;
  };
  const choose = async () => {
    const dialog = byId("choose");
    const text = byId("choose-text");
    const list = byId("choose-list");
    let found = [];
    let at = 0;
    const mark = () => {
      [...list.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === at)));
      const node = list.children[at];
      text.setAttribute("aria-activedescendant", node ? node.id : "");
      if (node) node.scrollIntoView({ block: "nearest" });
    };
    const search = () => {
      const typed = text.value.trim().replace(/\s+/g, " ");
      const wanted = plain(typed);
      const place = (name) => { const low = plain(name); return low === wanted ? 0 : low.startsWith(wanted) ? 1 : low.includes(wanted) ? 2 : 9; };
      found = classes.map((name, number) => ({ name, number, place: place(name) })).filter((one) => one.place < 9);
      found.sort((a, b) => a.place - b.place || a.number - b.number);
      // Last in the list, so that Enter takes it only if nothing else fits.
      const total = found.length;
      found = found.slice(0, SHOWN);
      if (typed && !classes.includes(typed)) found.push({ name: `New class “${typed}”`, number: typed, isNew: true });
      at = 0;
      list.replaceChildren(...found.map((one, i) => {
        const node = document.createElement("li");
        node.id = one.isNew ? "class-new" : `class-${one.number}`;
        node.setAttribute("role", "option");
        node.dataset.place = i;
        if (!one.isNew) node.dataset.label = one.number;
        const name = document.createElement("bdi");
        name.textContent = one.name;
        node.append(name);
        return node;
      }));
      byId("choose-count").textContent = total > SHOWN ? `${SHOWN} of ${total} classes` : `${total} ${total === 1 ? "class" : "classes"}`;
      mark();
    };
    return new Promise((chosen) => {
      let label = null;
      const take = (one) => { label = one.number; if (one.isNew) loading = null; dialog.close(); };
      const keys = (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
        if (step) {
          at = Math.max(0, Math.min(at + step, found.length - 1));
          mark();
          event.preventDefault();
        } else if (event.key === "Enter") {
          event.preventDefault();
          if (found[at]) take(found[at]);
        }
        event.stopPropagation();
      };
      const click = (event) => {
        const node = event.target.closest("[data-place]");
        if (node) take(found[Number(node.dataset.place)]);
      };
      const end = () => {
        text.removeEventListener("input", search);
        text.removeEventListener("keydown", keys);
        list.removeEventListener("click", click);
        chosen(label);
      };
      text.addEventListener("input", search);
      text.addEventListener("keydown", keys);
      list.addEventListener("click", click);
      dialog.addEventListener("close", end, { once: true });
      // Open at once, or what is typed right after the key would be lost.
      text.value = "";
      list.replaceChildren();
      dialog.showModal();
      text.focus();
      load().then(search);
    });
  };

  // One key press at a time: what is under way is finished before the next is taken.
  let busy = false;
  const alone = (work) => async (...given) => {
    if (busy) return;
    busy = true;
    root.dataset.busy = "";
    try {
      await work(...given);
    } catch (error) {
      toast(error.message);
    } finally {
      busy = false;
      delete root.dataset.busy;
    }
  };
  window.addEventListener("beforeunload", (event) => { if (busy && !byId("trouble").hidden) event.preventDefault(); });
  const onKeys = (actions) => document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, select, textarea")) return;
    // A key held down moves on, but decides only once.
    if (event.repeat && !/^(Arrow|[np]$)/i.test(event.key)) return;
    const act = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
  const onButtons = (actions) => document.querySelectorAll("[data-do]").forEach((button) => {
    button.addEventListener("click", () => actions[button.dataset.do]());
  });
  // What is picked by mouse or finger is shown at once. By keyboard, where every arrow changes a
  // list, it waits for the button.
  const onPick = (form, act) => {
    let pointed = false;
    form.addEventListener("pointerdown", () => { pointed = true; });
    form.addEventListener("keydown", () => { pointed = false; });
    form.addEventListener("change", () => { if (pointed) form.requestSubmit(); });
    form.addEventListener("submit", (event) => { event.preventDefault(); act(); });
  };
  // The bar at the bottom hides nothing: the page is as much longer as the bar is high.
  const clearBar = () => {
    const bar = document.querySelector(".bar");
    if (!bar) return;
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    new ResizeObserver(() => sheet.replaceSync(`body { padding-bottom: ${bar.offsetHeight + 28}px; }`)).observe(bar);
  };
  // Write the decisions, and show the command that cleans the data again with them.
  const showNextRun = alone(async () => {
    byId("again").showModal();
    const answer = await post("/api/next-run", {});
    byId("again-words").textContent = `${answer.rows.toLocaleString("en-GB")} verified labels are in ${answer.path}. This cleans the data again with them; then start the review again:`;
    byId("again-command").textContent = answer.command;
  });
  const startNextRun = () => {
    byId("next-run").addEventListener("click", showNextRun);
    byId("again-copy").addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(byId("again-command").textContent); toast("Copied."); } catch (_) { toast("Select the command to copy it."); }
    });
    onKeys({ r: showNextRun });
  };
  // A class is sent by its number, a new one by its name.
  const asLabel = (label) => (label === undefined ? {} : typeof label === "string" ? { name: label } : { label });
  const ready = () => { root.dataset.ready = ""; };

  document.addEventListener("DOMContentLoaded", () => {
    startTheme();
    startPixels();
    startNextRun();
    clearBar();
    document.querySelectorAll("img").forEach(markTiny);
    const filters = byId("filters");
    if (filters) {
      // Only what differs from the default goes into the address.
      const plain = { status: "flagged", decided: "no", low: "0", high: "1", order: "score" };
      onPick(filters, () => {
        const wanted = [...new FormData(filters)].filter(([name, value]) => value !== "" && value !== plain[name]);
        location.assign(`${filters.getAttribute("action")}?${new URLSearchParams(wanted)}`);
      });
    }
    if (byId("choose")) load();
    if (!document.querySelector("script[defer]")) ready();
  });
  return { byId, asLabel, ask, post, newBatch, decide, undo, remember, toast, announce, choose, alone, onKeys, onButtons, onPick, showProgress, ready };
})();
