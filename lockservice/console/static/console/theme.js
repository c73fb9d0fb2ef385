// Applies the chosen theme before the first paint. Without a choice the system decides.
"use strict";
{
    const chosen = localStorage.getItem("console.theme");
    if (chosen === "dark" || chosen === "light") {
        document.documentElement.dataset.theme = chosen;
    }
}
