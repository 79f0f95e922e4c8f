"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = text;
    return made;
  };
  const data = JSON.parse(element("data").textContent);
  const rows = data.rows;
  const list = element("list");
  const holder = element("rows");
  const joins = element("joins");
  const narrow = matchMedia("(max-width: 699px)");
  const isBad = (row) => row.k === "text" || row.k === "lost" || (row.o !== undefined && row.o !== "ok");
  const isAside = (row) => row.k === "head" || row.k === "end" || row.k === "stderr";
  const sides = { c: "client", s: "server" };
  let shown = [];
  // Place of a row in `shown`.
  const places = new Map();
  let selected = -1;

  const seconds = (micros) => (micros / 1e6).toFixed(3) + " s";
  const took = (micros) => (micros < 1e4 ? (micros / 1e3).toFixed(2) + " ms"
    : micros < 1e6 ? (micros / 1e3).toFixed(0) + " ms" : (micros / 1e6).toFixed(2) + " s");
  const title = (row) => {
    const names = { head: "HTTP", end: "end", stderr: "stderr", lost: "not recorded", text: "no message" };
    const name = row.m ?? names[row.k] ?? "response to no request";
    return [name, row.g, row.i === undefined ? undefined : "#" + row.i].filter((part) => part !== undefined).join(" ");
  };
  // What a message says beside its method and id.
  const summary = (row) => {
    if (row.m === undefined && row.k !== "response") return row.b.slice(0, 300);
    const at = row.b.search(/"(params|result|error)"\s*:/);
    return at < 0 ? "" : row.b.slice(row.b.indexOf(":", at) + 1, at + 300).trim().replace(/\}$/, "");
  };
  // Indents JSON as it is written: its escapes stay, which a parser would resolve.
  const indented = (text) => {
    try {
      JSON.parse(text);
    } catch {
      return text;
    }
    const parts = [];
    let depth = 0;
    const breakLine = () => parts.push("\n" + "  ".repeat(Math.min(depth, 40)));
    for (let at = 0; at < text.length; at++) {
      const c = text[at];
      if (c === '"') {
        let end = at + 1;
        while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
        parts.push(text.slice(at, end + 1));
        at = end;
      } else if (c === "{" || c === "[") {
        let next = at + 1;
        while (/\s/.test(text[next])) next++;
        if (text[next] === "}" || text[next] === "]") {
          parts.push(c + text[next]);
          at = next;
        } else {
          depth++;
          parts.push(c);
          breakLine();
        }
      } else if (c === "}" || c === "]") {
        depth--;
        breakLine();
        parts.push(c);
      } else if (c === ",") {
        parts.push(c);
        breakLine();
      } else if (c === ":") {
        parts.push(": ");
      } else if (!/\s/.test(c)) {
        parts.push(c);
      }
    }
    return parts.join("");
  };

  const height = () => (narrow.matches ? 50 : 34);
  const filter = () => {
    const text = element("text").value;
    const pattern = text === "" ? null : new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    const method = element("method").value;
    const side = element("side").value;
    const errors = element("errors").checked;
    shown = [];
    places.clear();
    rows.forEach((row, index) => {
      const fits = (!method || row.m === method) && (!side || row.s === side) && (!errors || isBad(row))
        && (!pattern || pattern.test(row.b) || pattern.test(title(row)));
      if (fits) {
        places.set(index, shown.length);
        shown.push(index);
      }
    });
    element("count").textContent = shown.length === rows.length ? rows.length + " rows" : shown.length + " of " + rows.length + " rows";
    if (!places.has(selected)) close();
    draw();
    drawOverview();
  };

  const card = (index, place) => {
    const row = rows[index];
    const made = make("div", "row " + row.s + (isBad(row) ? " bad" : "") + (isAside(row) ? " aside" : ""), "");
    made.id = "row-" + index;
    made.style.top = place * height() + "px";
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", String(index === selected));
    made.setAttribute("aria-setsize", String(shown.length));
    made.setAttribute("aria-posinset", String(place + 1));
    made.append(make("span", "time", seconds(row.t)));
    const inner = make("div", "card", "");
    inner.append(make("span", "name", title(row)), make("span", "text", summary(row)));
    const note = row.k === "response" && row.d !== undefined ? took(row.d)
      : row.k === "request" && (row.o === "unanswered" || row.o === "cancelled") ? row.o : "";
    if (note) inner.append(make("span", "took", note));
    made.append(inner);
    made.setAttribute("aria-label", [sides[row.s], row.k, title(row), note, isBad(row) ? "error" : ""].join(" "));
    made.addEventListener("click", () => {
      select(index);
      open();
    });
    return made;
  };

  const draw = () => {
    const step = height();
    element("space").style.height = Math.max(shown.length * step, 1) + "px";
    const first = Math.max(0, Math.floor(list.scrollTop / step) - 10);
    const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / step) + 10);
    const made = [];
    for (let place = first; place < last; place++) made.push(card(shown[place], place));
    if (shown.length === 0) made.push(make("p", "none", rows.length === 0 ? "The trace has no records." : "Nothing fits the filters."));
    holder.replaceChildren(...made);
    if (places.has(selected)) list.setAttribute("aria-activedescendant", "row-" + selected);
    else list.removeAttribute("aria-activedescendant");
    element("space").style.minHeight = shown.length === 0 ? "80px" : "";
    drawJoins(first, last, step);
  };

  // Joins each request in sight with its response, in one of a few tracks between the lanes.
  const drawJoins = (first, last, step) => {
    const width = holder.clientWidth;
    const lane = (width - 84 - 56 - 12 - 16) / 2;
    const left = narrow.matches ? 8 : 8 + 84 + 4 + lane + 4;
    const right = narrow.matches ? 32 : left + 56;
    const tracks = narrow.matches ? 3 : 6;
    const seen = new Set();
    const paths = [];
    for (let place = first; place < last; place++) {
      const index = shown[place];
      const other = places.get(rows[index].r);
      if (other === undefined) continue;
      const request = Math.min(index, rows[index].r);
      if (seen.has(request)) continue;
      seen.add(request);
      const [from, to] = [places.get(request), places.get(Math.max(index, rows[index].r))];
      const middle = left + ((right - left) * (1 + (request % tracks))) / (tracks + 1);
      const ends = rows[request].s === "c" && !narrow.matches ? [left, right] : [right, left];
      const end = narrow.matches ? right : ends[1];
      const offset = narrow.matches ? 32 : step / 2;
      const y = [from, to].map((at) => Math.min(Math.max(at, first - 5), last + 5) * step + offset);
      const path = document.createElementNS(joins.namespaceURI, "path");
      path.setAttribute("d", "M" + ends[0] + " " + y[0] + "H" + middle + "V" + y[1] + "H" + end);
      path.setAttribute("class", request === selected || rows[request].r === selected ? "selected" : isBad(rows[request]) ? "bad" : "");
      paths.push(path);
    }
    joins.replaceChildren(...paths);
  };

  const overview = element("overview");
  const span = rows.reduce((end, row) => Math.max(end, row.t + (row.k === "request" ? row.d ?? 0 : 0)), 1);
  const drawOverview = () => {
    const ratio = devicePixelRatio || 1;
    const width = overview.clientWidth;
    overview.width = width * ratio;
    overview.height = 48 * ratio;
    const pen = overview.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name);
    const colours = { c: colour("--client"), s: colour("--server"), bad: colour("--bad") };
    const x = (micros) => 2 + (micros / span) * (width - 6);
    pen.globalAlpha = 0.6;
    for (const index of shown) {
      const row = rows[index];
      pen.fillStyle = isBad(row) ? colours.bad : colours[row.s];
      const y = row.s === "c" ? 4 : 26;
      // A call lasts; all else is a moment.
      if (row.k === "request") pen.fillRect(x(row.t), y, Math.max(2, x(row.t + (row.d ?? 0)) - x(row.t)), 18);
      else pen.fillRect(x(row.t), y + 6, 2, 6);
    }
    pen.globalAlpha = 1;
    if (selected >= 0) {
      pen.fillStyle = colour("--text");
      pen.fillRect(x(rows[selected].t), 0, 2, 48);
    }
  };
  overview.addEventListener("click", (event) => {
    const time = ((event.offsetX - 2) / (overview.clientWidth - 6)) * span;
    const index = shown.find((index) => rows[index].t >= time) ?? shown[shown.length - 1];
    if (index !== undefined) select(index);
  });

  const select = (index) => {
    selected = index;
    const top = places.get(index) * height();
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + height() > list.scrollTop + list.clientHeight) list.scrollTop = top + height() - list.clientHeight;
    draw();
    drawOverview();
    if (!element("details").hidden) open();
  };

  const open = () => {
    const row = rows[selected];
    if (row === undefined) return;
    element("what").textContent = title(row);
    const facts = [
      ["from", sides[row.s]], ["kind", row.k], ["time", seconds(row.t)], ["exchange", row.x],
      ["outcome", row.o], ["duration", row.d === undefined ? undefined : took(row.d)],
    ];
    element("facts").replaceChildren(...facts.filter(([, value]) => value !== undefined)
      .flatMap(([name, value]) => [make("dt", "", name), make("dd", "", String(value))]));
    element("message").textContent = isAside(row) ? row.b : indented(row.b);
    element("message").scrollTop = 0;
    const other = element("other");
    other.hidden = row.r === undefined;
    other.textContent = row.k === "request" ? "Response" : "Request";
    if (element("details").hidden) {
      element("details").hidden = false;
      document.body.className = "open";
      select(selected);
    }
  };
  const close = () => {
    if (places.size === 0 || !places.has(selected)) selected = -1;
    element("details").hidden = true;
    document.body.className = "";
    // It may have been hidden on a narrow screen.
    drawOverview();
  };
  // What the filters hide cannot be shown: they are cleared.
  const jump = () => {
    const other = rows[selected]?.r;
    if (other === undefined) return;
    if (!places.has(other)) {
      element("filters").reset();
      filter();
    }
    select(other);
  };

  const move = (by) => {
    if (shown.length === 0) return;
    const at = places.get(selected);
    const to = Math.min(Math.max((at ?? (by > 0 ? -1 : shown.length)) + by, 0), shown.length - 1);
    select(shown[to]);
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT)$/.test(event.target.tagName);
    if (event.key === "Escape") {
      close();
      draw();
      list.focus();
    } else if (!isTyping && event.key === "/") {
      element("text").focus();
    } else if (!isTyping && event.key === "r") {
      jump();
    } else if (event.target === list) {
      const page = Math.max(1, Math.floor(list.clientHeight / height()) - 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      if (event.key in steps) move(steps[event.key]);
      else if (event.key === "Enter" && selected >= 0) open();
      else return;
    } else {
      return;
    }
    event.preventDefault();
  });
  list.addEventListener("scroll", () => requestAnimationFrame(draw));
  addEventListener("resize", () => {
    draw();
    drawOverview();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
  let timer;
  element("text").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(filter, 150);
  });
  for (const id of ["method", "side", "errors"]) element(id).addEventListener("change", filter);
  element("filters").addEventListener("submit", (event) => event.preventDefault());
  element("close").addEventListener("click", () => {
    close();
    draw();
    list.focus();
  });
  element("other").addEventListener("click", jump);

  element("title").textContent = data.command ? "Trace of " + data.command : "MCP trace";
  const begun = new Date(data.unixMillis);
  const when = Number.isNaN(begun.getTime()) ? "" : begun.toISOString();
  element("about").textContent = [when, "recorded by " + data.by, data.masked ? "secrets masked" : "secrets not masked"].filter(Boolean).join(" · ");
  element("notes").replaceChildren(...data.notes.map((note) => make("li", "", note)));
  const methods = [...new Set(rows.map((row) => row.m).filter((method) => method !== undefined))].sort();
  element("method").append(...methods.slice(0, 500).map((method) => {
    const option = make("option", "", method);
    option.value = method;
    return option;
  }));
  filter();
})();
