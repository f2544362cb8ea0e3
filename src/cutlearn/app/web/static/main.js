// The page: one image at a time, its marks sent one request after the other, its layers shown.

import { ask, asked, packed, tabKey, told } from "./api.js";
import { Files } from "./files.js";
import { Gallery } from "./gallery.js";
import { Keyboard } from "./keyboard.js";
import { ACTIONS, fillHelp, titleButtons } from "./keys.js";
import { areas, contours, doubtPicture, marksPicture, maskPicture, probabilityPicture } from "./layers.js";
import { Learning } from "./learn.js";
import { Tools } from "./tools.js";
import { View } from "./view.js";

const find = (id) => document.getElementById(id);
const LAYERS = { mask: "mask", contour: "contour", marks: "marks", probability: "probability", doubt: "doubt", "next-window": "next" };
const HINTS = {
  box: "Drag a box around the object.",
  stroke: "Draw in the object, choose background (0) and draw beside it.",
  rubber: "Draw over marks to take them away.",
  hand: "Drag to move, turn the wheel to zoom.",
};

// All that the layers show. `shown` is which of them.
const work = {
  image: null, width: 0, height: 0, bitmap: null, labels: null, marks: [], position: 0,
  colors: ["#ffffff", "#e69f00"], names: ["background", "object"], label: 1, tool: "box", radius: 8,
  shown: { mask: true, contour: true, marks: true, probability: false, doubt: false, next: true },
  cursor: { x: 0, y: 0 }, cursorShown: false, beliefs: null, mostPoints: 4000,
};
const view = new View(find("canvas"), work);
const tools = new Tools(view, work, send, preview);
const gallery = new Gallery(openImage);
const learning = new Learning(say, learned);
const files = new Files(say, tried, async (image) => {
  await refresh();
  await openImage(image);
});
let tab, state, queue = [], sending = false, believing = null, messageTimer = 0;

function say(text, stays = false) {
  find("message").textContent = text;
  find("message").hidden = !text;
  clearTimeout(messageTimer);
  if (!stays) messageTimer = setTimeout(() => (find("message").hidden = true), 6000);
}

async function tried(action) {
  try {
    return await action();
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
    return undefined;
  }
}

async function refresh(given) {
  state = given ?? (await told("/api/state"));
  work.colors = state.labels.map((one) => one.color);
  work.names = state.labels.map((one) => one.name);
  work.mostPoints = state.limits.points;
  files.mostBytes = state.limits.bytes;
  work.label = Math.min(work.label, work.names.length - 1);
  gallery.update(state, work.image);
  paintLabels();
  const done = state.images.filter((one) => one.state === "done").length;
  learning.show(state.training);
  learning.showModel(state.model, done);
  enable("export", done > 0);
  enable("tool-box", state.boxes);
  if (!state.boxes && work.tool === "box") pick("stroke");
  find("empty").hidden = state.images.length > 0;
}

// --- one image ---------------------------------------------------------------------------------

async function openImage(id) {
  await settled();
  find("busy").textContent = "opening …";
  find("busy").hidden = false;
  await tried(async () => {
    const [picture, answer] = await Promise.all([
      ask(`/api/images/${id}`).then((one) => one.blob()).then((blob) => createImageBitmap(blob)),
      packed(`/api/tabs/${tab}/${id}/open`, { method: "POST" }),
    ]);
    const [height, width] = answer.meta.shape;
    const same = id === work.image; // opened again for another model: what is seen stays
    Object.assign(work, { image: id, bitmap: picture, width, height });
    if (!same) {
      work.cursor = { x: Math.floor(width / 2) + 0.5, y: Math.floor(height / 2) + 0.5 };
      tools.dropDrawing();
      view.fit();
    }
    history.replaceState(null, "", `#image=${id}`);
    find("title").textContent = answer.meta.name;
    find("canvas").setAttribute("aria-label", `Image ${answer.meta.name}`);
    document.title = `${answer.meta.name} – cutlearn`;
    take(answer);
    gallery.update(state, id);
    window.scrollTo(0, 0); // on a phone the list is below the image
    find("canvas").focus({ preventScroll: true });
  });
  find("busy").hidden = true;
}

// What the server answered becomes what is shown.
function take({ meta, planes }) {
  work.position = meta.position;
  work.marks = meta.marks;
  work.accepted = meta.accepted;
  work.box = meta.box;
  work.marksPicture = marksPicture(meta.marks, work.width, work.height, work.colors);
  work.beliefs = null;
  work.probability = work.doubt = null;
  enable("undo", meta.undo);
  enable("redo", meta.redo);
  enable("clear", meta.position > 0);
  enable("accept", meta.known);
  // What to do first is said below the image; that marks do not fit is said on it.
  if (meta.told && meta.position) say(meta.told, true);
  else find("message").hidden = true;
  work.told = meta.told;
  work.previewed = false;
  hint();
  const row = state.images.find((one) => one.id === meta.image);
  if (meta.position && row && row.state !== "done" && row.state !== "begun") {
    row.state = "begun";
    gallery.update(state, meta.image);
  }
  showLabels(meta.known ? planes : null);
  document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
  if (meta.live) believe();
}

