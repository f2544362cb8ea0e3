// Every action with its keys. Buttons, tooltips, the keyboard and the help panel all read this.

export const GROUPS = ["Tools", "Marks", "View", "Shown", "Images", "Model"];

// key names as in KeyboardEvent.key; a letter means the key without Ctrl, Alt or Meta
export const ACTIONS = {
  "tool-box": { group: "Tools", keys: ["b"], title: "Box around the object" },
  "tool-stroke": { group: "Tools", keys: ["s"], title: "Brush" },
  "tool-rubber": { group: "Tools", keys: ["x"], title: "Rubber for marks" },
  "tool-hand": { group: "Tools", keys: ["h"], title: "Move the image" },
  "brush-smaller": { group: "Tools", keys: ["["], title: "Smaller brush" },
  "brush-larger": { group: "Tools", keys: ["]"], title: "Larger brush" },
  undo: { group: "Marks", keys: ["z", "Ctrl+z"], title: "Undo" },
  redo: { group: "Marks", keys: ["y", "Ctrl+y", "Ctrl+Shift+z"], title: "Redo" },
  clear: { group: "Marks", keys: ["Delete"], title: "Remove all marks" },
  "remove-box": { group: "Marks", keys: ["Shift+B"], title: "Remove the box" },
  "add-label": { group: "Marks", keys: ["Shift+A"], title: "Add a label" },
  escape: { group: "Marks", keys: ["Escape"], title: "Drop what is being drawn" },
  "zoom-in": { group: "View", keys: ["+", "="], title: "Zoom in" },
  "zoom-out": { group: "View", keys: ["-"], title: "Zoom out" },
  fit: { group: "View", keys: ["f"], title: "Whole image" },
  "show-next": { group: "View", keys: ["Shift+W"], title: "Zoom to where to look next" },
  mask: { group: "Shown", keys: ["m"], title: "Mask" },
  contour: { group: "Shown", keys: ["c"], title: "Contour" },
  marks: { group: "Shown", keys: ["k"], title: "My marks" },
  probability: { group: "Shown", keys: ["p"], title: "Probability of the label" },
  doubt: { group: "Shown", keys: ["d"], title: "Doubt" },
  "next-window": { group: "Shown", keys: ["w"], title: "Where next" },
  accept: { group: "Images", keys: ["Enter"], title: "Accept the mask, open the next image" },
  next: { group: "Images", keys: ["n", "PageDown"], title: "Next image" },
  previous: { group: "Images", keys: ["PageUp"], title: "Previous image" },
  open: { group: "Images", keys: ["o"], title: "Add images" },
  gallery: { group: "Images", keys: ["g"], title: "Go to the list of images" },
  image: { group: "Images", keys: ["i"], title: "Go to the image" },
  learn: { group: "Model", keys: ["t"], title: "Learn from my masks" },
  "cancel-learn": { group: "Model", keys: ["Shift+T"], title: "Cancel learning" },
  export: { group: "Model", keys: ["e"], title: "Export all as a zip" },
  help: { group: "Model", keys: ["?"], title: "This help" },
};

const BY_HAND = {
  Tools: [["Move the cursor (Shift: by one pixel)", "Arrows"], ["Use the tool at the cursor", "Space"]],
  Marks: [["Choose the label", "0 – 9"]],
  View: [["Move the image", "Alt+Arrows"]],
};

export function nameOf(event) {
  const letter = event.key.length === 1;
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.shiftKey && (!letter || /[a-z]/i.test(event.key))) parts.push("Shift");
  const key = letter && event.shiftKey && !(event.ctrlKey || event.metaKey) ? event.key.toUpperCase() : letter ? event.key.toLowerCase() : event.key;
  return [...parts, key].join("+");
}

export function actionOf(event) {
  if (event.altKey) return undefined;
  const name = nameOf(event);
  return Object.keys(ACTIONS).find((id) => ACTIONS[id].keys.includes(name));
}

const shown = (key) => (key.length === 1 ? key.toUpperCase() : key.replace(/^Ctrl\+([a-z])$/, (_, k) => `Ctrl+${k.toUpperCase()}`));

export function titleButtons() {
  for (const button of document.querySelectorAll("[data-action]")) {
    const action = ACTIONS[button.dataset.action];
    button.title = `${action.title} (${shown(action.keys[0])})`;
    const plain = action.keys.filter((key) => !key.includes("="));
    button.setAttribute("aria-keyshortcuts", plain.map((key) => key.replace("Ctrl", "Control")).join(" "));
  }
}

export function fillHelp(element) {
  for (const group of GROUPS) {
    const part = document.createElement("div"), title = document.createElement("h3");
    const list = document.createElement("dl");
    title.textContent = group;
    const rows = Object.values(ACTIONS).filter((one) => one.group === group)
      .map((one) => [one.title, one.keys.map(shown).join("  ")]);
    for (const [words, keys] of [...rows, ...(BY_HAND[group] ?? [])]) {
      const term = document.createElement("dt"), value = document.createElement("dd");
      term.textContent = words;
      for (const key of keys.split("  ")) {
        const cap = document.createElement("kbd");
        cap.textContent = key;
        value.append(cap, " ");
      }
      list.append(term, value);
    }
    part.append(title, list);
    element.append(part);
  }
}
