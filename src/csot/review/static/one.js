"use strict";
// Rows one by one: with suggestions, or in an audit, without.
(() => {
  const { byId, asLabel, ask, decide, undo, toast, announce, choose, alone, onKeys, onButtons, ready } = window.csot;
  const place = byId("item");
  const { query, base, api, way } = place.dataset;
  const row = () => { const item = place.querySelector("[data-row]"); return item ? Number(item.dataset.row) : null; };

  // Pictures that come next are fetched now.
  const fetched = [];
  const ahead = (rows) => {
    const stamp = document.documentElement.dataset.stamp;
    rows.forEach((number) => { const image = new Image(); image.src = `/image/${number}?s=${stamp}`; fetched.push(image); });
    fetched.splice(0, fetched.length - 12);
  };
  const show = (item) => {
    place.innerHTML = item.html;
    history.replaceState(null, "", `${base}?${item.query}`);
    window.scrollTo(0, 0);
    const heading = byId("verdict");
    announce(heading ? heading.innerText : place.innerText);
    ahead(item.ahead);
  };
  const WORDS = { accept: "Accepted", keep: "Kept", choose: "Changed", unsure: "Unsure", discard: "Discarded" };
  const act = (action, label) => alone(async () => {
    const number = row();
    if (number === null) return;
    const answer = await decide({ rows: [number], action, way, view: query, ...asLabel(label) }, api);
    const [made] = answer.decisions;
    toast(made.label === null ? WORDS[action] : `${made.decision[0].toUpperCase()}${made.decision.slice(1)}: ${made.label}`);
    show(answer.item);
  })();
  const step = (by) => alone(async () => {
    const number = row();
    if (number === null) return;
    const answer = await ask(`${api}/step?row=${number}&by=${by}&${query}`);
    if (answer.item) show(answer.item); else toast(by > 0 ? "This is the last one." : "This is the first one.");
  })();
  const takeBack = alone(async () => {
    const answer = await undo(query, api);
    if (!answer.undone) { toast("Nothing to undo."); return; }
    toast(answer.undone === 1 ? "Undone." : `${answer.undone.toLocaleString("en-GB")} decisions undone.`);
    if (answer.item) show(answer.item);
  });
  const chooseClass = alone(async () => {
    if (row() === null) return;
    const label = await choose();
    if (label === null) return;
    setTimeout(() => act("choose", label));
  });
  const likely = (number) => {
    const button = place.querySelector(`button[data-key="${number}"]`);
    if (!button) return false;
    act("choose", Number(button.dataset.label));
    return true;
  };
  const actions = {
    accept: () => act("accept"), keep: () => act("keep"), unsure: () => act("unsure"), discard: () => act("discard"), choose: chooseClass,
    undo: takeBack, next: () => step(1), previous: () => step(-1), help: () => byId("help").showModal(),
  };
  if (way === "audit") ["accept", "keep", "discard"].forEach((name) => { actions[name] = () => false; });
  onButtons(actions);
  onKeys({
    a: actions.accept, k: actions.keep, u: actions.unsure, d: actions.discard, c: actions.choose, "/": actions.choose,
    z: actions.undo, Backspace: actions.undo, n: actions.next, ArrowRight: actions.next, p: actions.previous,
    ArrowLeft: actions.previous, "?": actions.help,
    ...Object.fromEntries([0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((number) => [number, () => likely(number)])),
  });
  place.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-label]");
    if (button) act("choose", Number(button.dataset.label));
  });
  ahead(place.dataset.ahead ? place.dataset.ahead.split(",") : []);
  ready();
})();