function showLabels(labels) {
  work.labels = labels;
  work.mask = labels && maskPicture(labels, work.width, work.height, work.colors);
  work.contours = labels && contours(labels, work.width, work.height);
  showArea();
  view.changed();
}

function enable(action, on) {
  for (const button of document.querySelectorAll(`[data-action=${action}]`)) button.disabled = !on;
}

// --- marks -------------------------------------------------------------------------------------

function send(marks) {
  queue.push({ marks });
  pump();
}

function step(way) {
  queue.push({ step: way });
  pump();
}

// One request at a time. Strokes that were drawn meanwhile go together in the next one.
async function pump() {
  if (sending || !queue.length || work.image === null) return;
  sending = true;
  believing?.abort();
  const first = queue.shift();
  while (first.marks && queue[0]?.marks) first.marks.push(...queue.shift().marks);
  try {
    const body = JSON.stringify({ position: work.position, ...first });
    const path = `/api/tabs/${tab}/${work.image}/marks`;
    const begin = performance.now();
    take(await packed(path, { method: "POST", body }));
    document.body.dataset.milliseconds = (performance.now() - begin).toFixed(1);
  } catch (error) {
    say(error.message, true);
    if (error.lost) {
      queue.unshift(first); // nothing that was drawn is lost: it is sent again
      await new Promise((resolve) => setTimeout(resolve, 1500));
    }
  }
  sending = false;
  pump();
}

// While a stroke is being drawn, the outline follows it: one request at a time, nothing is kept.
async function preview() {
  if (sending || queue.length || !work.drawnStroke || work.image === null) return;
  sending = true;
  believing?.abort();
  try {
    const body = JSON.stringify({ preview: true, marks: [work.drawnStroke] });
    const path = `/api/tabs/${tab}/${work.image}/marks`;
    const { meta, planes } = await packed(path, { method: "POST", body });
    if (meta.known && meta.position === work.position) {
      work.beliefs = null; // of the mask before
      work.previewed = true;
      showLabels(planes);
    }
  } catch {
    // what is wrong with a stroke is told when it is sent
  }
  sending = false;
  pump();
}

async function settled() {
  while (sending || queue.length) await new Promise((resolve) => setTimeout(resolve, 15));
}

// Probabilities take longer than the mask: asked for when nothing else is under way.
async function believe() {
  believing?.abort();
  const control = (believing = new AbortController());
  try {
    await new Promise((resolve) => setTimeout(resolve, 40));
    if (control.signal.aborted) return;
    const path = `/api/tabs/${tab}/${work.image}/beliefs?label=${Math.max(1, work.label)}`;
    const { meta, planes } = await packed(path, { signal: control.signal });
    if (!meta.known || meta.position !== work.position || control.signal.aborted) return;
    const size = work.width * work.height;
    work.beliefs = meta;
    work.probability = probabilityPicture(planes.subarray(0, size), work.width, work.height);
    work.doubt = doubtPicture(planes.subarray(size), work.width, work.height);
    showArea();
    view.changed();
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  }
}

function showArea() {
  const place = find("area");
  place.replaceChildren();
  if (!work.labels) return;
  const label = Math.max(1, work.label);
  const count = areas(work.labels, 256)[label];
  const strong = document.createElement("strong");
  strong.textContent = `${work.names[label]} ${count.toLocaleString("en")} px`;
  const share = ((100 * count) / work.labels.length).toFixed(1);
  place.append(strong, ` ${share} %`);
  if (work.beliefs?.label === label) {
    const [low, high] = work.beliefs.interval.map((v) => Math.round(v).toLocaleString("en"));
    place.append(` [${low} .. ${high}]`);
  }
}

// --- what can be done --------------------------------------------------------------------------

async function accept() {
  await settled();
  if (!work.labels) return;
  await tried(async () => {
    const answer = await asked(`/api/tabs/${tab}/${work.image}/accept`);
    await refresh();
    if (answer.next !== null) await openImage(answer.next);
    say(`${answer.file} is written.${answer.next === null ? " All images are done." : ""}`);
  });
}

async function learned(useful) {
  await refresh();
  if (useful && work.image !== null) await openImage(work.image);
  for (const wait of [2000, 6000, 15000]) setTimeout(() => tried(refresh), wait); // the ranking
}

