"use strict";
(() => {
  const { byId, post, alone, ready } = window.csot;
  const seen = byId("seen");
  seen.addEventListener("change", () => document.querySelectorAll("[data-download]").forEach((link) => {
    link.href = `${link.pathname}${seen.checked ? "?seen=1" : ""}`;
  }));
  byId("export").addEventListener("submit", (event) => {
    event.preventDefault();
    alone(async () => {
      const answer = await post("/api/export", { seen_only: seen.checked });
      byId("written").textContent = `Written: ${answer.written.join(", ")}`;
    })();
  });
  ready();
})();
