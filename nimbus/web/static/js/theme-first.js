// Sets the chosen theme before anything is drawn. A classic script, because modules run after the first drawing.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("tupletree.theme");
  } catch {
    // storage is denied: the system's preference holds
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
