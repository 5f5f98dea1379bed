"use strict";
(() => {
  const { byId, ask, post, newBatch, remember, undo, toast, alone, ready } = window.csot;
  const form = byId("above");
  if (!form) { ready(); return; }
  const field = byId("threshold");
  let offer = { count: 0, threshold: null };
  let asked = 0;
  const look = async () => {
    const threshold = field.valueAsNumber;
    if (!(threshold >= 0 && threshold <= 1)) { byId("forecast").textContent = "Give a number from 0 to 1."; offer = { count: 0, threshold: null }; return; }
    asked += 1;
    const mine = asked;
    const answer = await ask(`/api/forecast?threshold=${threshold}`);
    if (mine !== asked) return; // a later question is on its way
    offer = { count: answer.count, threshold };
    byId("forecast").innerHTML = answer.html;
    byId("accept-above").disabled = !answer.count;
  };
  field.addEventListener("input", look);
  document.querySelectorAll("[data-threshold]").forEach((button) => button.addEventListener("click", () => { field.value = button.dataset.threshold; look(); field.focus(); }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await look();
    if (!offer.count) return;
    byId("confirm-text").replaceChildren(...[...byId("forecast").children].map((node) => node.cloneNode(true)));
    byId("confirm").showModal();
  });
  byId("confirm-yes").addEventListener("click", alone(async () => {
    const batch = newBatch();
    byId("confirm").close();
    const answer = await post("/api/accept-above", { batch, threshold: offer.threshold, expected: offer.count });
    remember(batch);
    toast(`${answer.saved.toLocaleString("en-GB")} accepted. Z undoes all of them.`);
    setTimeout(() => location.reload(), 1200);
  }));
  window.csot.onKeys({ z: alone(async () => {
    const answer = await undo();
    toast(answer.undone ? `${answer.undone.toLocaleString("en-GB")} undone.` : "Nothing to undo.");
    if (answer.undone) setTimeout(() => location.reload(), 600);
  }) });
  look().then(ready);
})();
