// The model and its training: what is used, how far a new one is, both bounds as curves.

import { Order, asked, told } from "./api.js";

const find = (id) => document.getElementById(id);
const percent = (value) => `${(100 * value).toFixed(1)} %`;

export class Learning {
  constructor(say, finished) {
    this.say = say;
    this.finished = finished;
    this.timer = 0;
    this.running = false;
    this.order = new Order();
  }

  start() {
    return this.update(() => asked("/api/learn"));
  }

  async cancel() {
    if (this.running) await this.update(() => asked("/api/learn", undefined, "DELETE"));
  }

  async update(request) {
    const newest = this.order.ask(), training = await request();
    if (newest()) this.show(training);
  }

  showModel(model, done) {
    find("model").textContent = model ? modelWords(model) : "None yet: colours inside and outside decide.";
    const button = document.querySelector("[data-action=learn]");
    button.disabled = this.running || done < 1;
    button.textContent = done ? `Learn from my ${done} mask${done > 1 ? "s" : ""}` : "Learn from my masks";
  }

  show(training) {
    const was = this.running;
    this.running = training.state === "running";
    find("training").hidden = training.state === "idle" || (training.state === "done" && !was && !this.ended);
    document.querySelector("[data-action=cancel-learn]").hidden = !this.running;
    document.querySelector("[data-action=learn]").disabled = this.running;
    find("progress").hidden = !this.running;
    find("progress").value = training.done ?? 0;
    find("training-note").textContent = noteOf(training);
    this.draw(training.curve ?? []);
    clearTimeout(this.timer);
    if (this.running) this.timer = setTimeout(() => this.poll(), 500);
    if (was && !this.running) {
      this.ended = true;
      this.say(noteOf(training));
      this.finished(training.state === "done");
    }
  }

  async poll() {
    try {
      await this.update(() => told("/api/learn"));
    } catch {
      this.timer = setTimeout(() => this.poll(), 2000);
    }
  }

  draw(curve) {
    const svg = find("curve");
    svg.replaceChildren();
    svg.toggleAttribute("hidden", curve.length < 2);
    find("bounds").textContent = "";
    if (!curve.length) return;
    const [best, bound] = curve.at(-1);
    find("bounds").textContent = `objective ${best.toPrecision(4)}, no weights below ${bound.toPrecision(4)}`;
    // The bounds of the first steps can be far off: the latest half of the run sets the scale.
    const late = curve.slice(Math.floor(curve.length / 4)).flat();
    const low = Math.min(...late), high = Math.max(...late);
    for (const [at, name] of [[0, "best"], [1, "bound"]]) {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
      const points = curve.map((pair, k) => {
        const y = 56 - (52 * (pair[at] - low)) / Math.max(high - low, 1e-12);
        return `${((200 * k) / Math.max(curve.length - 1, 1)).toFixed(1)},${Math.max(-20, Math.min(80, y)).toFixed(1)}`;
      });
      line.setAttribute("points", points.join(" "));
      line.setAttribute("class", name);
      svg.append(line);
    }
  }
}

function modelWords(model) {
  const learned = model.images ? `, learned from ${model.images} image${model.images > 1 ? "s" : ""}` : "";
  const held = model.held_out ? `. ${model.judge || "IoU"} ${percent(model.held_out.value)} on held-out images` : "";
  const unused = model.used ? "" : ". It has other labels and is not used";
  return `${model.name}${learned}${held}${unused}.`;
}

function noteOf(training) {
  if (training.state === "running") {
    const left = training.left == null ? "" : `, about ${Math.max(1, Math.round(training.left))} s left`;
    const note = training.note ? `: ${training.note}` : "";
    return `${Math.round(100 * (training.done ?? 0))} %, ${training.phase}${note}${left}`;
  }
  if (training.state === "done") {
    const held = training.held_out ? `, IoU ${percent(training.held_out.value)} on held-out images` : "";
    return `Learned from ${training.images} masks in ${Math.round(training.seconds)} s${held}. The new model is in use.`;
  }
  if (training.state === "cancelled") return `Cancelled. ${training.note ?? ""}`;
  return training.note ?? "";
}
