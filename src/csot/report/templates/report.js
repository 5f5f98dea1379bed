"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const { classes, rows } = data;
  const STATUSES = ["clean", "corrected", "uncertain"];
  const PAGE = 50;
  const total = rows.id.length;
  const number = (n) => n.toLocaleString("en-GB");

  // Text goes into the page as text nodes only, never as markup.
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // A name may go on in a new line after a separator, but not in mid-word.
  const named = (className, text) => {
    const node = make("bdi", className);
    text.split(/(?<=[_/.,:;-])(?=[\p{L}\p{N}_])/u).forEach((part, i) => node.append(...(i ? [make("wbr"), part] : [part])));
    return node;
  };

  // Theme: the system's choice until the reader makes another.
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  const remember = (theme) => { try { localStorage.setItem("csot-theme", theme); } catch (_) { /* private window */ } };
  try {
    const kept = localStorage.getItem("csot-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch (_) { /* private window */ }
  byId("theme").setAttribute("aria-label", "Switch between light and dark");
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();

  // Suspicious rows.
  const collator = new Intl.Collator("en", { numeric: true });
  const rank = new Map(classes.map((_, k) => k).sort((a, b) => collator.compare(classes[a], classes[b])).map((k, i) => [k, i]));
  const position = (k) => (k < 0 ? -1 : rank.get(k));
  const keys = {
    suspicion: (a, b) => a - b,
    id: (a, b) => collator.compare(rows.id[a], rows.id[b]),
    given: (a, b) => position(rows.given[a]) - position(rows.given[b]),
    corrected: (a, b) => position(rows.corrected[a]) - position(rows.corrected[b]),
    confidence: (a, b) => rows.confidence[a] - rows.confidence[b],
    score: (a, b) => rows.score[a] - rows.score[b],
    status: (a, b) => rows.status[a] - rows.status[b],
  };
  const state = { key: "suspicion", falling: false, page: 0, found: [], view: data.medium === "image" ? "gallery" : "table" };
  const label = (k) => (k < 0 ? "" : classes[k]);
  // Without accents and case, so that "cafe" finds "Café".
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  let haystack = null;
  const searchable = () => {
    haystack ??= rows.id.map((id, i) => [
      id, rows.text[i] || "", (rows.cells[i] || []).join("\n"), label(rows.given[i]), label(rows.corrected[i]), rows.notes[rows.note[i]], rows.reason[i],
    ].join("\n")).map(plain);
    return haystack;
  };

  const fill = (select, used) => {
    for (const k of [...used].sort((a, b) => position(a) - position(b))) {
      const option = make("option", "", k < 0 ? "(no label)" : classes[k]);
      option.value = String(k);
      select.append(option);
    }
  };
  const suggestions = (i) => [rows.corrected[i], rows.predicted[i]];
  const everySuggestion = new Set(data.pairs.map((pair) => pair[1]));
  const everyGiven = new Set(data.pairs.map((pair) => pair[0]));
  for (let i = 0; i < total; i++) {
    everyGiven.add(rows.given[i]);
    for (const k of suggestions(i)) if (k >= 0) everySuggestion.add(k);
  }
  fill(byId("given"), everyGiven);
  fill(byId("suggested"), everySuggestion);

  const isVerified = (i) => rows.notes[rows.note[i]] === "verified";
  const hasStatus = (i, wanted) => {
    if (wanted === "issue") return Boolean(rows.issue[i]);
    if (wanted === "verified") return isVerified(i);
    return wanted === "" || rows.status[i] === Number(wanted);
  };

  const matches = () => {
    const words = plain(byId("search").value).split(/\s+/).filter(Boolean);
    const given = byId("given").value;
    const suggested = byId("suggested").value;
    const status = byId("status").value;
    const kind = byId("kind").value;
    const texts = words.length ? searchable() : null;
    const found = [];
    for (let i = 0; i < total; i++) {
      if (given !== "" && rows.given[i] !== Number(given)) continue;
      if (suggested !== "" && !suggestions(i).includes(Number(suggested))) continue;
      if (!hasStatus(i, status)) continue;
      if (kind !== "" && !(data.odd.kinds[i] >> Number(kind) & 1)) continue;
      if (texts && !words.every((word) => texts[i].includes(word))) continue;
      found.push(i);
    }
    const sign = state.falling ? -1 : 1;
    return found.sort((a, b) => sign * keys[state.key](a, b) || a - b);
  };

  const labelCell = (k, className) => {
    if (k < 0) return make("span", "none", "none");
    return named(className, classes[k]);
  };
  const cell = (name, className) => {
    const node = make("td", className);
    node.dataset.label = name;
    node.setAttribute("role", "cell");
    return node;
  };
  const isTiny = (i) => rows.image[i].startsWith("data:image/png");
  const picture = (i) => {
    const image = make("img", isTiny(i) ? "tiny" : "");
    image.src = rows.image[i];
    image.alt = `Picture of ${rows.id[i]}`;
    return image;
  };
  const enlarger = (i, className) => {
    const button = make("button", className);
    button.type = "button";
    button.title = "Enlarge";
    if (rows.image[i]) button.append(picture(i));
    else button.append(make("span", "none", "no picture"));
    button.addEventListener("click", () => enlarge(i));
    return button;
  };
  const cellList = (i) => {
    const list = make("dl", "cells");
    rows.cells[i].forEach((value, column) => {
      if (value === "") return;
      const pair = make("div");
      pair.append(make("dt", "", rows.columns[column]), make("dd", "", value));
      list.append(pair);
    });
    return list;
  };
  const sampleCell = (i) => {
    const node = cell("Sample");
    const box = make("div", "sample-cell");
    if (rows.image[i]) box.append(enlarger(i, "small-picture"));
    const words = make("div");
    if (rows.text[i]) words.append(make("div", "text", rows.text[i]));
    const alone = !rows.text[i] && !rows.image[i];
    words.append(named(alone ? "id alone" : "id", rows.id[i]));
    if (rows.cells[i]) words.append(cellList(i));
    if (rows.reason[i]) words.append(make("div", "reason", rows.reason[i]));
    box.append(words);
    node.append(box);
    return node;
  };
  const stateLine = (i) => {
    const name = STATUSES[rows.status[i]];
    const line = make("span", "state");
    line.append(make("span", `dot ${isVerified(i) ? "verified" : name}`), make("span", "", name[0].toUpperCase() + name.slice(1)));
    return line;
  };

  // The score of a verified row is 0 or 1, which says less than that a person looked at it.
  const mark = (text) => make("span", "mark", `✓ ${text}`);

  // One row as a card: its picture, and the given label with what we suggest.
  const verdict = (i) => {
    const [given, corrected] = [rows.given[i], rows.corrected[i]];
    const line = make("div", "verdict");
    line.append(labelCell(given, corrected === given ? "now" : "was"));
    if (corrected !== given && corrected >= 0) line.append(make("span", "arrow", " → "), labelCell(corrected, "now"));
    return line;
  };
  const card = (i) => {
    const node = make("article", "card");
    const foot = make("div", "card-foot");
    foot.append(stateLine(i), isVerified(i) ? mark("verified") : make("span", "", rows.score[i] < 0 ? "" : `score ${(rows.score[i] / 1000).toFixed(3)}`));
    node.append(enlarger(i, "large-picture"), verdict(i), foot, named("id", rows.id[i]));
    return node;
  };

  // The picture as large as the window allows, with arrow keys to go on.
  const zoom = byId("zoom");
  let zoomed = 0;
  const enlarge = (i) => {
    zoomed = i;
    byId("zoom-picture").replaceChildren(rows.image[i] ? picture(i) : make("p", "none", "no picture"));
    const words = [verdict(i), stateLine(i)];
    if (isVerified(i)) words.push(mark("verified by a person"));
    if (rows.reason[i]) words.push(make("p", "reason", rows.reason[i]));
    byId("zoom-words").replaceChildren(...words);
    byId("zoom-id").textContent = rows.id[i];
    const place = state.found.indexOf(i);
    for (const button of zoom.querySelectorAll("[data-turn]")) {
      button.disabled = state.found[place + Number(button.dataset.turn)] === undefined;
    }
    if (!zoom.open) zoom.showModal();
  };
  const turn = (step) => {
    const next = state.found[state.found.indexOf(zoomed) + step];
    if (next !== undefined) enlarge(next);
  };
  for (const button of zoom.querySelectorAll("[data-turn]")) button.addEventListener("click", () => turn(Number(button.dataset.turn)));
  zoom.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") { turn(event.key === "ArrowLeft" ? -1 : 1); event.preventDefault(); }
  });
  zoom.addEventListener("click", (event) => { if (event.target === zoom) zoom.close(); });
  const rowElement = (i) => {
    const [given, corrected, predicted] = [rows.given[i], rows.corrected[i], rows.predicted[i]];
    const row = make("tr");
    row.setAttribute("role", "row");
    const was = cell("Given");
    was.append(labelCell(given, ""));
    const now = cell("Suggested");
    now.append(corrected === given && given >= 0 ? make("span", "none", "keep") : labelCell(corrected, "now"));
    if (predicted >= 0 && predicted !== corrected) {
      const sub = make("span", "sub", "model prefers ");
      sub.append(named("", classes[predicted]));
      now.append(sub);
    }
    const sure = cell("Confidence", "n");
    sure.textContent = (rows.confidence[i] / 1000).toFixed(3);
    const score = cell("Score", "n");
    score.textContent = isVerified(i) || rows.score[i] < 0 ? "–" : (rows.score[i] / 1000).toFixed(3);
    const status = cell("Status", "state-cell");
    status.append(stateLine(i));
    if (isVerified(i)) status.append(mark("verified"));
    else if (rows.note[i] && !rows.reason[i]) status.append(make("span", "sub", rows.notes[rows.note[i]]));
    row.append(sampleCell(i), was, now, sure, score, status);
    return row;
  };

  const counts = new Map(data.pairs.map(([g, s, n]) => [`${g},${s}`, n]));
  const draw = () => {
    const { found } = state;
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const start = state.page * PAGE;
    const part = found.slice(start, start + PAGE);
    const inGallery = state.view === "gallery";
    byId("row-table").tBodies[0].replaceChildren(...(inGallery ? [] : part.map(rowElement)));
    byId("gallery").replaceChildren(...(inGallery ? part.map(card) : []));
    byId("row-table").hidden = inGallery || !part.length;
    byId("gallery").hidden = !inGallery || !part.length;
    byId("empty").hidden = part.length > 0;
    let line = found.length ? `${number(start + 1)}–${number(start + part.length)} of ${number(found.length)} rows` : "No rows";
    const pair = counts.get(`${byId("given").value},${byId("suggested").value}`);
    if (pair !== undefined) line += ` here; ${number(pair)} flagged with this pair in all`;
    byId("matches").textContent = line;
    for (const node of document.querySelectorAll("[data-page]")) node.textContent = `${number(state.page + 1)} / ${number(pages)}`;
    for (const button of document.querySelectorAll("[data-step]")) {
      const next = state.page + Number(button.dataset.step);
      button.disabled = next < 0 || next >= pages;
    }
    for (const head of document.querySelectorAll("#row-table [data-sort]")) {
      if (head.dataset.sort === state.key) head.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      state.view = button.dataset.view;
      for (const other of document.querySelectorAll("[data-view]")) other.setAttribute("aria-pressed", String(other === button));
      draw();
    });
  }
  const update = () => { state.page = 0; state.found = matches(); draw(); };

  const SORTS = { suspicion: ["suspicion", false], confidence: ["confidence", true], doubt: ["confidence", false], given: ["given", false], corrected: ["corrected", false], id: ["id", false] };
  const nameSort = () => {
    const name = Object.keys(SORTS).find((k) => SORTS[k][0] === state.key && SORTS[k][1] === state.falling);
    byId("sort").value = name || "";
  };
  let waiting = 0;
  byId("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(update, 120); });
  for (const id of ["given", "suggested", "status", "kind"]) byId(id).addEventListener("change", update);
  byId("sort").addEventListener("change", () => { [state.key, state.falling] = SORTS[byId("sort").value]; update(); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => { [state.key, state.falling] = SORTS.suspicion; setTimeout(update); });
  for (const head of document.querySelectorAll("#row-table [data-sort]")) {
    head.firstElementChild.addEventListener("click", () => {
      const again = state.key === head.dataset.sort;
      state.falling = again ? !state.falling : head.dataset.sort === "confidence";
      state.key = head.dataset.sort;
      nameSort();
      update();
    });
  }
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      state.page += Number(button.dataset.step);
      draw();
      byId("rows").scrollIntoView();
    });
  }

  const show = (given, suggested, kind = "") => {
    byId("filters").reset();
    byId("given").value = given;
    byId("suggested").value = suggested;
    byId("kind").value = kind;
    setTimeout(() => { byId("rows").scrollIntoView(); byId("given").focus({ preventScroll: true }); });
  };
  for (const button of document.querySelectorAll("button[data-given]")) {
    button.addEventListener("click", () => show(button.dataset.given, button.dataset.suggested ?? ""));
  }

  for (const button of document.querySelectorAll("button[data-kind]")) {
    button.addEventListener("click", () => show("", "", button.dataset.kind));
  }

  // Conflicts and outliers: small cards, those of one group together.
  const member = (i) => {
    const node = make("div", "member");
    if (rows.image[i]) node.append(enlarger(i, "large-picture"));
    else if (rows.text[i]) node.append(make("div", "text clamp", rows.text[i]));
    else if (rows.cells[i]) node.append(cellList(i));
    node.append(verdict(i), named("id", rows.id[i]));
    return node;
  };
  const members = (list) => {
    const node = make("div", "members");
    node.append(...list.map(member));
    return node;
  };
  if (byId("conflicts")) byId("conflicts").replaceChildren(...data.odd.conflicts.map(members));
  if (byId("strangers")) byId("strangers").replaceChildren(...data.odd.strangers.map(member));

  // Class table.
  const table = byId("class-table");
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      const textual = head.dataset.key === "text";
      const before = head.getAttribute("aria-sort");
      const falling = before ? before === "ascending" : !textual;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value;
      const compare = textual ? (a, b) => collator.compare(value(a), value(b)) : (a, b) => value(a) - value(b);
      const sorted = [...table.tBodies[0].rows].sort((a, b) => (falling ? -1 : 1) * compare(a, b));
      table.tBodies[0].append(...sorted);
    });
  });

  // Tables that are wider than the screen say so.
  for (const box of document.querySelectorAll(".scroll:has(> table)")) {
    const cue = make("p", "cue", "More columns to the right →");
    box.before(cue);
    const watch = () => {
      cue.hidden = box.scrollWidth <= box.clientWidth + 1;
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener("scroll", watch, { passive: true });
    new ResizeObserver(watch).observe(box);
  }

  // Noise matrix: read-out under pointer and arrow keys.
  const svg = byId("matrix");
  const { cell: side, classes: drawn, values } = data.matrix;
  const cursor = byId("cursor");
  let at = null;
  const point = (i, j) => {
    if (i < 0 || j < 0 || i >= drawn.length || j >= drawn.length) return;
    at = [i, j];
    cursor.setAttribute("x", j * side);
    cursor.setAttribute("y", i * side);
    cursor.setAttribute("visibility", "visible");
    const [truth, given] = [classes[drawn[i]], classes[drawn[j]]];
    const share = `${(values[i][j] / 100).toFixed(1)} %`;
    const rowsFlagged = counts.get(`${drawn[j]},${drawn[i]}`) || 0;
    if (data.matrix.kind === "found") {
      byId("readout").textContent = i === j
        ? `Rows given the label “${given}”.`
        : `${number(rowsFlagged)} flagged rows were given the label “${given}” and look like “${truth}”.`;
      return;
    }
    byId("readout").textContent = i === j
      ? `${share} of the rows that are truly “${truth}” were given that label.`
      : `${share} of the rows that are truly “${truth}” were given the label “${given}”. ${number(rowsFlagged)} flagged.`;
  };
  const locate = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale - Number(svg.dataset.left);
    const y = (event.clientY - box.top) * scale - Number(svg.dataset.top);
    return [Math.floor(y / side), Math.floor(x / side)];
  };
  const choose = () => { if (at) show(String(drawn[at[1]]), at[0] === at[1] ? "" : String(drawn[at[0]])); };
  svg.addEventListener("pointermove", (event) => point(...locate(event)));
  svg.addEventListener("click", (event) => {
    const [i, j] = locate(event);
    if (i >= 0 && j >= 0 && i < drawn.length && j < drawn.length) { point(i, j); choose(); }
  });
  svg.addEventListener("focus", () => { if (!at) point(0, 0); });
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (step && at) { point(at[0] + step[0], at[1] + step[1]); event.preventDefault(); }
    if (event.key === "Enter") choose();
  });

  update();
  root.dataset.ready = "yes";
})();
