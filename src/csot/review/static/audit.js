"use strict";
(() => {
  const { byId, post, alone, ready } = window.csot;
  document.querySelectorAll("[data-rows]").forEach((button) => button.addEventListener("click", alone(async () => {
    await post("/api/audit/start", { rows: Number(button.dataset.rows) });
    location.assign("/audit");
  })));
  const write = byId("write");
  if (write) {
    write.addEventListener("click", alone(async () => {
      const answer = await post("/api/export", { seen_only: false });
      byId("written").textContent = `Written: ${answer.written.join(", ")}`;
    }));
  }
  ready();
})();
