// The script of the console's pages: live updates, times in words, keys, themes. Every page works without it.
(() => {
  "use strict";

  const root = document.documentElement;
  const content = document.getElementById("content");
  const live = document.getElementById("live");
  const refreshSeconds = Number(document.body.dataset.refresh || 0);
  root.classList.add("scripts");

  // -- cookies: the zone for the server's times, and the reader's choice of colours ---------------------------

  const setCookie = (name, value) => {
    document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax`;
  };
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isZoneNew = zone && !document.cookie.split("; ").includes(`zone=${zone}`);
  if (isZoneNew) setCookie("zone", zone);

  const themeButton = document.getElementById("theme");
  const nextTheme = { auto: "light", light: "dark", dark: "auto" };
  const showTheme = () => {
    themeButton.textContent = { auto: "Colours: system", light: "Colours: light", dark: "Colours: dark" }[
      root.dataset.theme || "auto"
    ];
  };
  if (themeButton) {
    themeButton.hidden = false;
    showTheme();
    themeButton.addEventListener("click", () => {
      const theme = nextTheme[root.dataset.theme || "auto"];
      if (theme === "auto") delete root.dataset.theme;
      else root.dataset.theme = theme;
      setCookie("theme", theme);
      showTheme();
    });
  }

  // -- times in words, by the store's clock -------------------------------------------------------------------

  const skew = Date.parse(root.dataset.now) - Date.now();
  const span = (seconds, most = 2) => {
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    let whole = Math.round(seconds);
    const parts = [];
    let units = 0;
    for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
      const count = Math.floor(whole / size);
      whole %= size;
      if (count || units) {
        if (count) parts.push(`${count} ${name}`);
        units += 1;
      }
      if (units === most) break;
    }
    return parts.join(" ");
  };
  const relative = (moment, now) => {
    const gone = (now - moment) / 1000;
    if (Math.abs(gone) < 1) return "now";
    const seconds = Math.abs(gone);
    const length = seconds < 10 ? `${Math.round(seconds)} s` : span(seconds, seconds < 3600 ? 1 : 2);
    return gone > 0 ? `${length} ago` : `in ${length}`;
  };
  const writeTimes = () => {
    const now = Date.now() + skew;
    for (const time of document.querySelectorAll("time[data-relative], time[data-since]")) {
      const moment = Date.parse(time.dateTime);
      const text = "since" in time.dataset ? span(Math.max(0, (now - moment) / 1000)) : relative(moment, now);
      if (time.textContent !== text) time.textContent = text;
    }
  };

  // -- content: morphed, so that focus, selection, open folds and half-written forms stay ----------------------

  const isEdited = (node) => {
    if (node instanceof HTMLInputElement) {
      if (node.type === "checkbox" || node.type === "radio") return node.checked !== node.defaultChecked;
      return node.type !== "hidden" && node.value !== node.defaultValue;
    }
    if (node instanceof HTMLTextAreaElement) return node.value !== node.defaultValue;
    if (node instanceof HTMLSelectElement) return [...node.options].some((one) => one.selected !== one.defaultSelected);
    return false;
  };
  const morphing = {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old) =>
        !(old instanceof Element && (old.hasAttribute("data-own") || isEdited(old) || old.name === "csrf_token")),
      beforeAttributeUpdated: (name, node) =>
        !(name === "open" && (node instanceof HTMLDetailsElement || node instanceof HTMLDialogElement)) &&
        !(name === "class" && node.classList.contains("current")),
    },
  };
  let waiting = null; // content that came while the reader had selected text
  const isSelecting = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && content.contains(selection.anchorNode);
  };
  const show = (html) => {
    if (isSelecting()) {
      waiting = html;
      return;
    }
    waiting = null;
    Idiomorph.morph(content, html, morphing);
    if (window.htmx) htmx.process(content);
    writeTimes();
    document.dispatchEvent(new CustomEvent("warrener:shown"));
  };
  document.addEventListener("selectionchange", () => {
    if (waiting !== null && !isSelecting()) show(waiting);
  });
  const refresh = async () => {
    try {
      const answer = await fetch(location.href, { headers: { "HX-Request": "true" }, cache: "no-store" });
      if (answer.ok) show(await answer.text());
    } catch {
      // the console is away: the stream says so
    }
  };
  document.addEventListener("warrener:refresh", refresh);

  // -- the stream of changes ---------------------------------------------------------------------------------

  let source = null;
  let interruptedSince = null;
  let retry = 0;
  let ticking = null;
  const say = (state, text) => {
    if (!live) return;
    live.dataset.state = state;
    if (live.textContent !== text) live.textContent = text;
  };
  const interrupt = (since) => {
    interruptedSince = interruptedSince || since || new Date(Date.now() + skew);
    const clock = interruptedSince.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
    say("off", `Live updates interrupted since ${clock}`);
  };
  const resume = () => {
    interruptedSince = null;
    retry = 0;
    say("on", "Live");
  };
  const open = () => {
    if (source || document.hidden || !document.body.dataset.live) return;
    source = new EventSource(`/live?page=${encodeURIComponent(location.pathname + location.search)}`);
    source.addEventListener("content", (event) => show(event.data));
    source.addEventListener("interrupted", (event) => interrupt(new Date(event.data)));
    source.addEventListener("live", resume);
    source.addEventListener("reload", () => location.reload());
    source.onerror = () => {
      interrupt();
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        retry = Math.min(retry + 1, 6);
        setTimeout(open, 2500 * retry);
      }
    };
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  if (refreshSeconds) {
    ticking = setInterval(() => {
      if (!document.hidden && (!source || source.readyState !== EventSource.OPEN)) refresh();
    }, refreshSeconds * 1000);
  }
  window.addEventListener("pagehide", () => clearInterval(ticking));

  // -- forms: the token of this reader, and a question before what cannot be undone -----------------------------

  const token = document.querySelector('meta[name="csrf-token"]').content;
  document.addEventListener(
    "submit",
    (event) => {
      const form = event.target;
      const field = form.elements.namedItem("csrf_token");
      if (field) field.value = token;
      const question = event.submitter?.dataset.confirm || form.dataset.confirm;
      if (question && !window.confirm(question)) {
        event.preventDefault();
        event.stopImmediatePropagation();
      }
    },
    true,
  );
  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (event.detail.successful && form instanceof HTMLFormElement && form.classList.contains("action")) {
      form.reset();
      const fold = form.closest("details.more");
      if (fold) fold.open = false;
    }
  });
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.matches("[data-check-all]")) return;
    const scope = box.closest("form, table, section") || content;
    for (const one of scope.querySelectorAll('tbody input[type="checkbox"]')) one.checked = box.checked;
  });

  // -- copying ------------------------------------------------------------------------------------------------

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) {
      for (const fold of document.querySelectorAll("details.more[open]")) {
        if (!fold.contains(event.target)) fold.open = false;
      }
      return;
    }
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.dataset.done = "";
      setTimeout(() => delete button.dataset.done, 1200);
    } catch {
      // the browser refused: the text stands in the title
    }
  });

  // -- keys ---------------------------------------------------------------------------------------------------

  const keys = document.getElementById("keys");
  const search = document.getElementById("search");
  let isGoing = false;
  const rows = () => [...content.querySelectorAll(".list tbody tr")].filter((row) => row.querySelector("a[href]"));
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("current"));
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    for (const row of all) row.classList.toggle("current", row === next);
    next.querySelector("a[href]").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, select, textarea");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (isGoing) {
      isGoing = false;
      const entry = [...document.querySelectorAll(".sections [data-key]")].find((one) => one.dataset.key === event.key);
      if (entry) {
        event.preventDefault();
        entry.click();
      }
      return;
    }
    switch (event.key) {
      case "g":
        isGoing = true;
        setTimeout(() => (isGoing = false), 1500);
        break;
      case "/":
        event.preventDefault();
        search.focus();
        search.select();
        break;
      case "j":
        move(1);
        break;
      case "k":
        move(-1);
        break;
      case "?":
        if (keys && !keys.open) keys.showModal();
        break;
      default:
    }
  });

  writeTimes();
  setInterval(writeTimes, 1000);
  if (isZoneNew && zone !== document.body.dataset.zone) refresh();
  open();
})();
