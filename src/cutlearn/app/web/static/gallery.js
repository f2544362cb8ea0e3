// The list of images: thumbnails with their states. Names are only ever put in as text.

const WORDS = { done: "✓ done", doubtful: "? doubtful", begun: "… begun", open: "to do" };
const MOST = 1500;

export class Gallery {
  constructor(open) {
    this.open = open;
    this.list = document.querySelector("#images");
    this.filter = document.querySelector("#filter");
    this.count = document.querySelector("#count");
    this.filter.addEventListener("change", () => this.update(this.state, this.current));
    this.rows = new Map();
  }

  update(state, current) {
    this.state = state;
    this.current = current;
    const wanted = this.filter.value;
    const fits = (one) => wanted === "all" || one.state === wanted ||
      (wanted === "open" && one.state !== "done");
    const seen = state.images.filter(fits).slice(0, MOST);
    const kept = new Set(seen.map((one) => one.id));
    for (const [id, row] of this.rows) {
      if (!kept.has(id)) {
        row.item.remove();
        this.rows.delete(id);
      }
    }
    let before = null;
    for (const one of seen) {
      const row = this.rows.get(one.id) ?? this.add(one, before);
      before = row.item;
      this.paint(row, one, one.id === state.next, one.id === current);
    }
    const done = state.images.filter((one) => one.state === "done").length;
    this.count.textContent = state.images.length ? `${done} of ${state.images.length} done` : "";
  }

  add(one, before) {
    const item = document.createElement("li"), button = document.createElement("button");
    const picture = document.createElement("img"), words = document.createElement("span");
    const name = document.createElement("span"), mood = document.createElement("span");
    picture.loading = "lazy";
    picture.alt = "";
    picture.src = `/api/images/${one.id}/thumb`;
    name.className = "name";
    name.textContent = one.name;
    words.append(name, mood);
    button.append(picture, words);
    button.title = one.name;
    button.dataset.image = one.id;
    button.addEventListener("click", () => this.open(one.id));
    button.addEventListener("keydown", (event) => this.step(event));
    item.append(button);
    if (before) before.after(item);
    else this.list.prepend(item);
    const row = { item, button, mood };
    this.rows.set(one.id, row);
    return row;
  }

  paint(row, one, next, current) {
    row.mood.className = `state ${next ? "next" : one.state}`;
    row.mood.textContent = next ? "→ next" : WORDS[one.state];
    row.mood.title = one.score == null ? "" : `would tell ${Math.round(100 * one.score)} % of what the model does not know`;
    row.button.setAttribute("aria-current", current);
    if (current && this.shownId !== one.id) {
      this.shownId = one.id;
      row.item.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  // Arrows go through the list.
  step(event) {
    const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const other = way && event.currentTarget.parentElement[way]?.querySelector("button");
    if (!other) return;
    event.preventDefault();
    event.stopPropagation();
    other.focus();
  }

  focus() {
    (this.rows.get(this.current)?.button ?? this.list.querySelector("button"))?.focus();
  }

  // The image before or after one in the order of names.
  beside(id, way) {
    const ids = this.state.images.map((one) => one.id);
    return ids[ids.indexOf(id) + way];
  }
}
