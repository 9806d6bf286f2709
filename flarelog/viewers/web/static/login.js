/** The login by a pasted token. A one-time link needs no dialog: its secret is posted as soon as the page has loaded. */

import { ask } from "./api.js";
import { h, say } from "./dom.js";

let asking = null;
const said = h("output", { class: "said" });

/** The command that makes a login link for this page; behind a proxy the page has an address that the page does not know. */
function command() {
  const here = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname) && location.host !== "127.0.0.1:4780";
  return `flarelog web login${here ? ` --listen ${location.host}` : ""}`;
}

/** Shows the login over the page; resolves when the user has logged in. *known* is told who it is. */
export function login(known, sentence = "") {
  if (sentence || !asking) say(said, sentence);
  asking ??= new Promise((done) => {
    const token = h("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
    const button = h("button", { class: "main" }, "Log in");
    const form = h("form", {}, h("label", { for: "token" }, "Token"), token, button, said);
    const dialog = h("dialog", { class: "login", "aria-labelledby": "login-title" }, h("h1", { id: "login-title" }, "Log in to flarelog"),
      h("p", {}, "Run ", h("code", {}, command()), " where this page is served, and open the address that it prints. Or paste a reader's token."), form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    const over = (me) => {
      known(me);
      asking = null;
      dialog.close();
      dialog.remove();
      clearInterval(timer);
      done(me);
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.setAttribute("disabled", "");
      try {
        over(await login.with({ token: token.value.trim() }));
      } catch (error) {
        say(said, error.message);
        token.select();
      } finally {
        button.removeAttribute("disabled");
      }
    });
    // Another tab of this browser may log in: the tabs share the cookie.
    const timer = setInterval(() => ask("/api/me", undefined, { login: false }).then(over, () => {}), 2000);
    document.body.append(dialog);
    dialog.showModal();
    token.focus();
  });
  return asking;
}

login.with = (what) => ask("/api/login", what, { login: false });
