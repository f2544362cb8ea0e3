// The page: one image at a time, its marks sent one request after the other, its layers shown.
//
// Answers can arrive late. Each is applied only to what it answers: marks and steps are bound to
// the image on which they were made, `opening` numbers the images that were asked for, and `known`
// has for each image the marks and the model of the last answer.

import { Order, ask, asked, packed, tabKey, told } from "./api.js";
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
  image: null, width: 0, height: 0, bitmap: null, labels: null, marks: [], unanswered,
  colors: ["#ffffff", "#e69f00"], names: ["background", "object"], label: 1, tool: "box", radius: 8,
  shown: { mask: true, contour: true, marks: true, probability: false, doubt: false, next: true },
  cursor: { x: 0, y: 0 }, cursorShown: false, beliefs: null, mostPoints: 4000,
};
const view = new View(find("canvas"), work);
const tools = new Tools(view, work, send, preview, dropped);
const gallery = new Gallery(openImage);
const learning = new Learning(say, learned);
const files = new Files(say, tried, () => {
  const before = wanted;
  return async (image) => {
    await refresh();
    if (wanted === before) await openImage(image); // unless another one was opened meanwhile
  };
});
const states = new Order(), known = new Map();
let tab, state, queue = [], sent = null, sending = false, accepting = false, believing = null, messageTimer = 0;
// How many images were asked for, the last of them, and what ends the request for it.
let opening = 0, wanted = null, fetching = null;

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
  const newest = states.ask(), newestTraining = learning.order.ask();
  const found = given ?? (await told("/api/state"));
  if (!newest()) return;
  state = found;
  work.colors = state.labels.map((one) => one.color);
  work.names = state.labels.map((one) => one.name);
  work.mostPoints = state.limits.points;
  files.mostBytes = state.limits.bytes;
  work.label = Math.min(work.label, work.names.length - 1);
  gallery.update(state, work.image);
  paintLabels();
  const done = state.images.filter((one) => one.state === "done").length;
  if (newestTraining()) learning.show(state.training);
  learning.showModel(state.model, done);
  enable("export", done > 0);
  enable("tool-box", state.boxes);
  if (!state.boxes && work.tool === "box") pick("stroke");
  find("empty").hidden = state.images.length > 0;
}

// --- one image ---------------------------------------------------------------------------------

