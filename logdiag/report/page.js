"use strict";
(() => {
  const log = document.getElementById("log"), box = document.getElementById("search"), found = document.getElementById("found");
  // A line that something points to is shown, whatever is folded or filtered.
  const show = () => {
    const line = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!line || !log || !log.contains(line)) return;
    if (box.value) { box.value = ""; search(); }
    line.closest("details").open = true;
    line.scrollIntoView({ block: "center" });
  };
  const search = () => {
    const words = box.value.trim().toLowerCase(), lists = log.querySelectorAll("ol");
    let total = 0;
    for (const list of lists) {
      let here = 0;
      for (const line of list.children) {
        const hit = words !== "" && !line.classList.contains("gap") && line.textContent.toLowerCase().includes(words);
        line.classList.toggle("hit", hit);
        here += hit;
      }
      list.classList.toggle("filtered", words !== "");
      list.parentElement.classList.toggle("none", words !== "" && here === 0);
      if (here) list.parentElement.open = true;
      total += here;
    }
    found.value = words === "" ? "" : `${total} line${total === 1 ? "" : "s"}`;
  };
  addEventListener("hashchange", show);
  if (log) {
    let waiting = 0;
    box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
    box.form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
    // A line that was found is shown where it stands.
    log.addEventListener("click", (event) => {
      const line = event.target.closest("li.hit");
      if (!line || String(getSelection())) return;
      box.value = "";
      search();
      line.classList.add("hit");
      line.scrollIntoView({ block: "center" });
    });
  }
  show();
})();
