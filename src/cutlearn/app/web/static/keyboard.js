// The keyboard: arrows and Space work on the image, everything else is an action of keys.js.

import { actionOf } from "./keys.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const find = (id) => document.getElementById(id);

export class Keyboard {
  constructor(view, work, tools, choose, run) {
    Object.assign(this, { view, work, tools, choose, run });
    this.spoken = 0;
    document.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("keyup", (event) => event.key === " " && tools.releaseCursor());
  }

  pressed(event) {
    if (find("help").open) {
      if (event.key === "?") find("help").close();
      return;
    }
    if (event.target.matches("select, input:not([type=checkbox])")) return;
    const onImage = event.target === this.view.canvas || event.target === document.body;
    if (onImage && this.work.width && this.onImage(event)) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !onImage) return; // a button that has the focus
    if (/^[0-9]$/.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      this.choose(Number(event.key));
      return;
    }
    const action = actionOf(event);
    if (!action) return;
    event.preventDefault();
    const button = document.querySelector(`[data-action="${action}"]`);
    if (!button?.disabled) this.run[action]();
  }

  // Whether the key was one of those that work on the image.
  onImage(event) {
    const arrow = ARROWS[event.key];
    if (arrow) {
      if (event.altKey) this.view.move(-60 * arrow[0], -60 * arrow[1]);
      else this.tools.moveCursor(...arrow, event.shiftKey);
      this.speak();
    } else if (event.key === " ") {
      if (!event.repeat) find("live").textContent = this.tools.pressCursor();
    }
    return arrow !== undefined || event.key === " ";
  }

  // Where the cursor is, for those who hear the page.
  speak() {
    clearTimeout(this.spoken);
    this.spoken = setTimeout(() => {
      const { work } = this;
      const x = Math.floor(work.cursor.x), y = Math.floor(work.cursor.y);
      const label = work.labels ? work.names[work.labels[y * work.width + x]] : "no mask yet";
      find("live").textContent = `row ${y}, column ${x}: ${label}`;
    }, 400);
  }
}
