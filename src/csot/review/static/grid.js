"use strict";
(() => {
  const { byId, asLabel, decide, undo, toast, choose, alone, onKeys, onButtons, onPick, ready } = window.csot;
  const grid = byId("grid");
  const cards = () => [...grid.children];
  const isOn = (card) => card.getAttribute("aria-selected") === "true";
  const selected = () => cards().filter(isOn);
  let anchor = 0;

  const tell = () => {
    const count = selected().length;
    byId("selected").textContent = count ? `${count} selected` : "Nothing selected";
  };
  const mark = (card, on) => card.setAttribute("aria-selected", String(on));
  const focused = () => Math.max(cards().indexOf(document.activeElement.closest(".card")), -1);
  const focus = (number) => {
    const list = cards();
    const card = list[Math.max(0, Math.min(number, list.length - 1))];
    if (!card) return;
    list.forEach((other) => { other.tabIndex = other === card ? 0 : -1; });
    card.focus();
  };
  const columns = () => {
    const list = cards();
    const below = list.findIndex((card) => card.offsetTop > list[0].offsetTop);
    return below < 0 ? list.length : below;
  };
  const range = (from, to) => cards().forEach((card, i) => { if (i >= Math.min(from, to) && i <= Math.max(from, to)) mark(card, true); });
  const move = (by) => (event) => {
    const at = focused();
    const to = at < 0 ? 0 : at + by();
    if (to < 0 || to >= cards().length) return;
    focus(to);
    if (event.shiftKey) { range(anchor, to); tell(); } else anchor = to;
  };
  const toggle = (number) => {
    const card = cards()[number];
    if (!card) return;
    mark(card, !isOn(card));
    anchor = number;
    tell();
  };

  const DONE = ["accepted", "kept", "changed", "unsure", "discarded"];
  const show = (decisions) => {
    const byRow = new Map(cards().map((card) => [Number(card.dataset.row), card]));
    decisions.forEach(({ row, decision, label }) => {
      const card = byRow.get(row);
      if (!card) return;
      card.classList.remove(...DONE);
      if (decision) card.classList.add(decision);
      card.querySelector(".decision").textContent = decision === "changed" ? `changed: ${label}` : decision;
      card.setAttribute("aria-label", `${card.getAttribute("aria-label").replace(/, (accepted|kept|changed|unsure|discarded)$/, "")}${decision ? `, ${decision}` : ""}`);
    });
  };
  const confusion = byId("confusion");
  const count = (left) => {
    for (const option of confusion ? confusion.options : []) {
      if (option.value in left) option.text = `${option.dataset.pair} (${left[option.value].toLocaleString("en-GB")} left)`;
    }
  };
  const act = (action, label) => alone(async () => {
    const list = selected();
    if (!list.length) { toast("Nothing is selected: Space selects one, S all."); return; }
    const rows = list.map((card) => Number(card.dataset.row));
    const answer = await decide({ rows, action, way: "grid", ...asLabel(label) });
    show(answer.decisions);
    count(answer.pairs_left);
    list.forEach((card) => mark(card, false));
    tell();
    const rest = rows.length - answer.saved;
    toast(`${answer.saved} decided.${rest ? ` ${rest} have no given label to keep.` : ""}`);
  })();
  const takeBack = alone(async () => {
    const answer = await undo();
    if (!answer.undone) { toast("Nothing to undo."); return; }
    show(answer.decisions);
    count(answer.pairs_left);
    toast(answer.undone === 1 ? "Undone." : `${answer.undone.toLocaleString("en-GB")} decisions undone.`);
  });
  const chooseClass = alone(async () => {
    if (!selected().length) { toast("Nothing is selected: Space selects one, S all."); return; }
    const label = await choose();
    if (label !== null) setTimeout(() => act("choose", label));
  });
  const all = () => {
    // What was decided a moment ago stays decided, unless nothing else is there to select.
    const open = cards().filter((card) => !DONE.some((word) => card.classList.contains(word)));
    const list = open.length ? open : cards();
    const every = list.every(isOn);
    list.forEach((card) => mark(card, !every));
    tell();
  };
  const open = (number) => {
    const card = cards()[number];
    if (!card) return;
    const query = new URLSearchParams(location.search);
    query.delete("start");
    query.delete("back");
    query.set("row", card.dataset.row);
    location.assign(`/one?${query}`);
  };
  const turn = (id) => { const link = byId(id); if (link) link.click(); else toast("No more pages that way."); };

  grid.addEventListener("click", (event) => {
    const number = cards().indexOf(event.target.closest(".card"));
    if (number < 0 || event.target.closest(".open")) return;
    if (event.shiftKey) { range(anchor, number); tell(); } else toggle(number);
    focus(number);
  });
  grid.addEventListener("dblclick", (event) => open(cards().indexOf(event.target.closest(".card"))));
  const actions = {
    accept: () => act("accept"), keep: () => act("keep"), unsure: () => act("unsure"), discard: () => act("discard"), choose: chooseClass,
    undo: takeBack, all,
  };
  onButtons(actions);
  const within = (work) => () => { const at = focused(); if (at < 0) return false; work(at); return true; };
  onKeys({
    a: actions.accept, k: actions.keep, u: actions.unsure, d: actions.discard, c: actions.choose, "/": actions.choose, z: actions.undo,
    Backspace: actions.undo, s: all, " ": within(toggle), x: within(toggle), Enter: within(open),
    n: () => turn("next"), p: () => turn("previous"), Escape: () => { cards().forEach((card) => mark(card, false)); tell(); },
    ArrowRight: move(() => 1), ArrowLeft: move(() => -1), ArrowDown: move(columns), ArrowUp: move(() => -columns()),
    Home: () => focus(0), End: () => focus(cards().length - 1),
  });
  if (confusion) onPick(confusion.form, () => location.assign(`/grid?${confusion.value}`));
  if (!location.hash) focus(0);
  ready();
})();
