// Small comforts. Every page works without this file.
"use strict";
{
    const root = document.documentElement;
    const isDark = () =>
        root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
        button.addEventListener("click", () => {
            root.dataset.theme = isDark() ? "light" : "dark";
            localStorage.setItem("console.theme", root.dataset.theme);
        });
    }

    for (const form of document.querySelectorAll("[data-submit-on-change]")) {
        form.classList.add("submits-itself");
        form.addEventListener("change", () => form.submit());
    }

    // One act at a time: opening one closes the others, and the first field takes the keyboard.
    const acts = [...document.querySelectorAll("details.act")];
    for (const act of acts) {
        act.addEventListener("toggle", () => {
            if (!act.open) {
                return;
            }
            acts.filter((other) => other !== act).forEach((other) => { other.open = false; });
            act.querySelector("input:not([type=hidden]), select")?.focus();
        });
    }

    // A form is sent once, however often the button is pressed.
    for (const form of document.querySelectorAll("form.form")) {
        form.addEventListener("submit", () => {
            setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; }));
        });
    }
    addEventListener("pageshow", () => {
        document.querySelectorAll("form.form button:disabled").forEach((button) => { button.disabled = false; });
    });

    // On a narrow screen the menu starts closed.
    const menu = document.querySelector("details.menu");
    if (menu && matchMedia("(max-width: 60rem)").matches) {
        menu.open = false;
    }
}