function choose(label) {
  if (label >= work.names.length) return;
  work.label = label;
  if (work.tool !== "stroke" && work.tool !== "box") pick("stroke");
  if (label !== 1 && work.tool === "box") pick("stroke");
  paintLabels();
  showArea();
  if (work.beliefs && work.beliefs.label !== Math.max(1, label)) believe();
  view.changed();
}

function pick(tool) {
  work.tool = tool;
  for (const name of Object.keys(HINTS)) {
    document.querySelector(`[data-action=tool-${name}]`).setAttribute("aria-pressed", name === tool);
  }
  view.canvas.className = tool === "hand" ? "hand" : tool === "box" ? "" : "brush";
  hint();
  view.changed();
}

function hint() {
  find("hint").textContent = `${work.told || HINTS[work.tool]} Keys: arrows and Space, ? for all.`;
}

function brush(radius) {
  work.radius = Math.min(Number(find("radius").max), Math.max(1, Math.round(radius)));
  find("radius").value = work.radius;
  find("radius-value").textContent = work.radius;
  view.changed();
}

function toggle(layer) {
  work.shown[layer] = !work.shown[layer];
  document.querySelector(`[data-layer=${layer}]`).checked = work.shown[layer];
  view.changed();
}

function paintLabels() {
  const place = find("labels");
  place.replaceChildren(...work.names.map((name, k) => {
    const button = document.createElement("button"), dot = document.createElement("i");
    const cap = document.createElement("kbd");
    dot.style.background = work.colors[k];
    cap.textContent = k;
    button.append(dot, name, cap);
    button.setAttribute("role", "radio");
    button.setAttribute("aria-checked", k === work.label);
    button.tabIndex = k === work.label ? 0 : -1;
    button.addEventListener("click", () => choose(k));
    button.addEventListener("keydown", (event) => {
      const way = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      choose((k + way + work.names.length) % work.names.length);
      place.children[work.label].focus();
    });
    return button;
  }));
  document.querySelector("[data-action=add-label]").disabled = work.names.length >= state.limits.labels;
}

function beside(way) {
  const id = gallery.beside(work.image, way);
  if (id !== undefined) openImage(id);
}

const RUN = {
  undo: () => step(-1),
  redo: () => step(1),
  clear: () => step("clear"),
  "remove-box": () => work.box && send([{ kind: "box", box: null }]),
  "add-label": () => tried(async () => {
    await settled();
    await refresh(await asked("/api/labels", { n: work.names.length + 1 }));
    choose(work.names.length - 1);
    if (work.image !== null) await openImage(work.image);
  }),
  escape: () => {
    tools.dropDrawing();
    if (work.previewed) openImage(work.image); // the outline goes back
  },
  "zoom-in": () => view.zoom(1.25),
  "zoom-out": () => view.zoom(0.8),
  fit: () => view.fit(),
  "show-next": () => work.beliefs?.next && view.show(work.beliefs.next),
  accept,
  next: () => beside(1),
  previous: () => beside(-1),
  open: () => find("file").click(),
  gallery: () => gallery.focus(),
  image: () => find("canvas").focus(),
  learn: () => tried(() => learning.start()),
  "cancel-learn": () => tried(() => learning.cancel()),
  export: () => files.exportAll(),
  help: () => (find("help").open ? find("help").close() : find("help").showModal()),
  "brush-smaller": () => brush(work.radius / 1.25 - 0.3),
  "brush-larger": () => brush(work.radius * 1.25 + 0.3),
};
for (const tool of Object.keys(HINTS)) RUN[`tool-${tool}`] = () => pick(tool);
for (const [action, layer] of Object.entries(LAYERS)) RUN[action] = () => toggle(layer);

// --- wiring ------------------------------------------------------------------------------------

function wire() {
  for (const action of Object.keys(ACTIONS)) if (!RUN[action]) throw new Error(`${action} does nothing`);
  new Keyboard(view, work, tools, choose, RUN);
  for (const button of document.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => RUN[button.dataset.action]());
  }
  for (const box of document.querySelectorAll("[data-layer]")) {
    box.addEventListener("change", () => toggle(box.dataset.layer));
  }
  find("radius").addEventListener("input", (event) => brush(Number(event.target.value)));
  const changed = view.changed.bind(view);
  view.changed = () => {
    find("zoom").textContent = `${Math.round(100 * view.scale)} %`;
    changed();
  };
}

async function begin() {
  titleButtons();
  fillHelp(find("keys"));
  wire();
  pick("box");
  for (const action of ["undo", "redo", "clear", "accept"]) enable(action, false);
  tab = await tabKey();
  await tried(async () => {
    await refresh();
    const asked = Number(/^#image=(\d+)$/.exec(location.hash)?.[1] ?? NaN);
    const known = state.images.some((one) => one.id === asked);
    const first = known ? asked : (state.next ?? state.images[0]?.id);
    if (first !== undefined) await openImage(first);
  });
  document.body.dataset.ready = "yes";
}

begin();