async function openImage(id) {
  const turn = ++opening;
  wanted = id;
  fetching?.abort();
  fetching = null;
  find("busy").textContent = "opening …";
  find("busy").hidden = false;
  pump();
  await settled();
  if (turn !== opening) return;
  fetching = new AbortController();
  const { signal } = fetching;
  await tried(async () => {
    const [picture, answer] = await Promise.all([
      ask(`/api/images/${id}`, { signal }).then((one) => one.blob()).then((blob) => createImageBitmap(blob)),
      packed(`/api/tabs/${tab}/${id}/open`, { method: "POST", signal }),
    ]);
    if (turn !== opening) return;
    const [height, width] = answer.meta.shape;
    const same = id === work.image; // opened again for another model: what is seen stays
    if (!same) tools.finish(); // what was drawn until now belongs to the image before
    Object.assign(work, { image: id, bitmap: picture, width, height });
    if (!same) {
      work.cursor = { x: Math.floor(width / 2) + 0.5, y: Math.floor(height / 2) + 0.5 };
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
  if (turn !== opening) return;
  fetching = null;
  wanted = work.image;
  find("busy").hidden = true;
  pump();
}

// Keep what the server answered about an image, and show it if it is the image that is shown.
function take({ meta, planes }) {
  known.set(meta.image, { position: meta.position, made: meta.made });
  const row = state.images.find((one) => one.id === meta.image);
  if (meta.position && row && row.state !== "done" && row.state !== "begun") {
    row.state = "begun";
    gallery.update(state, work.image);
  }
  if (meta.image !== work.image) return;
  believing?.abort();
  work.marks = meta.marks;
  work.accepted = meta.accepted;
  work.live = meta.live;
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
  hint();
  work.answered = meta.known ? planes : null;
  work.previewed = false;
  showLabels(work.answered);
  document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
  if (meta.live) believe();
}

// Whether an answer is about what is shown: the image, its marks, the model.
function current(meta) {
  const { position, made } = known.get(work.image);
  return meta.image === work.image && meta.position === position && meta.made === made;
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
  queue.push({ image: work.image, marks });
  pump();
}

function step(way) {
  queue.push({ image: work.image, step: way });
  pump();
}

// Strokes on the image that is shown, which the server has not answered yet.
function unanswered() {
  const own = [sent, ...queue].filter((one) => one?.image === work.image && one.marks);
  return own.flatMap((one) => one.marks).filter((mark) => mark.kind === "stroke");
}

// One request at a time. Strokes that were drawn meanwhile go together in the next one.
async function pump() {
  if (sending || fetching || !queue.length) return;
  sending = true;
  believing?.abort();
  const first = (sent = queue.shift()), { image } = first;
  while (first.marks && queue[0]?.marks && queue[0].image === image) first.marks.push(...queue.shift().marks);
  try {
    const body = JSON.stringify({ ...first, position: known.get(image).position });
    const begin = performance.now();
    const answer = await packed(`/api/tabs/${tab}/${image}/marks`, { method: "POST", body });
    sent = null;
    take(answer);
    document.body.dataset.milliseconds = (performance.now() - begin).toFixed(1);
  } catch (error) {
    sent = null;
    view.changed();
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
  const stroke = work.drawnStroke;
  if (sending || fetching || queue.length || !stroke) return;
  sending = true;
  believing?.abort();
  try {
    const body = JSON.stringify({ preview: true, marks: [stroke] });
    const path = `/api/tabs/${tab}/${work.image}/marks`;
    const { meta, planes } = await packed(path, { method: "POST", body });
    if (meta.known && stroke === work.drawnStroke && current(meta)) {
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

// What was being drawn is dropped: the outline goes back to that of the marks.
function dropped() {
  if (!work.previewed) return;
  work.previewed = false;
  showLabels(work.answered);
  if (work.live) believe();
}

async function settled() {
  while (sending || queue.length) await new Promise((resolve) => setTimeout(resolve, 15));
}

// Probabilities take longer than the mask: asked for when nothing else is under way.
async function believe() {
  believing?.abort();
  const control = (believing = new AbortController()), { image } = work;
  try {
    await new Promise((resolve) => setTimeout(resolve, 40));
    if (control.signal.aborted) return;
    const path = `/api/tabs/${tab}/${image}/beliefs?label=${Math.max(1, work.label)}`;
    const { meta, planes } = await packed(path, { signal: control.signal });
    if (!meta.known || !current(meta) || control.signal.aborted) return;
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
  if (work.beliefs?.label === label && work.beliefs.interval) {
    const [low, high] = work.beliefs.interval.map((v) => Math.round(v).toLocaleString("en"));
    place.append(` [${low} .. ${high}]`);
  }
}

// --- what can be done --------------------------------------------------------------------------

// Write the mask of the image that is shown now, with the stroke that is being drawn.
async function accept() {
  if (accepting || work.image === null) return;
  accepting = true;
  tools.finish();
  const { image } = work;
  const stays = () => wanted === image; // no other image was opened meanwhile
  try {
    await settled();
    const answer = await asked(`/api/tabs/${tab}/${image}/accept`, known.get(image));
    accepting = false;
    await refresh();
    if (answer.next !== null && stays()) await openImage(answer.next);
    say(`${answer.file} is written.${answer.next === null ? " All images are done." : ""}`);
  } catch (error) {
    if (stays()) await openImage(image); // its mask may be another one by now
    say(error.message);
  } finally {
    accepting = false;
  }
}

async function learned(useful) {
  await refresh();
  if (useful && wanted !== null) await openImage(wanted);
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
  const id = gallery.beside(wanted, way);
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
    if (wanted !== null) await openImage(wanted);
  }),
  escape: () => tools.dropDrawing(),
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
  export: () => settled().then(() => files.exportAll()),
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
