// Which part of the page is shown, by the address.

import { el } from "./tools.js";
import { show_list } from "./list.js";
import { show_run } from "./run.js";
import { show_search } from "./search.js";
import { show_compare } from "./compare.js";
import { show_batch } from "./batch.js";

let leave = null;
let search = location.search;

export function go(url) {
  history.pushState(null, "", url);
  route();
}

function route() {
  leave?.();
  const main = document.getElementById("main");
  main.replaceChildren();
  const values = new URLSearchParams(location.search);
  search = location.search;
  if (values.has("run")) leave = show_run(main, values.get("run"), go);
  else if (values.has("search")) leave = show_search(main, values);
  else if (values.has("a")) leave = show_compare(main, values.get("a"), values.get("b"));
  else if (values.has("folder")) leave = show_batch(main, values.get("folder"), go);
  else leave = show_list(main, values, go);
}

// Links within the page do not load it anew.
document.addEventListener("click", (event) => {
  const a = event.target.closest?.("a");
  if (!a || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(a.href, location.href);
  if (a.target || url.origin !== location.origin || url.pathname !== "/") return;
  if (url.search === location.search && url.hash) return;
  event.preventDefault();
  go(url.href);
});
addEventListener("popstate", () => {
  if (location.search === search && location.hash) return;
  search = location.search;
  route();
});
route();
